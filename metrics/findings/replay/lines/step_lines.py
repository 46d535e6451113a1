"""Divide the device time of one rank into steps: its kernels in order, and its calls among them.

The kernels of a step form a line. A position on it is a number of kernels: a call is posted after
the first ``posted`` of them, and kernel ``resumed`` is the first that begins after its end. Ranks
that run one program have the same positions, whatever their speed and their clock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.reductions import (
    distinct_values,
    extremes_by,
    joint_inverse,
    places_among,
)
from ccltui.metrics.collectives.matching.match import RECV, SEND
from ccltui.metrics.model.calls import ROUNDING_NS, SOON_NS, Calls, streams_of
from ccltui.metrics.model.classify import COMM, MEM
from ccltui.metrics.model.rank_facts import RankFacts
from ccltui.metrics.model.rank_steps import (
    OUTSIDE,
    launch_rows,
    launch_times,
    launched_before_recording,
)
from ccltui.parsers.array_types import I8, I32, I64, Bool

if TYPE_CHECKING:
    pass

LEAST: Final = 3
"""Occurrences of a call from which their distance is a period: two whole steps lie between."""
LEAST_SPAN: Final = 0.5
"""Share of the time of all calls that the steps must span: a burst of equal calls is no period."""


SAME_NUMBERS: Final = 0.8
"""Share of the numbers of kernels that must come again after a period: single steps have more."""


def implied_steps(calls: Sequence[Calls], starts: Sequence[I64]) -> list[I64] | None:
    """Return the rows of the calls that end the steps of each rank; None without a period.

    All ranks have the same number. A rank without calls makes it None.

    Args:
        calls: the collectives of each rank.
        starts: begins of the other kernels of each rank, int64 ns, ascending.
    """
    found = [_periodic(one) for one in calls]
    counts = set.intersection(*(set(one) for one in found)) if found else set()
    if not counts:
        return None
    count = min(counts)
    rows = [one[count] for one in found]
    between = [
        np.diff(np.searchsorted(start, one.end_ns[ends]))
        for one, ends, start in zip(calls, rows, starts, strict=True)
    ]
    period = _period(between)
    if period == 1:
        return rows
    # The call behind which most kernels begin ends a step: a forward pass follows.
    following = np.sum(between, axis=0)
    whole = len(following) // period * period
    phase = int(following[:whole].reshape(-1, period).sum(axis=0).argmax())
    return [one[phase::period] for one in rows]


def _period(between: Sequence[I64]) -> int:
    """Return after how many calls the numbers of kernels between them come again on all ranks."""
    most = len(between[0]) // (LEAST - 1)
    for period in range(1, most + 1):
        if all((one[period:] == one[:-period]).mean() >= SAME_NUMBERS for one in between):
            return period
    return 1


def _periodic(calls: Calls) -> dict[int, I64]:
    """By number of occurrences, the rows of the last call in a step that has a period."""
    columns = (calls.kind, calls.group, calls.message_bytes, calls.src, calls.dst)
    _, token = joint_inverse(*(column.astype(np.int64) for column in columns))
    found: dict[int, I64] = {}
    whole = calls.start_ns[-1] - calls.start_ns[0] if len(calls) else 0
    order = np.argsort(token, kind="stable")
    edges = np.flatnonzero(np.diff(token[order], prepend=-1, append=-1))
    for begin, stop in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        rows = order[begin:stop]
        if len(rows) < LEAST or len(set(np.diff(rows).tolist())) > 1:
            continue
        if calls.start_ns[rows[-1]] - calls.start_ns[rows[0]] < LEAST_SPAN * whole:
            continue
        known = found.get(len(rows))
        if known is None or rows[0] > known[0]:
            found[len(rows)] = rows
    return found


MAIN_STREAM_SHARE: Final = 0.8
"""Share of the kernel time in one stream from which that stream alone is the line of the program;
copies and preparations on side streams then begin at any position."""
LONG_GAP_NS: Final = 50_000
"""An idle time of this length, most of it inside a call, is a wait for that call even where the
kernel behind it was launched afterwards: the host waited."""
KERNEL_SHARE: Final = 0.01
"""Share of a kernel by which a call without a launch record may begin before its end, or end after
its begin, and still lie behind it, or before it: times of some sources are rounded more coarsely
than those of a profiler. A larger share mistakes calls that run beside a kernel for its neighbours
(an eighth loses heavy stages)."""
IDLE_OVERLAPS: Final = 2
"""So many times as long as a kernel overlaps a call that it waited for, the device idled before."""
QUEUED_NS: Final = 20_000
"""A call that begins this soon after the end of the one before it on its stream was queued."""
CHAINED_NS: Final = 5_000
"""A call that begins this soon after the end of one on another stream waited for it."""
_NEVER: Final = np.iinfo(np.int64).min
_NONE: Final = np.iinfo(np.int64).max

IN_FORWARD, IN_BACKWARD, IN_OPTIMIZER = 1, 2, 3
"""Labels of kernels; 0 where it is not known."""


class Kernels(NamedTuple):
    """The kernels of one rank on its line: times are int64 ns on the rank's own clock.

    ``reach_ns`` is the latest end so far, ``busy_ns`` and ``gap_ns`` are sums of busy and idle time
    before each kernel, with one entry more than kernels.
    """

    start_ns: I64
    reach_ns: I64
    busy_ns: I64
    gap_ns: I64


def kernels_at(facts: RankFacts, rows: I32 | I64) -> Kernels:
    """Return the kernels in rows of ``gpu``, ascending."""
    gpu = facts.trace.group("gpu")
    start = gpu.start_ns.take(rows)
    reach = np.maximum.accumulate(start + gpu.dur_ns.take(rows))
    gap_ns = np.zeros(len(start) + 1, np.int64)
    idle = start[1:] - reach[:-1]
    np.cumsum(np.maximum(idle, 0, out=idle), out=gap_ns[2:])
    # What is not idle since the first start is busy.
    busy_ns = np.zeros(len(start) + 1, np.int64)
    np.subtract(reach - start[:1], gap_ns[1:], out=busy_ns[1:])
    return Kernels(start, reach, busy_ns, gap_ns)


class StepLines(Struct, frozen=True):
    """The steps of one rank as lines of kernels; times are int64 ns on the rank's own clock.

    ``gpu_row`` is by kernel. ``steps``, ``first``, ``stop`` (kernels of each line), ``origin_ns``
    (end of the step before, of the first its own start), ``end_ns``, ``begun_ns`` (begin of the
    first kernel, the largest int64 for none) and ``num_calls`` are by line.
    """

    gpu_row: I32
    steps: I64
    first: I64
    stop: I64
    origin_ns: I64
    end_ns: I64
    begun_ns: I64
    num_calls: I64

    @classmethod
    def empty(cls) -> StepLines:
        """No step: a rank that cannot be compared."""
        none = np.empty(0, np.int64)
        return cls(np.empty(0, np.int32), *(none,) * 7)


class StepCalls(Struct, frozen=True):
    """The calls of one rank in its lines.

    By call its ``row`` in the rank's `Calls`, its ``line``, its positions on it, whether the device
    ``waited`` for it and whether its launch is recorded (``launched``), its start from the origin
    of its line, its duration, and the call before it on its stream, or at whose end it began (-1
    for none in the same step).
    """

    row: I64
    line: I64
    posted: I64
    resumed: I64
    waited: Bool
    launched: Bool
    start_ns: I64
    dur_ns: I64
    behind: I64


class LineTimes:
    """Times along the lines of all ranks, by line and position.

    The kernels of a rank are looked up where they are needed: those of all take as much memory as
    their calls.
    """

    def __init__(
        self, ranks: Sequence[StepLines], rank: I64, kernels_of: Callable[[int], Kernels]
    ) -> None:
        self.ranks, self.rank, self._kernels_of = ranks, rank, kernels_of
        sizes = [len(one.steps) for one in ranks]
        self.place = np.concatenate([np.arange(count) for count in sizes])
        self.first = np.concatenate([one.first for one in ranks])
        self.size = np.concatenate([one.stop - one.first for one in ranks])
        self.origin = np.concatenate([one.origin_ns for one in ranks])
        self._last: tuple[int, Kernels] | None = None

    def kernels(self, rank: int) -> Kernels:
        """Return the kernels of a rank (an index); the last ones are kept."""
        if self._last is None or self._last[0] != rank:
            self._last = rank, self._kernels_of(rank)
        return self._last[1]

    def begun(self) -> I64:
        """Start of the first kernel of each line from its origin, the largest int64 for none."""
        begun = np.concatenate([one.begun_ns for one in self.ranks])
        return np.where(begun < _NONE, begun - self.origin, begun)

    def along(self, line: I64, at: I32 | I64) -> tuple[I64, I64, I64, I64]:
        """By operation: end of the work before it, start of the kernel at it, idle sums.

        Times are from the origin of the line; the sums are of idle time before the kernel and
        through it. Where no kernel follows, its start is the largest int64.
        """
        before, start = np.zeros(len(at), np.int64), np.full(len(at), _NONE)
        idle, through = np.zeros(len(at), np.int64), np.zeros(len(at), np.int64)
        edges = np.searchsorted(self.rank[line], np.arange(len(self.ranks) + 1)).tolist()
        for rank in distinct_values(self.rank[line]).tolist():
            here, one = slice(edges[rank], edges[rank + 1]), self.kernels(rank)
            lines = line[here]
            place, origin = self.first[lines] + at[here], self.origin[lines]
            if not len(one.start_ns):
                continue
            inner = at[here] > 0
            before[here] = np.where(inner, one.reach_ns[np.maximum(place - 1, 0)] - origin, 0)
            held = at[here] < self.size[lines]
            next_start = one.start_ns[np.minimum(place, len(one.start_ns) - 1)] - origin
            start[here] = np.where(held, next_start, start[here])
            idle[here] = one.gap_ns[place]
            through[here] = one.gap_ns[np.minimum(place + 1, len(one.gap_ns) - 1)]
        return before, start, idle, through


class Implied(NamedTuple):
    """Steps of a rank that no marker divides.

    Attributes:
        ends: rows of the calls that end them: the lines lie between.
        line: the line of each call; outside of all lines it is below 0 or beyond the last.
    """

    ends: I64
    line: I64


def step_lines(
    facts: RankFacts,
    calls: Calls,
    chosen: frozenset[int] | None,
    implied: Implied | None = None,
    rounding_ns: int = 0,
) -> tuple[StepLines, StepCalls]:
    """Return the lines of a rank, and its calls in them.

    Args:
        facts: the rank.
        calls: its collectives.
        chosen: ids of the marked steps; None gives one line of everything with step id -1.
        implied: the steps where none are marked.
        rounding_ns: a call without a launch record and a kernel may be recorded apart by this
            much.
    """
    rows = main_rows(facts)
    start, reach, _, gap_ns = kernels_at(facts, rows)
    if implied is None:
        steps, first, stop, kept, line = _shared_division(facts, calls, rows, chosen)
    else:
        steps, first, stop, kept, line = _between(calls, start, implied)
    call_start, call_end = calls.start_ns[kept], calls.end_ns[kept]
    after = places_among(reach, call_start + ROUNDING_NS, side="right")
    resumed = places_among(start, call_end - ROUNDING_NS)
    is_send, is_transfer, launched, behind = _shared_columns(facts, calls, kept, line)
    unlaunched = np.flatnonzero(~launched)
    if rounding_ns > ROUNDING_NS and len(unlaunched):
        times = call_start[unlaunched], call_end[unlaunched]
        places = after[unlaunched], resumed[unlaunched]
        end = start + facts.trace.group("gpu").dur_ns.take(rows)
        after[unlaunched], resumed[unlaunched] = _nearest_edges(
            (start, end, gap_ns), times, places, rounding_ns
        )
    ends_at = call_start, call_end, resumed
    waited = _waited(facts, rows, (start, reach), ends_at, (is_send, is_transfer))
    size = stop - first
    origin, ended = _extents(steps, (start, reach), (first, stop), line, (call_start, call_end))
    behind = _chained(behind, line, call_start, call_end, is_transfer)
    kept_by = call_end[behind]
    queued = np.flatnonzero((behind >= 0) & (np.abs(call_start - kept_by) <= QUEUED_NS))
    if len(queued):
        launches = _launched_before(facts, calls, rows, kept[queued])
        after[queued] = np.minimum(after[queued], launches)
    lines = StepLines(
        gpu_row=facts.alike("rows_of_lines", (rows,), lambda: rows.astype(np.int32)),
        steps=steps,
        first=first,
        stop=stop,
        origin_ns=origin,
        end_ns=ended,
        begun_ns=np.where(size > 0, np.append(start, _NONE)[first], _NONE),
        num_calls=np.bincount(line, minlength=len(steps)),
    )
    return lines, StepCalls(
        row=kept,
        line=line,
        posted=np.clip(after - first[line], 0, size[line]),
        resumed=np.clip(resumed - first[line], 0, size[line]),
        waited=waited,
        launched=launched,
        start_ns=call_start - origin[line],
        dur_ns=call_end - call_start,
        behind=behind,
    )


def _shared_columns(
    facts: RankFacts, calls: Calls, kept: I64, line: I64
) -> tuple[Bool, Bool, Bool, I64]:
    """Return which calls are sends, transfers and launched, and the call before each (`_behind`).

    They are found once for ranks that do the same work in the same order.
    """
    gpu, on_device = facts.trace.group("gpu"), calls.event_group == "gpu"
    start = calls.start_ns
    streams = tuple(track.stream for track in facts.trace.tracks)

    def make() -> tuple[Bool, Bool, Bool, I64]:
        stream, kernel = streams_of(facts.trace, calls)[kept], calls.rows.numbers[kept]
        return (
            calls.kind[kept] == SEND,
            _is_transfer(calls)[kept],
            _has_launch(facts, calls)[kept],
            _behind(stream, line, start[kept], kernel),
        )

    if not on_device or facts.work.uncorrelated.any() or (start[1:] < start[:-1]).any():
        return make()
    columns = gpu.track, calls.kind, calls.rows.numbers, kept, line
    return facts.alike(("calls_of_lines", streams), columns, make)


def _has_launch(facts: RankFacts, calls: Calls) -> Bool:
    """Mask of the calls of which the launch is recorded."""
    if calls.event_group != "gpu":
        return np.zeros(len(calls), np.bool_)
    return np.asarray(~facts.work.uncorrelated.take(calls.rows.of("gpu")))


def _nearest_edges(
    kernels: tuple[I64, I64, I64],
    times: tuple[I64, I64],
    places: tuple[I64, I64],
    rounding_ns: int,
) -> tuple[I64, I64]:
    """Move the positions of calls over kernels that they overlap by an error of the times alone.

    A kernel that began before the end of a call waited for it only if the device idled before: a
    call that was posted ahead may end beside any kernel.
    """
    (start, end, gap_ns), (call_start, call_end), (after, resumed) = kernels, times, places
    count = len(start)
    if not count:
        return after, resumed
    most = np.minimum(rounding_ns, KERNEL_SHARE * (end - start))
    running = np.minimum(after, count - 1)
    ends_here = (after < count) & (end[running] - call_start <= most[running])
    ends_here &= start[running] < call_start
    begun = np.maximum(resumed - 1, 0)
    overlap = call_end - start[begun]
    begins_here = (resumed > 0) & (overlap <= most[begun]) & (end[begun] > call_end)
    idled = gap_ns[begun + 1] - gap_ns[begun] >= IDLE_OVERLAPS * overlap
    begins_here &= idled | (begun == 0)  # nothing is recorded before the first kernel
    return after + ends_here, resumed - begins_here


def begun_too_early(facts: RankFacts, calls: Calls) -> I64:
    """Return how long before the end of a kernel sends without a launch record began, int64 ns.

    Of those that began while a kernel ran. A send follows the pass that feeds it, so that short
    times are errors of the source: where most are short, the others may be told apart from them.
    """
    rows = np.flatnonzero(calls.kind == SEND)
    if len(rows):
        rows = rows[~_has_launch(facts, calls)[rows]]
    lines = main_rows(facts) if len(rows) else rows
    if not len(lines):
        return np.empty(0, np.int64)
    gpu = facts.trace.group("gpu")
    start, length = gpu.start_ns.take(lines), gpu.dur_ns.take(lines)
    begun = calls.start_ns[rows]
    running = np.searchsorted(start, begun, side="left") - 1
    begun, running = begun[running >= 0], running[running >= 0]
    left = start[running] + length[running] - begun
    inside = left > ROUNDING_NS
    is_short = left <= KERNEL_SHARE * length[running]
    if 2 * int((inside & is_short).sum()) < int(inside.sum()):
        return np.empty(0, np.int64)
    return np.asarray(left[inside & is_short])


def kernel_starts(facts: RankFacts) -> I64:
    """Return the begins of the kernels on the line of a rank, int64 ns, ascending."""
    return facts.trace.group("gpu").start_ns.take(main_rows(facts))


def main_rows(facts: RankFacts) -> I64:
    """Return the rows of ``gpu`` on the line: work of the main stream, or all where none is main.

    Copies on other streams are no reason to take all: a copy engine works beside the kernels.
    """
    gpu, classes = facts.trace.group("gpu"), facts.classes
    columns = classes, gpu.track
    work = facts.alike("work", columns, lambda: _Work.of(*columns))
    rows, track, is_copy = work.rows, work.track, work.is_copy
    if work.is_on_one_track:
        return rows
    weight = np.bincount(track, weights=np.where(is_copy, 0, gpu.dur_ns.take(rows)))
    main = int(weight.argmax())
    is_main = weight[main] > 0 and weight[main] >= MAIN_STREAM_SHARE * weight.sum()
    if not is_main:
        return rows
    return facts.alike(("main_rows", main), (rows, track), lambda: rows[track == main])


class _Work(NamedTuple):
    """Rows of work that is in no collective, the track of each, and which of it is copies."""

    rows: I64
    track: I32
    is_copy: Bool
    is_on_one_track: bool

    @classmethod
    def of(cls, classes: I8, tracks: I32) -> _Work:
        """Return it from the class and the track of all rows of ``gpu``."""
        rows = np.flatnonzero(classes != COMM)
        track = np.maximum(tracks.take(rows), 0)
        return cls(rows, track, classes.take(rows) == MEM, bool((track == track[:1]).all()))


class _Division(NamedTuple):
    """Step id, first and last kernel of each line; row and line of each call in a line."""

    steps: I64
    first: I64
    stop: I64
    kept: I64
    line: I64

    @classmethod
    def of(cls, steps: I64, first: I64, stop: I64, call_line: I64) -> _Division:
        """The same from the line of every call, -1 for none."""
        kept = np.flatnonzero(call_line >= 0)
        return cls(steps, first, stop, kept, call_line[kept])


def _shared_division(
    facts: RankFacts, calls: Calls, rows: I64, chosen: frozenset[int] | None
) -> _Division:
    """Return `_divided`, found once for ranks whose work and calls are in the same steps."""
    work = facts.work
    if work.uncorrelated.any():  # then the times tell more
        return _divided(facts, calls, rows, chosen)
    name = "division", tuple(step.id for step in work.steps)
    columns = work.index, rows, calls.step, chosen
    return facts.alike(name, columns, lambda: _divided(facts, calls, rows, chosen))


def _divided(facts: RankFacts, calls: Calls, rows: I64, chosen: frozenset[int] | None) -> _Division:
    """Divide a rank by its steps.

    Work that was launched before the recording began is of an earlier step and in no line: it
    would double the length of the first one.
    """
    if chosen is None or not facts.work.steps:
        one, whole = np.array([-1], np.int64), np.array([len(rows)])
        return _Division.of(one, np.array([0]), whole, np.zeros(len(calls), np.int64))
    work, gpu = facts.work, facts.trace.group("gpu")
    earlier = launched_before_recording(gpu, work.uncorrelated)
    index = work.index.take(rows)
    if earlier.any():
        index[earlier.take(rows)] = OUTSIDE
    edges = np.flatnonzero(np.diff(index, prepend=-2, append=-2))
    run = index[edges[:-1]] if len(index) else index
    steps, first, stop = [], [], []
    for number, step in enumerate(facts.work.steps):
        mine = np.flatnonzero(run == number)
        if step.id in chosen and len(mine):
            steps.append(step.id)
            first.append(int(edges[mine[0]]))
            stop.append(int(edges[mine[-1] + 1]))
    found = np.array(steps, np.int64)
    lowest = np.maximum(np.array(first, np.int64), np.concatenate(([0], stop[:-1]))[: len(first)])
    order = np.argsort(found, kind="stable")
    place = places_among(found[order], calls.step)
    known = np.append(found[order], -2)[place] == calls.step
    line = np.where(known, np.append(order, -1)[place], -1)
    if calls.event_group == "gpu" and earlier.any():
        line[earlier.take(calls.rows.of("gpu"))] = -1
    return _Division.of(found, lowest.astype(np.int64), np.array(stop, np.int64), line)


def calls_between(calls: Calls, ends: I64) -> I64:
    """Return in which step each call begins, -1 before the first, where some calls end the steps.

    Args:
        calls: the calls of a rank.
        ends: rows of the calls that end the steps.
    """
    return np.asarray(np.searchsorted(ends, np.arange(len(calls)), side="left") - 1)


def _between(calls: Calls, start: I64, implied: Implied) -> _Division:
    """The same as `_divided` for steps that lie between the ends of calls."""
    ends, line = implied
    cuts = np.searchsorted(start, calls.end_ns[ends] - ROUNDING_NS, side="left")
    line = np.where((line >= 0) & (line < len(ends) - 1), line, -1)
    return _Division.of(np.arange(len(ends) - 1), cuts[:-1], cuts[1:], line)


def _waited(
    facts: RankFacts,
    rows: I64,
    kernels: tuple[I64, I64],
    calls: tuple[I64, I64, I64],
    kinds: tuple[Bool, Bool],
) -> Bool:
    """Whether the device idled at the end of each call, and continued because of it."""
    (start, reach), (call_start, call_end, resumed) = kernels, calls
    is_send, is_transfer = kinds
    if not len(start) or not len(call_end):
        return np.zeros(len(call_end), np.bool_)
    idle_from = np.concatenate((start[:1], reach)).take(resumed)
    until = np.append(start, _NONE).take(resumed)
    inside = (resumed < len(start)) & (call_end > idle_from)
    length = until - idle_from
    covered = call_end - np.maximum(idle_from, call_start)
    candidate = inside & (length >= LONG_GAP_NS) & (2 * covered >= length)  # the host waits
    soon = np.flatnonzero(inside & ~candidate & (until - call_end <= LONG_GAP_NS))
    if len(soon):
        # Launches are looked up only of the kernels behind these calls.
        launched = _launched(facts, rows.take(resumed.take(soon)))
        wait, ends = until.take(soon) - call_end.take(soon), call_end.take(soon)
        candidate[soon] = np.where(launched == _NEVER, wait <= SOON_NS, launched <= ends)
    # Of the calls that end in one idle time the last ends it, and those behind which another
    # begins at once, as nothing but the first can have kept the other. Of what begins behind a send
    # only collectives count: transfers of a pipeline that runs evenly begin and end together.
    if candidate.any():
        # Only places of calls are read: nothing is filled.
        latest = np.empty(len(start) + 1, np.int64)
        latest[resumed] = _NEVER
        by_end = np.argsort(call_end, kind="stable")
        by_end = by_end.compress(inside.take(by_end))
        latest[resumed.take(by_end)] = call_end.take(by_end)  # of equal indices the last is kept
        candidate &= call_end >= latest[resumed]
    next_start = _next_start(call_start, call_end)
    if is_send.any():
        behind_sends = _next_start(call_start[~is_transfer], call_end)
        next_start = np.where(is_send, behind_sends, next_start)
    chained = inside & (next_start - call_end <= SOON_NS) & (next_start < until)
    return np.asarray(candidate | chained)


def _next_start(starts: I64, ends: I64) -> I64:
    """Return the first start at or after each end, the highest int64 for none."""
    ordered = np.sort(starts, kind="stable")  # nearly always ascending already
    following = places_among(ordered, ends)
    return np.append(ordered, np.iinfo(np.int64).max)[following]


def _launched(facts: RankFacts, rows: I64) -> I64:
    """Launch times of some rows of ``gpu``, the lowest int64 where unknown."""
    if "launched_ns" in facts.__dict__:
        return facts.launched_ns.take(rows)
    return launch_times(facts.trace, launch_rows(facts.trace, rows))


def _launched_before(facts: RankFacts, calls: Calls, rows: I64, kept: I64) -> I64:
    """Number of kernels launched before each call, the most that it can depend on."""
    launched = facts.launched_ns
    own = (
        launched.take(calls.rows.of("gpu")[kept])
        if calls.event_group == "gpu"
        else np.full(len(kept), _NEVER)
    )
    latest = np.maximum.accumulate(launched.take(rows))
    # One launch of a graph is that of all its kernels and calls, and tells no order among them.
    found = np.searchsorted(latest, own, side="right")
    return np.where(own != _NEVER, found, len(rows))


def _extents(
    steps: I64,
    kernels: tuple[I64, I64],
    ends: tuple[I64, I64],
    line: I64,
    calls: tuple[I64, I64],
) -> tuple[I64, I64]:
    """Return origin and end of each line."""
    (start, reach), (first, stop), (call_start, call_end) = kernels, ends, calls
    count = len(first)
    begin = np.full(count, np.iinfo(np.int64).max)
    end = np.full(count, _NEVER)
    held = stop > first
    begin[held], end[held] = start[first[held]], reach[stop[held] - 1]
    of_line = line.astype(np.int32)
    begin = np.minimum(begin, extremes_by(call_start, of_line, count)[0][:-1])
    end = np.maximum(end, extremes_by(call_end, of_line, count)[1][:-1])
    origin = begin.copy()
    # The line of a step reaches back to the end of the step before, where that is here.
    origin[1:] = np.where(np.diff(steps) == 1, end[:-1], begin[1:])
    return origin, end


def _behind(stream: I64, line: I64, call_start: I64, kernel: I64) -> I64:
    """Return the call before each one on its stream in the same step, -1 for none.

    Two calls of one kernel are both behind the call before it.
    """
    if (stream == stream[:1]).all() and all(
        (np.diff(one) >= 0).all() for one in (line, call_start)
    ):
        order = np.arange(len(line))
    else:
        order = np.lexsort((call_start, stream, line))
    same = np.zeros(len(order), np.bool_)
    same[1:] = (stream[order[1:]] == stream[order[:-1]]) & (line[order[1:]] == line[order[:-1]])
    found = np.full(len(order), -1, np.int64)
    found[order[1:]] = np.where(same[1:] & (stream[order[1:]] >= 0), order[:-1], -1)
    both = np.flatnonzero((found >= 0) & (kernel[found] == kernel))
    found[both] = found[found[both]]
    return found


def _is_transfer(calls: Calls) -> Bool:
    return np.asarray((calls.kind == SEND) | (calls.kind == RECV))


def _chained(behind: I64, line: I64, start: I64, end: I64, is_transfer: Bool) -> I64:
    """Calls before, also on other streams where a collective began at once behind the end of one.

    Ends of transfers and begins of others often coincide in a pipeline that runs evenly.
    """
    order = np.argsort(end, kind="stable")
    if not len(order):
        return behind
    ordered = end.take(order)
    place = places_among(ordered, start + ROUNDING_NS, side="right") - 1
    at_once = start - ordered.take(np.maximum(place, 0)) <= CHAINED_NS
    rows = np.flatnonzero(at_once & (place >= 0) & ~is_transfer)
    found, before = order.take(place.take(rows)), behind.take(rows)
    queued = (before >= 0) & (start.take(rows) - end.take(before) <= QUEUED_NS)
    follows = (start.take(found) < start.take(rows)) & ~queued
    follows &= (line.take(found) == line.take(rows)) & ~is_transfer.take(found)
    chained = behind.copy()
    chained[rows[follows]] = found[follows]
    return chained
