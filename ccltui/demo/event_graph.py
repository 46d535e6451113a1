"""The one simulator: operations on streams and hosts, and when each starts and ends.

All dependencies are known before any time is computed. An operation starts when its launch has
reached the device, the one before it on its stream has ended, and all that its stream waits for
has ended. A call decides when its members end. A host runs in segments: a segment begins when the
one before it has ended and all device work that it waits for is done.

A time is one number, of one rank, or an array, of all ranks that run the same program: jobs of
thousands of ranks take one pass over the program of each pipeline stage, not one a rank.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Final, Generic, Protocol, TypeVar

import numpy as np
from msgspec import Struct

from ccltui.parsers.array_types import I64

LATENCY_NS: Final = 4_000
"""Time from the launch on the host to the earliest start on the device."""
MAIN: Final = 7
"""Stream of the compute kernels."""

Time = TypeVar("Time", int, I64)
"""Nanoseconds on the true clock: of one rank, or one number a rank."""


class Segment(Generic[Time]):
    """Stretch of host work without waiting for the device; the first one starts at ``begin``."""

    __slots__ = ("before", "followers", "length_ns", "pending", "start_ns", "waits")

    def __init__(
        self, begin: Time, before: Segment[Time] | None = None, waits: Sequence[Op[Time]] = ()
    ) -> None:
        self.before: Segment[Time] | None = before
        self.waits: Sequence[Op[Time]] = waits
        self.length_ns = 0
        self.start_ns: Time = begin
        self.pending = 0
        self.followers: list[Op[Time] | Segment[Time]] = []


class Meeting(Protocol[Time]):
    """A call of several ranks."""

    def started(self, op: Op[Time]) -> Sequence[Op[Time]]:
        """Take note of the start of a member, and return those whose end is known by that."""


class Op(Generic[Time]):
    """Kernel, copy or member of a call on a stream."""

    __slots__ = (
        "after",
        "backward",
        "call",
        "dur_ns",
        "end_ns",
        "ended",
        "followers",
        "graph",
        "host_ns",
        "kind",
        "launch_ns",
        "pending",
        "rank",
        "segment",
        "skew_ns",
        "start_ns",
        "step",
        "stream",
    )
    start_ns: Time
    end_ns: Time
    segment: Segment[Time]

    def __init__(self, rank: int, kind: str, stream: int, dur_ns: int | Time, step: int) -> None:
        self.rank = rank  # of a lane, its first
        self.kind = kind
        self.stream = stream
        self.dur_ns: int | Time = dur_ns
        self.step = step
        self.backward = False
        self.call: Meeting[Time] | None = None
        self.skew_ns: int | Time = 0  # it ends this much after its call
        self.graph = 0  # number of the replay that launches it, 0 for none
        self.launch_ns = 0  # since the beginning of the segment
        self.host_ns = 0  # host time of its operator
        self.after: Sequence[Op[Time]] = ()
        self.followers: list[Op[Time] | Segment[Time]] = []
        self.pending = 0
        self.ended = False

    @property
    def launched_ns(self) -> Time:
        """When the host launches it."""
        launched_ns: Time = self.segment.start_ns + self.launch_ns
        return launched_ns

    def end(self, met_ns: Time) -> None:
        """Set its end, of a member of a call."""
        self.end_ns = met_ns + self.skew_ns
        self.ended = True


class Span(Struct, Generic[Time]):
    """A range on the host rows, relative to the beginning of its segments."""

    kind: str
    step: int
    segment: Segment[Time]
    offset_ns: int
    end_segment: Segment[Time]
    end_offset_ns: int
    backward: bool = False

    @property
    def start_ns(self) -> Time:
        """Start on the true clock."""
        start_ns: Time = self.segment.start_ns + self.offset_ns
        return start_ns

    @property
    def end_ns(self) -> Time:
        """End on the true clock."""
        end_ns: Time = self.end_segment.start_ns + self.end_offset_ns
        return end_ns


class Graph(Generic[Time]):
    """What all hosts of a job record."""

    def __init__(self) -> None:
        self.ops: list[Op[Time]] = []
        self.segments: list[Segment[Time]] = []


class Host(Generic[Time]):
    """Record what a host launches, in its order."""

    def __init__(self, graph: Graph[Time], begin: Time) -> None:
        self._graph: Graph[Time] = graph
        self.segment: Segment[Time] = Segment(begin)
        graph.segments.append(self.segment)
        self.step = 0
        self.last: dict[int, Op[Time]] = {}  # on each stream
        self.waits: dict[int, list[Op[Time]]] = {}  # what the next operation of a stream waits for
        self.ops: list[Op[Time]] = []
        self.spans: list[Span[Time]] = []

    def add(self, op: Op[Time], launch_ns: int) -> None:
        """Launch an operation some time after now."""
        op.segment = self.segment
        op.launch_ns = self.segment.length_ns + launch_ns
        self.ops.append(op)
        self._graph.ops.append(op)

    def queue(self, op: Op[Time], after: Iterable[Op[Time]]) -> None:
        """Let it wait for others and for the one before it on its stream."""
        earlier: Op[Time] | None = self.last.get(op.stream)
        everything = (*after, *([earlier] if earlier else ()))
        op.after = list({id(one): one for one in everything}.values())
        self.last[op.stream] = op

    def pending_main(self) -> list[Op[Time]]:
        """All that an operation launched now behind the main stream has to wait for."""
        last: Op[Time] | None = self.last.get(MAIN)
        return [*([last] if last is not None else []), *self.waits.get(MAIN, ())]

    def wait_on_host(
        self, kind: str, ops: Sequence[Op[Time]], *, before_ns: int = 0, after_ns: int = 0
    ) -> None:
        """Wait for device work, in a range of host work before and after the last has ended."""
        begin, before = self.segment.length_ns, self.segment
        before.length_ns += before_ns
        self.segment = Segment(before.start_ns, before, ops)
        self.segment.length_ns = after_ns
        self._graph.segments.append(self.segment)
        self.span(kind, before, begin)

    def span(
        self, kind: str, segment: Segment[Time], begin: int, backward: bool = False
    ) -> Span[Time]:
        """Add a range from a place until now."""
        end = (self.segment, self.segment.length_ns)
        self.spans.append(Span(kind, self.step, segment, begin, *end, backward))
        return self.spans[-1]


class DeadlockError(RuntimeError):
    """Operations wait for each other."""


def evaluate(graph: Graph[Time]) -> None:
    """Compute start and end of all operations and segments.

    Raises:
        DeadlockError: Some operation can never start.
    """
    _link(graph)
    ready: list[Op[Time] | Segment[Time]] = [one for one in graph.segments if not one.pending]
    left = len(graph.ops) + len(graph.segments)
    while ready:
        item = ready.pop()
        done = _begin(item) if isinstance(item, Segment) else _start(item)
        left -= len(done)
        for one in done:
            for follower in one.followers:
                follower.pending -= 1
                if not follower.pending:
                    ready.append(follower)
    if left:
        stuck = next(op for op in graph.ops if not op.ended)
        raise DeadlockError(f"{left} operations never end, first {stuck.kind} on {stuck.rank}")


def _link(graph: Graph[Time]) -> None:
    """Count what each waits for, and list what waits for it."""
    for op in graph.ops:
        op.pending = len(op.after) + 1
        op.segment.followers.append(op)
        for other in op.after:
            other.followers.append(op)
    for segment in graph.segments:
        segment.pending = len(segment.waits) + (segment.before is not None)
        if segment.before is not None:
            segment.before.followers.append(segment)
        for other in segment.waits:
            other.followers.append(segment)


def _begin(segment: Segment[Time]) -> Sequence[Op[Time] | Segment[Time]]:
    before = segment.before
    if before is not None:
        times: list[Time] = [before.start_ns + before.length_ns]
        segment.start_ns = latest(times + [op.end_ns for op in segment.waits])
    return [segment]


def _start(op: Op[Time]) -> Sequence[Op[Time] | Segment[Time]]:
    """Start an operation; return all operations whose end is known by that."""
    times: list[Time] = [op.launched_ns + LATENCY_NS]
    op.start_ns = latest(times + [other.end_ns for other in op.after])
    if op.call is not None:
        return op.call.started(op)
    op.end(op.start_ns + op.dur_ns)
    return [op]


def latest(times: Sequence[Time]) -> Time:
    """The largest of some times, for each rank."""
    if isinstance(times[0], int):
        return max(times)  # numpy takes twenty times as long for single numbers
    return functools.reduce(np.maximum, times)
