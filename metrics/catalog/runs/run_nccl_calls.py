"""All-reduces for each backward pass of a profiled run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ccltui.metrics.metric import metric
from ccltui.metrics.runs.nccl_calls import NcclCalls, nccl_calls
from ccltui.metrics.runs.run_files import PARAMETERS, Run, run_answer, runs_with

if TYPE_CHECKING:
    from ccltui.metrics.result import Result
    from ccltui.metrics.view.job_view import View


@metric(
    unit="calls",
    definition=(
        "Number of all-reduces issued to NCCL per backward pass of a micro batch, counted in "
        "the ranges of nsys; the division by passes makes captures of different length "
        "comparable."
    ),
    needs=("run directory with the text of nsys stats, report nvtx_sum",),
    keys=(
        "run",
        "allreduce_per_backward",
        "allreduce_per_optimizer_step",
        "per_backward",
        "instances",
        "num_backward",
        "grad_accum_steps",
        "files",
        "runs",
    ),
    headline="allreduce_per_backward",
    label="all-reduces per backward",
    higher_is_better=False,
    needs_traces=False,
    parameters=PARAMETERS,
)
def run_nccl_calls(view: View) -> Result:
    """Calls of the profiled node divided by the backward passes of the same node."""
    told, (run, calls) = runs_with(view, nccl_calls, "ranges of NCCL and of backward passes")
    return run_answer(
        run_nccl_calls,
        view,
        {**_row(run, calls), "runs": [_row(one, value) for one, value in told]},
        runs=told,
        leading=run,
        basis={
            "source": "nvtx_sum of nsys stats",
            "denominator": f"instances of {calls.backward_range}",
        },
    )


def _row(run: Run, calls: NcclCalls) -> dict[str, Any]:
    accumulation = run.configuration.grad_accum
    each = calls.per_backward("AllReduce")
    return {
        "run": run.name,
        "allreduce_per_backward": each,
        "allreduce_per_optimizer_step": _times(each, accumulation),
        "per_backward": {op: calls.per_backward(op) for op in calls.instances},
        "instances": calls.instances,
        "num_backward": calls.backward,
        "grad_accum_steps": accumulation,
        "files": list(calls.files),
    }


def _times(each: float | None, accumulation: int | None) -> float | None:
    return None if each is None or accumulation is None else each * accumulation


metric_cal = run_nccl_calls.document_of
