"""Discrete-event core: operations on streams and hosts, and when each starts and ends.

All dependencies are known before any time is computed. An operation starts when its launch has
reached the device, the one before it on its stream has ended, and all that its stream waits for
has ended. A call ends for its members after all of them, its sender, or the member before each,
have started. The host of
a rank runs in segments: a segment begins when the one before it has ended and all device work that
it waits for is done.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct, field

LATENCY_NS = 4_000
"""Time from the launch on the host to the earliest start on the device."""

Meeting = Literal["all", "sender", "previous"]


class Segment:
    """Stretch of host work without waiting for the device."""

    __slots__ = ("before", "followers", "length_ns", "pending", "start_ns", "waits")

    def __init__(self, before: Segment | None, waits: list[Op]) -> None:
        self.before = before
        self.waits = waits
        self.length_ns = 0
        self.start_ns = 0
        self.pending = 0
        self.followers: list[Op | Segment] = []


class Op:
    """Kernel, copy or member of a call on a stream of a rank."""

    __slots__ = (
        "after",
        "backward",
        "call",
        "dur_ns",
        "end_ns",
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

    def __init__(self, rank: int, kind: str, stream: int, dur_ns: int, step: int) -> None:
        self.rank = rank
        self.kind = kind
        self.stream = stream
        self.dur_ns = dur_ns
        self.step = step
        self.backward = False
        self.call: Call | None = None
        self.skew_ns = 0
        self.graph = 0  # number of the replay that launches it, 0 for none
        self.segment: Segment | None = None
        self.launch_ns = 0  # since the beginning of the segment
        self.host_ns = 0  # host time of its operator
        self.after: list[Op] = []
        self.followers: list[Op | Segment] = []
        self.pending = 0
        self.start_ns = self.end_ns = -1

    @property
    def launched_ns(self) -> int:
        """When the host launches it."""
        assert self.segment is not None
        return self.segment.start_ns + self.launch_ns


class Call(Struct):
    """One collective or transfer; ``members`` fill up while programs are recorded."""

    index: int
    operation: str
    ranks: tuple[int, ...]  # members in group order; source and destination of a transfer
    group: tuple[int, ...]  # the process group; of a transfer, that of the pipeline
    label: str  # kind of group: "dp", "tp", "pp", "ep", "world"
    transfer_ns: int
    elements: int
    meeting: Meeting
    step: int
    splits: dict[int, tuple[int, ...]] = field(default_factory=dict)  # sent, by rank
    members: dict[int, Op] = field(default_factory=dict)
    missing: int = 0


class DeadlockError(RuntimeError):
    """Operations wait for each other."""


def evaluate(ops: list[Op], segments: list[Segment]) -> None:
    """Compute start and end of all operations and segments.

    Raises:
        DeadlockError: Some operation can never start.
    """
    _link(ops, segments)
    ready: list[Op | Segment] = [segment for segment in segments if not segment.pending]
    left = len(ops) + len(segments)
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
        stuck = next(op for op in ops if op.end_ns < 0)
        raise DeadlockError(f"{left} operations never end, first {stuck.kind} on {stuck.rank}")


def _link(ops: list[Op], segments: list[Segment]) -> None:
    """Count what each waits for, and list what waits for it."""
    for op in ops:
        assert op.segment is not None
        op.pending = len(op.after) + 1
        op.segment.followers.append(op)
        for other in op.after:
            other.followers.append(op)
        if op.call is not None:
            op.call.missing = len(op.call.ranks)
    for segment in segments:
        segment.pending = len(segment.waits) + (segment.before is not None)
        if segment.before is not None:
            segment.before.followers.append(segment)
        for other in segment.waits:
            other.followers.append(segment)


def _begin(segment: Segment) -> Sequence[Op | Segment]:
    before = segment.before
    began = 0 if before is None else before.start_ns + before.length_ns
    segment.start_ns = max([began, *(op.end_ns for op in segment.waits)])
    return [segment]


def _start(op: Op) -> Sequence[Op | Segment]:
    """Start an operation; return all operations whose end is known by that."""
    op.start_ns = max([op.launched_ns + LATENCY_NS, *(other.end_ns for other in op.after)])
    call = op.call
    if call is None:
        op.end_ns = op.start_ns + op.dur_ns
        return [op]
    if call.meeting != "all":
        return _from_source(call)
    call.missing -= 1
    if call.missing:
        return []
    members = list(call.members.values())
    met_ns = max(member.start_ns for member in members) + call.transfer_ns
    for member in members:
        member.end_ns = met_ns + member.skew_ns
    return members


def _from_source(call: Call) -> list[Op]:
    """Each rank waits for one other, the first or the one before it; sending waits for nobody."""
    ended = []
    for place, rank in enumerate(call.ranks):
        source = call.members[call.ranks[place - 1 if call.meeting == "previous" else 0]]
        member = call.members[rank]
        if min(member.start_ns, source.start_ns) >= 0 and member.end_ns < 0:
            met_ns = max(member.start_ns, source.start_ns) + call.transfer_ns
            member.end_ns = met_ns + member.skew_ns
            ended.append(member)
    return ended
