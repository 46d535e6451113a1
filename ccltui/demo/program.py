"""What one rank does, in order: the operations that the simulator then puts on the clock."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from ccltui.demo.spec import Dimension, Spec
from ccltui.demo.topology import DemoGroup, Topology

Kind = Literal[
    "gemm", "attention", "elementwise", "norm", "optimizer", "copy_in", "copy_out", "memset"
]
Phase = Literal["input", "forward", "backward", "reduce", "optimizer"]
Operation = Literal[
    "allreduce", "_allgather_base", "_reduce_scatter_base", "all_to_allv", "send", "recv"
]

BYTES_PER_ELEMENT = {"BFloat16": 2, "Float": 4}
ATTENTION_BACKWARD = 2  # cost of a backward kernel in forward kernels
GEMM_BACKWARD = 2
COPY_NS = 5_312
MEMSET_NS = 2_112


@dataclass(frozen=True, slots=True)
class Work:
    """A kernel, copy or memset on the main stream."""

    kind: Kind
    dur_ns: int
    phase: Phase
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Communicate:
    """Post a collective or p2p call; ``blocking`` makes the main stream wait for it."""

    group: DemoGroup
    operation: Operation
    in_elems: int
    out_elems: int
    phase: Phase
    blocking: bool = True
    peer: int = -1
    after: DemoGroup | None = None  # waits for what was posted there, without the main stream

    @property
    def dtype(self) -> Literal["Float", "BFloat16"]:
        """Norms are summed in full precision, all else in half."""
        return "Float" if self.group.dimension == "world" else "BFloat16"


@dataclass(frozen=True, slots=True)
class Await:
    """The main stream waits for all that was posted on a group."""

    group: DemoGroup


@dataclass(frozen=True, slots=True)
class HostBusy:
    """The host spends time; an empty ``name`` leaves no event behind."""

    name: str
    dur_ns: int


@dataclass(frozen=True, slots=True)
class StepBegin:
    """The marker of a step opens."""

    step: int


@dataclass(frozen=True, slots=True)
class StepEnd:
    """The marker closes, after the device has drained where ``sync``."""

    sync: bool


Step = StepBegin | StepEnd
Item = Work | Communicate | Await | HostBusy | Step

DATA_LOADING = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"


def program(spec: Spec, topology: Topology, rank: int) -> Iterator[Item]:
    """All operations of a rank; delays of planted stragglers and jitter are inside."""
    for step in range(spec.steps):
        items = _StepProgram(spec, topology, rank).items(step)
        items = _slowed(items, _planted(spec, rank, step, "compute"))
        yield from _jittered(items, spec, random.Random(f"{spec.seed}/{rank}/{step}"))


def _planted(spec: Spec, rank: int, step: int, cause: str) -> int:
    return sum(
        straggler.extra_ns
        for straggler in spec.stragglers
        if straggler.rank == rank and straggler.cause == cause and straggler.acts_in(step)
    )


def _slowed(items: list[Item], extra_ns: int) -> list[Item]:
    """Spread ``extra_ns`` evenly over the matrix products, what is left over on the last one."""
    rows = [row for row, item in enumerate(items) if isinstance(item, Work) and item.kind == "gemm"]
    share, rest = divmod(extra_ns, len(rows))
    for row in rows:
        items[row] = _longer(items[row], share + (rest if row == rows[-1] else 0))
    return items


def _jittered(items: list[Item], spec: Spec, chance: random.Random) -> Iterator[Item]:
    for item in items:
        if spec.jitter_ns and isinstance(item, Work):
            yield _longer(item, chance.randint(0, spec.jitter_ns))
        else:
            yield item


def _longer(item: Item, extra_ns: int) -> Item:
    assert isinstance(item, Work)
    return replace(item, dur_ns=item.dur_ns + extra_ns)


class _StepProgram:
    """One step of one rank."""

    def __init__(self, spec: Spec, topology: Topology, rank: int) -> None:
        self.spec = spec
        self.rank = rank
        self.place = topology.places[rank]
        self.groups: dict[Dimension, DemoGroup | None] = {
            dimension: topology.group_of(dimension, rank)
            for dimension in ("world", "pp", "dp_replicate", "dp_shard", "tp", "ep")
        }
        tokens = spec.micro_batch_size * spec.seq_len
        self.activation = _divisible(tokens * spec.hidden, spec.tp * spec.dp_shard)
        self.parameters = _divisible(
            12 * spec.hidden**2 // spec.tp, spec.dp_shard * spec.dp_replicate
        )

    def items(self, step: int) -> list[Item]:
        spec = self.spec
        stall_ns = _planted(spec, self.rank, step, "data_loading")
        items: list[Item] = [
            StepBegin(step),
            HostBusy(DATA_LOADING, spec.data_loading_ns + stall_ns),
            HostBusy("", _planted(spec, self.rank, step, "host")),
            Work("memset", MEMSET_NS, "input", self.parameters * BYTES_PER_ELEMENT["BFloat16"]),
            Work("copy_in", COPY_NS, "input", 8 * spec.micro_batch_size * spec.seq_len),
            *self.gather(0),
        ]
        for backward, micro_batch in self.order():
            items += self.backward(micro_batch) if backward else self.forward(micro_batch)
        return [*items, *self.finish()]

    def order(self) -> list[tuple[bool, int]]:
        """(is it backward, micro-batch) in the order of the pipeline schedule."""
        count = self.spec.micro_batches
        warm_up = count
        if self.spec.pipeline == "1f1b":
            warm_up = min(count, self.spec.pp - 1 - self.place.pp)
        order = [(False, micro_batch) for micro_batch in range(warm_up)]
        for micro_batch in range(count - warm_up):
            order += [(False, warm_up + micro_batch), (True, micro_batch)]
        return order + [(True, micro_batch) for micro_batch in range(count - warm_up, count)]

    def forward(self, micro_batch: int) -> Iterator[Item]:
        yield from self.transfer("recv", -1, "forward")
        for layer in range(self.spec.layers_per_stage):
            if micro_batch == 0:
                yield from self.awaited("dp_shard")
                yield from self.gather(layer + 1)  # prefetched behind this layer
            yield from self.tp_before("forward")
            yield self.work("norm", "forward")
            yield self.work("gemm", "forward")
            yield self.work("attention", "forward")
            yield self.work("gemm", "forward")
            yield from self.tp_after("forward")
            yield from self.tp_before("forward")
            yield from self.exchange("forward")
            yield self.work("gemm", "forward")
            yield self.work("elementwise", "forward")
            yield self.work("gemm", "forward")
            yield from self.exchange("forward")
            yield from self.tp_after("forward")
        yield from self.transfer("send", +1, "forward")

    def backward(self, micro_batch: int) -> Iterator[Item]:
        yield from self.transfer("recv", +1, "backward")
        for _ in range(self.spec.layers_per_stage):
            yield from self.tp_before("backward")
            yield from self.exchange("backward")
            yield self.work("gemm", "backward")
            yield self.work("elementwise", "backward")
            yield self.work("gemm", "backward")
            yield from self.exchange("backward")
            yield from self.tp_after("backward")
            yield from self.tp_before("backward")
            yield self.work("gemm", "backward")
            yield self.work("attention", "backward")
            yield self.work("gemm", "backward")
            yield self.work("norm", "backward")
            yield from self.tp_after("backward")
            if micro_batch == self.spec.micro_batches - 1 and self.spec.overlap_dp:
                yield from self.reduce(blocking=False)
        yield from self.transfer("send", -1, "backward")

    def finish(self) -> Iterator[Item]:
        """Gradients, their norm, the optimizer, and the loss back to the host."""
        if not self.spec.overlap_dp:
            for _ in range(self.spec.layers_per_stage):
                yield from self.reduce(blocking=True)
        yield from self.awaited("dp_shard")
        yield from self.awaited("dp_replicate")
        world = self.groups["world"]
        if world is not None and self.spec.world_allreduce and len(world.ranks) > 1:
            norms = len(world.ranks)
            yield Communicate(world, "allreduce", norms, norms, "reduce")
        yield Work("optimizer", self.spec.optimizer_ns, "optimizer")
        yield Work("copy_out", COPY_NS, "optimizer", 4)
        yield StepEnd(self.spec.sync_each_step)

    def work(self, kind: Kind, phase: Phase) -> Work:
        cost = {
            "gemm": self.spec.gemm_ns,
            "attention": self.spec.attention_ns,
            "elementwise": self.spec.elementwise_ns,
            "norm": self.spec.elementwise_ns,
        }[kind]
        factor = {"gemm": GEMM_BACKWARD, "attention": ATTENTION_BACKWARD}.get(kind, 1)
        return Work(kind, cost * (factor if phase == "backward" else 1), phase)

    def tp_before(self, phase: Phase) -> Iterator[Item]:
        group = self.groups["tp"]
        if group is not None and self.spec.sequence_parallel:
            whole = self.activation
            yield Communicate(group, "_allgather_base", whole // len(group.ranks), whole, phase)

    def tp_after(self, phase: Phase) -> Iterator[Item]:
        group = self.groups["tp"]
        if group is None:
            return
        whole = self.activation
        if self.spec.sequence_parallel:
            yield Communicate(
                group, "_reduce_scatter_base", whole, whole // len(group.ranks), phase
            )
        else:
            yield Communicate(group, "allreduce", whole, whole, phase)

    def exchange(self, phase: Phase) -> Iterator[Item]:
        """Tokens to or from their experts."""
        group = self.groups["ep"]
        if group is not None:
            elems = self.activation // self.spec.tp
            yield Communicate(group, "all_to_allv", elems, elems, phase)

    def gather(self, layer: int) -> Iterator[Item]:
        """Post the parameters of a layer of this stage."""
        group = self.groups["dp_shard"]
        if group is not None and layer < self.spec.layers_per_stage:
            whole = self.parameters
            yield Communicate(
                group, "_allgather_base", whole // len(group.ranks), whole, "forward", False
            )

    def reduce(self, *, blocking: bool) -> Iterator[Item]:
        """Post the gradients of one layer."""
        whole = self.parameters
        shard, replicate = self.groups["dp_shard"], self.groups["dp_replicate"]
        if shard is not None:
            own = whole // len(shard.ranks)
            yield Communicate(shard, "_reduce_scatter_base", whole, own, "reduce", blocking)
            whole = own
        if replicate is not None:
            yield Communicate(replicate, "allreduce", whole, whole, "reduce", blocking, after=shard)

    def transfer(self, operation: Operation, direction: int, phase: Phase) -> Iterator[Item]:
        """Activations or gradients from or to the stage in ``direction``, where there is one."""
        group = self.groups["pp"]
        stage = self.place.pp + direction
        if group is None or not 0 <= stage < self.spec.pp:
            return
        elems = self.activation // self.spec.tp
        yield Communicate(
            group, operation, elems, elems, phase, operation == "recv", group.ranks[stage]
        )

    def awaited(self, dimension: Dimension) -> Iterator[Item]:
        group = self.groups[dimension]
        if group is not None:
            yield Await(group)


def _divisible(count: int, by: int) -> int:
    """The smallest multiple of ``by`` that is not below ``count``."""
    return -(-count // by) * by
