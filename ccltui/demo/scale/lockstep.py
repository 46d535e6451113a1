"""Simulate all ranks that run the same program together: one array of times for each operation.

The rules are those of ``ccltui.demo.simulate``, which computes one number at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace
from numpy.typing import NDArray

from ccltui.demo.delays import delayed_items, jitter_source
from ccltui.demo.program import (
    Await,
    Communicate,
    HostBusy,
    StepBegin,
    StepEnd,
    StepProgram,
    Work,
)
from ccltui.demo.scale.call_meeting import Calls, Line, Record
from ccltui.demo.simulate import (
    BETWEEN_STEPS_NS,
    CALL_NS,
    LATENCY_NS,
    LAUNCH_AT_NS,
    MAIN_STREAM,
    OPERATOR_NS,
    P2P_STREAMS,
    STREAMS,
    WAIT_NS,
)
from ccltui.demo.spec import Spec
from ccltui.demo.topology import Topology

Times = NDArray[np.int64]
_DONE: Final = object()
WORK_TIMES: Final = 4  # host, launch, start and end on the device
RANGE_TIMES: Final = 2  # start and end on the host


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
    times: list[Times] = field(default_factory=list)
    first_seqs: dict[Line, int] = field(default_factory=dict)


class Lane(Struct):
    """Ranks that run the same program, with the log of each step."""

    ranks: NDArray[np.int64]
    stage: int
    steps: list[StepLog] = field(default_factory=list)


def simulate_lanes(spec: Spec, topology: Topology) -> list[Lane]:
    """Simulate a job; the first operation of every host starts at 0.

    Raises:
        ValueError: The job has members of a collective that end at different times, which are drawn
            in the order of another simulation.
    """
    if spec.end_skew_ns:
        raise ValueError("end_skew_ns is not supported for ranks that are simulated together")
    calls = Calls(spec, topology)
    lanes = _lanes(spec, topology)
    for lane in lanes:
        calls.expect(lane.ranks)
    running = [_Run(spec, topology, lane, calls).advance() for lane in lanes]
    while running:
        before = calls.progress, len(running)
        running = [one for one in running if next(one, _DONE) is not _DONE]
        assert not running or (calls.progress, len(running)) != before, "lanes wait for each other"
    return lanes


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


class _Run:
    """Execute the program of a lane; ``advance`` yields while a time is not known yet."""

    def __init__(self, spec: Spec, topology: Topology, lane: Lane, calls: Calls) -> None:
        self.spec = spec
        self.places = topology.places
        self.lane = lane
        self.calls = calls
        self.program = StepProgram(spec, topology, int(lane.ranks[0]))
        self.host: Times = np.zeros(len(lane.ranks), np.int64)
        self.main: Times = np.zeros(len(lane.ranks), np.int64)
        self.last: dict[int, Record] = {}  # on each communication stream
        self.seqs: dict[Line, int] = {}
        self.log = StepLog()

    def advance(self) -> Iterator[None]:
        first = int(self.lane.ranks[0])
        posted: list[tuple[StepLog, int, Record]] = []
        for step in range(self.spec.steps):
            items = delayed_items(self.program, first, step)
            jitter = iter(self._jitter(sum(isinstance(item, Work) for item in items), step))
            for item in items:
                match item:
                    case Work():
                        self._work(item, next(jitter))
                    case Communicate():
                        record = self._post(item)
                        posted.append((self.log, len(self.log.times) - WORK_TIMES, record))
                        if item.blocking:
                            yield from self._wait_for(record)
                    case Await(group):
                        stream = STREAMS[group.dimension]
                        if stream in self.last:
                            yield from self._wait_for(self.last[stream])
                    case HostBusy(kind, dur_ns):
                        self._busy(kind, dur_ns)
                    case StepBegin():
                        self._begin_step()
                    case StepEnd(sync):
                        yield from self._end_step(sync=sync)
        for log, place, record in posted:
            yield from _until_known(record)
            log.times[place + 2], log.times[place + 3] = record.start, record.end

    def _begin_step(self) -> None:
        self.log = StepLog(first_seqs=dict(self.seqs))
        self.lane.steps.append(self.log)
        self._range("step", self.host)

    def _work(self, item: Work, jitter: Times) -> None:
        klass = "comp" if item.computes else "mem"
        launched = self.host + LAUNCH_AT_NS[klass]
        start = np.maximum(self.main, launched + LATENCY_NS)
        self._log(Entry(replace(item, dur_ns=0), "work", MAIN_STREAM), launched)
        self.main = start + (item.dur_ns + jitter)
        self.log.times += [start, self.main]
        self.host = self.host + OPERATOR_NS

    def _post(self, item: Communicate) -> Record:
        """Post a call after the earlier calls of its stream."""
        stream = self._stream_of(item)
        launched = self.host + LAUNCH_AT_NS["comm"]
        line = (item.group.dimension, item.peer >= 0)
        number = self.seqs.get(line, 0)
        self.seqs[line] = number + 1
        after = [self.last[stream]] if stream in self.last else []
        if item.after is not None and (other := STREAMS[item.after.dimension]) in self.last:
            after.append(self.last[other])
        ready = np.maximum(self.main, launched + LATENCY_NS)
        record = Record(self.lane.ranks, ready, tuple(after), line, number)
        for earlier in after:
            earlier.followers.append(record)
        self.last[stream] = record
        in_step = number - self.log.first_seqs.get(line, 0)
        self._log(Entry(item, "call", stream, line, in_step), launched)
        self.log.times += [ready, ready]  # replaced once they are known
        self.host = self.host + CALL_NS
        peer = self.places[item.peer].pp if item.peer >= 0 else -1
        self.calls.join(item, self.lane.stage, peer, record)
        return record

    def _wait_for(self, record: Record) -> Iterator[None]:
        """Let the main stream wait for a call."""
        yield from _until_known(record)
        self.main = np.maximum(self.main, record.end)
        number = record.number - self.log.first_seqs.get(record.line, 0)
        self._range("wait", self.host + WAIT_NS, line=record.line, number=number)

    def _busy(self, kind: str, dur_ns: int) -> None:
        if kind:
            self._range(kind, self.host + dur_ns)
        else:
            self.host = self.host + dur_ns

    def _end_step(self, *, sync: bool) -> Iterator[None]:
        if sync:
            drained = self.main
            for record in self.last.values():
                yield from _until_known(record)
                drained = np.maximum(drained, record.end)
            self._range("sync", np.maximum(self.host + WAIT_NS, drained))
        self.log.times[1] = self.host
        self.host = self.host + BETWEEN_STEPS_NS

    def _log(self, entry: Entry, launched: Times) -> None:
        self.log.entries.append(entry)
        self.log.times += [self.host, launched]

    def _range(self, kind: str, end: Times, *, line: Line = ("", False), number: int = 0) -> None:
        self.log.entries.append(Entry(None, kind, line=line, number=number))
        self.log.times += [self.host, end]
        self.host = end

    def _stream_of(self, item: Communicate) -> int:
        if item.peer < 0:
            return STREAMS[item.group.dimension]
        return P2P_STREAMS[item.operation, self.places[item.peer].pp - self.lane.stage]

    def _jitter(self, count: int, step: int) -> Times:
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


def _until_known(record: Record) -> Iterator[None]:
    while not record.resolved:
        yield
