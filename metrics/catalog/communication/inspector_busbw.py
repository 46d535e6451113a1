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
    from ccltui.metrics.inspector.inspector_job import InspectorJob, Operations
    from ccltui.metrics.result import Result
    from ccltui.metrics.view.job_view import View

_SLOW_SHARE: Final = 0.7
"""Links of one kind differ by less than a tenth; a link that lost one of two lanes has 0.5."""
_LEAST_WINDOWS: Final = 3
"""One slow window may be other work on the same network."""
_LEAST_PEERS: Final = 2
"""Of two groups, either may be the unusual one."""
_ALL_PARTS: Final = frozenset(("AllGather", "AllGatherV", "ReduceScatter"))


@metric(
    unit="GB/s",
    definition=(
        "Median bus bandwidth (10⁹ bytes/s) of the slowest group of collectives: one type and size"
        " class (a power of two) of one communicator, in records of NCCL Inspector. Of an instance"
        " that all members recorded, bytes on the bus over the shortest execution time of a member,"
        " as the last to arrive waits for nobody. A group is slow where its median is below 0.7 of"
        " that of at least two equal groups (type, size class, ranks, nodes) in three windows;"
        " without one, the lowest median of all groups."
    ),
    needs=("records of NCCL Inspector of all members of a communicator",),
    keys=("busbw_gbs", "slow_groups", "groups", "window_s", "unread"),
    headline="busbw_gbs",
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
    _compare(rows)
    rows.sort(key=lambda row: (not row["slow"], row["busbw_gbs"], row["ranks"]))
    details: dict[str, Any] = {
        "busbw_gbs": rows[0]["busbw_gbs"],
        "slow_groups": [row["ranks"] for row in rows if row["slow"]],
        "groups": rows,
        "window_s": job.window_us / 1e6,
        "unread": list(job.unread),
    }
    return side_answer(
        inspector_busbw,
        view,
        details,
        files=[one.path for one in job.files],
        basis={"value": "the shortest execution of each instance that all members recorded"},
        reasons=[Reason("no_side_file", text) for text in job.unread],
    )


def _rows(job: InspectorJob) -> list[dict[str, Any]]:
    import numpy as np  # noqa: PLC0415

    rows = []
    for one in job.operations:
        classes = np.log2(np.maximum(one.size, 1)).astype(np.int64)
        for size_class in np.unique(classes).tolist():
            chosen = (classes == size_class) & (one.shortest_us > 0) & (one.size > 0)
            if chosen.any() and one.operation != "All2All":  # the writer has no factor for it
                rows.append(_row(job, one, size_class, chosen))
    return rows


def _row(job: InspectorJob, one: Operations, size_class: int, chosen: Any) -> dict[str, Any]:
    import numpy as np  # noqa: PLC0415

    moved = one.size[chosen] * _bus_factor(one.operation, one.communicator.n_ranks)
    rates = moved / one.shortest_us[chosen] / 1e3
    windows = job.windows(one.written_us[chosen])
    by_window = {
        number: float(np.median(rates[windows == number])) for number in np.unique(windows).tolist()
    }
    return {
        "communicator": one.communicator.name or one.communicator.id,
        "id": one.communicator.id,
        "operation": one.operation,
        "least_bytes": 1 << size_class,
        "n_ranks": one.communicator.n_ranks,
        "nnodes": one.communicator.nnodes,
        "ranks": list(one.labels),
        "instances": len(rates),
        "busbw_gbs": float(np.median(rates)),
        "peers_gbs": None,
        "slow": False,
        "windows": [[number, rate] for number, rate in by_window.items()],
    }


def _bus_factor(operation: str, n_ranks: int) -> float:
    """Bytes on the bus for each byte of the message, as the writer counts them."""
    if operation == "AllReduce":
        return 2 * (n_ranks - 1) / n_ranks
    return n_ranks - 1 if operation in _ALL_PARTS else 1


def _compare(rows: Sequence[dict[str, Any]]) -> None:
    """Mark groups that are slower than equal ones at the same time."""
    from statistics import median  # noqa: PLC0415

    equal: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        equal[row["operation"], row["least_bytes"], row["n_ranks"], row["nnodes"]].append(row)
    for group in equal.values():
        for row in group:
            others = [dict(map(tuple, one["windows"])) for one in group if one is not row]
            if len(others) < _LEAST_PEERS:
                continue
            row["peers_gbs"] = median(one["busbw_gbs"] for one in group if one is not row)
            slow = 0
            for window, rate in row["windows"]:
                rates = [one[window] for one in others if window in one]
                slow += len(rates) >= _LEAST_PEERS and rate < _SLOW_SHARE * median(rates)
            row["slow"] = slow >= _LEAST_WINDOWS


metric_cal = inspector_busbw.document_of
