"""Share of communication in the busy time of the device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ccltui.metrics.arrays.statistics import milliseconds, ratio
from ccltui.metrics.device.device_time import (
    communication_work,
    device_answer,
    device_ranks,
    require_communication_on_device,
)
from ccltui.metrics.metric import metric
from ccltui.metrics.model.classify import COMM
from ccltui.metrics.result import Result
from ccltui.metrics.view.rank_view import of_rank, totals

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.rank_view import RankView


@metric(
    unit="ratio",
    definition=(
        "Share of the busy time of the device in which a collective runs, with unions over all "
        "streams; 0 where there are kernels but no collectives."
    ),
    needs=("GPU kernels",),
    facts=("calls", "sums"),
    keys=(
        "communication_fraction",
        "communication_fraction_of_kernel_time",
        "communication_fraction_of_window",
        "comm_time_ms",
        "busy_ms",
        "per_rank",
        "by_library",
        "kernels_by_words",
        "kernels_like_communication",
        "copies_between_devices",
    ),
    sums=(of_rank(totals),),
    label="communication share",
    higher_is_better=False,
)
def communication_fraction(view: View) -> Result:
    """Communication over busy time, from unions and from sums."""
    ranks = device_ranks(view)
    require_communication_on_device(ranks)
    rows = {rank.label: _times(rank) for rank in ranks}
    total = {name: sum(row[name] for row in rows.values()) for name in _NAMES}
    details: dict[str, Any] = {
        **_fractions(total),
        "comm_time_ms": milliseconds(total["comm"]) / len(ranks),
        "busy_ms": milliseconds(total["busy"]) / len(ranks),
        "per_rank": {label: _fractions(row) for label, row in rows.items()},
        **communication_work(ranks),
    }
    return device_answer(
        communication_fraction,
        view,
        details,
        basis={
            "aggregate": "ratios of sums over ranks",
            "kernels": "by_library divides communication; kernels_by_words are that "
            "part of it which only words of a name suggest; kernels_like_communication and "
            "copies_between_devices are not counted",
            "sums": "of_kernel_time adds durations: streams that run at once count twice",
        },
    )


_NAMES = ("comm", "busy", "window", "comm_sum", "kernel_sum")


def _times(rank: RankView) -> dict[str, int]:
    sums = rank.device_sums()
    return {
        "comm": rank.comm_ns,
        "busy": rank.occupied_ns,
        "window": rank.window_ns,
        "comm_sum": sums.summed_ns[COMM],
        "kernel_sum": sums.kernels_ns,
    }


def _fractions(times: dict[str, int]) -> dict[str, float | None]:
    return {
        "communication_fraction": ratio(times["comm"], times["busy"]),
        "communication_fraction_of_kernel_time": ratio(times["comm_sum"], times["kernel_sum"]),
        "communication_fraction_of_window": ratio(times["comm"], times["window"]),
    }


metric_cal = communication_fraction.document_of
