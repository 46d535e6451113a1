"""Jobs of data-parallel pipelines with planted faults, as columns: truth is the same job without.

Every rank runs 1F1B or GPipe with one or more kernels a pass, transfers on four streams, receives
posted one pass ahead, a reduce-scatter over the data-parallel group and an all-reduce of the norm
over all ranks. Draws do not depend on the fault, so the loss is the difference of the two runs.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from factories import Coll, Event, job, kernel, rank_trace, step
from msgspec import Struct, field
from msgspec.structs import replace

from ccltui.parsers.columns import ProcessGroup, RankTrace

if TYPE_CHECKING:
    from ccltui.parsers.job import Job

SEND_F, RECV_F, SEND_B, RECV_B, DP, WORLD, TP = 40, 44, 48, 52, 24, 32, 20
COMPUTE = 7


class Planted(Struct, frozen=True):
    """A job and its fault; times in microseconds."""

    dp: int = 4
    pp: int = 1
    tp: int = 1
    steps: int = 6
    micro_batches: int = 8
    seed: int = 0
    jitter: float = 0.01
    forward_us: float = 1000.0
    backward_us: float = 2000.0
    optimizer_us: float = 1500.0
    kernels_per_pass: int = 1
    transfer_us: float = 60.0
    reduce_us: float = 800.0
    norm_us: float = 50.0
    schedule: str = "1f1b"
    prefetch: bool = True
    world_norm: bool = True
    reduces: bool = True
    ranks_per_host: int = 4
    stage_weights: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    sequence_sigma: float = 0.0
    slow_ranks: Mapping[int, float] = field(default_factory=dict)
    slow_steps: tuple[int, ...] | None = None
    slow_pair: tuple[int, int] | None = None
    slow_group: int | None = None  # stage whose reduce-scatter is slow
    link_factor: float = 1.0
    pauses_us: Mapping[tuple[int, int], float] = field(default_factory=dict)  # (rank, step)
    host_rows: bool = False
    marked: bool = True
    named: bool = False  # kernels are called fwd and bwd
    clocks_us: Mapping[int, float] = field(default_factory=dict)
    lost_peers: bool = False
    silent_ranks: tuple[int, ...] = ()  # their calls show no wait: they begin with the last member
    rounded_to_us: float = 0.0  # starts are whole multiples of it, durations are exact
    sends_early_us: float = 0.0  # up to so long before the end of their pass sends begin; ends fit
    ring: bool = False  # the pp ranks pass blocks around instead, one more round than there are
    in_graphs: bool = False  # one launch a step, and calls without a description

    @property
    def world(self) -> int:
        """Number of ranks."""
        return self.dp * self.pp * self.tp

    def without(self) -> Planted:
        """The same job without its fault."""
        return replace(
            self,
            stage_weights={},
            sequence_sigma=0.0,
            slow_ranks={},
            slow_pair=None,
            slow_group=None,
            pauses_us={},
        )

    def place(self, rank: int) -> tuple[int, int, int]:
        """Stage, data-parallel and tensor-parallel place of a rank."""
        return rank // (self.dp * self.tp), rank // self.tp % self.dp, rank % self.tp

    def rank_of(self, stage: int, replica: int, shard: int) -> int:
        """The inverse of `place`."""
        return (stage * self.dp + replica) * self.tp + shard


class _Call(Struct):
    key: tuple[object, ...]
    members: int
    transfer_us: float
    parts: list[_Part] = field(default_factory=list)


class _Part(Struct):
    rank: int
    ready_us: float
    before: _Part | None
    call: _Call
    op: str
    stream: int
    start_us: float = -1.0
    end_us: float = -1.0


Op = tuple[str, object, object]


class Run:
    """One simulated run: the kernels and calls of every rank, and the end of each step."""

    def __init__(self, plan: Planted) -> None:
        self.plan = plan
        self.kernels: list[list[tuple[float, float, str, float]]] = [[] for _ in range(plan.world)]
        self.parts: list[list[_Part]] = [[] for _ in range(plan.world)]
        self.marks: list[list[tuple[float, float]]] = [[] for _ in range(plan.world)]
        self._calls: dict[tuple[object, ...], _Call] = {}
        self._streams: list[dict[int, _Part]] = [{} for _ in range(plan.world)]
        self._draws = _draws(plan)
        self._now = np.full(plan.world, 20.0)
        for number in range(plan.steps):
            self._step(number)
        ends = [max(end for _, end in marks) for marks in zip(*self.marks, strict=True)]
        self.step_us = np.diff([20.0, *ends])

    def _step(self, number: int) -> None:
        plan = self.plan
        begun = self._now.copy()
        waiting = {rank: self._program(rank, number) for rank in range(plan.world)}
        held: dict[int, Op] = {rank: next(ops) for rank, ops in waiting.items()}
        while waiting:
            moved = False
            for rank in list(waiting):
                while rank in waiting and self._run(rank, held[rank]):
                    moved = True
                    following = next(waiting[rank], None)
                    if following is None:
                        del waiting[rank]
                    else:
                        held[rank] = following
            assert moved, "the ranks wait for each other"
        for rank in range(plan.world):
            self._now[rank] = max(
                [self._now[rank], *(part.end_us for part in self._streams[rank].values())]
            )
            self.marks[rank].append((begun[rank], self._now[rank]))
            self._now[rank] += 20.0 + 2 * plan.rounded_to_us

    def _run(self, rank: int, op: Op) -> bool:
        kind, what, detail = op
        if kind == "compute":
            length = float(detail)  # type: ignore[arg-type]
            parts = self.plan.kernels_per_pass if str(what) in ("fwd", "bwd") else 1
            for _ in range(parts):
                begin = self._now[rank]
                self._now[rank] += length / parts
                self.kernels[rank].append((begin, length / parts, str(what), begin))
        elif kind == "idle":
            self._now[rank] += float(detail)  # type: ignore[arg-type]
        elif kind == "post":
            self._post(rank, *what)  # type: ignore[misc]
        else:
            part = self._streams[rank][what]  # type: ignore[index]
            if isinstance(detail, tuple):
                part = next(p for p in reversed(self.parts[rank]) if p.call.key == detail)
            if part.end_us < 0:
                return False
            self._now[rank] = max(self._now[rank], part.end_us)
        return True

    def _post(
        self, rank: int, key: tuple[object, ...], members: int, us: float, op: str, stream: int
    ) -> None:
        call = self._calls.setdefault(key, _Call(key, members, us))
        part = _Part(rank, self._now[rank], self._streams[rank].get(stream), call, op, stream)
        call.parts.append(part)
        self._streams[rank][stream] = part
        self.parts[rank].append(part)
        self._settle(call)

    def _settle(self, call: _Call) -> None:
        pending = [call]
        while pending:
            one = pending.pop()
            if len(one.parts) < one.members or one.parts[0].end_us >= 0:
                continue
            if any(p.before is not None and p.before.end_us < 0 for p in one.parts):
                continue
            for part in one.parts:
                before = 0.0 if part.before is None else part.before.end_us
                part.start_us = max(part.ready_us, before)
            end = max(part.start_us for part in one.parts) + one.transfer_us
            for part in one.parts:
                part.end_us = end
            pending += [
                p.call
                for part in one.parts
                for p in self.parts[part.rank]
                if p.before is part and p.end_us < 0
            ]

    def _program(self, rank: int, number: int) -> Iterator[Op]:
        return (self._of_ring if self.plan.ring else self._of_pipeline)(rank, number)

    def _of_ring(self, rank: int, number: int) -> Iterator[Op]:
        """Every rank passes a block to the next and computes with the one before at once."""
        plan = self.plan
        stage, replica, shard = plan.place(rank)
        after, before = (
            plan.rank_of((stage + by) % plan.pp, replica, shard) for by in (1, plan.pp - 1)
        )
        if plan.pauses_us.get((rank, number)):
            yield ("idle", None, plan.pauses_us[rank, number])
        for k in range(plan.micro_batches):
            way = "f" if k < plan.micro_batches // 2 else "b"
            stream = SEND_F, RECV_F
            yield self._transfer(rank, after, "f", k, number, "send")
            yield self._transfer(before, rank, "f", k, number, "recv")
            yield ("compute", "fwd" if way == "f" else "bwd", self._length(rank, way, k, number))
            for one, source, to in zip(stream, (rank, before), (after, rank), strict=True):
                yield ("wait", one, ("f", source, to, k, number))
        yield ("post", (("world", number), plan.world, plan.norm_us, "allreduce", WORLD), None)
        yield ("wait", WORLD, None)
        yield ("compute", "adam", plan.optimizer_us * self._draws["tail"][number, rank])

    def _of_pipeline(self, rank: int, number: int) -> Iterator[Op]:
        plan = self.plan
        stage, replica, shard = plan.place(rank)
        m = plan.micro_batches
        warm = m if plan.schedule == "gpipe" else min(m, plan.pp - 1 - stage)
        order = [("f", k) for k in range(warm)]
        for k in range(m - warm):
            order += [("f", warm + k), ("b", k)]
        order += [("b", k) for k in range(m - warm, m)]
        below, above = stage > 0, stage < plan.pp - 1
        needs = [(way, k) for way, k in order if (below if way == "f" else above)]
        posted = 0
        if plan.pauses_us.get((rank, number)):
            yield ("idle", None, plan.pauses_us[rank, number])

        def receive() -> Op:
            way, k = needs[posted]
            other = plan.rank_of(stage + (-1 if way == "f" else 1), replica, shard)
            return self._transfer(other, rank, way, k, number, "recv")

        if plan.prefetch and needs:
            yield receive()
            posted = 1
        for place, (way, k) in enumerate(order):
            needed = below if way == "f" else above
            if needed and not plan.prefetch:
                yield receive()
                posted += 1
            if plan.prefetch and needed and posted < len(needs):
                yield receive()
                posted += 1
            if needed:
                other = plan.rank_of(stage + (-1 if way == "f" else 1), replica, shard)
                stream = RECV_F if way == "f" else RECV_B
                yield ("wait", stream, (way, other, rank, k, number))
            yield ("compute", "fwd" if way == "f" else "bwd", self._length(rank, way, k, number))
            if plan.tp > 1:
                yield (
                    "post",
                    (("tp", stage, replica, number, place), plan.tp, 40.0, "allreduce", TP),
                    None,
                )
                yield ("wait", TP, None)
            to = stage + (1 if way == "f" else -1)
            if 0 <= to < plan.pp:
                yield self._transfer(rank, plan.rank_of(to, replica, shard), way, k, number, "send")
        if plan.reduces and plan.dp > 1:
            slow = plan.link_factor if plan.slow_group == stage else 1.0
            jitter = self._draws["reduce"][number, stage]
            key = ("dp", stage, shard, number)
            yield ("post", (key, plan.dp, plan.reduce_us * slow * jitter, "reduce", DP), None)
            yield ("wait", DP, None)
        if plan.world_norm:
            yield ("post", (("world", number), plan.world, plan.norm_us, "allreduce", WORLD), None)
            yield ("wait", WORLD, None)
        yield ("compute", "adam", plan.optimizer_us * self._draws["tail"][number, rank])

    def _transfer(self, source: int, to: int, way: str, k: int, number: int, op: str) -> Op:
        plan = self.plan
        slow = plan.link_factor if {source, to} == set(plan.slow_pair or ()) else 1.0
        jitter = self._draws["transfer"][number, source, int(way == "b"), k]
        streams = {"sendf": SEND_F, "recvf": RECV_F, "sendb": SEND_B, "recvb": RECV_B}
        key = (way, source, to, k, number)
        return ("post", (key, 2, plan.transfer_us * slow * jitter, op, streams[op + way]), None)

    def _length(self, rank: int, way: str, k: int, number: int) -> float:
        plan = self.plan
        stage, replica, _ = plan.place(rank)
        backward = way == "b"
        base = plan.backward_us if backward else plan.forward_us
        base *= plan.stage_weights.get(stage, (1.0, 1.0))[backward]
        if plan.slow_steps is None or number in plan.slow_steps:
            base *= plan.slow_ranks.get(rank, 1.0)
        if plan.sequence_sigma:
            weight = self._draws["length"][number, replica, k]
            base *= 0.5 + 0.5 * weight if backward else 0.6 + 0.4 * weight
        return float(base * self._draws["pass"][number, rank, int(backward), k])


def _draws(plan: Planted) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(plan.seed)
    shape = (plan.steps, plan.world, 2, plan.micro_batches)

    def near_one(*size: int) -> np.ndarray:
        return np.exp(rng.normal(0, plan.jitter, size))

    return {
        "pass": near_one(*shape),
        "tail": near_one(plan.steps, plan.world),
        "transfer": near_one(*shape),
        "reduce": near_one(plan.steps, plan.pp),
        "length": np.exp(
            rng.normal(0, plan.sequence_sigma, (plan.steps, plan.dp, plan.micro_batches))
        ),
    }


def planted_job(plan: Planted, run: Run | None = None) -> Job:
    """The traces of a run as a job."""
    run = run or Run(plan)
    return job(*(_trace(plan, run, rank) for rank in range(plan.world)))


def _rounded(plan: Planted, us: float) -> float:
    unit = plan.rounded_to_us
    return round(us / unit) * unit if unit else us


def _trace(plan: Planted, run: Run, rank: int) -> RankTrace:
    groups = _groups(plan, rank)
    events = []
    launches: list[Event] = []
    seqs: dict[int, int] = {}
    for number, (begin, length, what, _) in enumerate(run.kernels[rank]):
        name = {"fwd": "layer_fwd", "bwd": "layer_bwd"}.get(what, what) if plan.named else "gemm"
        if what == "adam":
            name = "multi_tensor_apply_adam"
        start = _rounded(plan, begin)
        events.append(kernel(name, start, length, COMPUTE, correlation=number))
        if plan.host_rows:
            thread = 2 if what == "bwd" else 1
            launches.append(
                Event("cudaLaunchKernel", max(begin - 5.0, 0), 1.0, thread, correlation=number)
            )
    for part in run.parts[rank]:
        coll = None if plan.in_graphs else _collective(plan, part, seqs)
        name = (
            "ncclDevKernel_SendRecv(x)"
            if part.op in ("send", "recv")
            else "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)"
        )
        start = part.start_us
        if rank in plan.silent_ranks:
            start = max(start, part.end_us - part.call.transfer_us)
        if part.op == "send":
            start -= plan.sends_early_us * (len(events) % 4) / 3
        if part.op == "reduce":
            name = "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(x)"
        number = len(events)
        if plan.host_rows:
            launched = max(part.ready_us - 5.0, 0)
            launches.append(Event("cudaLaunchKernelExC", launched, 1.0, 1, correlation=number))
        events.append(
            Event(
                name,
                _rounded(plan, start),
                part.end_us - start,
                part.stream,
                coll,
                correlation=number,
            )
        )
    if plan.in_graphs:
        events, launches = _in_graphs(run.marks[rank], events)
    marks = [
        step(number, begin - 10 - plan.rounded_to_us, end - begin + 12.0 + plan.rounded_to_us)
        for number, (begin, end) in enumerate(run.marks[rank])
    ]
    return rank_trace(
        rank,
        gpu=events,
        annotations=marks if plan.marked else (),
        runtime=launches,
        groups=groups,
        world_size=plan.world,
        host=f"node-{rank // plan.ranks_per_host}",
        base_ns=1_700_000_000_000_000_000,
        shift_us=plan.clocks_us.get(rank, 0.0),
    )


def _in_graphs(
    marks: Sequence[tuple[float, float]], events: Sequence[Event]
) -> tuple[list[Event], list[Event]]:
    """The events of each step as one graph, and the launches of these."""
    launches = [
        Event("cudaGraphLaunch", max(begin - 5.0, 0), 4.0, 1, correlation=100 + number)
        for number, (begin, _) in enumerate(marks)
    ]
    begins = [begin for begin, _ in marks]
    numbers = [100 + bisect_right(begins, one.start_us) - 1 for one in events]
    return [
        replace(one, correlation=number) for one, number in zip(events, numbers, strict=True)
    ], launches


def _groups(plan: Planted, rank: int) -> Sequence[ProcessGroup]:
    stage, replica, shard = plan.place(rank)
    world = tuple(range(plan.world))
    line = tuple(plan.rank_of(s, replica, shard) for s in range(plan.pp))
    peers = tuple(plan.rank_of(stage, d, shard) for d in range(plan.dp))
    tensor = tuple(plan.rank_of(stage, replica, t) for t in range(plan.tp))
    return (
        ProcessGroup("0", "default_pg", world, len(world), "cuda:nccl"),
        ProcessGroup("1", "mesh_cp" if plan.ring else "mesh_pp", line, len(line), "cuda:nccl"),
        ProcessGroup("2", "mesh_dp", peers, len(peers), "cuda:nccl"),
        ProcessGroup("3", "mesh_tp", tensor, len(tensor), "cuda:nccl"),
    )


def _collective(plan: Planted, part: _Part, seqs: dict[int, int]) -> Coll:
    group = {"send": 1, "recv": 1, "reduce": 2}.get(part.op, 3 if part.stream == TP else 0)
    seqs[group] = seqs.get(group, 100) + 1
    size = {1: plan.pp, 2: plan.dp, 3: plan.tp}.get(group, plan.world)
    if part.op in ("send", "recv"):
        _, source, to, *_ = part.call.key
        peer = {"dst": to} if part.op == "send" else {"src": source}
        return Coll(part.op, 4096, 4096, "BFloat16", group, size, seqs[group], **peer)  # type: ignore[arg-type]
    op = "_reduce_scatter_base" if part.op == "reduce" else "allreduce"
    elems = 1 << 20 if part.op == "reduce" else 1 << 10
    out = elems // plan.dp if part.op == "reduce" else elems
    return Coll(op, elems, out, "Float", group, size, seqs[group])
