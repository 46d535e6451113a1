"""Simulate the programs of all ranks on one true clock, in integer nanoseconds.

Each rank has a host that launches without waiting, a main stream that runs in order, and one
stream per communicator (four for p2p: to and from either neighbour). A call starts on a member
when the member's main stream has reached it and its own stream is free, and it ends on all
members at the latest of these starts plus the transfer. The result is device activities, host
ranges and calls.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Literal

from msgspec import Struct, field

from ccltui.demo.delays import program
from ccltui.demo.program import (
    BYTES_PER_ELEMENT,
    Await,
    Communicate,
    HostBusy,
    Item,
    Operation,
    Phase,
    Stall,
    StepBegin,
    StepEnd,
    Work,
)
from ccltui.demo.spec import Spec
from ccltui.demo.topology import DemoGroup, Topology, lay_out

Class = Literal["comp", "mem", "comm"]
HostKind = Literal["step", "sync", "wait"] | Stall


class Activity(Struct, frozen=True):
    """A kernel, copy or memset on a device; ``call`` is an index into ``Schedule.calls`` or -1."""

    rank: int
    kind: str  # Work.kind, or the operation of the call
    klass: Class
    stream: int
    start_ns: int
    end_ns: int
    host_start_ns: int
    host_end_ns: int
    launch_ns: int
    step: int  # counted from 0
    phase: Phase
    size_bytes: int = 0
    call: int = -1
    seq: int = -1
    in_elems: int = -1  # of a call: input and output of this rank
    out_elems: int = -1
    orphan: bool = False  # its launch is not in the file

    @property
    def dur_ns(self) -> int:
        """End minus start."""
        return self.end_ns - self.start_ns


class HostRange(Struct, frozen=True):
    """A range on the host; ``call`` as in Activity, for waits."""

    rank: int
    kind: HostKind
    start_ns: int
    end_ns: int
    step: int
    call: int = -1


class Call(Struct, frozen=True):
    """One collective over ``members``, or one p2p transfer from members[0] to members[1]."""

    index: int
    group: DemoGroup
    operation: Operation  # "send" for a p2p transfer
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


MAIN_STREAM = 7
STREAMS = {"tp": 20, "dp_shard": 24, "dp_replicate": 28, "world": 32, "ep": 36}
P2P_STREAMS = {("send", 1): 40, ("recv", -1): 44, ("send", -1): 48, ("recv", 1): 52}

OPERATOR_NS = 9_000  # host time of an operator that launches a kernel
CALL_NS = 40_000  # host time of a collective call
LAUNCH_AT_NS = {"comp": 3_000, "mem": 3_000, "comm": 20_000}  # from the start of the operator
LAUNCH_NS = 5_000
LATENCY_NS = 4_000  # from the launch to the earliest start on the device
WAIT_NS = 5_000
BETWEEN_STEPS_NS = 2_000
FIRST_SEQ = 101


def simulate(spec: Spec) -> Schedule:
    """Simulate the job; the first operation of every host starts at 0."""
    topology = lay_out(spec)
    calls = _Calls(spec, topology)
    ranks = [_Rank(spec, topology, rank, calls) for rank in range(spec.world_size)]
    waiting = list(ranks)
    while waiting:
        moved = [rank.advance() for rank in waiting]
        assert any(moved), "the programs of the ranks wait for each other"
        waiting = [rank for rank in waiting if not rank.done]
    return Schedule(
        spec,
        topology,
        tuple(tuple(_activity(record) for record in rank.records) for rank in ranks),
        tuple(tuple(rank.host_ranges) for rank in ranks),
        tuple(calls.finished()),
    )


class _Record(Struct, eq=False):
    """An activity whose times may still be unknown."""

    rank: int
    kind: str
    klass: Class
    stream: int
    host_ns: int
    step: int
    phase: Phase
    ready_ns: int
    size_bytes: int = 0
    seq: int = -1
    call: _OpenCall | None = None
    item: Communicate | None = None
    after: tuple[_Record, ...] = ()
    followers: list[_Record] = field(default_factory=list)
    start_ns: int = -1
    end_ns: int = -1

    @property
    def resolved(self) -> bool:
        return self.end_ns >= 0


class _OpenCall(Struct, eq=False):
    """A call that is waiting for records of its members."""

    index: int
    item: Communicate
    members: tuple[int, ...]
    transfer_ns: int
    step: int
    records: dict[int, _Record] = field(default_factory=dict)


class _Calls:
    """All calls of the job, identified by group, members and position."""

    def __init__(self, spec: Spec, topology: Topology) -> None:
        self.spec = spec
        self.topology = topology
        self.open: dict[tuple[object, ...], _OpenCall] = {}
        self.counts: dict[tuple[object, ...], int] = {}
        self.skew = random.Random(f"{spec.seed}/ends")

    def join(self, item: Communicate, record: _Record) -> None:
        """Add a rank's record to its call, and compute the times once all members have joined."""
        members: tuple[int, ...] = item.group.ranks
        if item.operation in ("send", "recv"):
            pair = (record.rank, item.peer)
            members = pair if item.operation == "send" else pair[::-1]
        line = (item.group.index, members)
        nth = self.counts.get((*line, record.rank), 0)
        self.counts[(*line, record.rank)] = nth + 1
        call = self.open.get((*line, nth))
        if call is None:
            transfer_ns = self._transfer_ns(item, members, record.step)
            call = _OpenCall(len(self.open), item, members, transfer_ns, record.step)
            self.open[(*line, nth)] = call
        call.records[record.rank] = record
        record.call = call
        self._settle(call)

    def _transfer_ns(self, item: Communicate, members: tuple[int, ...], step: int) -> int:
        spec = self.spec
        near = self.topology.within_host(members)
        rate = spec.node_bytes_per_ns if near else spec.network_bytes_per_ns
        extra = sum(
            link.extra_ns
            for link in spec.slow_links
            if link.dimension == item.group.dimension and link.rank in members
        )
        return spec.link_latency_ns + wire_bytes(item, len(members)) // rate + extra

    def _settle(self, call: _OpenCall) -> None:
        pending = [call]
        while pending:
            call = pending.pop()
            records = [call.records.get(rank) for rank in call.members]
            known = [record for record in records if record is not None]
            if len(known) < len(records) or any(
                not earlier.resolved for record in known for earlier in record.after
            ):
                continue
            for record in known:
                record.start_ns = max(
                    record.ready_ns, *(earlier.end_ns for earlier in record.after), 0
                )
            end_ns = max(record.start_ns for record in known) + call.transfer_ns
            for record in known:
                late_ns = self.skew.randint(0, self.spec.end_skew_ns)
                record.end_ns = end_ns + late_ns
                pending += [other.call for other in record.followers if other.call is not None]

    def finished(self) -> Iterator[Call]:
        for call in self.open.values():
            item = call.item
            items = [record.item for record in call.records.values() if record.item is not None]
            yield Call(
                call.index,
                item.group,
                "send" if item.operation == "recv" else item.operation,
                call.members,
                min(one.in_elems for one in items),
                min(one.out_elems for one in items),
                item.dtype,
                call.transfer_ns,
                call.step,
            )


def wire_bytes(item: Communicate, size: int) -> int:
    """Bytes that a rank sends in a call of ``size`` members."""
    elems = max(item.in_elems, item.out_elems)
    if item.operation == "all_to_allv":
        elems = min(item.in_elems, item.out_elems)  # elements of an evenly loaded rank
    whole = elems * BYTES_PER_ELEMENT[item.dtype]
    if item.operation in ("send", "recv"):
        return whole
    return whole * (size - 1) // size * (2 if item.operation == "allreduce" else 1)


class _Rank:
    """Execute the program of one rank until it depends on a time that is not known yet."""

    def __init__(self, spec: Spec, topology: Topology, rank: int, calls: _Calls) -> None:
        self.rank = rank
        self.calls = calls
        self.stage = topology.places[rank].pp
        self.places = topology.places
        self.items = program(spec, topology, rank)
        self.held: Item | None = next(self.items, None)
        self.host_ns = 0
        self.main_ns = 0
        self.step = 0
        self.step_began_ns = 0
        self.last: dict[int, _Record] = {}  # on each communication stream
        self.seqs: dict[tuple[int, bool], int] = {}
        self.posted: _Record | None = None
        self.records: list[_Record] = []
        self.host_ranges: list[HostRange] = []

    @property
    def done(self) -> bool:
        return self.held is None

    def advance(self) -> bool:
        """Run as far as possible; return whether anything was run."""
        moved = False
        while self.held is not None and self.run(self.held):
            moved = True
            self.held = next(self.items, None)
        return moved

    def run(self, item: Item) -> bool:
        """Run one operation; return False if it must be retried later."""
        match item:
            case Work():
                self.work(item)
            case Communicate():
                return self.communicate(item)
            case Await(group):
                return self.wait_for([self.last[key] for key in self.streams_of(group)])
            case HostBusy():
                self.host_busy(item)
            case StepBegin(step):
                self.step, self.step_began_ns = step, self.host_ns
            case StepEnd(sync):
                return self.end_step(sync=sync)
        return True

    def work(self, item: Work) -> None:
        klass: Class = "comp" if item.computes else "mem"
        record = self.record(item.kind, klass, MAIN_STREAM, item.phase, OPERATOR_NS)
        record.size_bytes = item.size_bytes
        record.start_ns = record.ready_ns
        record.end_ns = self.main_ns = record.start_ns + item.dur_ns

    def communicate(self, item: Communicate) -> bool:
        """Post a call once; a blocking call is then awaited until its end is known."""
        if self.posted is None:
            self.posted = self.post(item)
        if item.blocking and not self.wait_for([self.posted]):
            return False
        self.posted = None
        return True

    def post(self, item: Communicate) -> _Record:
        """Post a call after the earlier calls of its stream."""
        stream = self.stream_of(item)
        record = self.record(item.operation, "comm", stream, item.phase, CALL_NS)
        line = (item.group.index, item.peer >= 0)  # p2p calls are numbered separately
        record.item = item
        record.seq = self.seqs.get(line, FIRST_SEQ)
        self.seqs[line] = record.seq + 1
        earlier = [self.last[stream]] if stream in self.last else []
        if item.after is not None:
            earlier += [self.last[key] for key in self.streams_of(item.after)]
        record.after = tuple(earlier)
        for other in earlier:
            other.followers.append(record)
        self.last[stream] = record
        self.calls.join(item, record)
        return record

    def record(self, kind: str, klass: Class, stream: int, phase: Phase, host_ns: int) -> _Record:
        """Create a record at the host's current time and advance the host."""
        launched_ns = self.host_ns + LAUNCH_AT_NS[klass]
        ready_ns = max(self.main_ns, launched_ns + LATENCY_NS)
        record = _Record(self.rank, kind, klass, stream, self.host_ns, self.step, phase, ready_ns)
        self.records.append(record)
        self.host_ns += host_ns
        return record

    def wait_for(self, records: list[_Record]) -> bool:
        """Let the main stream wait for records; return False if an end is unknown."""
        if not all(record.resolved for record in records):
            return False
        for record in records:
            self.main_ns = max(self.main_ns, record.end_ns)
            assert record.call is not None
            self.host_range("wait", WAIT_NS, call=record.call.index)
        return True

    def host_busy(self, item: HostBusy) -> None:
        if item.kind:
            self.host_range(item.kind, item.dur_ns)
        else:
            self.host_ns += item.dur_ns

    def end_step(self, *, sync: bool) -> bool:
        if sync:
            if not all(record.resolved for record in self.last.values()):
                return False
            drained_ns = max([self.main_ns, *(record.end_ns for record in self.last.values())])
            self.host_range("sync", max(WAIT_NS, drained_ns - self.host_ns))
        self.host_ranges.append(
            HostRange(self.rank, "step", self.step_began_ns, self.host_ns, self.step)
        )
        self.host_ns += BETWEEN_STEPS_NS
        return True

    def host_range(self, kind: HostKind, dur_ns: int, *, call: int = -1) -> None:
        start_ns = self.host_ns
        self.host_ns += dur_ns
        self.host_ranges.append(HostRange(self.rank, kind, start_ns, self.host_ns, self.step, call))

    def stream_of(self, item: Communicate) -> int:
        if item.peer < 0:
            return STREAMS[item.group.dimension]
        return P2P_STREAMS[item.operation, self.places[item.peer].pp - self.stage]

    def streams_of(self, group: DemoGroup) -> list[int]:
        """Streams of a group on which something has been posted."""
        return [key for key in (STREAMS[group.dimension],) if key in self.last]


def _activity(record: _Record) -> Activity:
    return Activity(
        record.rank,
        record.kind,
        record.klass,
        record.stream,
        record.start_ns,
        record.end_ns,
        record.host_ns,
        record.host_ns + (CALL_NS if record.klass == "comm" else OPERATOR_NS),
        record.host_ns + LAUNCH_AT_NS[record.klass],
        record.step,
        record.phase,
        record.size_bytes,
        -1 if record.call is None else record.call.index,
        record.seq,
        -1 if record.item is None else record.item.in_elems,
        -1 if record.item is None else record.item.out_elems,
    )
