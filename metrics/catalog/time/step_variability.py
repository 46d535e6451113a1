"""Variation of the step time over the steps of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from ccltui.metrics.arrays.statistics import (
    mean,
    median,
    milliseconds,
    nearest_rank,
    ratio,
    sample_std,
)
from ccltui.metrics.metric import metric
from ccltui.metrics.result import Result
from ccltui.metrics.unavailable import refuse
from ccltui.metrics.view.provenance import answer
from ccltui.metrics.workload.job_steps import StepTimes, step_times

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View

MIN_STEPS: Final = 3
OUTLIER: Final = 3.5
"""Deviations from the median that make a step an outlier (Iglewicz and Hoaglin 1993)."""
_MAD_TO_STD: Final = 1.4826
_MEAN_AD_TO_STD: Final = 1.2533  # where more than half of the steps take equally long


@metric(
    unit="ratio",
    definition=(
        "Coefficient of variation of the step time: sample standard deviation divided by mean, "
        "of the slowest rank's marker in each step; the details list outliers."
    ),
    needs=("step markers of 3 steps",),
    keys=(
        "cv",
        "p95_over_p50",
        "p50_iter_time_ms",
        "mad_ms",
        "slowest_step",
        "outliers",
        "num_iterations",
    ),
    headline="cv",
    label="step time variation",
    higher_is_better=False,
)
def step_variability(view: View) -> Result:
    """Spread of the step times, each that of the slowest rank."""
    times = step_times(view)
    if len(times.ids) < MIN_STEPS:
        count = "1 step is" if len(times.ids) == 1 else f"{len(times.ids)} steps are"
        raise refuse("not_applicable", f"{count} marked; variability needs {MIN_STEPS}")
    values = times.slowest_ns
    middle = median(values) or 0.0
    spread = median([abs(value - middle) for value in values]) or 0.0
    slowest = max(range(len(values)), key=lambda i: values[i])
    details: dict[str, Any] = {
        "cv": ratio(sample_std(values) or 0.0, mean(values) or 0.0),
        "p95_over_p50": ratio(nearest_rank(values, 0.95) or 0.0, middle),
        "p50_iter_time_ms": milliseconds(middle),
        "mad_ms": milliseconds(spread),
        "slowest_step": _step(times, slowest),
        "outliers": _outliers(times, values, middle, spread),
        "num_iterations": len(values),
    }
    return answer(
        step_variability,
        view,
        details,
        source="annotation",
        basis={
            "duration": "marker, the maximum over ranks of each step",
            "outliers": f"more than {OUTLIER} robust deviations from the median",
            "std": "sample",
        },
        reasons=times.reasons,
    )


def _outliers(
    times: StepTimes, values: Sequence[int], middle: float, spread: float
) -> list[dict[str, Any]]:
    average = mean([abs(value - middle) for value in values]) or 0.0
    deviation = _MAD_TO_STD * spread or _MEAN_AD_TO_STD * average
    found = []
    for index, value in enumerate(values):
        deviations = ratio(value - middle, deviation)
        if deviations is not None and abs(deviations) > OUTLIER:
            found.append({**_step(times, index), "deviations": deviations})
    return found


def _step(times: StepTimes, index: int) -> dict[str, Any]:
    """A step and the rank with the longest marker in it, the lowest rank among equals."""
    step = times.ids[index]
    in_order = sorted(times.per_rank, key=lambda label: (len(label), label))
    rank = max(in_order, key=lambda label: times.per_rank[label][step].dur_ns)
    return {"step": step, "iter_time_ms": milliseconds(times.slowest_ns[index]), "rank": rank}


metric_cal = step_variability.document_of
