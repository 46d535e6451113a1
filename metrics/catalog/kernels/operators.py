"""Table of the device work of all ranks by the host operator that launched it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ccltui.metrics.device.device_time import device_answer, device_ranks
from ccltui.metrics.device.product_rates import RATES_BASIS, product_rates, rate_cells, roofline_of
from ccltui.metrics.device.work_pivot import (
    COLUMNS_BASIS,
    PivotRow,
    attributed_share,
    by_operator,
    pivot,
    table,
    with_launches,
)
from ccltui.metrics.metric import metric
from ccltui.metrics.result import Result
from ccltui.metrics.workload.hardware import device_of

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View


@metric(
    unit="ratio",
    definition=(
        "Share of the summed durations of kernels and copies whose launching host operator is "
        "known; the details list the two hundred operators with the most time, each with the "
        "shapes of its inputs where they are recorded, and the sum of the others."
    ),
    needs=("GPU kernels", "operators", "launch records or External ids"),
    facts=("step_of_work", "busy"),
    keys=("attributed_share", "operators", "other", "roofline_of", "num_operators", "num_events"),
    label="kernels by operator",
    in_all=False,
)
def operators(view: View) -> Result:
    """The device work of all ranks by operator and shapes, most time first."""
    ranks, missing = with_launches(
        device_ranks(view), lambda rank: len(rank.trace.group("cpu_ops")) > 0, "operator"
    )
    device = device_of(view)
    rows, rates = pivot(ranks, by_operator), product_rates(ranks, device)

    def described(row: PivotRow) -> dict[str, Any]:
        name, shapes = row.key
        rate = rates.get((name, shapes))
        return {
            "name": name,
            "shapes": shapes,
            **rate_cells(rate),
        }

    shown, other = table(rows, ranks, described)
    details: dict[str, Any] = {
        "attributed_share": attributed_share(rows),
        "operators": shown,
        "other": other,
        "roofline_of": roofline_of(device),
        "num_operators": sum(row.key[0] is not None for row in rows),
        "num_events": sum(row.calls for row in rows),
    }
    return device_answer(
        operators,
        view,
        details,
        basis={
            **COLUMNS_BASIS,
            "name": "the innermost operator at the launch; inside a matrix product or attention "
            "with recorded shapes that one; null where none is known",
            **RATES_BASIS,
        },
        reasons=missing,
    )


metric_cal = operators.document_of
