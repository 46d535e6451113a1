"""Share of time in which the device is idle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ccltui.metrics.arrays.statistics import milliseconds, ratio
from ccltui.metrics.device.device_time import device_answer, device_ranks
from ccltui.metrics.findings.rank_time.partition import split_time
from ccltui.metrics.metric import metric
from ccltui.metrics.result import Result
from ccltui.metrics.view.rank_view import of_rank

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
    facts=("sums",),
    keys=(
        "idle_ratio",
        "idle_ms",
        "window_ms",
        "span_idle_ratio",
        "num_gaps",
        "longest_gap_ms",
        "per_rank",
    ),
    sums=(
        of_rank(split_time),
        lambda _, rank: _gaps(rank),
    ),
    label="GPU idle",
    higher_is_better=False,
)
def idle_ratio(view: View) -> Result:
    """Idle time of every rank over its windows."""
    ranks = device_ranks(view)
    gaps = [_gaps(rank) for rank in ranks]
    idle = {rank.label: split_time(rank).idle for rank in ranks}
    window = sum(rank.window_ns for rank in ranks)
    span = sum(rank.span.total_ns for rank in ranks)
    details: dict[str, Any] = {
        "idle_ratio": ratio(sum(idle.values()), window),
        "idle_ms": milliseconds(sum(idle.values())) / len(ranks),
        "window_ms": milliseconds(window) / len(ranks),
        "span_idle_ratio": ratio(sum(gap.span_idle_ns for gap in gaps), span),
        "num_gaps": sum(gap.number for gap in gaps),
        "longest_gap_ms": milliseconds(max(gap.longest_ns for gap in gaps)),
        "per_rank": {rank.label: _row(rank, idle[rank.label]) for rank in ranks},
    }
    return device_answer(
        idle_ratio,
        view,
        details,
        basis={"aggregate": "sum over ranks of idle time, over that of windows"},
    )


class _Gaps(NamedTuple):
    """Idle times of a rank: their number, the longest, and all from first to last window."""

    number: int
    longest_ns: int
    span_idle_ns: int


def _gaps(rank: RankView) -> _Gaps:
    return rank.sum_up(_gaps, lambda: _gaps_of(rank))


def _gaps_of(rank: RankView) -> _Gaps:
    idle = rank.windows - rank.facts.device_work
    longest = int((idle.end_ns - idle.start_ns).max(initial=0))
    return _Gaps(len(idle), longest, rank.span_idle_ns)


def _row(rank: RankView, idle: int) -> dict[str, Any]:
    return {
        "idle_ratio": ratio(idle, rank.window_ns),
        "idle_ms": milliseconds(idle),
        "window_ms": milliseconds(rank.window_ns),
    }


metric_cal = idle_ratio.document_of
