"""Why the device was idle: what the host did, or what the device waited for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from ccltui.metrics.arrays.intervals import Intervals, union
from ccltui.metrics.arrays.statistics import milliseconds, ratio
from ccltui.metrics.device.device_time import device_ranks, without_device
from ccltui.metrics.device.idle_gaps import Gaps, idle_gaps, require_launches
from ccltui.metrics.metric import metric
from ccltui.metrics.model.classify import any_name, distinct
from ccltui.metrics.result import Result
from ccltui.metrics.view.provenance import answer
from ccltui.parsers.columns import Group

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.rank_view import RankView

BETWEEN_KERNELS_NS: Final = 10_000
"""A gap up to here before work that was launched in time is the device's own changeover."""

_HOST: Final[tuple[tuple[str, Group, re.Pattern[str]], ...]] = (
    ("data_loading", "annotations", re.compile(r"DataLoader|data_?load|next_batch|load_batch")),
    ("synchronisation", "runtime", re.compile(r"Synchronize|EventQuery|StreamWaitValue")),
    ("allocation", "runtime", re.compile(r"(?:cuda|hip|cu)(?:Malloc|Free|HostAlloc|MemCreate)")),
)
"""What a host may be doing while it launches nothing: the first that applies is the cause."""

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


@metric(
    unit="ms",
    definition=(
        "Idle time of the device because the host had not launched the next work yet, mean over "
        "ranks; all idle time is divided among what the host did and what the device waited for."
    ),
    needs=("GPU kernels", "launch records (correlation ids)"),
    keys=("host_late_ms", "idle_ms", "host_late_ratio_of_idle", "by_cause", "per_rank"),
    headline="host_late_ms",
    label="idle: host late",
    higher_is_better=False,
)
def idle_causes(view: View) -> Result:
    """Divide the idle time of every rank among its causes, without rest."""
    ranks = device_ranks(view)
    require_launches(ranks)
    rows = {rank.label: causes_ns(rank) for rank in ranks}
    total = {cause: sum(row[cause] for row in rows.values()) for cause in CAUSES}
    idle = sum(total.values())
    details: dict[str, Any] = {
        "host_late_ms": milliseconds(sum(total[cause] for cause in HOST_CAUSES)) / len(ranks),
        "idle_ms": milliseconds(idle) / len(ranks),
        "host_late_ratio_of_idle": ratio(sum(total[cause] for cause in HOST_CAUSES), idle),
        "by_cause": {
            cause: {
                "ms": milliseconds(total[cause]) / len(ranks),
                "ratio_of_idle": ratio(total[cause], idle),
            }
            for cause in CAUSES
        },
        "per_rank": {label: _row(row) for label, row in rows.items()},
    }
    return answer(
        idle_causes,
        view,
        details,
        source="kernel",
        basis={
            "host": "from the end of the work before to the launch of the work after the gap",
            "order": "of what the host did at once, the first of " + ", ".join(HOST_CAUSES[:-1]),
            "between_kernels": f"up to {BETWEEN_KERNELS_NS // 1000} us, launched in time",
        },
        reasons=without_device(view),
    )


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
    """The part of gaps in which what ends them was not launched yet."""
    late = gaps.host_late
    until = gaps.launched_ns[late].clip(max=gaps.end_ns[late])
    return union(gaps.start_ns[late], until)


def _take(found: dict[str, int], cause: str, rest: Intervals, part: Intervals) -> Intervals:
    """Count what of ``rest`` lies in ``part``; what is left."""
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


def _row(row: Mapping[str, int]) -> dict[str, float]:
    return {f"{cause}_ms": milliseconds(row[cause]) for cause in CAUSES}


metric_cal = idle_causes.document_of
