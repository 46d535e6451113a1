"""Ranks that arrive late at collectives, by execution times alone, from NCCL Inspector."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ccltui.metrics.metric import metric
from ccltui.metrics.result import Reason
from ccltui.metrics.unavailable import refuse
from ccltui.metrics.view.provenance import side_answer

if TYPE_CHECKING:
    from ccltui.metrics.inspector.rolled_job import Group, MemberLag, RolledJob
    from ccltui.metrics.result import Result
    from ccltui.metrics.view.job_view import View


@metric(
    unit="ms",
    definition=(
        "Median lag of the rank that arrives latest, in the windows where it is late: of each"
        " collective that all members recorded, the longest execution time less that of the rank,"
        " as who comes last waits for nobody. A rank is late in a window where its median lag"
        " exceeds that of the middle member by 0.1 ms and by a fifth of the transfer, in three"
        " windows in a row (of a recording of fewer windows in each third). Without a late rank,"
        " the largest median of all. `ranks` lists the windows of late ranks alone; `waited_s` is"
        " what the other members together wait in these. Operations with a root, such as"
        " Broadcast, are left out: who only sends may leave early. No clocks are compared."
    ),
    needs=("records of NCCL Inspector of all members of a communicator",),
    keys=(
        *("lag_ms", "late_ranks", "ranks", "coverage", "window_s"),
        *("num_ranks", "recorded_s", "last_us", "unread"),
    ),
    label="lag by duration",
    higher_is_better=False,
    needs_traces=False,
)
def duration_lag(view: View) -> Result:
    """Ranks of each communicator and type, the latest first."""
    from ccltui.metrics.inspector.inspector_job import inspector_job  # noqa: PLC0415

    job = inspector_job(view)
    rows = [
        _row(job, number, member, lag)
        for number, group in enumerate(job.facts.groups)
        for member, lag in enumerate(group.lags)
    ]
    if not rows:
        why = "no collective was recorded by all of its members"
        if any(group.complete for group in job.facts.groups):
            why = "all collectives have a root, at which who only sends may leave early"
        raise refuse("unmatched_collectives", why)
    rows.sort(key=lambda row: (row["late_since_us"] is None, -row["lag_ms"], row["rank"]))
    seen = sum(one.seen for one in job.facts.groups)
    late = [row["rank"] for row in rows if row["late_since_us"] is not None]
    details: dict[str, Any] = {
        "lag_ms": rows[0]["lag_ms"],
        "late_ranks": list(dict.fromkeys(late)),
        "ranks": rows,
        "coverage": sum(one.complete for one in job.facts.groups) / seen,
        "window_s": job.window_us / 1e6,
        "num_ranks": job.facts.num_ranks,
        "recorded_s": job.facts.recorded_s,
        "last_us": job.facts.last_us,
        "unread": list(job.facts.unread),
    }
    return side_answer(
        duration_lag,
        view,
        details,
        files=job.facts.paths,
        basis={"value": "execution times of one collective on all members"},
        reasons=[Reason("no_side_file", text) for text in job.facts.unread],
    )


def _row(job: RolledJob, number: int, member: int, lag: MemberLag) -> dict[str, Any]:
    """Return a row for a member; its lag is the median over its late windows, else over all."""
    group: Group = job.facts.groups[number]
    late, windows = lag.late_windows, list[list[float]]()
    if late:
        rows = job.rows("lag", number, member)
        values = zip(
            job.lag("window")[rows].tolist(), job.lag("p50_us")[rows].tolist(), strict=True
        )
        windows = [[window, value / 1e3] for window, value in values]
    return {
        "rank": group.labels[member],
        "host": group.hosts[member],
        "communicator": group.name,
        "operation": group.operation,
        "lag_ms": lag.lag_ms,
        "instances": lag.instances,
        "late_since_us": job.facts.first_us + late[0] * job.window_us if late else None,
        "late_until_us": job.facts.first_us + (late[-1] + 1) * job.window_us if late else None,
        "late_windows": list(late),
        "waited_s": lag.waited_us / 1e6 if late else None,
        "windows": windows,
    }


metric_cal = duration_lag.document_of
