"""Step times of a training run, and whether the timed steps represent the run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ccltui.metrics.metric import metric
from ccltui.metrics.result import Reason
from ccltui.metrics.runs.key_figures import StepTimes, step_times
from ccltui.metrics.runs.run_files import NEEDS, PARAMETERS, Run, run_answer, runs_with

if TYPE_CHECKING:
    from ccltui.metrics.result import Result
    from ccltui.metrics.view.job_view import View

_OF_LEADING = (
    "run",
    "step_time_mean_ms",
    "step_time_p50_ms",
    "step_time_p95_ms",
    "num_samples",
    "num_samples_stated",
    "steps_per_sample",
    "num_steps",
    "coverage_ratio",
    "caveat",
)


@metric(
    unit="ms",
    definition=(
        "Median time in ms of a micro-step (forward and backward of one micro batch, with the "
        "optimizer's part where it falls into it) over the micro-steps that the run timed; "
        "coverage is the mean times the number of all micro-steps, divided by the training wall "
        "time. Each sample is the mean of steps_per_sample steps."
    ),
    needs=NEEDS,
    keys=(*_OF_LEADING, "runs"),
    headline="step_time_p50_ms",
    label="micro-step time of the run",
    higher_is_better=False,
    needs_traces=False,
    parameters=PARAMETERS,
)
def run_step_time(view: View) -> Result:
    """Mean, median and p95 with the number of samples behind them and their coverage."""
    told, (run, times) = runs_with(view, step_times, "step times")
    rows = [_row(one, value) for one, value in told]
    leading = _row(run, times)
    text = times.caveat
    reasons = [Reason("sampled_steps", text)] if text else []
    if times.p50_s is None:
        reasons.append(Reason("no_side_file", f"{run.name} states no median of its step times"))
    return run_answer(
        run_step_time,
        view,
        {**{key: leading[key] for key in _OF_LEADING}, "runs": rows},
        runs=told,
        leading=run,
        basis={"source": times.source, "sampling": times.sampling or "not stated"},
        reasons=reasons,
    )


def _row(run: Run, times: StepTimes) -> dict[str, Any]:
    return {
        "run": run.name,
        "step_time_mean_ms": _ms(times.mean_s),
        "step_time_p50_ms": _ms(times.p50_s),
        "step_time_p95_ms": _ms(times.p95_s),
        "num_samples": times.num_samples,
        "num_samples_stated": times.stated,
        "steps_per_sample": times.steps_per_sample,
        "num_steps": times.num_steps,
        "coverage_ratio": times.coverage,
        "caveat": times.caveat,
        "source": times.source,
    }


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1000


metric_cal = run_step_time.document_of
