"""Table of the device work of all ranks by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ccltui.metrics.arrays.statistics import milliseconds
from ccltui.metrics.device.device_time import device_answer, device_ranks
from ccltui.metrics.device.product_rates import (
    RATES_BASIS,
    product_rates,
    product_table,
    roofline_of,
)
from ccltui.metrics.device.work_pivot import (
    CLASSES,
    COLUMNS_BASIS,
    PivotRow,
    by_name,
    category,
    pivot,
    table,
    total_ns,
)
from ccltui.metrics.metric import metric
from ccltui.metrics.model.classify import COMM, COMP, MEM
from ccltui.metrics.result import Result
from ccltui.metrics.workload.hardware import device_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.rank_view import RankView


@metric(
    unit="ms",
    definition=(
        "Summed durations of kernels and copies in the measured time, mean over ranks; the "
        "details list the two hundred names with the most time over all ranks, and the sum of "
        "the others; and the operators whose FLOPs follow from their recorded inputs, by shapes, "
        "with their rates against the roofline of the device."
    ),
    needs=("GPU kernels",),
    facts=("step_of_work", "busy"),
    keys=(
        "work_time_ms",
        "kernels",
        "other",
        "products",
        "products_reason",
        "roofline_of",
        "num_names",
        "num_events",
    ),
    label="kernels by name",
    in_all=False,
)
def kernels(view: View) -> Result:
    """The device work of all ranks by bare name and class, most time first."""
    ranks = device_ranks(view)
    rows = pivot(ranks, by_name)
    shown, other = table(rows, ranks, _described)
    details: dict[str, Any] = {
        "work_time_ms": milliseconds(total_ns(rows)) / len(ranks),
        "kernels": shown,
        "other": other,
        **_products(view, ranks),
        "num_names": len(rows),
        "num_events": sum(row.calls for row in rows)
        + sum(rank.num_untimed(COMM, COMP, MEM) for rank in ranks),
    }
    return device_answer(
        kernels,
        view,
        details,
        basis={
            **COLUMNS_BASIS,
            **RATES_BASIS,
            "share": "of the summed durations of all kernels and copies",
            "name": "without template arguments and parameters; the example has the most time",
        },
    )


def _products(view: View, ranks: Sequence[RankView]) -> dict[str, Any]:
    """Return the operators with known FLOPs, or the reason why there is none."""
    device = device_of(view)
    rates = product_rates(ranks, device)
    why = None
    if not rates:
        why = (
            "no kernel was launched by a matrix product, attention or convolution whose shapes are "
            "recorded (record_shapes=True records them)"
        )
    return {
        "products": product_table(rates),
        "products_reason": why,
        "roofline_of": roofline_of(device),
    }


def _described(row: PivotRow) -> dict[str, Any]:
    name, kind = row.key
    return {
        "name": name,
        "class": kind,
        "category": category(row.example, CLASSES.index(str(kind))),
        "num_variants": row.num_texts,
        "example": row.example,
    }


metric_cal = kernels.document_of
