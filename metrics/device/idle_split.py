"""Divide the idle time of the device among its causes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ccltui.metrics.arrays.intervals import Intervals, union
from ccltui.metrics.device.idle_gaps import Gaps, idle_gaps
from ccltui.metrics.model.classify import any_name, distinct
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
    return rank.remember(causes_ns, lambda: _causes_ns(rank))


def _causes_ns(rank: RankView) -> dict[str, int]:
    gaps, windows = idle_gaps(rank), rank.windows
    late = gaps.host_late
    in_time = gaps.known & ~late
    short = in_time & (gaps.end_ns - gaps.start_ns <= BETWEEN_KERNELS_NS)
    found = dict.fromkeys(CAUSES, 0)
    rest = _before_launch(gaps) & windows
    found["launch_latency"] = int(gaps.inside_ns[late].sum()) - rest.total_ns
    found["between_kernels"] = int(gaps.inside_ns[short].sum())
    found["dependency"] = int(gaps.inside_ns[in_time & ~short].sum())
    found["unknown"] = int(gaps.inside_ns[~gaps.known].sum())
    for cause, group, pattern in _HOST:
        rest = _take(found, cause, rest, _ranges(rank, group, pattern))
    if len(rest):
        rest = _take(found, "operators", rest, rank.facts.in_operators)
    found["host_other"] = rest.total_ns
    return found


def _before_launch(gaps: Gaps) -> Intervals:
    """The part of the gaps before the launch of the work that ends them."""
    late = gaps.host_late
    until = gaps.launched_ns[late].clip(max=gaps.end_ns[late])
    return union(gaps.start_ns[late], until)


def _take(found: dict[str, int], cause: str, rest: Intervals, part: Intervals) -> Intervals:
    """Count the time of ``rest`` in ``part`` as ``cause`` and return the remainder."""
    left = rest - part
    found[cause] = rest.total_ns - left.total_ns
    return left


def _ranges(rank: RankView, group: Group, pattern: re.Pattern[str]) -> Intervals:
    events = rank.trace.group(group)
    named = [i for i in distinct(events.name) if pattern.search(rank.trace.text(i))]
    if not named:
        return Intervals.empty()
    rows = any_name(rank.trace.strings, events.name, named)
    return union(events.start_ns[rows], events.end_ns[rows])
