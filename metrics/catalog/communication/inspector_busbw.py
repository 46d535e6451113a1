"""Bus bandwidth of collectives over hours, from records of NCCL Inspector, and slow groups."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

from ccltui.metrics.metric import metric
from ccltui.metrics.result import Reason
from ccltui.metrics.unavailable import refuse
from ccltui.metrics.view.provenance import side_answer

if TYPE_CHECKING:
    from ccltui.metrics.inspector.rolled_job import RolledJob
    from ccltui.metrics.result import Result
    from ccltui.metrics.view.job_view import View


@metric(
    unit="GB/s",
    definition=(
        "Median bus bandwidth (10⁹ bytes/s) of the slowest group of collectives: one type and size"
        " class (a power of two) of one communicator, in records of NCCL Inspector. Of an instance"
        " that all members recorded, bytes on the bus over the shortest execution time of a member,"
        " as the last to arrive waits for nobody. A group is slow where it is below 0.7 of equal"
        " groups (type, size class, ranks, nodes), else of itself at other times, in three windows"
        " in a row (of a recording of fewer windows in each third). Without one, the lowest median"
        " of all groups. `groups` lists the windows of slow groups alone; `lost_s` is what these"
        " take longer than at `usual_gbs`, that of the `num_peers` equal groups or of the group"
        " itself."
    ),
    needs=("records of NCCL Inspector of all members of a communicator",),
    keys=(
        *("busbw_gbs", "slow_groups", "groups", "window_s", "num_ranks", "recorded_s", "unread"),
    ),
    label="bus bandwidth over time",
    higher_is_better=True,
    needs_traces=False,
)
def inspector_busbw(view: View) -> Result:
    """Groups in ascending order of their median; slow groups first."""
    from ccltui.metrics.inspector.inspector_job import inspector_job  # noqa: PLC0415

    job = inspector_job(view)
    rows = _rows(job)
    if not rows:
        raise refuse("unmatched_collectives", "no collective was recorded by all of its members")
    _compare(job, rows)
    for row in rows:
        place = row.pop("place")
        row["windows"] = _windows(job, place) if row["slow"] else []
    rows.sort(key=lambda row: (not row["slow"], row["busbw_gbs"], row["ranks"]))
    details: dict[str, Any] = {
        "busbw_gbs": rows[0]["busbw_gbs"],
        "slow_groups": [row["ranks"] for row in rows if row["slow"]],
        "groups": rows,
        "window_s": job.window_us / 1e6,
        "num_ranks": job.facts.num_ranks,
        "recorded_s": job.facts.recorded_s,
        "unread": list(job.facts.unread),
    }
    return side_answer(
        inspector_busbw,
        view,
        details,
        files=job.facts.paths,
        basis={"value": "the shortest execution of each instance that all members recorded"},
        reasons=[Reason("no_side_file", text) for text in job.facts.unread],
    )


def _rows(job: RolledJob) -> list[dict[str, Any]]:
    return [
        {
            "place": (number, rate.size_class),
            "communicator": group.name,
            "id": group.communicator.id,
            "operation": group.operation,
            "least_bytes": 1 << rate.size_class,
            "n_ranks": group.communicator.n_ranks,
            "nnodes": group.communicator.nnodes,
            "ranks": list(group.labels),
            "hosts": list(dict.fromkeys(group.hosts)),
            "instances": rate.instances,
            "busbw_gbs": rate.busbw_gbs,
            "peers_gbs": None,
            "transfer_s": rate.transfer_us / 1e6,
            "lost_s": None,
            "slow": False,
            "slow_gbs": None,
            "usual_gbs": None,
            "num_peers": None,
            "slow_windows": [],
        }
        for number, group in enumerate(job.facts.groups)
        for rate in group.rates
    ]


def _windows(job: RolledJob, place: tuple[int, int]) -> list[list[float]]:
    rows = job.rows("rate", *place)
    windows, rates = job.rate("window")[rows].tolist(), job.rate("busbw_gbs")[rows].tolist()
    return [[window, rate] for window, rate in zip(windows, rates, strict=True)]


def _compare(job: RolledJob, rows: Sequence[dict[str, Any]]) -> None:
    """Mark groups that are slower than equal ones, or than at other times."""
    from ccltui.metrics.inspector.late_roots import slow_rates  # noqa: PLC0415

    slow = {(one.group, one.size_class): one for one in slow_rates(job)}
    equal: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        equal[row["operation"], row["least_bytes"], row["n_ranks"], row["nnodes"]].append(row)
    for row in rows:
        alike = equal[row["operation"], row["least_bytes"], row["n_ranks"], row["nnodes"]]
        if len(alike) > 1:
            row["peers_gbs"] = median(one["busbw_gbs"] for one in alike if one is not row)
        found = slow.get(row["place"])
        if found is not None:
            row["slow"] = True
            row["lost_s"] = sum(found.extra_us) / 1e6
            row["slow_gbs"], row["usual_gbs"] = found.busbw_gbs, found.usual_gbs
            row["num_peers"] = found.num_peers
            row["slow_windows"] = list(found.windows)


metric_cal = inspector_busbw.document_of
