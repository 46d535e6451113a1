"""Idle times of devices, the launch of the work that ends each, and their division by cause."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.intervals import Intervals, union
from ccltui.metrics.facts import fact
from ccltui.metrics.findings.causes.activity import RULES, HostWork
from ccltui.metrics.model.rank_steps import NOT_LAUNCHED
from ccltui.metrics.unavailable import refuse
from ccltui.parsers.array_types import I64, Bool

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


class Gaps(Struct, frozen=True):
    """Idle times of one rank in its windows; int64 arrays of one length.

    Attributes:
        start_ns: end of the work before the gap, also where a window cuts the gap.
        end_ns: start of the work after the gap, also where a window cuts the gap.
        inside_ns: length of the part inside the window.
        launched_ns: launch time of the work after the gap, NOT_LAUNCHED where none is recorded; the
            latest launch where several pieces of work start together.
        returned_ns: end of the call that launched it, NOT_LAUNCHED likewise.
    """

    start_ns: I64
    end_ns: I64
    inside_ns: I64
    launched_ns: I64
    returned_ns: I64

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
    after = np.searchsorted(work.end_ns, idle.start_ns, side="right")
    has_before, has_after = after > 0, after < len(work)
    start = np.where(has_before, np.append(work.end_ns, 0)[after - 1], idle.start_ns)
    end = np.where(has_after, np.append(work.start_ns, 0)[after], idle.end_ns)
    row, calls = np.where(has_after, _launch_at(rank, end), -1), rank.trace.group("runtime")
    launched, returned = (
        np.where(row >= 0, np.append(times, 0)[row], NOT_LAUNCHED)
        for times in (calls.start_ns, calls.end_ns)
    )
    return Gaps(start, end, idle.end_ns - idle.start_ns, launched, returned)


def _launch_at(rank: RankView, times_ns: I64) -> I64:
    """Row of the latest launch of the work that starts at each of ascending times, else -1."""
    gpu, launched = rank.trace.group("gpu"), rank.facts.launch_row
    if not len(times_ns):
        return np.empty(0, np.int64)
    first = np.searchsorted(gpu.start_ns, times_ns, side="left")
    stop = np.searchsorted(gpu.start_ns, times_ns, side="right")
    padded = np.append(launched, -1)  # reduceat needs every edge to be an index
    latest = np.maximum.reduceat(padded, np.stack([first, stop], axis=1).ravel())[::2]
    return np.where(stop > first, latest, -1)


class CauseTime(Struct, frozen=True):
    """Idle time of one cause: all of it, and start and length of the longest piece, in ns."""

    total_ns: int
    longest_at_ns: int
    longest_ns: int


class RankIdle(Struct, frozen=True):
    """Idle time of one rank in its windows.

    Attributes:
        causes: all of it by cause.
        steps: ids of the measured steps.
        step_ns: that of each cause with any in each of these steps, int64 ns.
    """

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
    times = idle_times(rank, idle_gaps(rank), rank.windows)
    causes = {cause: _cause_time(one) for cause, one in times.items()}
    by_step = {
        cause: np.array([*rank.covered_by_step(one).values()], np.int64)
        for cause, one in times.items()
        if len(one)
    }
    return RankIdle(causes, tuple(rank.covered_by_step(Intervals.empty())), by_step)


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
    late = gaps.host_late
    in_time = gaps.known & ~late
    short = in_time & (gaps.end_ns - gaps.start_ns <= BETWEEN_KERNELS_NS)
    found = dict.fromkeys(CAUSES, Intervals.empty())
    rest = _before_launch(gaps) & windows
    in_call, queued = (times & windows for times in _long_starts(gaps))
    found["launch_call"] = in_call
    found["launch_latency"] = _some(idle, late) - rest - in_call - queued
    found["between_kernels"] = _some(idle, short)
    found["dependency"] = _some(idle, in_time & ~short) | queued
    found["unknown"] = _some(idle, ~gaps.known)
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


def _some(idle: Intervals, chosen: Bool) -> Intervals:
    """The chosen gaps; a part of sorted and disjoint intervals is sorted and disjoint."""
    return Intervals(idle.start_ns[chosen], idle.end_ns[chosen])


def _before_launch(gaps: Gaps) -> Intervals:
    """The part of the gaps before the launch of the work that ends them."""
    late = gaps.host_late
    until = gaps.launched_ns[late].clip(max=gaps.end_ns[late])
    return union(gaps.start_ns[late], until)


def _long_starts(gaps: Gaps) -> tuple[Intervals, Intervals]:
    """Time inside of long calls that launch, and long time from such a call to the start."""
    late = gaps.host_late
    launched, end = gaps.launched_ns[late].clip(max=gaps.end_ns[late]), gaps.end_ns[late]
    returned = gaps.returned_ns[late].clip(launched, end)
    is_call, is_queued = returned - launched >= LATE_START_NS, end - returned >= LATE_START_NS
    return (
        Intervals(launched[is_call], returned[is_call]),
        Intervals(returned[is_queued], end[is_queued]),
    )
