"""Bus bandwidth of collectives over hours, from records of NCCL Inspector, and slow groups."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from ccltui.metrics.metric import metric
from ccltui.metrics.result import Reason
from ccltui.metrics.unavailable import refuse
from ccltui.metrics.view.provenance import side_answer

if TYPE_CHECKING:
    from ccltui.metrics.inspector.rolled_job import RolledJob
    from ccltui.metrics.result import Result
    from ccltui.metrics.view.job_view import View

_SLOW_SHARE: Final = 0.7
"""Links of one kind differ by less than a tenth; a link that lost one of two lanes has 0.5."""
_LEAST_WINDOWS: Final = 3
"""One slow window may be other work on the same network."""
_LEAST_PEERS: Final = 2
"""Of two groups, either may be the unusual one."""


@metric(
    unit="GB/s",
    definition=(
        "Median bus bandwidth (10⁹ bytes/s) of the slowest group of collectives: one type and size"
        " class (a power of two) of one communicator, in records of NCCL Inspector. Of an instance"
        " that all members recorded, bytes on the bus over the shortest execution time of a member,"
        " as the last to arrive waits for nobody. A group is slow where its median is below 0.7 of"
        " that of at least two equal groups (type, size class, ranks, nodes) in three windows;"
        " without one, the lowest median of all groups. `groups` lists the windows of slow groups"
        " alone; `lost_s` is what these take longer than at the median of their equals."
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
        }
        for number, group in enumerate(job.facts.groups)
        for rate in group.rates
    ]


def _windows(job: RolledJob, place: tuple[int, int]) -> list[list[float]]:
    rows = job.rows("rate", *place)
    windows, rates = job.rate("window")[rows].tolist(), job.rate("busbw_gbs")[rows].tolist()
    return [[window, rate] for window, rate in zip(windows, rates, strict=True)]


def _compare(job: RolledJob, rows: Sequence[dict[str, Any]]) -> None:
    """Mark groups that are slower than equal ones at the same time."""
    equal: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        equal[row["operation"], row["least_bytes"], row["n_ranks"], row["nnodes"]].append(row)
    for group in equal.values():
        if len(group) > _LEAST_PEERS:
            _compare_equal(job, group)


def _compare_equal(job: RolledJob, group: Sequence[dict[str, Any]]) -> None:
    import numpy as np  # noqa: PLC0415

    places = [job.rows("rate", *row["place"]) for row in group]
    numbers = np.unique(np.concatenate([job.rate("window")[rows] for rows in places]))
    rates = np.full((len(group), len(numbers)), np.nan)
    for number, rows in enumerate(places):
        at = np.searchsorted(numbers, job.rate("window")[rows])
        rates[number, at] = job.rate("busbw_gbs")[rows]
    for number, row in enumerate(group):
        others = np.delete(rates, number, axis=0)
        compared = (~np.isnan(others)).sum(axis=0) >= _LEAST_PEERS
        medians = np.nanmedian(others[:, compared], axis=0)
        row["slow"] = int((rates[number, compared] < _SLOW_SHARE * medians).sum()) >= _LEAST_WINDOWS
        row["peers_gbs"] = float(np.median([one["busbw_gbs"] for one in group if one is not row]))
        if row["slow"]:
            row["lost_s"] = row["transfer_s"] * max(1 - row["busbw_gbs"] / row["peers_gbs"], 0)


metric_cal = inspector_busbw.document_of
