"""Step time: the duration of the step marker, the slowest rank of each step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ccltui.metrics.arrays.statistics import (
    mean,
    median,
    milliseconds,
    nearest_rank,
    over_ranks,
    sample_std,
)
from ccltui.metrics.metric import metric
from ccltui.metrics.model.rank_steps import DECODE_LOOP, LOOP_PERIOD, Step
from ccltui.metrics.result import Result
from ccltui.metrics.view.provenance import answer
from ccltui.metrics.workload.job_steps import (
    StepTimes,
    device_period_ns,
    step_times,
    warnings_of_markers,
)
from ccltui.parsers.numbers import percent

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.rank_view import RankView

_UNSTEADY = 0.2
"""Standard deviation over the mean above which the mean alone would mislead: it is warned of."""


@metric(
    unit="ms",
    definition=(
        "Mean step time in ms: the mean over steps of the duration of the step marker on the "
        "CPU, the maximum over ranks of each step."
    ),
    needs=("step markers",),
    facts=("step_of_work",),
    keys=(
        "avg_iter_time_ms",
        "min_iter_time_ms",
        "max_iter_time_ms",
        "std_iter_time_ms",
        "p50_iter_time_ms",
        "p95_iter_time_ms",
        "num_iterations",
        "iter_times_ms",
        "std_kind",
        "cv",
        "per_rank",
        "across_ranks",
        "gpu_span_ms",
        "device_period_ms",
        "period_ms",
        "periods_ms",
    ),
    aliases=("iter_time_16",),
    label="step time",
    higher_is_better=False,
)
def iter_time(view: View) -> Result:
    """Statistics over steps of the slowest rank's marker."""
    times = step_times(view)
    values = times.slowest_ns
    average, std = mean(values), sample_std(values)
    cv = None if std is None or not average else std / average
    periods = _periods_ns(times)
    per_rank = {label: _of_rank(steps, times.ids) for label, steps in times.per_rank.items()}
    details: dict[str, Any] = {
        "avg_iter_time_ms": _ms(average),
        "min_iter_time_ms": _ms(min(values)),
        "max_iter_time_ms": _ms(max(values)),
        "std_iter_time_ms": _ms(std),
        "p50_iter_time_ms": _ms(median(values)),
        "p95_iter_time_ms": _ms(nearest_rank(values, 0.95)),
        "num_iterations": len(values),
        "iter_times_ms": [milliseconds(ns) for ns in values],
        "std_kind": "sample",
        "cv": cv,
        "per_rank": per_rank,
        "across_ranks": over_ranks(
            {
                label: mean([s[i].dur_ns for i in times.ids]) or 0
                for label, s in times.per_rank.items()
            },
            milliseconds,
        ),
        "device_period_ms": _ms(device_period_ns(view, times)),
        "gpu_span_ms": _ms(_gpu_span_ns(view.ranks, times.ids)),
        "period_ms": _ms(mean(periods)),
        "periods_ms": [milliseconds(ns) for ns in periods],
    }
    warnings = warnings_of_markers(view, times)
    if len(values) == 1:
        warnings.append("n = 1: one step does not show how steady the run is")
    if cv is not None and len(values) > 2 and cv > _UNSTEADY:
        warnings.append(f"step times vary: standard deviation is {percent(cv)} of the mean")
    is_loop = any(rank.marker == DECODE_LOOP for rank in view.ranks)
    duration = LOOP_PERIOD if is_loop else "marker"
    basis = {"duration": duration, "aggregate": "maximum over ranks of each step"}
    return answer(
        iter_time,
        view,
        details,
        source="annotation",
        basis=basis,
        reasons=times.reasons,
        warnings=warnings,
    )


def _ms(nanoseconds: float | None) -> float | None:
    return None if nanoseconds is None else milliseconds(nanoseconds)


def _of_rank(steps: Mapping[int, Step], ids: Sequence[int]) -> dict[str, Any]:
    values = [steps[i].dur_ns for i in ids]
    return {
        "avg": _ms(mean(values)),
        "min": _ms(min(values)),
        "max": _ms(max(values)),
        "std": _ms(sample_std(values)),
        "n": len(values),
    }


def _gpu_span_ns(ranks: Sequence[RankView], ids: Sequence[int]) -> float | None:
    """Mean over steps of the longest time from first to last work, None without device work."""
    longest: dict[int, int] = {}
    for rank in ranks:
        if rank.facts.has_device:
            for step, start, end in rank.work_windows:
                longest[step] = max(longest.get(step, 0), end - start)
    return mean([longest[i] for i in ids if i in longest])


def _periods_ns(times: StepTimes) -> list[int]:
    """Time from start to start of consecutive steps, the longest of any rank, in ns.

    Unlike the duration of the marker it includes the time between steps.
    """
    return [
        max(s[b].start_ns - s[a].start_ns for s in times.per_rank.values())
        for a, b in pairwise(times.ids)
        if b == a + 1
    ]


metric_cal = iter_time.document_of
