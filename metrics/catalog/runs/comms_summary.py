"""Communication that a run logged itself: the summary of DeepSpeed."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ccltui.metrics.metric import metric
from ccltui.metrics.unavailable import refuse
from ccltui.metrics.view.provenance import require_traces, side_answer
from ccltui.parsers.errors import TraceError, contained
from ccltui.parsers.runs import TRAINING_LOG, WATCHDOG_LOG
from ccltui.parsers.side.unread_files import LOG

if TYPE_CHECKING:
    from ccltui.metrics.result import Result
    from ccltui.metrics.view.job_view import View
    from ccltui.parsers.runs.run_records import CommsRow


@metric(
    unit="ms",
    definition=(
        "Sum over operations and message sizes of the latency in ms of all calls of one rank, as "
        "the last summary of DeepSpeed's communication logger in a log states it, waiting for the "
        "last rank included; waited_ms is that waiting alone, where the summary has it."
    ),
    needs=("log with DeepSpeed's summary of communication",),
    keys=("total_ms", "waited_ms", "waited_share", "operations", "file"),
    label="logged communication",
    higher_is_better=False,
    needs_traces=False,
)
def comms_summary(view: View) -> Result:
    """Latency of the operations that a run logged, those that took longest first."""
    from ccltui.parsers.runs.run_records import read_comms_summary  # noqa: PLC0415

    if not view.job.ranks and not view.job.discovery.files:
        require_traces(view)
    for file in view.job.discovery.files:
        if file.format not in (TRAINING_LOG, WATCHDOG_LOG, LOG) or file.problem is not None:
            continue
        try:
            with contained(file.path):
                rows = read_comms_summary(Path(file.real_path), shown=file.path)
        except TraceError:
            continue
        known = [row for row in rows if math.isfinite(row.total_ms)]
        if known:
            return _answer(view, file.path, known)
    raise refuse("no_side_file", "no log here with DeepSpeed's summary of communication")


def _answer(view: View, path: str, rows: list[CommsRow]) -> Result:
    total = math.fsum(row.total_ms for row in rows)
    waited = [row.waited_ms for row in rows if math.isfinite(row.waited_ms)]
    is_split = len(waited) == len(rows)
    whole = math.fsum(waited) if is_split else None
    details: dict[str, Any] = {
        "total_ms": total,
        "waited_ms": whole,
        "waited_share": whole / total if whole is not None and total else None,
        "operations": [_row(row) for row in sorted(rows, key=lambda row: -row.total_ms)],
        "file": path,
    }
    return side_answer(
        comms_summary,
        view,
        details,
        files=[path],
        basis={"value": "the last summary in the log, of the rank that printed it"},
    )


def _row(row: CommsRow) -> dict[str, Any]:
    return {
        "operation": row.operation,
        "size": row.size,
        "count": row.count,
        "total_ms": row.total_ms,
        "waited_ms": _known(row.waited_ms),
        "rate_gbps": _known(row.rate_gbps),
        "busbw_gbps": _known(row.busbw_gbps),
    }


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


metric_cal = comms_summary.document_of
