"""Simulate the programs of all ranks on one true clock, in integer nanoseconds.

Each rank has a host that launches without waiting, a main stream that runs in order, and one
stream per communicator (four for p2p: to and from either neighbour). A call starts on a member
when the member's main stream has reached it and its own stream is free, and it ends on all
members at the latest of these starts plus the transfer.

Ranks that run the same program, those of a pipeline stage with the same delays, are a lane: their
times are arrays, and the program is recorded once. ``simulate_lanes`` returns what large jobs are
written from, ``simulate`` the records of each rank: device activities, host ranges and calls.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from ccltui.demo.event_graph import MAIN, Graph, Host, Op, Span, evaluate
from ccltui.demo.program import (
    BYTES_PER_ELEMENT,
    Await,
    Communicate,
    HostBusy,
    Item,
    Phase,
    StepBegin,
    StepEnd,
    StepProgram,
    Work,
    delayed_items,
    jitter_source,
)
from ccltui.demo.spec import DemoGroup, Spec, Topology, lay_out
from ccltui.parsers.array_types import I64

Class = Literal["comp", "mem", "comm"]
LAUNCH_NS = 5_000  # of the runtime call that launches an operation


class Activity(Struct, frozen=True):
    """A kernel, copy or memset on a device; ``call`` is an index into ``Schedule.calls`` or -1."""

    rank: int
    kind: str  # Work.kind, or the operation of the call
    klass: Class
    stream: int
    start_ns: int
    end_ns: int
    host_start_ns: int
    host_ns: int  # host time of its operator
    launch_ns: int
    step: int  # counted from 0
    phase: Phase
    size_bytes: int = 0
    call: int = -1
    seq: int = -1
    in_elems: int = -1  # of a call: input and output of this rank
    out_elems: int = -1
    orphan: bool = False  # its launch is not in the file
    launch_dur_ns: int = LAUNCH_NS
    graph: int = 0  # number of the replay that launches it, 0 for none
    copies: int = 0  # of a call that copies from each peer instead of running a kernel
    splits: tuple[tuple[int, ...], ...] = ()  # sent and received, where they differ between ranks

    @property
    def host_end_ns(self) -> int:
        """End of the host's work for it."""
        return self.host_start_ns + self.host_ns

    @property
    def dur_ns(self) -> int:
        """End minus start."""
        return self.end_ns - self.start_ns


class HostRange(Struct, frozen=True):
    """A range on the host; ``call`` as in Activity, for waits."""

    rank: int
    kind: str  # step, sync, wait, a stall, or the name of an annotation
    start_ns: int
    end_ns: int
    step: int
    call: int = -1
    backward: bool = False  # on the thread of backward passes


class Call(Struct, frozen=True):
    """One collective over ``members``, or one p2p transfer from members[0] to members[1]."""

    index: int
    group: DemoGroup
    operation: str  # "send" for a p2p transfer
    members: tuple[int, ...]
    in_elems: int
    out_elems: int
    dtype: str
    transfer_ns: int
    step: int

    @property
    def is_p2p(self) -> bool:
        """Whether it is a transfer between two ranks."""
        return self.operation == "send"


class Schedule(Struct, frozen=True):
    """All events of a job; the outer index of ``activities`` and ``host`` is the rank."""

    spec: Spec
    topology: Topology
    activities: tuple[tuple[Activity, ...], ...]
    host: tuple[tuple[HostRange, ...], ...]
    calls: tuple[Call, ...]


STREAMS = {"tp": 20, "dp_shard": 24, "dp_replicate": 28, "world": 32, "ep": 36}
P2P_STREAMS = {("send", 1): 40, ("recv", -1): 44, ("send", -1): 48, ("recv", 1): 52}

OPERATOR_NS = 9_000  # host time of an operator that launches a kernel
CALL_NS = 40_000  # host time of a collective call
LAUNCH_AT_NS = {"comp": 3_000, "mem": 3_000, "comm": 20_000}  # from the start of the operator
WAIT_NS = 5_000
BETWEEN_STEPS_NS = 2_000
FIRST_SEQ = 101
WORK_TIMES = 4  # host, launch, start and end on the device
RANGE_TIMES = 2  # start and end on the host

Line = tuple[str, bool]
"""Dimension of a group, and whether its transfers between two ranks are meant."""


def class_of(item: Work | Communicate) -> Class:
    """Class of an operation on a device."""
    if isinstance(item, Communicate):
        return "comm"
    return "comp" if item.computes else "mem"


class Entry(Struct, frozen=True):
    """One operation or range of the log of a step; the same for all ranks of a lane.

    Attributes:
        item: The operation without its duration; None for ranges of the host.
        kind: ``work``, ``call``, ``wait``, ``sync``, ``step``, or the kind of a stall.
        stream: Of work and calls.
        line: Of calls and waits.
        number: Of calls and waits: place among the calls of the line in this step.
    """

    item: Work | Communicate | None
    kind: str
    stream: int = -1
    line: Line = ("", False)
    number: int = 0

    @property
    def times(self) -> int:
        """Number of its times in the log."""
        return RANGE_TIMES if self.item is None else WORK_TIMES


class StepLog(Struct):
    """What a lane did in one step.

    Attributes:
        entries: In the order of the host; the marker of the step is the first.
        times: Of the entries, one after another, int64 ns; each array has one number a rank.
        first_seqs: Calls of each line before this step.
    """

    entries: list[Entry] = field(default_factory=list)
    times: list[I64] = field(default_factory=list)
    first_seqs: dict[Line, int] = field(default_factory=dict)


class Lane(Struct):
    """Ranks that run the same program, with the log of each step."""

    ranks: I64
    stage: int
    steps: list[StepLog] = field(default_factory=list)


def simulate_lanes(spec: Spec, topology: Topology) -> list[Lane]:
    """Simulate a job; the first operation of every host starts at 0."""
    return [lane for lane, _ in _run(spec, topology)]


def _run(spec: Spec, topology: Topology) -> list[tuple[Lane, list[LaneCall]]]:
    """Lanes with their logs, and the calls of each in their order."""
    lanes = _lanes(spec, topology)
    calls = _Calls(spec, topology, Counter(lane.stage for lane in lanes))
    graph: Graph[I64] = Graph()
    hosts = [_LaneHost(spec, lane, calls, graph) for lane in lanes]
    evaluate(graph)
    for host in hosts:
        host.write_times()
    return [(lane, host.calls) for lane, host in zip(lanes, hosts, strict=True)]


def _lanes(spec: Spec, topology: Topology) -> list[Lane]:
    """Ranks with the same stage and the same delays."""
    delays: dict[int, list[tuple[object, ...]]] = {}
    for item in spec.stragglers:
        delays.setdefault(item.rank, []).append((item.cause, item.extra_ns, item.steps))
    found: dict[tuple[object, ...], list[int]] = {}
    for rank, place in enumerate(topology.places):
        found.setdefault((place.pp, *delays.get(rank, ())), []).append(rank)
    return [
        Lane(np.array(ranks, np.int64), topology.places[ranks[0]].pp) for ranks in found.values()
    ]


_AXES = {"tp": 3, "dp_shard": 2, "ep": 2, "dp_replicate": 1}
"""Axis of the grid (stage, replica, shard, tensor-parallel index) along which a group lies."""


class LaneCall:
    """The same call of all groups of a kind; it ends for all when it has started on all lanes."""

    def __init__(self, item: Communicate, stages: tuple[int, ...], missing: int) -> None:
        self.item = item
        self.stages = stages  # of the members; of a transfer, sender and receiver
        self.missing = missing
        self.transfer = np.empty(0, np.int64)  # of the group of each rank, in the grid's shape
        self.members: list[tuple[I64, Op[I64]]] = []

    def started(self, op: Op[I64]) -> Sequence[Op[I64]]:
        """Take note of the start on a lane, and return all lanes after the last one."""
        self.missing -= 1
        if self.missing:
            return []
        starts = np.zeros(self.transfer.shape, np.int64)
        for ranks, member in self.members:
            starts.reshape(-1)[ranks] = member.start_ns
        ends = (self.largest(starts) + self.transfer).reshape(-1)
        for ranks, member in self.members:
            member.end(ends[ranks])
        return [member for _, member in self.members]

    def largest(self, grid: I64) -> I64:
        """Largest value of the group of each rank; other stages keep theirs."""
        if self.item.peer >= 0:
            found = grid.copy()
            source, target = self.stages
            found[source] = found[target] = np.maximum(grid[source], grid[target])
            return found
        if self.item.group.dimension == "world":
            return np.full_like(grid, grid.max())
        axis = _AXES[self.item.group.dimension]
        return np.broadcast_to(grid.max(axis=axis, keepdims=True), grid.shape)


class _Calls:
    """All calls, identified by dimension, stages and position."""

    def __init__(self, spec: Spec, topology: Topology, lanes: Mapping[int, int]) -> None:
        self.spec = spec
        self.topology = topology
        self.places = topology.places
        self.shape = (spec.pp, spec.dp_replicate, spec.dp_shard, spec.tp)
        hosts = [topology.host_of(rank) for rank in range(spec.world_size)]
        self.hosts = np.array(hosts, np.int64).reshape(self.shape)
        self._lanes = lanes  # number by stage
        self._open: dict[tuple[object, ...], LaneCall] = {}
        self._transfers: dict[tuple[object, ...], I64] = {}

    def call(self, item: Communicate, lane: Lane, counts: Counter[object]) -> LaneCall:
        """The call of a lane; ``counts`` are its calls so far."""
        stages = self._stages(item, lane.stage)
        line = (item.group.dimension, item.peer >= 0, stages)
        key = (*line, counts[line])
        counts[line] += 1
        if key not in self._open:
            call = LaneCall(item, stages, sum(self._lanes[stage] for stage in stages))
            call.transfer = self._transfer(call)
            self._open[key] = call
        return self._open[key]

    def _stages(self, item: Communicate, stage: int) -> tuple[int, ...]:
        if item.peer >= 0:
            peer = self.places[item.peer].pp
            return (stage, peer) if item.operation == "send" else (peer, stage)
        return tuple(range(self.shape[0])) if item.group.dimension == "world" else (stage,)

    def _transfer(self, call: LaneCall) -> I64:
        item = call.item
        size = 2 if item.peer >= 0 else len(item.group.ranks)
        wire = wire_bytes(item, size)
        key = (item.group.dimension, call.stages, item.peer >= 0, wire)
        if key not in self._transfers:
            self._transfers[key] = self._new_transfer(call, wire)
        return self._transfers[key]

    def _new_transfer(self, call: LaneCall, wire: int) -> I64:
        spec = self.spec
        near = call.largest(self.hosts) == -call.largest(-self.hosts)
        extra = np.zeros(self.shape, np.int64)
        for link in spec.slow_links:
            if link.dimension == call.item.group.dimension:
                own = np.zeros(self.shape, np.int64)
                own.reshape(-1)[link.rank] = link.extra_ns
                extra += call.largest(own)
        rate = np.where(near, spec.node_bytes_per_ns, spec.network_bytes_per_ns)
        times: I64 = spec.link_latency_ns + wire // rate + extra
        return times


def wire_bytes(item: Communicate, size: int) -> int:
    """Bytes that a rank sends in a call of ``size`` members."""
    elems = max(item.in_elems, item.out_elems)
    if item.operation == "all_to_allv":
        elems = min(item.in_elems, item.out_elems)  # elements of an evenly loaded rank
    whole = elems * BYTES_PER_ELEMENT[item.dtype]
    if item.operation in ("send", "recv"):
        return whole
    return whole * (size - 1) // size * (2 if item.operation == "allreduce" else 1)


class _LaneHost(Host[I64]):
    """Record the program of a lane."""

    def __init__(self, spec: Spec, lane: Lane, calls: _Calls, graph: Graph[I64]) -> None:
        super().__init__(graph, np.zeros(len(lane.ranks), np.int64))
        self.spec = spec
        self.lane = lane
        self.calls: list[LaneCall] = []
        self._all_calls = calls
        self._counts: Counter[object] = Counter()
        self._seqs: dict[Line, int] = {}
        self._line_of: dict[int, tuple[Line, int]] = {}  # line and number of the calls, by id
        self._made: list[list[Op[I64] | Span[I64]]] = []  # what the entries of each step stand for
        self._ends = [random.Random(f"{spec.seed}/{rank}/ends") for rank in lane.ranks.tolist()]
        first = int(lane.ranks[0])
        program = StepProgram(spec, calls.topology, first)
        for step in range(spec.steps):
            items = delayed_items(program, first, step)
            self._record(items, step)

    def _record(self, items: list[Item], step: int) -> None:
        jitter = iter(self._jitter(sum(isinstance(item, Work) for item in items), step))
        for item in items:
            match item:
                case Work():
                    self._work(item, next(jitter))
                case Communicate():
                    self._post(item)
                case Await(group):
                    if STREAMS[group.dimension] in self.last:
                        self._wait_for(self.last[STREAMS[group.dimension]])
                case HostBusy(kind, dur_ns):
                    self._busy(kind, dur_ns)
                case StepBegin():
                    self._begin_step()
                case StepEnd(sync):
                    self._end_step(sync=sync)

    def _begin_step(self) -> None:
        self.lane.steps.append(StepLog(first_seqs=dict(self._seqs)))
        self._made.append([])
        self._range("step", 0)

    def _work(self, item: Work, jitter: I64) -> None:
        self._add(
            Entry(replace(item, dur_ns=0), "work", MAIN),
            item.dur_ns + jitter,
            OPERATOR_NS,
            self.waits.pop(MAIN, ()),
        )

    def _post(self, item: Communicate) -> None:
        """Post a call after the earlier calls of its stream."""
        log, line = self.lane.steps[-1], (item.group.dimension, item.peer >= 0)
        number = self._seqs.get(line, 0)
        self._seqs[line] = number + 1
        after = self.pending_main()
        if item.after is not None and (other := STREAMS[item.after.dimension]) in self.last:
            after.append(self.last[other])
        in_step = number - log.first_seqs.get(line, 0)
        op = self._add(Entry(item, "call", self._stream_of(item), line, in_step), 0, CALL_NS, after)
        call = self._all_calls.call(item, self.lane, self._counts)
        call.members.append((self.lane.ranks, op))
        self.calls.append(call)
        op.call = call
        op.skew_ns = self._skew()
        self._line_of[id(op)] = (line, number)
        if item.blocking:
            self._wait_for(op)

    def _add(
        self, entry: Entry, dur_ns: int | I64, host_ns: int, after: Sequence[Op[I64]]
    ) -> Op[I64]:
        assert entry.item is not None
        op: Op[I64] = Op(int(self.lane.ranks[0]), entry.kind, entry.stream, dur_ns, 0)
        self.add(op, LAUNCH_AT_NS[class_of(entry.item)])
        self.queue(op, after)
        self.segment.length_ns += host_ns
        self._log(entry, op)
        return op

    def _wait_for(self, op: Op[I64]) -> None:
        """Let the main stream wait for a call."""
        self.waits.setdefault(MAIN, []).append(op)
        line, number = self._line_of[id(op)]
        first = self.lane.steps[-1].first_seqs.get(line, 0)
        self._range("wait", WAIT_NS, line=line, number=number - first)

    def _busy(self, kind: str, dur_ns: int) -> None:
        if kind:
            self._range(kind, dur_ns)
        else:
            self.segment.length_ns += dur_ns

    def _end_step(self, *, sync: bool) -> None:
        if sync:
            drained = [*self.pending_main(), *self.last.values()]
            self.wait_on_host("sync", drained, before_ns=WAIT_NS)
            self._log(Entry(None, "sync"), self.spans[-1])
        marker = self._made[-1][0]
        assert isinstance(marker, Span)
        marker.end_segment, marker.end_offset_ns = self.segment, self.segment.length_ns
        self.segment.length_ns += BETWEEN_STEPS_NS

    def _range(self, kind: str, dur_ns: int, *, line: Line = ("", False), number: int = 0) -> None:
        begin = self.segment.length_ns
        self.segment.length_ns += dur_ns
        entry = Entry(None, kind, line=line, number=number)
        self._log(entry, self.span(kind, self.segment, begin))

    def _log(self, entry: Entry, made: Op[I64] | Span[I64]) -> None:
        self.lane.steps[-1].entries.append(entry)
        self._made[-1].append(made)

    def _stream_of(self, item: Communicate) -> int:
        if item.peer < 0:
            return STREAMS[item.group.dimension]
        peer = self._all_calls.places[item.peer]
        return P2P_STREAMS[item.operation, peer.pp - self.lane.stage]

    def _skew(self) -> int | I64:
        """How much later than a call each rank ends."""
        most = self.spec.end_skew_ns
        return np.array([one.randint(0, most) for one in self._ends], np.int64) if most else 0

    def _jitter(self, count: int, step: int) -> I64:
        """Prolongation of each work item, shape (work, ranks)."""
        if not self.spec.jitter_ns:
            return np.zeros((count, len(self.lane.ranks)), np.int64)
        most = self.spec.jitter_ns + 1
        bits = most.bit_length()
        drawn = []
        for rank in self.lane.ranks.tolist():
            draw = jitter_source(self.spec, rank, step).getrandbits
            row: list[int] = []
            while len(row) < count:  # as randint(0, jitter_ns) draws, at a third of its cost
                value = draw(bits)
                if value < most:
                    row.append(value)
            drawn.append(row)
        return np.ascontiguousarray(np.array(drawn, np.int64).reshape(-1, count).T)

    def write_times(self) -> None:
        """Write the computed times into the logs."""
        for log, made in zip(self.lane.steps, self._made, strict=True):
            for entry, one in zip(log.entries, made, strict=True):
                if isinstance(one, Op):
                    assert entry.item is not None
                    launched = one.launched_ns
                    began = launched - LAUNCH_AT_NS[class_of(entry.item)]
                    log.times += [began, launched, one.start_ns, one.end_ns]
                else:
                    log.times += [one.start_ns, one.end_ns]


def records(
    log: StepLog,
    times: Sequence[int],
    *,
    rank: int,
    step: int,
    first_seqs: Mapping[Line, int],
    calls: Mapping[tuple[Line, int], int],
) -> tuple[list[Activity], list[HostRange]]:
    """What one rank did in a step.

    Args:
        log: The step of its lane.
        times: Those of the log, of this rank.
        rank: The rank.
        step: The step, counted from 0.
        first_seqs: Sequence number of the first call of each line.
        calls: Index of each call, by line and number in the step.
    """
    activities, ranges, place = [], [], 0
    for entry in log.entries:
        item, own = entry.item, times[place : place + entry.times]
        call = calls.get((entry.line, entry.number), -1)
        place += entry.times
        if item is None:
            ranges.append(HostRange(rank, entry.kind, own[0], own[1], step, call))
            continue
        began_ns, launch_ns, start_ns, end_ns = own
        klass = class_of(item)
        host_ns = CALL_NS if klass == "comm" else OPERATOR_NS
        span = (start_ns, end_ns, began_ns, host_ns, launch_ns, step, item.phase)
        if isinstance(item, Work):
            made = Activity(rank, item.kind, klass, entry.stream, *span, item.size_bytes)
        else:
            seq = first_seqs[entry.line] + entry.number
            sizes = (item.in_elems, item.out_elems)
            made = Activity(rank, item.operation, klass, entry.stream, *span, 0, call, seq, *sizes)
        activities.append(made)
    return activities, ranges


def simulate(spec: Spec) -> Schedule:
    """Simulate the job; the first operation of every host starts at 0."""
    topology = lay_out(spec)
    calls = _RankCalls(topology)
    activities: dict[int, list[Activity]] = {}
    host: dict[int, list[HostRange]] = {}
    for lane, of_lane in _run(spec, topology):
        for place, rank in enumerate(lane.ranks.tolist()):
            activities[rank], host[rank] = [], []
            left = iter(of_lane)
            for step, log in enumerate(lane.steps):
                index = {
                    (entry.line, entry.number): calls.add(rank, entry.item, next(left), step)
                    for entry in log.entries
                    if isinstance(entry.item, Communicate)
                }
                first = {line: FIRST_SEQ + log.first_seqs.get(line, 0) for line, _ in index}
                times = [int(time[place]) for time in log.times]
                found = records(log, times, rank=rank, step=step, first_seqs=first, calls=index)
                activities[rank] += found[0]
                host[rank] += found[1]
    ranks = range(spec.world_size)
    return Schedule(
        spec,
        topology,
        tuple(tuple(activities[rank]) for rank in ranks),
        tuple(tuple(host[rank]) for rank in ranks),
        tuple(calls.made.values()),
    )


class _RankCalls:
    """The calls of each group, numbered, from those of lanes."""

    def __init__(self, topology: Topology) -> None:
        self.made: dict[tuple[object, ...], Call] = {}
        self._topology = topology

    def add(self, rank: int, item: Communicate, call: LaneCall, step: int) -> int:
        """Index of the call of a rank; of several members the smallest sizes are kept."""
        group = self._topology.group_of(item.group.dimension, rank)
        assert group is not None
        members = group.ranks
        if item.peer >= 0:
            members = tuple(group.ranks[stage] for stage in call.stages)
        earlier = self.made.get((id(call), members))
        in_elems, out_elems = item.in_elems, item.out_elems
        if earlier is not None:
            in_elems = min(in_elems, earlier.in_elems)
            out_elems = min(out_elems, earlier.out_elems)
        index = len(self.made) if earlier is None else earlier.index
        self.made[id(call), members] = Call(
            index,
            group,
            "send" if item.operation == "recv" else item.operation,
            members,
            in_elems,
            out_elems,
            item.dtype,
            int(call.transfer.reshape(-1)[rank]),
            step,
        )
        return index
