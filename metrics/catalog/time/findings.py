"""What costs time in a recording: findings in order, the first of which is the headline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from ccltui.metrics.findings.finding import Answer
from ccltui.metrics.findings.rank_time.idle_causes import idle_of
from ccltui.metrics.findings.rank_time.partition import split_time
from ccltui.metrics.findings.recordings.failure_findings import failure_beside
from ccltui.metrics.findings.recordings.log_findings import (
    abstains,
    hang_finding,
    log_answer,
    names_culprits,
)
from ccltui.metrics.findings.waits.own_times import busy_by_step
from ccltui.metrics.metric import metric
from ccltui.metrics.result import Reason, Result
from ccltui.metrics.unavailable import Refusal, refuse
from ccltui.metrics.view.collective_selection import MATERIALITY, MATERIALITY_TEXT
from ccltui.metrics.view.data_quality import failures
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
    facts=("own_times", "partition", "slow_steps", "sums", "verdict"),
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


def answer_of(view: View) -> Answer:
    """Return the findings on a view, the headline first; there is at least one.

    Raises:
        Refusal: files cannot be read, or nothing is selected.
    """
    return view.remember(answer_of, lambda: _answer_of(view))


def _answer_of(view: View) -> Answer:
    """Choose by what is recorded: a hang comes before everything else."""
    if not view.job.ranks:
        return _without_traces(view)
    found = _of_traces(view)
    others = len(view.job.missing_ranks)
    if len(view.job.ranks) == 1 and others and not view.job.unread_ranks:
        found = replace(found, unknown=(_one_of(others + 1), *found.unknown))
    hang, failure = hang_finding(view), failure_beside(view)
    if hang is not None and names_culprits(view):
        found = replace(found, findings=(hang, *found.findings))
    # Records that name nobody may be of a job that runs, and one that failed was slow before: what
    # the traces show comes first.
    elif hang is not None and abstains(view):
        found = replace(found, findings=(*found.findings, hang))
    return found if failure is None else replace(found, findings=(*found.findings, failure))


def _one_of(total: int) -> str:
    return (
        f"1 of {total} ranks is recorded: what it spends in collectives may be waiting for the "
        "others."
    )


def _of_traces(view: View) -> Answer:
    from ccltui.metrics.findings.recordings.device_findings import device_answer  # noqa: PLC0415
    from ccltui.metrics.findings.recordings.host_findings import host_answer  # noqa: PLC0415
    from ccltui.metrics.findings.recordings.other_recordings import (  # noqa: PLC0415
        empty_answer,
        filtered_answer,
    )

    filtered = filtered_answer(view)
    if filtered is not None:
        return filtered
    if any(rank.facts.has_kernels for rank in view.ranks):
        return device_answer(view)
    return host_answer(view) or empty_answer(view)


def _without_traces(view: View) -> Answer:
    """Return the findings on a directory in which nothing is a trace that can be opened."""
    from ccltui.metrics.findings.recordings.other_recordings import (  # noqa: PLC0415
        empty_answer,
        execution_answer,
        profiler_answer,
        values_answer,
    )
    from ccltui.metrics.findings.recordings.printed_tables import (  # noqa: PLC0415
        silent_answer,
        table_answer,
        totals_answer,
    )

    if names_culprits(view) and (hang := log_answer(view)) is not None:
        return hang
    if not view.job.discovery.files:
        raise refuse("no_trace", "no file is here")
    if view.job.failures:
        raise Refusal(*failures(view))
    if (totals := totals_answer(view)) is not None:
        return _with_tables(totals, log_answer(view)) or totals
    return (
        execution_answer(view)
        or _with_tables(table_answer(view), log_answer(view))
        or profiler_answer(view)
        or values_answer(view)
        or silent_answer(view)
        or empty_answer(view)
    )


def _with_tables(tables: Answer | None, logs: Answer | None) -> Answer | None:
    """Return one answer on tables of a profiler and what else the same logs state."""
    if tables is None or logs is None:
        return tables or logs
    # what ended the job comes before how its time was spent
    ended = [one for one in logs.findings if one.kind in ("failure", "hang")]
    others = tuple(one for one in logs.findings if one not in ended)
    # and what is known before what cannot be read
    says_nothing = tables.findings[0].kind == "nothing"
    both = (others, tables.findings) if says_nothing else (tables.findings, others)
    return replace(
        logs,
        findings=(*ended, *both[0], *both[1]),
        unknown=(*tables.unknown, *logs.unknown),
    )


metric_cal = findings.document_of
