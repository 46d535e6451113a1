"""Divide the idle time of the device among its causes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ccltui.metrics.arrays.intervals import Intervals, union
from ccltui.metrics.device.idle_gaps import Gaps, gaps_in, idle_gaps
from ccltui.metrics.model.classify import any_name, distinct
from ccltui.parsers.array_types import Bool
from ccltui.parsers.columns import Group

if TYPE_CHECKING:
    from ccltui.metrics.view.rank_view import RankView

BETWEEN_KERNELS_NS: Final = 10_000
"""Longest gap, before work that was launched in time, that counts as changeover of the device."""

_HOST: Final[tuple[tuple[str, Group, re.Pattern[str]], ...]] = (
    ("data_loading", "annotations", re.compile(r"DataLoader|data_?load|next_batch|load_batch")),
    ("synchronisation", "runtime", re.compile(r"Synchronize|EventQuery|StreamWaitValue")),
    ("allocation", "runtime", re.compile(r"(?:cuda|hip|cu)(?:Malloc|Free|HostAlloc|MemCreate)")),
)
"""Host activities by name, event group and pattern; the first that applies is the cause."""

CAUSES: Final = (
    *(name for name, _, _ in _HOST),
    "operators",  # inside an operator of the framework
    "host_other",  # the host was late, in nothing that was recorded
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
    for cause, group, pattern in _HOST:
        part = _ranges(rank, group, pattern)
        found[cause], rest = rest & part, rest - part
    if len(rest):
        part = rank.facts.in_operators
        found["operators"], rest = rest & part, rest - part
    found["host_other"] = rest
    return found


def host_cause(group: Group, name: str) -> str | None:
    """Return the cause that an event of the host stands for by its name, None for no special one.

    Args:
        group: Group of events that the event is from.
        name: Name of the event.
    """
    return next((one for one, of, pattern in _HOST if of == group and pattern.search(name)), None)


def _some(idle: Intervals, chosen: Bool) -> Intervals:
    """The chosen gaps; a part of sorted and disjoint intervals is sorted and disjoint."""
    return Intervals(idle.start_ns[chosen], idle.end_ns[chosen])


def _before_launch(gaps: Gaps) -> Intervals:
    """The part of the gaps before the launch of the work that ends them."""
    late = gaps.host_late
    until = gaps.launched_ns[late].clip(max=gaps.end_ns[late])
    return union(gaps.start_ns[late], until)


def _ranges(rank: RankView, group: Group, pattern: re.Pattern[str]) -> Intervals:
    events = rank.trace.group(group)
    named = [i for i in distinct(events.name) if pattern.search(rank.trace.text(i))]
    if not named:
        return Intervals.empty()
    rows = any_name(rank.trace.strings, events.name, named)
    return union(events.start_ns[rows], events.end_ns[rows])
