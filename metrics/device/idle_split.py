"""Divide the idle time of the device among its causes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ccltui.metrics.arrays.intervals import Intervals, union
from ccltui.metrics.collectives.causes.host_work import RULES, HostWork
from ccltui.metrics.device.idle_gaps import Gaps, gaps_in, idle_gaps
from ccltui.parsers.array_types import Bool

if TYPE_CHECKING:
    from ccltui.metrics.view.rank_view import RankView

BETWEEN_KERNELS_NS: Final = 10_000
"""Longest gap, before work that was launched in time, that counts as changeover of the device."""

CAUSES: Final = (
    *(rule.cause for rule in RULES),  # what the host does by the names of events; first come first
    "operators",  # inside any other operator of the framework
    "between_markers",  # outside of the markers of steps, in nothing that was recorded
    "host_other",  # the host was late, inside a step in nothing that was recorded
    "launch_latency",  # from the launch to the start on the device
    "between_kernels",
    "dependency",  # launched in time and yet not started: another stream, or an event
    "unknown",  # no launch record
)
HOST_CAUSES: Final = CAUSES[: CAUSES.index("launch_latency")]


def causes_ns(rank: RankView) -> dict[str, int]:
    """Idle time of one rank in its windows by cause; the sum is all of it."""
    return rank.remember(
        causes_ns,
        lambda: {
            cause: times.total_ns
            for cause, times in idle_times(rank, idle_gaps(rank), rank.windows).items()
        },
    )


def all_idle_times(rank: RankView) -> dict[str, Intervals]:
    """Return the idle times of a rank from its first to its last device work, by cause.

    Unlike `causes_ns` also outside of what is measured: between steps, say.
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
    found["launch_latency"] = _some(idle, late) - rest
    found["between_kernels"] = _some(idle, short)
    found["dependency"] = _some(idle, in_time & ~short)
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
