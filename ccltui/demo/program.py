"""Operations of one rank in a step, in order, and the delays that are injected into them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, get_args

from msgspec import Struct
from msgspec.structs import replace

from ccltui.demo.spec import Cause, DemoGroup, Dimension, Spec, Topology

Kind = Literal[
    "gemm",
    "attention",
    "elementwise",
    "norm",
    "grad_norm",
    "optimizer",
    "copy_in",
    "copy_out",
    "memset",
]
Phase = Literal["input", "forward", "backward", "reduce", "optimizer"]
Stall = Literal[
    "data_loading",
    "checkpoint",
    "garbage_collection",
    "allocation",
    "synchronisation",
    "operator",
]
Operation = Literal[
    "allreduce", "_allgather_base", "_reduce_scatter_base", "all_to_allv", "send", "recv"
]

BYTES_PER_ELEMENT = {"BFloat16": 2, "Float": 4}
ATTENTION_BACKWARD = 2  # cost of a backward kernel in forward kernels
GEMM_BACKWARD = 2
COPY_NS = 5_312
MEMSET_NS = 2_112


class Work(Struct, frozen=True):
    """A kernel, copy or memset on the main stream."""

    kind: Kind
    dur_ns: int
    phase: Phase
    size_bytes: int = 0

    @property
    def computes(self) -> bool:
        """Whether it is a kernel, not a copy or memset."""
        return self.kind not in ("copy_in", "copy_out", "memset")


class Communicate(Struct, frozen=True):
    """Post a collective or p2p call; ``blocking`` makes the main stream wait for it."""

    group: DemoGroup
    operation: Operation
    in_elems: int
    out_elems: int
    phase: Phase
    blocking: bool = True
    peer: int = -1
    # Group whose posted calls this one waits for, without blocking the main stream.
    after: DemoGroup | None = None

    @property
    def dtype(self) -> Literal["Float", "BFloat16"]:
        """Element type: norms are summed in full precision, all else in half."""
        return "Float" if self.group.dimension == "world" else "BFloat16"


class Await(Struct, frozen=True):
    """Let the main stream wait for all posted calls of a group."""

    group: DemoGroup


class HostBusy(Struct, frozen=True):
    """Keep the host busy; an empty ``kind`` records no event."""

    kind: Stall | Literal[""]
    dur_ns: int


class StepBegin(Struct, frozen=True):
    """Begin the marker of a step."""

    step: int


class StepEnd(Struct, frozen=True):
    """End the marker of a step; with ``sync``, after all device work has ended."""

    sync: bool


Step = StepBegin | StepEnd
Item = Work | Communicate | Await | HostBusy | Step


class StepProgram:
    """Operations of the steps of one rank, with host stalls at the start as the only delays."""

    def __init__(self, spec: Spec, topology: Topology, rank: int) -> None:
        self.spec = spec
        self.place = topology.places[rank]
        self.groups: dict[Dimension, DemoGroup | None] = {
            dimension: topology.group_of(dimension, rank)
            for dimension in ("world", "pp", "dp_replicate", "dp_shard", "tp", "ep")
        }
        self.tokens = spec.micro_batch_size * spec.seq_len
        self.activation = _divisible(self.tokens * spec.hidden, spec.tp * spec.dp_shard)
        self.parameters = _divisible(
            12 * spec.hidden**2 // spec.tp, spec.dp_shard * spec.dp_replicate
        )

    def items(self, step: int, stalls: Mapping[Stall | Literal[""], int]) -> list[Item]:
        """All operations of a step; the host first stalls for the given ns of each kind."""
        items: list[Item] = [
            StepBegin(step),
            *(HostBusy(kind, dur_ns) for kind, dur_ns in stalls.items()),
            Work("memset", MEMSET_NS, "input", self.parameters * BYTES_PER_ELEMENT["BFloat16"]),
            Work("copy_in", COPY_NS, "input", 8 * self.tokens),
            *self._gather(0),
        ]
        for backward, micro_batch in self._order():
            items += self._backward(micro_batch) if backward else self._forward(micro_batch)
        return [*items, *self._finish()]

    def _order(self) -> list[tuple[bool, int]]:
        """Pairs (is backward, micro-batch) in the order of the pipeline schedule."""
        count = self.spec.micro_batches
        warm_up = count
        if self.spec.pipeline == "1f1b":
            warm_up = min(count, self.spec.pp - 1 - self.place.pp)
        order = [(False, micro_batch) for micro_batch in range(warm_up)]
        for micro_batch in range(count - warm_up):
            order += [(False, warm_up + micro_batch), (True, micro_batch)]
        return order + [(True, micro_batch) for micro_batch in range(count - warm_up, count)]

    def _forward(self, micro_batch: int) -> Iterator[Item]:
        yield from self._transfer("recv", -1, "forward")
        for layer in range(self.spec.layers_per_stage):
            if micro_batch == 0:
                yield from self._awaited("dp_shard")
                yield from self._gather(layer + 1)  # prefetched during this layer
            yield from self._tp_before("forward")
            yield self._work("norm", "forward")
            yield self._work("gemm", "forward")
            yield self._work("attention", "forward")
            yield self._work("gemm", "forward")
            yield from self._tp_after("forward")
            yield from self._tp_before("forward")
            yield from self._exchange("forward")
            yield self._work("gemm", "forward")
            yield self._work("elementwise", "forward")
            yield self._work("gemm", "forward")
            yield from self._exchange("forward")
            yield from self._tp_after("forward")
        yield from self._transfer("send", +1, "forward")

    def _backward(self, micro_batch: int) -> Iterator[Item]:
        yield from self._transfer("recv", +1, "backward")
        for _ in range(self.spec.layers_per_stage):
            yield from self._tp_before("backward")
            yield from self._exchange("backward")
            yield self._work("gemm", "backward")
            yield self._work("elementwise", "backward")
            yield self._work("gemm", "backward")
            yield from self._exchange("backward")
            yield from self._tp_after("backward")
            yield from self._tp_before("backward")
            yield self._work("gemm", "backward")
            yield self._work("attention", "backward")
            yield self._work("gemm", "backward")
            yield self._work("norm", "backward")
            yield from self._tp_after("backward")
            if micro_batch == self.spec.micro_batches - 1 and self.spec.overlap_dp:
                yield from self._reduce(blocking=False)
        yield from self._transfer("send", -1, "backward")

    def _finish(self) -> Iterator[Item]:
        """Gradients, their norm, the optimizer, and the loss back to the host."""
        if not self.spec.overlap_dp:
            for _ in range(self.spec.layers_per_stage):
                yield from self._reduce(blocking=True)
        yield from self._awaited("dp_shard")
        yield from self._awaited("dp_replicate")
        yield Work("grad_norm", self.spec.grad_norm_ns, "optimizer")
        world = self.groups["world"]
        if world is not None and self.spec.world_allreduce and len(world.ranks) > 1:
            norms = len(world.ranks)
            yield Communicate(world, "allreduce", norms, norms, "optimizer")
        yield Work("optimizer", self.spec.optimizer_ns, "optimizer")
        yield Work("copy_out", COPY_NS, "optimizer", 4)
        yield StepEnd(self.spec.sync_each_step)

    def _work(self, kind: Kind, phase: Phase) -> Work:
        cost = {
            "gemm": self.spec.gemm_ns,
            "attention": self.spec.attention_ns,
            "elementwise": self.spec.elementwise_ns,
            "norm": self.spec.elementwise_ns,
        }[kind]
        factor = {"gemm": GEMM_BACKWARD, "attention": ATTENTION_BACKWARD}.get(kind, 1)
        return Work(kind, cost * (factor if phase == "backward" else 1), phase)

    def _tp_before(self, phase: Phase) -> Iterator[Item]:
        group = self.groups["tp"]
        if group is not None and self.spec.sequence_parallel:
            whole = self.activation
            yield Communicate(group, "_allgather_base", whole // len(group.ranks), whole, phase)

    def _tp_after(self, phase: Phase) -> Iterator[Item]:
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

    def _exchange(self, phase: Phase) -> Iterator[Item]:
        """Tokens to or from their experts."""
        group = self.groups["ep"]
        if group is not None:
            elems = self.activation // self.spec.tp
            yield Communicate(group, "all_to_allv", elems, elems, phase)

    def _gather(self, layer: int) -> Iterator[Item]:
        """Post the parameters of a layer of this stage."""
        group = self.groups["dp_shard"]
        if group is not None and layer < self.spec.layers_per_stage:
            whole = self.parameters
            yield Communicate(
                group, "_allgather_base", whole // len(group.ranks), whole, "forward", False
            )

    def _reduce(self, *, blocking: bool) -> Iterator[Item]:
        """Post the gradients of one layer."""
        whole = self.parameters
        shard, replicate = self.groups["dp_shard"], self.groups["dp_replicate"]
        if shard is not None:
            own = whole // len(shard.ranks)
            yield Communicate(shard, "_reduce_scatter_base", whole, own, "reduce", blocking)
            whole = own
        if replicate is not None:
            yield Communicate(replicate, "allreduce", whole, whole, "reduce", blocking, after=shard)

    def _transfer(self, operation: Operation, direction: int, phase: Phase) -> Iterator[Item]:
        """Transfer activations or gradients from or to the stage in ``direction``, if it exists."""
        group = self.groups["pp"]
        stage = self.place.pp + direction
        if group is None or not 0 <= stage < self.spec.pp:
            return
        elems = self.activation // self.spec.tp
        yield Communicate(
            group, operation, elems, elems, phase, operation == "recv", group.ranks[stage]
        )

    def _awaited(self, dimension: Dimension) -> Iterator[Item]:
        group = self.groups[dimension]
        if group is not None:
            yield Await(group)


def _divisible(count: int, by: int) -> int:
    """The smallest multiple of ``by`` that is not below ``count``."""
    return -(-count // by) * by


def delayed_items(steps: StepProgram, rank: int, step: int) -> list[Item]:
    """All operations of a rank in a step with its delays, without random variation."""
    spec = steps.spec
    stalls = {
        kind: delay_ns(spec, rank, step, kind) + spec.data_loading_ns * (kind == FIRST)
        for kind in get_args(Stall)
    }
    busy = {kind: dur_ns for kind, dur_ns in stalls.items() if dur_ns or kind == FIRST}
    items = steps.items(step, {**busy, "": delay_ns(spec, rank, step, "host")})
    for cause, apply in _ON_DEVICE.items():
        items = apply(items, delay_ns(spec, rank, step, cause))
    return items


def jitter_source(spec: Spec, rank: int, step: int) -> random.Random:
    """Random numbers for the variation of the kernels of a rank in a step."""
    return random.Random(f"{spec.seed}/{rank}/{step}")


FIRST: Stall = "data_loading"
"""Stall of every rank in every step."""


def delay_ns(spec: Spec, rank: int, step: int, cause: Cause) -> int:
    """Injected delay of a rank in a step for one cause."""
    return sum(
        straggler.extra_ns
        for straggler in spec.stragglers
        if straggler.rank == rank and straggler.cause == cause and straggler.acts_in(step)
    )


def _slowed(items: list[Item], extra_ns: int) -> list[Item]:
    """Prolong every kernel in proportion to its duration."""
    return _prolonged(items, extra_ns, [isinstance(i, Work) and i.computes for i in items])


def _slow_attention(items: list[Item], extra_ns: int) -> list[Item]:
    """Prolong only the kernels of attention."""
    return _prolonged(
        items, extra_ns, [isinstance(i, Work) and i.kind == "attention" for i in items]
    )


def _long_copies(items: list[Item], extra_ns: int) -> list[Item]:
    """Prolong the copy of the input."""
    return _prolonged(items, extra_ns, [isinstance(i, Work) and i.kind == "copy_in" for i in items])


def _prolonged(items: list[Item], extra_ns: int, chosen: Sequence[bool]) -> list[Item]:
    """Divide the time among chosen kernels in proportion; the last one gets the rounding error."""
    kernels = [i for i, ours in zip(items, chosen, strict=True) if ours and isinstance(i, Work)]
    total_ns = sum(kernel.dur_ns for kernel in kernels)
    if not extra_ns or not total_ns:
        return items
    shares = [extra_ns * kernel.dur_ns // total_ns for kernel in kernels]
    shares[-1] += extra_ns - sum(shares)
    left = iter(shares)
    return [
        replace(item, dur_ns=item.dur_ns + next(left)) if ours and isinstance(item, Work) else item
        for item, ours in zip(items, chosen, strict=True)
    ]


def _more_kernels(items: list[Item], extra_ns: int) -> list[Item]:
    """Add a small kernel after each small one, ``extra_ns`` in total."""
    small = [isinstance(item, Work) and item.kind == "elementwise" for item in items]
    count = sum(small)
    if not extra_ns or not count:
        return items
    more: list[Item] = []
    left = [extra_ns // count] * (count - 1)
    left.append(extra_ns - sum(left))
    for item, ours in zip(items, small, strict=True):
        more.append(item)
        if ours and isinstance(item, Work):
            more.append(replace(item, dur_ns=left.pop()))
    return more


def _more_tokens(items: list[Item], extra_ns: int) -> list[Item]:
    """Send more tokens to the experts: larger messages, and longer kernels between them."""
    inside, dispatched = [], False
    for item in items:
        if _exchanges(item):
            dispatched = not dispatched
        inside.append(dispatched and isinstance(item, Work) and item.computes)
    usual_ns = sum(
        i.dur_ns for i, ours in zip(items, inside, strict=True) if ours and isinstance(i, Work)
    )
    if not extra_ns or not usual_ns:
        return items
    heavier = _prolonged(items, extra_ns, inside)
    dispatched = False
    for place, item in enumerate(heavier):
        if isinstance(item, Communicate) and _exchanges(item):
            dispatched = not dispatched
            more = item.in_elems + item.in_elems * extra_ns // usual_ns
            heavier[place] = (
                replace(item, out_elems=more) if dispatched else replace(item, in_elems=more)
            )
    return heavier


def _exchanges(item: Item) -> bool:
    return isinstance(item, Communicate) and item.operation == "all_to_allv"


_ON_DEVICE: dict[Cause, Callable[[list[Item], int], list[Item]]] = {
    "compute": _slowed,
    "kernel": _slow_attention,
    "more_kernels": _more_kernels,
    "tokens": _more_tokens,
    "copies": _long_copies,
}
