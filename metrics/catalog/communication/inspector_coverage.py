"""How much of a job the records of NCCL Inspector hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ccltui.metrics.metric import metric
from ccltui.metrics.result import Reason
from ccltui.metrics.view.provenance import side_answer

if TYPE_CHECKING:
    from ccltui.metrics.inspector.rolled_job import SeriesCount
    from ccltui.metrics.result import Result
    from ccltui.metrics.view.job_view import View


@metric(
    unit="ratio",
    definition=(
        "Share of collectives in the records of NCCL Inspector: records over the numbers from the"
        " first to the last of each rank, communicator and type. A missing number is not in the"
        " file: dropped, sampled, or below the size limit of the writer; what came before the"
        " first record or after the last dump is not counted. Also the share of instances that"
        " all members recorded, and the number that the writer states as dropped (null before"
        " form v4.1)."
    ),
    needs=("records of NCCL Inspector",),
    keys=("coverage", "complete_share", "missing", "dropped", "series", "unread"),
    label="coverage of the Inspector",
    higher_is_better=True,
    needs_traces=False,
)
def inspector_coverage(view: View) -> Result:
    """Coverage of all series together, and each series with the lowest first."""
    from ccltui.metrics.inspector.inspector_job import inspector_job  # noqa: PLC0415

    job = inspector_job(view).facts
    rows = [_row(one) for one in job.series]
    rows.sort(key=lambda row: (row["records"] / row["expected"], row["rank"], row["operation"]))
    expected = sum(row["expected"] for row in rows)
    records = sum(row["records"] for row in rows)
    seen = sum(one.seen for one in job.groups)
    complete = sum(one.complete for one in job.groups)
    details: dict[str, Any] = {
        "coverage": records / expected,
        "complete_share": complete / seen if seen else None,
        "missing": expected - records,
        "dropped": job.dropped,
        "series": rows,
        "unread": list(job.unread),
    }
    return side_answer(
        inspector_coverage,
        view,
        details,
        files=job.paths,
        basis={"value": "sequence numbers between the first and the last record of each series"},
        reasons=[Reason("no_side_file", text) for text in job.unread],
    )


def _row(one: SeriesCount) -> dict[str, Any]:
    return {
        "rank": one.label,
        "communicator": one.communicator,
        "operation": one.operation,
        "records": one.records,
        "expected": one.last_number - one.first_number + 1,
        "first_number": one.first_number,
        "last_number": one.last_number,
    }


metric_cal = inspector_coverage.document_of
