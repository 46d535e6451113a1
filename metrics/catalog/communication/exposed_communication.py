"""Exposed communication: the most that faster links could save."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ccltui.metrics.arrays.statistics import milliseconds, over_ranks, ratio
from ccltui.metrics.device.device_time import (
    device_answer,
    device_ranks,
    require_communication_on_device,
)
from ccltui.metrics.metric import metric
from ccltui.metrics.result import Result
from ccltui.metrics.view.rank_view import of_rank, totals
from ccltui.metrics.workload.call_parts import Split, by_dim, by_type, exposed_by, exposed_parts

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.rank_view import RankView


@metric(
    unit="ms",
    definition=(
        "Time in ms, mean over ranks, in which a collective runs while the device neither "
        "computes nor copies, waiting for late ranks and the bubble of a pipeline included (the "
        "parts waiting, communication and bubble of `step_composition`): an upper bound on the "
        "time that faster links could save."
    ),
    needs=("GPU kernels",),
    facts=("busy", "calls", "sums"),
    keys=(
        "exposed_ms",
        "exposed_pct_of_step",
        "exposed_ratio_of_comm",
        "comm_time_ms",
        "by_dim",
        "by_type",
        "per_rank",
        "across_ranks",
    ),
    sums=(
        of_rank(totals),
        exposed_by(by_dim),
        exposed_by(by_type),
    ),
    label="exposed communication + waits",
    higher_is_better=False,
)
def exposed_communication(view: View) -> Result:
    """Communication outside of computation and copies, per rank, type and dimension."""
    ranks = device_ranks(view)
    require_communication_on_device(ranks)
    exposed = {rank.label: rank.exposed_ns for rank in ranks}
    total, window = sum(exposed.values()), sum(rank.window_ns for rank in ranks)
    comm = sum(rank.comm_ns for rank in ranks)
    details: dict[str, Any] = {
        "exposed_ms": milliseconds(total) / len(ranks),
        "exposed_pct_of_step": 100 * total / window,
        "exposed_ratio_of_comm": ratio(total, comm),
        "comm_time_ms": milliseconds(comm) / len(ranks),
        "by_dim": _by(view, ranks, by_dim),
        "by_type": _by(view, ranks, by_type),
        "per_rank": {rank.label: _row(rank, exposed[rank.label]) for rank in ranks},
        "across_ranks": {"exposed_ms": over_ranks(exposed, milliseconds)},
    }
    return device_answer(
        exposed_communication,
        view,
        details,
        basis={
            "hidden_by": "computation and copies",
            "bound": "an upper bound: a part of it is waiting for other ranks",
            "aggregate": "mean over ranks; ratios from sums",
        },
    )


def _row(rank: RankView, exposed: int) -> dict[str, Any]:
    share = ratio(exposed, rank.window_ns)
    return {
        "exposed_ms": milliseconds(exposed),
        "exposed_pct_of_step": None if share is None else 100 * share,
        "exposed_ratio_of_comm": ratio(exposed, rank.comm_ns),
    }


def _by(view: View, ranks: list[RankView], split: Split[str]) -> dict[str, Any]:
    """Exposed communication of each part; parts may overlap, so they do not add up."""
    return {
        name: {
            "exposed_ms": milliseconds(sum(exposed for _, exposed in times.values())) / len(ranks)
        }
        for name, times in sorted(exposed_parts(view, ranks, split).items())
    }


metric_cal = exposed_communication.document_of
