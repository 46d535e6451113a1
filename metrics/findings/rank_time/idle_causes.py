"""Idle times of devices, the launch of the work that ends each, and their division by cause."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.compiled import available
from ccltui.metrics.arrays.intervals import Intervals, union
from ccltui.metrics.facts import fact
from ccltui.metrics.findings.causes.activity import RULES, HostWork
from ccltui.metrics.model.rank_steps import NOT_LAUNCHED
from ccltui.metrics.unavailable import refuse
from ccltui.parsers.array_types import I32, I64, Bool

if TYPE_CHECKING:
    from ccltui.metrics.view.rank_view import RankView

BETWEEN_KERNELS_NS: Final = 10_000
"""Longest gap, before work that was launched in time, that counts as changeover of the device."""

LATE_START_NS: Final = 1_000_000
"""From this time on a launch that has begun is no mere latency: kernels start 5 to 20 us after it
in recorded jobs, copies of pageable memory within 0.3 ms. Either the host is still inside the call
(the first launch of a kernel loads its code), or the work waits for another stream."""

CAUSES: Final = (
    *(rule.cause for rule in RULES),  # what the host does by the names of events; first come first
    "operators",  # inside any other operator of the framework
    "between_markers",  # outside of the markers of steps, in nothing that was recorded
    "host_other",  # the host was late, inside a step in nothing that was recorded
    "launch_latency",  # from the launch to the start on the device
    "launch_call",  # in one long call that launches
    "between_kernels",
    # Launched while the device was busy, or the call returned `LATE_START_NS` ago, and yet not
    # started: it waits for another stream, or for an event.
    "dependency",
    "unknown",  # no launch record
)
HOST_CAUSES: Final = CAUSES[: CAUSES.index("launch_latency")]
_OF_GAPS: Final = ("launch_call", "launch_latency", "between_kernels", "dependency", "unknown")
"""Causes that a gap and its launch alone tell, as `_passes.idle_by_cause` numbers them."""


class Gaps(Struct, frozen=True):
    """Idle times of one rank in its windows; int64 arrays of one length.

    Attributes:
        start_ns: end of the work before the gap, also where a window cuts the gap.
        end_ns: start of the work after the gap, also where a window cuts the gap.
        launched_ns: launch time of the work after the gap, NOT_LAUNCHED where none is recorded; the
            latest launch where several pieces of work start together.
        returned_ns: end of the call that launched it, NOT_LAUNCHED likewise.
        inside_ns: length of the part inside the window.
    """

    start_ns: I64
    end_ns: I64
    launched_ns: I64
    returned_ns: I64
    inside_ns: I64

    def __len__(self) -> int:
        return len(self.start_ns)

    @property
    def known(self) -> Bool:
        """Mask of the gaps after which the work has a launch record."""
        return np.asarray(self.launched_ns != NOT_LAUNCHED)

    @property
    def host_late(self) -> Bool:
        """Mask of the gaps that began before the work after them was launched."""
        return np.asarray(self.known & (self.launched_ns > self.start_ns))


def require_launches(ranks: Sequence[RankView]) -> None:
    """Refuse where no device work of any rank has a launch record.

    Raises:
        Refusal: correlation ids are missing.
    """
    if all((rank.facts.launch_row < 0).all() for rank in ranks):
        raise refuse("not_applicable", "no device work has a launch record (correlation id)")


def idle_gaps(rank: RankView) -> Gaps:
    """Return all idle times in the rank's windows in order of time."""
    return rank.remember(idle_gaps, lambda: gaps_in(rank, rank.windows))


def gaps_in(rank: RankView, windows: Intervals) -> Gaps:
    """Return all idle times of a rank in given windows, on its own clock, in order of time."""
    work, idle = rank.facts.device_work, windows - rank.facts.device_work
    gpu, calls = rank.trace.group("gpu"), rank.trace.group("runtime")
    gaps_of = _compiled if available() else _in_arrays
    found = gaps_of(
        (work.start_ns, work.end_ns),
        (idle.start_ns, idle.end_ns),
        (gpu.start_ns, rank.facts.launch_row),
        (calls.start_ns, calls.dur_ns),
    )
    return Gaps(*found, idle.end_ns - idle.start_ns)


_Times: TypeAlias = tuple[I64, I64]


def _compiled(
    work: _Times, idle: _Times, pieces: tuple[I64, I32], calls: _Times
) -> tuple[I64, I64, I64, I64]:
    """Return start, end, launch and return of the gap around each idle time.

    Compiled code takes an eighth of the time of arrays.

    Args:
        work: starts and ends of device work, disjoint and in order.
        idle: starts and ends of idle times between them.
        pieces: starts of device events in order, and the row of the call that launched each.
        calls: starts and durations of calls that launch.
    """
    from ccltui.metrics.arrays import _passes  # noqa: PLC0415

    # Columns of one value are stored as that value.
    whole = ((np.ascontiguousarray(a), np.ascontiguousarray(b)) for a, b in (pieces, calls))
    found: tuple[I64, I64, I64, I64] = _passes.idle_gaps(work, idle, *whole, NOT_LAUNCHED)
    return found


def _in_arrays(
    work: _Times, idle: _Times, pieces: tuple[I64, I32], calls: _Times
) -> tuple[I64, I64, I64, I64]:
    """Return the result of `_compiled` without compiled code."""
    (work_start, work_end), (idle_start, idle_end), (call_start, call_ns) = work, idle, calls
    after = np.searchsorted(work_end, idle_start, side="right")
    has_before, has_after = after > 0, after < len(work_end)
    start = np.where(has_before, np.append(work_end, 0)[after - 1], idle_start)
    end = np.where(has_after, np.append(work_start, 0)[after], idle_end)
    row = np.where(has_after, _launch_at(pieces, end), -1)
    launched, returned = (
        np.where(row >= 0, np.append(times, 0)[row], NOT_LAUNCHED)
        for times in (call_start, call_start + call_ns)
    )
    return start, end, launched, returned


def _launch_at(pieces: tuple[I64, I32], times_ns: I64) -> I64:
    """Row of the latest launch of the work that starts at each of ascending times, else -1."""
    begun, launched = pieces
    if not len(times_ns):
        return np.empty(0, np.int64)
    first = np.searchsorted(begun, times_ns, side="left")
    stop = np.searchsorted(begun, times_ns, side="right")
    padded = np.append(launched, -1)  # reduceat needs every edge to be an index
    latest = np.maximum.reduceat(padded, np.stack([first, stop], axis=1).ravel())[::2]
    return np.where(stop > first, latest, -1)


class CauseTime(Struct, frozen=True):
    """Idle time of one cause: all of it, and start and length of the longest piece, in ns."""

    total_ns: int
    longest_at_ns: int
    longest_ns: int


class GapCounts(Struct, frozen=True):
    """Idle gaps of a rank: all, those with a launch record, and those whose launch was late."""

    number: int
    known: int
    known_ns: int
    late: int
    late_ns: int


class RankIdle(Struct, frozen=True):
    """Idle time of one rank in its windows.

    Attributes:
        gaps: how many idle times there are.
        causes: all of it by cause.
        steps: ids of the measured steps.
        step_ns: that of each cause with any in each of these steps, int64 ns.
    """

    gaps: GapCounts
    causes: Mapping[str, CauseTime]
    steps: tuple[int, ...]
    step_ns: Mapping[str, I64]

    @property
    def waiting_ns(self) -> Mapping[int, int]:
        """Idle time of the cause "dependency" in each step, by step id."""
        found = self.step_ns.get("dependency")
        return dict.fromkeys(self.steps, 0) | (
            {} if found is None else dict(zip(self.steps, found.tolist(), strict=True))
        )

    def inside(self, cause: str, steps: Collection[int]) -> int:
        """Return the idle time of one cause in some of the steps, in ns."""
        found = self.step_ns.get(cause)
        return 0 if found is None else int(found[np.isin(self.steps, list(steps))].sum())


def causes_of(rank: RankView) -> Mapping[str, CauseTime]:
    """Return the idle time of one rank in its windows by cause; the sum is all of it."""
    return idle_of(rank).causes


def idle_of(rank: RankView) -> RankIdle:
    """Return the idle time of one rank in its windows."""
    return rank.sum_up(idle_of, lambda: _idle_of(rank))


@fact("idle_causes")
def _idle_of(rank: RankView) -> RankIdle:
    steps = [row for row in rank.step_windows if row[0] >= 0]
    is_disjoint = all(before[2] <= after[1] for before, after in pairwise(steps))
    return _summed(rank, steps) if available() and is_disjoint else _summed_in_arrays(rank)


def _summed(rank: RankView, steps: Sequence[tuple[int, int, int]]) -> RankIdle:
    """Return the result of `_summed_in_arrays` in two compiled passes: a tenth of the time.

    Args:
        rank: The rank.
        steps: Id, start and end of each measured step; they are disjoint.
    """
    from ccltui.metrics.arrays import _passes  # noqa: PLC0415

    facts, idle = rank.facts, rank.windows - rank.facts.device_work
    gpu, calls = rank.trace.group("gpu"), rank.trace.group("runtime")
    _, start, end = np.array(steps, np.int64).reshape(-1, 3).T.copy()
    # Columns of one value are stored as that value.
    pieces = np.ascontiguousarray(gpu.start_ns), np.ascontiguousarray(facts.launch_row)
    launches = np.ascontiguousarray(calls.start_ns), np.ascontiguousarray(calls.dur_ns)
    limits = NOT_LAUNCHED, BETWEEN_KERNELS_NS, LATE_START_NS
    every, work = (idle.start_ns, idle.end_ns), facts.device_work
    of_gaps, gap_steps, before, counts = _passes.idle_by_cause(
        every, (work.start_ns, work.end_ns), pieces, launches, (start, end), *limits
    )
    sets: dict[str, Intervals] = {}
    markers = Intervals.empty()
    if len(before[0]):
        activities = {**HostWork.of(facts).activities, "operators": facts.in_operators}
        sets = {cause: times for cause, times in activities.items() if len(times)}
        markers = facts.in_markers if rank.by_steps else markers
    of_host, host_steps = _passes.split_by_sets(
        before,
        [(one.start_ns, one.end_ns) for one in sets.values()],
        (markers.start_ns, markers.end_ns),
        (start, end),
    )
    inside = (
        ("host_other", "between_markers") if rank.by_steps else ("between_markers", "host_other")
    )
    found = dict(
        zip((*_OF_GAPS, *sets, *inside), (*of_gaps.tolist(), *of_host.tolist()), strict=True)
    )
    by_step = dict(zip(found, (*gap_steps, *host_steps), strict=True))
    none = (0, 0, 0, 0)
    return RankIdle(
        GapCounts(len(idle), *counts.tolist()),
        {cause: CauseTime(*found.get(cause, none)[1:]) for cause in CAUSES},
        tuple(step for step, _, _ in steps),
        {cause: by_step[cause] for cause in CAUSES if found.get(cause, none)[0]},
    )


def _summed_in_arrays(rank: RankView) -> RankIdle:
    """Return how long a rank is idle by cause."""
    gaps = idle_gaps(rank)
    times = idle_times(rank, gaps, rank.windows)
    known, late = np.flatnonzero(gaps.known), np.flatnonzero(gaps.host_late)
    known_ns, late_ns = (int(gaps.inside_ns.take(rows).sum()) for rows in (known, late))
    by_step = {
        cause: np.array([*rank.covered_by_step(one).values()], np.int64)
        for cause, one in times.items()
        if len(one)
    }
    return RankIdle(
        GapCounts(len(gaps), len(known), known_ns, len(late), late_ns),
        {cause: _cause_time(one) for cause, one in times.items()},
        tuple(rank.covered_by_step(Intervals.empty())),
        by_step,
    )


def _cause_time(times: Intervals) -> CauseTime:
    length = times.end_ns - times.start_ns
    if not len(length):
        return CauseTime(0, 0, 0)
    at = int(length.argmax())
    return CauseTime(int(length.sum()), int(times.start_ns[at]), int(length[at]))


def all_idle_times(rank: RankView) -> dict[str, Intervals]:
    """Return the idle times of a rank from its first to its last device work, by cause.

    Unlike `causes_of` also outside of what is measured: between steps, say.
    """
    extent = rank.facts.extent
    return idle_times(rank, gaps_in(rank, extent), extent)


def idle_times(rank: RankView, gaps: Gaps, windows: Intervals) -> dict[str, Intervals]:
    """Return when a rank was idle in windows for each of `CAUSES`, on its own clock.

    The times of two causes are disjoint; together they are all idle time.

    Args:
        rank: The rank.
        gaps: Its idle times in the windows.
        windows: Times on its own clock.
    """
    idle = windows - rank.facts.device_work
    known = gaps.known
    is_late = known & (gaps.launched_ns > gaps.start_ns)
    in_time = known & ~is_late
    short = in_time & (gaps.end_ns - gaps.start_ns <= BETWEEN_KERNELS_NS)
    late = np.flatnonzero(is_late)
    launches = _Launches.of(gaps, late)
    found = dict.fromkeys(CAUSES, Intervals.empty())
    rest = launches.before & windows
    in_call, queued = launches.in_call & windows, launches.queued & windows
    found["launch_call"] = in_call
    found["launch_latency"] = _some(idle, late) - rest - in_call - queued
    found["between_kernels"] = _some(idle, np.flatnonzero(short))
    found["dependency"] = _some(idle, np.flatnonzero(in_time & ~short)) | queued
    found["unknown"] = _some(idle, np.flatnonzero(~known))
    if len(rest):
        for cause, part in HostWork.of(rank.facts).activities.items():
            found[cause], rest = rest & part, rest - part
    if len(rest):
        part = rank.facts.in_operators
        found["operators"], rest = rest & part, rest - part
    found["host_other"] = rest
    if len(rest) and rank.by_steps:
        found["host_other"] = rest & rank.facts.in_markers
        found["between_markers"] = rest - rank.facts.in_markers
    return found


def _some(idle: Intervals, chosen: I64) -> Intervals:
    """Some of the gaps; a part of sorted and disjoint intervals is sorted and disjoint."""
    return Intervals(idle.start_ns.take(chosen), idle.end_ns.take(chosen))


class _Launches(NamedTuple):
    """Times in gaps that began before the work after them was launched.

    Attributes:
        before: before the launch.
        in_call: inside of long calls that launch.
        queued: long time from such a call to the start of the work.
    """

    before: Intervals
    in_call: Intervals
    queued: Intervals

    @classmethod
    def of(cls, gaps: Gaps, late: I64) -> _Launches:
        """Return the times of some gaps."""
        start, end = gaps.start_ns.take(late), gaps.end_ns.take(late)
        launched = np.minimum(gaps.launched_ns.take(late), end)
        returned = np.minimum(np.maximum(gaps.returned_ns.take(late), launched), end)
        in_call = np.flatnonzero(returned - launched >= LATE_START_NS)
        queued = np.flatnonzero(end - returned >= LATE_START_NS)
        return cls(  # a gap that windows cut is there several times
            union(start, launched),
            union(launched.take(in_call), returned.take(in_call)),
            union(returned.take(queued), end.take(queued)),
        )
