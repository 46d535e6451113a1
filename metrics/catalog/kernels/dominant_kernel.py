"""The kernels that take the most time, and the share of the first."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from ccltui.metrics.arrays.statistics import microseconds, milliseconds, ratio
from ccltui.metrics.device.device_time import device_answer, device_ranks
from ccltui.metrics.metric import metric
from ccltui.metrics.model.classify import COMM, MEM
from ccltui.metrics.model.kernel_names import bare_name, category_of
from ccltui.metrics.result import Result

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.rank_view import RankView

_SHOWN: Final = 20


class Cost(Struct):
    """Sums over ranks of the kernels that share a bare name and a class."""

    calls: int = 0
    total_ns: int = 0
    names: int = 0
    example: str = ""
    example_ns: int = -1

    def add(self, name: str, calls: int, total_ns: int) -> None:
        """Add the calls of one full name; the name with the most time is the example."""
        self.calls += calls
        self.total_ns += total_ns
        self.names += 1
        if total_ns > self.example_ns:
            self.example, self.example_ns = name, total_ns


Costs = dict[tuple[str, str], Cost]


@metric(
    unit="ratio",
    definition=(
        "Share of the summed kernel time of all ranks that the kernel with the most time takes; "
        "kernels of one bare name count as one, and the details list the top twenty."
    ),
    needs=("GPU kernels",),
    facts=("sums",),
    keys=(
        "dominant_share",
        "dominant_kernel",
        "kernels",
        "num_kernels",
        "num_names",
        "kernel_time_ms",
    ),
    label="top kernel",
)
def dominant_kernel(view: View) -> Result:
    """The kernels of all ranks by their bare names, most time first."""
    ranks = device_ranks(view)
    costs = _costs(ranks)
    total = sum(cost.total_ns for cost in costs.values())
    window = sum(rank.window_ns for rank in ranks)
    ordered = sorted(costs.items(), key=lambda item: (-item[1].total_ns, item[0]))
    rows = [_row(key, cost, total, window) for key, cost in ordered[:_SHOWN]]
    first = rows[0] if rows else {"share": None, "name": None}
    details: dict[str, Any] = {
        "dominant_share": first["share"],
        "dominant_kernel": first["name"],
        "kernels": rows,
        "num_kernels": sum(cost.calls for cost in costs.values()),
        "num_names": len(costs),
        "kernel_time_ms": milliseconds(total) / len(ranks),
    }
    return device_answer(
        dominant_kernel,
        view,
        details,
        basis={
            "share": "of the summed durations of all kernels, without copies",
            "name": "without template arguments and parameters",
        },
    )


def _costs(ranks: list[RankView]) -> Costs:
    by_name: defaultdict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    for rank in ranks:
        for text_id, code, calls, total in rank.work_by_name.rows():
            if code != MEM:
                key = (rank.trace.text(text_id), "comm" if code == COMM else "comp")
                by_name[key].append((calls, total))
    costs: defaultdict[tuple[str, str], Cost] = defaultdict(Cost)
    for (name, kind), parts in sorted(by_name.items()):
        every_call, every_ns = (sum(column) for column in zip(*parts, strict=True))
        costs[bare_name(name), kind].add(name, every_call, every_ns)
    return costs


def _row(key: tuple[str, str], cost: Cost, total: int, window: int) -> dict[str, Any]:
    name, kind = key
    mean_ns = ratio(cost.total_ns, cost.calls)
    return {
        "name": name,
        "class": kind,
        "category": "comm" if kind == "comm" else category_of(cost.example),
        "calls": cost.calls,
        "total_ms": milliseconds(cost.total_ns),
        "mean_us": None if mean_ns is None else microseconds(mean_ns),
        "share": ratio(cost.total_ns, total),
        "share_of_step": ratio(cost.total_ns, window),
        "num_names": cost.names,
        "example": cost.example,
    }


metric_cal = dominant_kernel.document_of
