"""The answer to «what makes this slow»: findings on whatever a directory holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from ccltui.metrics.findings.finding import Answer
from ccltui.metrics.findings.recordings.failure_findings import failure_beside
from ccltui.metrics.findings.recordings.log_findings import (
    abstains,
    hang_finding,
    log_answer,
    names_culprits,
)
from ccltui.metrics.unavailable import Refusal, refuse
from ccltui.metrics.view.data_quality import failures

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View


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
    from ccltui.metrics.findings.recordings.other_recordings import (  # noqa: PLC0415  # noqa: PLC0415
        empty_answer,
        execution_answer,
        profiler_answer,
        values_answer,
    )
    from ccltui.metrics.findings.recordings.printed_tables import (  # noqa: PLC0415
        table_answer,
        totals_answer,
    )

    if names_culprits(view) and (hang := log_answer(view)) is not None:
        return hang
    if not view.job.discovery.files:
        raise refuse("no_trace", "no file is here")
    if view.job.failures:
        raise Refusal(*failures(view))
    return (
        totals_answer(view)
        or execution_answer(view)
        or _with_tables(table_answer(view), log_answer(view))
        or profiler_answer(view)
        or values_answer(view)
        or empty_answer(view)
    )


def _with_tables(tables: Answer | None, logs: Answer | None) -> Answer | None:
    """Return one answer on tables of a profiler and what else the same logs state."""
    if tables is None or logs is None:
        return tables or logs
    # what ended the job comes before how its time was spent
    ended = [one for one in logs.findings if one.kind in ("failure", "hang")]
    others = [one for one in logs.findings if one not in ended]
    return replace(
        logs,
        findings=(*ended, *tables.findings, *others),
        unknown=(*tables.unknown, *logs.unknown),
    )
