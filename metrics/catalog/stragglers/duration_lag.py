"""Ranks that arrive late at collectives, by execution times alone, from NCCL Inspector."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ccltui.metrics.metric import metric
from ccltui.metrics.result import Reason
from ccltui.metrics.unavailable import refuse
from ccltui.metrics.view.provenance import side_answer

if TYPE_CHECKING:
    from ccltui.metrics.inspector.inspector_job import InspectorJob, Operations
    from ccltui.metrics.result import Result
    from ccltui.metrics.view.job_view import View

_LEAST_LAG_US: Final = 100
"""Launches of kernels differ by tens of µs between ranks that do the same."""
_LEAST_SHARE: Final = 0.2
"""Of the transfer, whose own time varies by a tenth between instances."""
_LEAST_WINDOWS: Final = 3
"""One late window may be a checkpoint or a collection of garbage."""


@metric(
    unit="ms",
    definition=(
        "Median lag of the rank that arrives latest, in the windows where it is late: of each"
        " collective that all members recorded, the longest execution time less that of the rank,"
        " as who comes last waits for nobody. A rank is late in a window where its median lag"
        " exceeds that of the middle member by 0.1 ms and by a fifth of the transfer, in at least"
        " three windows. Without a late rank, the largest median of all. No clocks are compared."
    ),
    needs=("records of NCCL Inspector of all members of a communicator",),
    keys=("lag_ms", "late_ranks", "ranks", "coverage", "window_s", "unread"),
    headline="lag_ms",
    label="lag by duration",
    higher_is_better=False,
    needs_traces=False,
)
def duration_lag(view: View) -> Result:
    """Ranks of each communicator and type, the latest first."""
    from ccltui.metrics.inspector.inspector_job import inspector_job  # noqa: PLC0415

    job = inspector_job(view)
    matched = [one for one in job.operations if len(one.number)]
    rows = [row for one in matched for row in _rows(job, one)]
    if not rows:
        raise refuse("unmatched_collectives", "no collective was recorded by all of its members")
    rows.sort(key=lambda row: (row["late_since_us"] is None, -row["lag_ms"], row["rank"]))
    seen = sum(one.seen for one in job.operations)
    late = [row["rank"] for row in rows if row["late_since_us"] is not None]
    details: dict[str, Any] = {
        "lag_ms": rows[0]["lag_ms"],
        "late_ranks": list(dict.fromkeys(late)),
        "ranks": rows,
        "coverage": sum(len(one.number) for one in matched) / seen,
        "window_s": job.window_us / 1e6,
        "unread": list(job.unread),
    }
    return side_answer(
        duration_lag,
        view,
        details,
        files=[one.path for one in job.files],
        basis={"value": "execution times of one collective on all members"},
        reasons=[Reason("no_side_file", text) for text in job.unread],
    )


def _rows(job: InspectorJob, one: Operations) -> list[dict[str, Any]]:
    """A row for each member; its lag is the median over its late windows, else over all."""
    import numpy as np  # noqa: PLC0415

    windows, lag_us, shortest_us = job.windows(one.written_us), one.lag_us, one.shortest_us
    numbers = np.unique(windows)
    medians = np.stack([np.median(lag_us[windows == at], axis=0) for at in numbers])
    transfer = np.array([np.median(shortest_us[windows == at]) for at in numbers])
    beyond = medians - np.median(medians, axis=1)[:, None]
    is_late = beyond > np.maximum(_LEAST_LAG_US, _LEAST_SHARE * transfer)[:, None]
    if one.communicator.n_ranks == 2:  # the middle of two is their mean: either may be first
        is_late = beyond * 2 > np.maximum(_LEAST_LAG_US, _LEAST_SHARE * transfer)[:, None]
    rows = []
    for member, label in enumerate(one.labels):
        late = numbers[is_late[:, member]]
        is_slow = len(late) >= _LEAST_WINDOWS
        chosen = np.isin(windows, late) if is_slow else np.ones(len(windows), np.bool_)
        start = job.first_us + int(late[0]) * job.window_us if is_slow else None
        rows.append(
            {
                "rank": label,
                "communicator": one.communicator.name or one.communicator.id,
                "operation": one.operation,
                "lag_ms": float(np.median(lag_us[chosen, member])) / 1e3,
                "instances": int(chosen.sum()),
                "late_since_us": start,
                "late_windows": late.tolist() if is_slow else [],
                "windows": [
                    [int(at), float(value) / 1e3]
                    for at, value in zip(numbers, medians[:, member], strict=True)
                ],
            }
        )
    return rows


metric_cal = duration_lag.document_of
