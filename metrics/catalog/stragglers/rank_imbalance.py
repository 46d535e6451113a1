"""Imbalance of computation between ranks; waiting makes the totals equal, so it is left out."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from ccltui.metrics.arrays.statistics import mean, milliseconds, over_ranks, ratio
from ccltui.metrics.device.device_time import device_ranks, device_reasons
from ccltui.metrics.metric import metric
from ccltui.metrics.model.classify import COMP
from ccltui.metrics.result import Result
from ccltui.metrics.unavailable import refuse
from ccltui.metrics.view.provenance import answer
from ccltui.metrics.view.rank_view import of_rank, totals

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.rank_view import RankView


@metric(
    unit="ratio",
    definition=(
        "Time in computing kernels on the busiest rank divided by the mean over ranks; 1 is "
        "even, and collectives are left out because waiting in them makes all totals equal."
    ),
    needs=("GPU kernels", "2 ranks"),
    facts=("sums",),
    keys=("imbalance_ratio", "busiest_rank", "comp_time_ms", "per_step", "per_rank"),
    sums=(of_rank(totals),),
    label="computation imbalance",
    higher_is_better=False,
)
def rank_imbalance(view: View) -> Result:
    """Computation of the busiest rank divided by the mean over ranks."""
    ranks = device_ranks(view)
    if len(ranks) < 2:
        of = f" of {view.world_size}" if view.world_size else ""
        noun = "rank" if (view.world_size or len(ranks)) == 1 else "ranks"
        raise refuse("single_rank", f"{len(ranks)}{of} {noun} found; an imbalance needs 2")
    work = {rank.label: rank.comp_ns for rank in ranks}
    average = mean(list(work.values())) or 0.0
    if not average:
        raise refuse("not_applicable", "no rank computes in the measured time")
    busiest = max(work, key=lambda label: work[label])
    details: dict[str, Any] = {
        "imbalance_ratio": ratio(work[busiest], average),
        "busiest_rank": busiest,
        "comp_time_ms": over_ranks(work, milliseconds),
        "per_step": _per_step(ranks),
        "per_rank": {
            label: {"comp_time_ms": milliseconds(ns), "of_mean_ratio": ratio(ns, average)}
            for label, ns in work.items()
        },
    }
    return answer(
        rank_imbalance,
        view,
        details,
        source="kernel",
        basis={"work": "union of computing kernels: collectives and copies are left out"},
        reasons=device_reasons(view),
        warnings=_uneven_windows(ranks),
    )


def _per_step(ranks: list[RankView]) -> dict[str, dict[str, Any]]:
    """Imbalance of every step that all ranks have."""
    steps: defaultdict[int, dict[str, int]] = defaultdict(dict)
    for rank in ranks:
        for step, covered in _comp_by_step(rank).items():
            steps[step][rank.label] = covered
    table = {}
    for step, work in sorted(steps.items()):
        average = mean(list(work.values()))
        if len(work) == len(ranks) and average:
            busiest = max(work, key=lambda label: work[label])
            row = {"imbalance_ratio": work[busiest] / average, "busiest_rank": busiest}
            table[str(step)] = row
    return table


def _comp_by_step(rank: RankView) -> dict[int, int]:
    """Return the computation of a rank in each step in ns, by step id."""
    return rank.times.by_step(COMP)


def _uneven_windows(ranks: list[RankView]) -> list[str]:
    """Return a warning where the ranks were not recorded for the same steps."""
    steps = {tuple(step.id for step in rank.steps) for rank in ranks}
    if len(steps) > 1:
        return ["the ranks were recorded in different steps: compare per_step"]
    if not any(rank.by_steps for rank in ranks):
        return ["no steps are marked: the ranks may have been recorded for different times"]
    return []


metric_cal = rank_imbalance.document_of
