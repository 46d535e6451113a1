"""What costs time in a recording: findings in order, the first of which is the headline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ccltui.metrics.findings.rank_time.idle_causes import idle_of
from ccltui.metrics.findings.rank_time.partition import split_time
from ccltui.metrics.findings.recordings.answer import answer_of
from ccltui.metrics.findings.waits.own_times import busy_by_step
from ccltui.metrics.metric import metric
from ccltui.metrics.result import Reason, Result
from ccltui.metrics.view.collective_selection import MATERIALITY, MATERIALITY_TEXT
from ccltui.metrics.view.provenance import answer, require_traces
from ccltui.metrics.view.rank_view import in_turn, of_rank, totals
from ccltui.metrics.view.viewer_losses import overlapping

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View


@metric(
    unit="ratio",
    definition=(
        "Share of rank time that the first finding costs, mean over ranks: waiting for a rank, "
        "exposed communication, copies or idle time by cause, where such a loss is the largest, "
        "or computing where nothing else is worth more; the details list all findings, each with "
        "class, place, cost, what fixing it saves, and how sure that is."
    ),
    needs=("a recording of any kind",),
    facts=("partition", "verdict", "slow_steps", "own_times"),
    keys=(
        "top_share",
        "headline",
        "recording",
        "findings",
        "unknown",
        "period",
        "period_ms",
        "shares",
        "per_rank",
        "overlapping_events",
    ),
    sums=(
        of_rank(totals),
        of_rank(split_time),
        of_rank(idle_of),
        of_rank(busy_by_step),
    ),
    label="first finding",
    needs_traces=False,
    parameters={MATERIALITY: MATERIALITY_TEXT},
)
def findings(view: View) -> Result:
    """State what costs time, the largest first."""
    if view.job.ranks:
        require_traces(view)
    found = answer_of(view)
    portions = found.portions
    details: dict[str, Any] = {
        "top_share": found.findings[0].share,
        "headline": found.headline,
        "recording": found.recording,
        "findings": [one.to_dict() for one in found.findings],
        "unknown": list(found.unknown),
        "period": found.period,
        "period_ms": found.period_ms,
        "shares": {} if portions is None else dict(portions.shares),
        "per_rank": {} if portions is None else {r.rank: r.to_dict() for r in portions.ranks},
    }
    if portions is not None:
        details["overlapping_events"] = sum(overlapping(rank.trace) for rank in in_turn(view.ranks))
    without_times = "; ".join(found.unknown) or "nothing here has a time"
    return answer(
        findings,
        view,
        details,
        source=_SOURCES.get(found.recording),
        basis={
            "share": "of the device span of all ranks, which the parts add up to",
            "shares": "of rank time by kind, first that applies: compute, waiting for a rank, "
            "transfers (of a pipeline: bubble), copies, idle; by rank with waited_for, the share "
            "of all rank time that waits for that rank",
            "overlapping_events": "device events that overlap another of their stream without "
            "lying inside it: they count here, and viewers of nested slices leave them out",
            "order": "by share; a cause that a replay proves comes before costs that every step "
            "of such a program has, up to four times its share",
        },
        reasons=[] if found.findings[0].share is not None else [Reason("no_trace", without_times)],
    )


_SOURCES: Final = {
    "ranks": "kernel",
    "one_rank": "kernel",
    "filtered": "kernel",
    "cpu_ranks": "annotation",
    "cpu_rank": "annotation",
}
"""Family of events that the shares come from, by kind of recording."""


metric_cal = findings.document_of
