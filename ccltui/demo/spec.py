"""Parameters of a synthetic job, and the coordinates, hosts and communicators of its ranks.

The defaults are the job of ``ccltui demo``.
"""

from __future__ import annotations

import hashlib
from itertools import product
from typing import Any, Literal, get_args

from msgspec import Struct

Layout = Literal[
    "native",  # the profiler's own pretty print, relative times with a base
    "metadata_last",  # the same, with all other keys after the events
    "one_line",  # json.dumps
    "indent4",  # json.dumps(indent=4)
    "bare_list",  # a list of events: no rank, no base, no groups
    "integer_us",  # 2023: whole microseconds since the epoch, no base, no group table
    "old2021",  # 2021: capitalised categories, string threads, no rank
    "compact",  # orjson.dumps
]
Metadata = Literal[
    "comms_id",  # as "full", and the communicator's 64-bit id
    "full",  # kernels carry sizes, group and sequence number
    "no_seq",  # kernels carry sizes and group
    "cpu_side",  # only record_param_comms carries them; kernels point to it by External id
    "names_only",  # only names of kernels and annotations
]
Library = Literal["nccl", "nccl_old", "rccl"]
Cause = Literal[
    "compute",
    "kernel",
    "more_kernels",
    "tokens",
    "copies",
    "data_loading",
    "checkpoint",
    "garbage_collection",
    "allocation",
    "synchronisation",
    "operator",
    "host",
]
Dimension = Literal["world", "pp", "dp_replicate", "dp_shard", "tp", "ep", "cp", "own"]


class Straggler(Struct, frozen=True):
    """Delay of a rank by ``extra_ns`` in each of ``steps`` (counted from 0; None: all).

    ``compute`` slows every kernel of the rank in proportion, as low clocks do, ``kernel`` only
    its attention; ``more_kernels`` adds small ones; ``tokens`` gives its experts more to do, and
    larger messages. ``copies`` prolongs the copy of the input. The others act on the host at the
    start of the step, while the device idles: ``data_loading`` prolongs the wait for the next
    batch, ``operator`` blocks the host inside an operator that usually takes microseconds, and
    ``host`` is a host gap without any event.
    """

    rank: int
    cause: Cause
    extra_ns: int
    steps: tuple[int, ...] | None = None

    def acts_in(self, step: int) -> bool:
        """Whether the rank is delayed in this step, counted from 0."""
        return self.steps is None or step in self.steps


class SlowLink(Struct, frozen=True):
    """Longer transfers of every collective of the ``dimension`` group that contains ``rank``.

    No rank is late because of it: all members wait equally.
    """

    dimension: Dimension
    rank: int
    extra_ns: int


class LateStart(Struct, frozen=True):
    """Late start of the profiler of ``rank``, when ``missing`` collectives are already launched.

    Of those, the kernels of the last ``orphans`` are in the file without launch and metadata.
    """

    rank: int
    missing: int
    orphans: int = 0


class Cut(Struct, frozen=True):
    """Truncation of the file of ``rank`` after ``fraction`` of its text, as if it was killed."""

    rank: int
    fraction: float


class Spec(Struct, frozen=True):
    """A job: its shape, its speed, its injected faults, and the form of its traces.

    Ranks are laid out as TorchTitan does, outermost first: pp, dp_replicate, dp_shard, tp. Degrees
    of 1 have no group. Times are int64 ns, sizes are bytes unless the name states another unit.
    """

    # shape
    tp: int = 2
    pp: int = 2
    dp_replicate: int = 1
    dp_shard: int = 2
    experts: bool = False  # all-to-all of tokens over the dp_shard ranks in every layer
    gpus_per_node: int = 4
    # work
    steps: int = 6
    first_step: int = 10  # the N of the first ProfilerStep#N
    micro_batches: int = 4
    layers: int = 4
    hidden: int = 4096
    seq_len: int = 2048
    micro_batch_size: int = 1
    pipeline: Literal["1f1b", "gpipe"] = "1f1b"
    sequence_parallel: bool = False  # all-gather and reduce-scatter in place of TP all-reduce
    overlap_dp: bool = True  # gradients are reduced during the backward pass
    world_allreduce: bool = True  # gradient norm over all ranks, once per step
    sync_each_step: bool = True  # the host waits for the device at the end of a step
    # speed
    gemm_ns: int = 318_517
    attention_ns: int = 241_903
    elementwise_ns: int = 23_011
    grad_norm_ns: int = 402_117
    optimizer_ns: int = 1_204_733
    data_loading_ns: int = 402_300
    node_bytes_per_ns: int = 200  # wire bytes of a rank inside a host
    network_bytes_per_ns: int = 25  # the same between hosts
    link_latency_ns: int = 11_250
    # injected faults
    stragglers: tuple[Straggler, ...] = (
        Straggler(rank=1, cause="compute", extra_ns=2_400_000),
        Straggler(rank=6, cause="data_loading", extra_ns=12_000_000, steps=(3,)),
    )
    slow_links: tuple[SlowLink, ...] = ()
    clock_offsets_ns: tuple[int, ...] = (0, 5_000_000)  # per host; 0 for further hosts
    clock_drifts_ppb: tuple[int, ...] = ()
    jitter_ns: int = 1_500  # each kernel is prolonged by 0 to this much
    end_skew_ns: int = 0  # each member of a collective ends 0 to this much after its end
    seed: int = 7
    # form of the traces
    metadata: Metadata = "full"
    layout: Layout = "native"
    library: Library = "nccl"
    local_group_names: bool = False  # group names repeat between ranks, as labels may
    with_python: bool = False
    with_sync_rows: bool = False  # cuda_sync rows on the device, which are not work
    late_starts: tuple[LateStart, ...] = ()
    cuts: tuple[Cut, ...] = ()
    compress: bool = True

    @classmethod
    def quiet(cls, **changes: Any) -> Spec:
        """The same job with nothing injected: no straggler, clock offset or jitter."""
        calm: dict[str, Any] = {"stragglers": (), "clock_offsets_ns": (), "jitter_ns": 0}
        return cls(**(calm | changes))

    @property
    def world_size(self) -> int:
        """Number of ranks."""
        return self.tp * self.pp * self.dp_replicate * self.dp_shard

    @property
    def num_hosts(self) -> int:
        """Number of hosts, the last one possibly not full."""
        return -(-self.world_size // self.gpus_per_node)

    @property
    def layers_per_stage(self) -> int:
        """Layers that one pipeline stage holds."""
        return self.layers // self.pp

    @property
    def global_batch(self) -> int:
        """Sequences of one step over all data-parallel ranks."""
        return self.local_batch * self.dp_replicate * self.dp_shard

    @property
    def local_batch(self) -> int:
        """Sequences of one step on one data-parallel rank."""
        return self.micro_batches * self.micro_batch_size

    def __post_init__(self) -> None:
        for name, kind in (("layout", Layout), ("metadata", Metadata), ("library", Library)):
            if getattr(self, name) not in get_args(kind):
                raise ValueError(
                    f"{name} is {getattr(self, name)!r}; choose from {', '.join(get_args(kind))}"
                )
        for name in _AT_LEAST_ONE:
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if name.endswith("_ns") and isinstance(value, int) and value < 0:
                raise ValueError(f"{name} must not be negative")
        self._check_shape()
        self._check_ranks()

    def _check_shape(self) -> None:
        if self.layers % self.pp:
            raise ValueError(f"{self.layers} layers do not divide into {self.pp} stages")
        if any(item.cause == "tokens" for item in self.stragglers) and not self.experts:
            raise ValueError("tokens go to experts: set experts")
        if self.experts and self.dp_shard == 1:
            raise ValueError("experts are spread over the dp_shard ranks: set dp_shard above 1")
        if self.layout == "old2021" and self.metadata != "names_only":
            raise ValueError("layout old2021 knows no collective metadata: set names_only")

    def _check_ranks(self) -> None:
        injected: tuple[Straggler | SlowLink | LateStart | Cut, ...] = (
            *self.stragglers,
            *self.slow_links,
            *self.late_starts,
            *self.cuts,
        )
        for item in injected:
            if not 0 <= item.rank < self.world_size:
                raise ValueError(f"{item} names no rank of a job of {self.world_size}")
        for name in ("clock_offsets_ns", "clock_drifts_ppb"):
            if len(getattr(self, name)) > self.num_hosts:
                raise ValueError(f"{name} names more than the {self.num_hosts} hosts of the job")


_AT_LEAST_ONE = (
    "tp",
    "pp",
    "dp_replicate",
    "dp_shard",
    "gpus_per_node",
    "steps",
    "micro_batches",
    "layers",
    "hidden",
    "seq_len",
    "micro_batch_size",
    "node_bytes_per_ns",
    "network_bytes_per_ns",
)


DESCRIPTIONS: dict[Dimension, str] = {
    "world": "default_pg",
    "pp": "mesh_pp",
    "dp_replicate": "mesh_dp_replicate",
    "dp_shard": "mesh_dp_shard",
    "tp": "mesh_tp",
    "ep": "mesh_ep",
    "cp": "mesh_cp",
    "own": "undefined",  # of a rank with itself
}


class Place(Struct, frozen=True):
    """Coordinates of a rank in the grid."""

    pp: int
    dp_replicate: int
    dp_shard: int
    tp: int


class DemoGroup(Struct, frozen=True):
    """A communicator: ``name`` is the label in the traces, ``ranks`` are sorted."""

    index: int
    dimension: Dimension
    name: str
    ranks: tuple[int, ...]

    @property
    def description(self) -> str:
        """The profiler's text for this kind of group."""
        return DESCRIPTIONS[self.dimension]

    @property
    def comms_id(self) -> int:
        """A 64-bit id above 2**63, as real ones may be."""
        digest = hashlib.sha256(f"{self.dimension}{self.ranks}".encode()).digest()
        return int.from_bytes(digest[:8], "big") | 1 << 63


class Topology(Struct, frozen=True):
    """Places and groups of all ranks."""

    places: tuple[Place, ...]
    groups: tuple[DemoGroup, ...]
    gpus_per_node: int

    def host_of(self, rank: int) -> int:
        """Index of the host that a rank runs on."""
        return rank // self.gpus_per_node

    def host_name(self, rank: int) -> str:
        """Name of that host."""
        return f"demo-node-{self.host_of(rank) + 1}"

    def device_of(self, rank: int) -> int:
        """Device ordinal of a rank on its host."""
        return rank % self.gpus_per_node

    def group_of(self, dimension: Dimension, rank: int) -> DemoGroup | None:
        """The rank's group along a dimension, None where the degree is 1."""
        for group in self.groups:
            if group.dimension == dimension and rank in group.ranks:
                return group
        return None

    def groups_of(self, rank: int) -> tuple[DemoGroup, ...]:
        """All groups that a rank belongs to, the world first."""
        return tuple(group for group in self.groups if rank in group.ranks)

    def within_host(self, ranks: tuple[int, ...]) -> bool:
        """Whether all these ranks share a host."""
        return len({self.host_of(rank) for rank in ranks}) == 1


def lay_out(spec: Spec) -> Topology:
    """Lay out ranks in TorchTitan's order, the tensor-parallel coordinate innermost."""
    degrees = (spec.pp, spec.dp_replicate, spec.dp_shard, spec.tp)
    places = tuple(Place(*place) for place in product(*map(range, degrees)))
    rank_sets: list[tuple[Dimension, tuple[int, ...]]] = [("world", tuple(range(len(places))))]
    axes: tuple[tuple[Dimension, str], ...] = (
        ("pp", "pp"),
        ("dp_replicate", "dp_replicate"),
        ("dp_shard", "dp_shard"),
        ("tp", "tp"),
        # Experts are distributed over the dp_shard ranks.
        *((("ep", "dp_shard"),) if spec.experts else ()),
    )
    for dimension, axis in axes:
        if getattr(spec, axis) > 1:
            rank_sets += [(dimension, ranks) for ranks in _lines(places, axis)]
    kinds = list(dict.fromkeys(dimension for dimension, _ in rank_sets))
    groups = tuple(
        DemoGroup(
            index,
            dimension,
            str(kinds.index(dimension) if spec.local_group_names else index),
            ranks,
        )
        for index, (dimension, ranks) in enumerate(rank_sets)
    )
    return Topology(places, groups, spec.gpus_per_node)


def _lines(places: tuple[Place, ...], axis: str) -> list[tuple[int, ...]]:
    """Rank sets that differ only along one axis, ordered by their lowest rank."""
    lines: dict[tuple[int, ...], list[int]] = {}
    for rank, place in enumerate(places):
        others = tuple(
            getattr(place, name)
            for name in ("pp", "dp_replicate", "dp_shard", "tp")
            if name != axis
        )
        lines.setdefault(others, []).append(rank)
    return [tuple(ranks) for ranks in lines.values()]
