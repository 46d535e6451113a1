"""Idle time of the device by cause: what the host did, or what the device waited for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ccltui.metrics.arrays.statistics import milliseconds, ratio
from ccltui.metrics.device.device_time import device_answer, device_ranks
from ccltui.metrics.findings.rank_time.idle_causes import (
    BETWEEN_KERNELS_NS,
    CAUSES,
    HOST_CAUSES,
    LATE_START_NS,
    causes_of,
    require_launches,
)
from ccltui.metrics.metric import metric
from ccltui.metrics.result import Result
from ccltui.metrics.view.rank_view import of_rank

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View


@metric(
    unit="ms",
    definition=(
        "Idle time of the device in ms, mean over ranks, because the host had not yet launched "
        "the next work; the details divide all idle time by what the host did and what the "
        "device waited for."
    ),
    needs=("GPU kernels", "launch records (correlation ids)"),
    facts=("classes", "idle_causes"),
    keys=("host_late_ms", "idle_ms", "host_late_ratio_of_idle", "by_cause", "per_rank"),
    sums=(of_rank(causes_of),),
    label="host-bound idle time",
    higher_is_better=False,
)
def idle_causes(view: View) -> Result:
    """Divide the idle time of every rank completely among its causes."""
    ranks = device_ranks(view)
    require_launches(ranks)
    rows = {
        rank.label: {cause: one.total_ns for cause, one in causes_of(rank).items()}
        for rank in ranks
    }
    total = {cause: sum(row[cause] for row in rows.values()) for cause in CAUSES}
    idle = sum(total.values())
    details: dict[str, Any] = {
        "host_late_ms": milliseconds(sum(total[cause] for cause in HOST_CAUSES)) / len(ranks),
        "idle_ms": milliseconds(idle) / len(ranks),
        "host_late_ratio_of_idle": ratio(sum(total[cause] for cause in HOST_CAUSES), idle),
        "by_cause": {
            cause: {
                "ms": milliseconds(total[cause]) / len(ranks),
                "ratio_of_idle": ratio(total[cause], idle),
            }
            for cause in CAUSES
        },
        "per_rank": {label: _row(row) for label, row in rows.items()},
    }
    return device_answer(
        idle_causes,
        view,
        details,
        basis={
            "host": "from the end of the work before to the launch of the work after the gap",
            "order": "the first of these that the host did: " + ", ".join(HOST_CAUSES[:-1]),
            "between_kernels": f"up to {BETWEEN_KERNELS_NS // 1000} us, launched in time",
            "launch_latency": "from the launch to the start of the work; "
            f"{LATE_START_NS // 1000:,} us and more inside of the call that launches is "
            "launch_call, and after that call dependency",
        },
    )


def _row(row: Mapping[str, int]) -> dict[str, float]:
    return {f"{cause}_ms": milliseconds(row[cause]) for cause in CAUSES}


metric_cal = idle_causes.document_of
