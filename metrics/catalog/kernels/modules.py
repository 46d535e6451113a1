"""Table of the device work of all ranks by the modules and ranges around its launch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ccltui.metrics.device.device_time import device_answer, device_ranks
from ccltui.metrics.device.launch_origin import has_ranges
from ccltui.metrics.device.work_pivot import (
    COLUMNS_BASIS,
    attributed_share,
    by_path,
    pivot,
    table,
    with_launches,
)
from ccltui.metrics.metric import metric
from ccltui.metrics.result import Result

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View


@metric(
    unit="ratio",
    definition=(
        "Share of the summed durations of kernels and copies that are launched inside of an "
        "nn.Module or a range of the user (NVTX, record_function); the details list the two "
        "hundred paths of nested ranges with the most time, and the sum of the others."
    ),
    needs=("GPU kernels", "nn.Module frames or ranges of the user", "launch records"),
    facts=("step_of_work", "busy"),
    keys=("attributed_share", "modules", "other", "num_paths", "num_events"),
    label="kernels by module",
    in_all=False,
)
def modules(view: View) -> Result:
    """The device work of all ranks by path, most time first."""
    ranks, missing = with_launches(
        device_ranks(view), has_ranges, "nn.Module frame or range of the user"
    )
    rows = pivot(ranks, by_path)
    shown, other = table(rows, ranks, lambda row: {"path": row.key[0]})
    details: dict[str, Any] = {
        "attributed_share": attributed_share(rows),
        "modules": shown,
        "other": other,
        "num_paths": sum(row.key[0] is not None for row in rows),
        "num_events": sum(row.calls for row in rows),
    }
    return device_answer(
        modules,
        view,
        details,
        basis={
            **COLUMNS_BASIS,
            "path": "nn.Module frames and ranges of the thread that run at the launch, the outer "
            "first, without step markers; null outside of any: also the backward pass, which "
            "autograd runs on a thread without modules",
        },
        reasons=missing,
    )


metric_cal = modules.document_of
