"""Parameters of a planted job: its faults, and the sizes of its stages, batches and experts."""

from __future__ import annotations

import random
from typing import Any, Final, Literal, get_args

from msgspec import Struct
from msgspec.structs import replace

Family = Literal["dp", "tp", "pp", "fsdp", "moe"]
Level = Literal[
    "full",  # collective arguments and groups on operators and kernels
    "no_groups",  # operators and annotations of collectives, without their arguments
    "names",  # kernels, copies, launches and step markers only
    "no_host",  # device rows only
    "kernels",  # kernels alone: no copies either, and nothing that links them to anything
]
Times = Literal[
    "ns",
    "us",  # whole microseconds
    "float32",  # seconds since a while ago as floats of 32 bits: steps of 8 us
]
FaultKind = Literal[
    "slow_worker",
    "occasional_worker",
    "slow_node",
    "heavy_stage",
    "uneven_microbatches",
    "uneven_experts",
    "slow_pair",
    "slow_group",
    "garbage_collection",
    "data_loading",
    "checkpoint",
    "launch_bound",
    "allocation",
    "synchronisation",
    "random",
    "slow_network",
    "alternating",
    "decoy",
]
DamageKind = Literal["late", "early", "dropped", "missing", "names_only"]
Verdict = Literal[
    "slow_worker",
    "occasional_worker",
    "slow_node",
    "heavy_stage",
    "uneven_microbatches",
    "uneven_experts",
    "slow_link",
    "host",
    "random",
    "no_straggler",
]

DEVICE_ONLY: Final[tuple[Level, ...]] = ("no_host", "kernels")

VERDICT_OF: Final[dict[FaultKind, Verdict]] = {
    "slow_worker": "slow_worker",
    "occasional_worker": "occasional_worker",
    "slow_node": "slow_node",
    "heavy_stage": "heavy_stage",
    "uneven_microbatches": "uneven_microbatches",
    "uneven_experts": "uneven_experts",
    "slow_pair": "slow_link",
    "slow_group": "slow_link",
    "garbage_collection": "host",
    "data_loading": "host",
    "checkpoint": "host",
    "launch_bound": "host",
    "allocation": "host",
    "synchronisation": "host",
    "random": "random",
    "slow_network": "slow_link",
    "alternating": "occasional_worker",
    "decoy": "no_straggler",
}
"""Verdict class that a fault should lead to, if it costs enough."""


class Fault(Struct, frozen=True):
    """One cause of slowness.

    Attributes:
        kind: What is planted. ``decoy`` prolongs work of the ranks that nothing waits for,
            ``slow_network`` all transfers between hosts; of ``alternating`` ranks one is slow in
            each step, in turn.
        ranks: Ranks that it acts on, () for all; both ends of a pair, all members of a group or
            host.
        factor: Multiple of the usual time (compute, transfers, host time of a launch), spread of
            the lognormal work of micro-batches (``uneven_microbatches``), or weight of the
            expert's ranks (``uneven_experts``).
        extra_ns: Pause in ns, of the faults that pause the host.
        steps: Steps counted from 0; None for all.
        stage: The pipeline stage of ``heavy_stage``.
        silent: No event on the host rows shows the pause.
    """

    kind: FaultKind
    ranks: tuple[int, ...] = ()
    factor: float = 1.0
    extra_ns: int = 0
    steps: tuple[int, ...] | None = None
    stage: int | None = None
    silent: bool = False

    def acts(self, rank: int, step: int) -> bool:
        """Whether it acts on a rank in a step."""
        if self.kind == "alternating" and self.ranks[step % len(self.ranks)] != rank:
            return False
        return (not self.ranks or rank in self.ranks) and (self.steps is None or step in self.steps)


class Damage(Struct, frozen=True):
    """What a recording lacks: ``calls`` at its beginning or end, or a ``share`` of its records."""

    kind: DamageKind
    rank: int
    calls: int = 0
    share: float = 0.0


class JobSpec(Struct, frozen=True):
    """Shape, speed, faults and recording of a job; times are ns.

    Ranks are laid out with the tensor-parallel coordinate innermost, then data parallel, then
    pipeline stages. ``fsdp`` shards over the data-parallel ranks, ``moe`` spreads its experts over
    them.
    """

    family: Family = "dp"
    dp: int = 4
    tp: int = 1
    pp: int = 1
    gpus_per_node: int = 4
    steps: int = 5
    micro_batches: int = 4
    layers: int = 2  # of one model chunk
    chunks: int = 1  # model chunks of one stage; above 1 the schedule is interleaved
    schedule: Literal["1f1b", "gpipe"] = "1f1b"
    prefetch: bool = True  # receives and all-gathers are posted one pass or layer ahead
    overlap: bool = True  # gradients are reduced during the backward pass
    same_stream: bool = False  # collectives run on the stream of the compute kernels
    broadcast_buffers: bool = False  # data-parallel rank 0 sends its buffers before each step
    own_calls: int = 0  # broadcasts at the end of a step that rank 0 alone makes, of itself
    world_norm: bool = True  # gradient norm over all ranks at the end of a step
    host_sync: bool = True  # the host waits for the device at the end of a step
    pass_ranges: bool = False  # annotations around forward and backward passes
    kernel_ns: int = 300_000  # forward kernel of average size
    transfer_ns: int = 400_000  # collective of average size within a host
    host_op_ns: int = 9_000  # host time of one operator
    jitter: float = 0.01  # spread of a pass; kernels and transfers vary half as much
    expert_jitter: float = 0.02
    gather: Literal["nccl", "copy_engine"] = "nccl"
    exchange: Literal["nccl", "deepep"] = "nccl"
    reduction: Literal["nccl", "symmetric"] = "nccl"
    one_kernel: bool = False  # a layer is one kernel in each direction; with one layer, a pass
    batched: bool = False  # a send and the receive after it are one kernel, in 1F1B
    coalesced: bool = False  # all transfers are recorded as batches, without their peer
    ring: bool = False  # context instead of tensor parallel: blocks go around a ring of the ranks
    graphs: bool = False  # each pass is one replay of a CUDA graph
    hidden_waits: bool = False  # kernels of collectives start when all members are there
    times: Times = "ns"  # as written
    level: Level = "full"
    faults: tuple[Fault, ...] = ()
    damage: tuple[Damage, ...] = ()
    clock_offsets_ns: tuple[int, ...] = ()  # by host
    clock_drifts_ppb: tuple[int, ...] = ()
    free_hosts: bool = False  # host work takes no time: the same job without waiting for hosts
    seed: int = 0

    def __post_init__(self) -> None:
        for name, kind in (("family", Family), ("level", Level), ("times", Times)):
            if getattr(self, name) not in get_args(kind):
                choices = ", ".join(get_args(kind))
                raise ValueError(f"{name} is {getattr(self, name)!r}; choose from {choices}")
        for name in ("dp", "tp", "pp", "gpus_per_node", "steps", "micro_batches", "layers"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.chunks > 1 and (self.pp == 1 or self.micro_batches % self.pp):
            raise ValueError("an interleaved schedule needs stages that divide the micro-batches")
        if self.batched and (self.chunks > 1 or self.schedule != "1f1b" or self.prefetch):
            raise ValueError("transfers are batched in 1F1B of one chunk without prefetch alone")
        if self.coalesced and not self.batched and (self.schedule != "gpipe" or self.prefetch):
            raise ValueError(
                "single transfers are recorded as batches beside others, or in GPipe's order "
                "without prefetch"
            )
        if self.pp > 1 and self.family == "fsdp":
            raise ValueError("family fsdp has no pipeline stages")
        if self.family in ("fsdp", "moe") and self.dp < 2:
            raise ValueError(f"family {self.family} needs dp of at least 2")
        named = [rank for fault in self.faults for rank in fault.ranks]
        for rank in (*named, *(item.rank for item in self.damage)):
            if not 0 <= rank < self.world_size:
                raise ValueError(f"rank {rank} is not in a job of {self.world_size}")

    @property
    def world_size(self) -> int:
        """Number of ranks."""
        return self.dp * self.tp * self.pp

    @property
    def has_host_rows(self) -> bool:
        """Whether files hold anything of hosts."""
        return self.level not in DEVICE_ONLY

    def host_of(self, rank: int) -> int:
        """Index of the host of a rank."""
        return rank // self.gpus_per_node

    def host_name(self, rank: int) -> str:
        """Name of the host of a rank."""
        return f"node-{self.host_of(rank):02d}"

    def place(self, rank: int) -> tuple[int, int, int]:
        """Stage, data-parallel and tensor-parallel index of a rank."""
        return rank // (self.dp * self.tp), rank // self.tp % self.dp, rank % self.tp

    def rank_at(self, stage: int, dp: int, tp: int) -> int:
        """Rank at a place."""
        return (stage * self.dp + dp) * self.tp + tp

    def without_faults(self, **changes: Any) -> JobSpec:
        """The same job, with the same draws, without its faults."""
        return replace(self, faults=(), **changes)


FIXED_FORWARD: Final = 0.6
"""Share of a forward pass that does not grow with the work of its micro-batch."""
FIXED_BACKWARD: Final = 0.5
HEAVY_BACKWARD: Final = 0.6
"""Excess of a heavy stage in backward passes, in excesses of forward ones."""
ALL_STAGES: Final = -1
"""Stage of a ``heavy_stage`` fault that makes all stages heavier, for the same work shared out."""
SLOW: Final = ("slow_worker", "occasional_worker", "slow_node", "alternating")
RARE: Final = 0.03
"""Probability that a pass is prolonged by the fault ``random``."""


class Workload:
    """Factors of the durations of passes, the same for a job with and without its faults."""

    def __init__(self, spec: JobSpec) -> None:
        self.spec = spec
        self._lengths = self._drawn_lengths()

    def _faults(self, kind: str) -> list[Fault]:
        return [fault for fault in self.spec.faults if fault.kind == kind]

    def _drawn_lengths(self) -> dict[tuple[int, int, int], float]:
        """Work of each micro-batch by (step, data-parallel index, micro-batch), 1 on average."""
        spec = self.spec
        sigma = sum(fault.factor for fault in self._faults("uneven_microbatches"))
        chance = random.Random(f"{spec.seed}/lengths")
        drawn = {
            (step, dp, batch): chance.lognormvariate(0, sigma) if sigma else 1.0
            for step in range(spec.steps)
            for dp in range(spec.dp)
            for batch in range(spec.micro_batches)
        }
        mean = sum(drawn.values()) / len(drawn)
        return {key: value / mean for key, value in drawn.items()}

    def forward(self, rank: int, step: int, batch: int) -> float:
        """Factor of a forward pass, without variation."""
        length = FIXED_FORWARD + (1 - FIXED_FORWARD) * self._length(rank, step, batch)
        return length * self._worker(rank, step) * self._stage(rank, 1.0)

    def backward(self, rank: int, step: int, batch: int) -> float:
        """Factor of a backward pass, without variation."""
        length = FIXED_BACKWARD + (1 - FIXED_BACKWARD) * self._length(rank, step, batch)
        return length * self._worker(rank, step) * self._stage(rank, HEAVY_BACKWARD)

    def rare(self, rank: int, step: int, batch: int, chunk: int, *, backward: bool) -> float:
        """Factor of the fault ``random``, drawn for each pass on its own."""
        faults = self._faults("random")
        if not faults:
            return 1.0
        chance = random.Random(f"{self.spec.seed}/rare/{rank}/{step}/{batch}/{chunk}/{backward}")
        return faults[0].factor if chance.random() < RARE else 1.0

    def logits(self, rank: int) -> float:
        """Extra kernel at the end of a forward pass of a heavy last stage, in forward passes."""
        stage = self.spec.place(rank)[0]
        return sum(
            fault.factor - 1
            for fault in self._faults("heavy_stage")
            if fault.stage == stage == self.spec.pp - 1
        )

    def experts(self, ranks: tuple[int, ...], key: str, step: int) -> list[float]:
        """Load of the experts of each rank of a group, 1 on average."""
        chance = random.Random(f"{self.spec.seed}/experts/{key}")
        loads = [max(0.1, 1 + chance.gauss(0, self.spec.expert_jitter)) for _ in ranks]
        for fault in self._faults("uneven_experts"):
            # How many tokens a popular expert is sent differs from layer to layer.
            excess = (fault.factor - 1) * chance.uniform(0.4, 1.6)
            for place, rank in enumerate(ranks):
                loads[place] *= 1 + excess if fault.acts(rank, step) else 1.0
        mean = sum(loads) / len(loads)
        return [load / mean for load in loads]

    def _length(self, rank: int, step: int, batch: int) -> float:
        return self._lengths[step, self.spec.place(rank)[1], batch]

    def _worker(self, rank: int, step: int) -> float:
        factor = 1.0
        for fault in self.spec.faults:
            slow = fault.kind in SLOW
            if slow and fault.acts(rank, step):
                factor *= fault.factor
        return factor

    def _stage(self, rank: int, share: float) -> float:
        """Factor of a heavy stage; a heavy last one has more kernels in its forward passes."""
        stage, factor = self.spec.place(rank)[0], 1.0
        for fault in self._faults("heavy_stage"):
            logits = fault.stage == stage == self.spec.pp - 1 and share == 1.0
            if fault.stage in (stage, ALL_STAGES) and not logits:
                factor *= 1 + (fault.factor - 1) * share
        return factor
