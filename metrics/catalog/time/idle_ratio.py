"""Share of time in which the device is idle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ccltui.metrics.arrays.statistics import milliseconds, ratio
from ccltui.metrics.device.device_time import device_answer, device_ranks
from ccltui.metrics.findings.rank_time.partition import split_time
from ccltui.metrics.metric import metric
from ccltui.metrics.result import Result

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.rank_view import RankView


@metric(
    unit="ratio",
    definition=(
        "Share of the measured time in which the device runs neither a kernel nor a copy, such "
        "as while it waits for the host; waiting inside a collective is not idle, because its "
        "kernel runs."
    ),
    needs=("GPU kernels",),
    facts=("step_of_work", "busy"),
    keys=(
        "idle_ratio",
        "idle_ms",
        "window_ms",
        "span_idle_ratio",
        "num_gaps",
        "longest_gap_ms",
        "per_rank",
    ),
    label="GPU idle",
    higher_is_better=False,
)
def idle_ratio(view: View) -> Result:
    """Idle time of every rank over its windows."""
    ranks = device_ranks(view)
    gaps = [rank.windows - rank.facts.device_work for rank in ranks]
    idle = {rank.label: split_time(rank).idle for rank in ranks}
    window = sum(rank.window_ns for rank in ranks)
    span = sum(rank.span.total_ns for rank in ranks)
    span_idle = sum((rank.span - rank.facts.device_work).total_ns for rank in ranks)
    longest = max((int((g.end_ns - g.start_ns).max()) for g in gaps if len(g)), default=0)
    details: dict[str, Any] = {
        "idle_ratio": ratio(sum(idle.values()), window),
        "idle_ms": milliseconds(sum(idle.values())) / len(ranks),
        "window_ms": milliseconds(window) / len(ranks),
        "span_idle_ratio": ratio(span_idle, span),
        "num_gaps": sum(len(gap) for gap in gaps),
        "longest_gap_ms": milliseconds(longest),
        "per_rank": {rank.label: _row(rank, idle[rank.label]) for rank in ranks},
    }
    return device_answer(
        idle_ratio,
        view,
        details,
        basis={"aggregate": "sum over ranks of idle time, over that of windows"},
    )


def _row(rank: RankView, idle: int) -> dict[str, Any]:
    return {
        "idle_ratio": ratio(idle, rank.window_ns),
        "idle_ms": milliseconds(idle),
        "window_ms": milliseconds(rank.window_ns),
    }


metric_cal = idle_ratio.document_of
