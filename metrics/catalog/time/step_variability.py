"""Variation of the step time over the steps of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ccltui.metrics.arrays.statistics import (
    mean,
    median,
    milliseconds,
    nearest_rank,
    ratio,
    sample_std,
)
from ccltui.metrics.findings.slow_steps import (
    MIN_STEPS,
    OUTLIER,
    robust_deviation,
    slow_step_rows,
)
from ccltui.metrics.metric import metric
from ccltui.metrics.result import Result
from ccltui.metrics.unavailable import refuse
from ccltui.metrics.view.collective_selection import MATERIALITY
from ccltui.metrics.view.provenance import answer
from ccltui.metrics.workload.job_steps import StepTimes, step_times, warnings_of_markers

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View


@metric(
    unit="ratio",
    definition=(
        "Coefficient of variation of the step time: sample standard deviation divided by mean, "
        "of the slowest rank's marker in each step; the details list outliers, and the steps that "
        "take longer than the median step on the devices, with who or what makes them slow."
    ),
    needs=("step markers of 3 steps",),
    facts=("slow_steps",),
    keys=(
        "cv",
        "p95_over_p50",
        "p50_iter_time_ms",
        "mad_ms",
        "slowest_step",
        "outliers",
        "slow_steps",
        "num_iterations",
    ),
    label="step time variation",
    parameters={
        MATERIALITY: "percentage of the median step below which no step is slow; 1 unless given"
    },
    higher_is_better=False,
)
def step_variability(view: View) -> Result:
    """Spread of the step times, each that of the slowest rank."""
    times = step_times(view)
    if len(times.ids) < MIN_STEPS:
        count = "1 step is" if len(times.ids) == 1 else f"{len(times.ids)} steps are"
        raise refuse("not_applicable", f"{count} marked; variability needs {MIN_STEPS}")
    values = times.slowest_ns
    middle, deviation = robust_deviation(values)
    spread = median([abs(value - middle) for value in values]) or 0.0
    slowest = max(range(len(values)), key=lambda i: values[i])
    details: dict[str, Any] = {
        "cv": ratio(sample_std(values) or 0.0, mean(values) or 0.0),
        "p95_over_p50": ratio(nearest_rank(values, 0.95) or 0.0, middle),
        "p50_iter_time_ms": milliseconds(middle),
        "mad_ms": milliseconds(spread),
        "slowest_step": _step(times, slowest),
        "outliers": _outliers(times, values, middle, deviation),
        "slow_steps": slow_step_rows(view),
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
            "slow_steps": "time from the end of the step before on the devices, median over "
            "ranks; as far above the median, and a material share of it",
            "over_ms": "beyond the median step",
        },
        reasons=times.reasons,
        warnings=warnings_of_markers(view, times),
    )


def _outliers(
    times: StepTimes, values: Sequence[int], middle: float, deviation: float
) -> list[dict[str, Any]]:
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
