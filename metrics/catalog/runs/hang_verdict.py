"""Who did not arrive, where a job hung: from dumps, logs of watchdogs and reports of RAS."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import structs

from ccltui.metrics.metric import metric
from ccltui.metrics.unavailable import refuse
from ccltui.metrics.view.provenance import require_traces, side_answer

if TYPE_CHECKING:
    from ccltui.metrics.hangs.hang import Hang
    from ccltui.metrics.result import Result
    from ccltui.metrics.view.job_view import View


@metric(
    unit="ranks",
    definition=(
        "Number of ranks that a hang is put down to: that did not arrive where others wait, "
        "stopped, called something else, or left no record. From dumps of PyTorch's flight "
        "recorder (the last collectives of each rank), from what its watchdog printed in logs "
        "(last enqueued, started and completed collective of each rank and group) and from reports "
        "of NCCL's RAS; 0 where the records blame no rank, or nothing hangs and a rank is late."
    ),
    needs=("dumps of a flight recorder, log in which a watchdog gave up, or report of ncclras",),
    keys=(
        "num_ranks",
        "kind",
        "text",
        "more",
        "ranks",
        "waiting",
        "group",
        "operation",
        "sequence",
        "sure",
        "do",
        "hangs",
    ),
    label="ranks that did not arrive",
    higher_is_better=False,
    needs_traces=False,
)
def hang_verdict(view: View) -> Result:
    """Ranks that did not arrive; the value is that of the surest hang, the others are listed."""
    if not view.job.ranks and not view.job.discovery.files:
        require_traces(view)
    from ccltui.metrics.findings.recordings.hang_window import hangs_of_view  # noqa: PLC0415 - findings read metrics

    found = hangs_of_view(view)
    if not found:
        raise refuse(
            "no_side_file",
            "no flight recorder dump, no log in which a watchdog timed out, and no report of "
            "NCCL's RAS",
        )
    first = found[0]
    details = {**_row(first), "hangs": [_row(one) for one in found]}
    return side_answer(
        hang_verdict,
        view,
        details,
        files=sorted({path for one in found for path in one.files}),
        basis={"record": first.record},
        warnings=[one.text for one in found[1:]],
    )


def _row(one: Hang) -> Mapping[str, Any]:
    row = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in structs.asdict(one).items()
    }
    standing = [
        {key: list(value) if isinstance(value, tuple) else value for key, value in row.items()}
        for row in map(structs.asdict, one.standing)
    ]
    return {"num_ranks": one.num_blamed, **row, "standing": standing}


metric_cal = hang_verdict.document_of
