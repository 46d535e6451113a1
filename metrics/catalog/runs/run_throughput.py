"""Tokens per second of a training run, as recorded by the run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ccltui.metrics.metric import metric
from ccltui.metrics.result import Reason
from ccltui.metrics.runs.completeness import completeness
from ccltui.metrics.runs.key_figures import Throughput, missing_world, throughput
from ccltui.metrics.runs.run_files import NEEDS, PARAMETERS, Run, run_answer, runs_with

if TYPE_CHECKING:
    from ccltui.metrics.result import Result
    from ccltui.metrics.view.job_view import View


_OF_LEADING = (
    "run",
    "tokens_per_s",
    "tokens_per_s_per_gpu",
    "samples_per_s",
    "world_size",
    "per_epoch_tokens_per_s",
    "profiled",
)


@metric(
    unit="tokens/s",
    definition=(
        "Training tokens of all ranks per second of training wall time, without validation, as "
        "the run recorded them: the mean over its epochs, otherwise over its logged steps. "
        "samples_per_s is the same in samples, where its log states those."
    ),
    needs=NEEDS,
    keys=(*_OF_LEADING, "runs"),
    headline="tokens_per_s",
    label="throughput of the run",
    higher_is_better=True,
    needs_traces=False,
    parameters=PARAMETERS,
)
def run_throughput(view: View) -> Result:
    """Throughput that each run states; a profiled or incomplete run is marked."""
    told, (run, rate) = runs_with(view, throughput, "its throughput", missing_world)
    done = completeness(run)
    reasons = []
    if done.state == "incomplete":
        reasons.append(Reason("incomplete_run", f"{run.name}: {done.sentence}"))
    if rate.tokens_per_s is None:
        why = missing_world(run) or f"the log of {run.name} states samples and no tokens a second"
        reasons.append(Reason("no_side_file", why))
    warnings = list(rate.checks)
    if run.profiled:
        warnings.append("nsys was recording: the throughput may be lower than without it")
    leading = _row(run, rate)
    details = {key: leading[key] for key in _OF_LEADING}
    details["runs"] = [_row(one, value) for one, value in told]
    return run_answer(
        run_throughput,
        view,
        details,
        runs=told,
        leading=run,
        basis={"source": rate.source, "window": "training wall, validation left out"},
        reasons=reasons,
        warnings=warnings,
    )


def _row(run: Run, rate: Throughput) -> dict[str, Any]:
    size = run.world_size
    return {
        "run": run.name,
        "tokens_per_s": rate.tokens_per_s,
        "tokens_per_s_per_gpu": rate.tokens_per_s / size if size and rate.tokens_per_s else None,
        "samples_per_s": rate.samples_per_s,
        "world_size": size,
        "per_epoch_tokens_per_s": list(rate.per_epoch),
        "profiled": run.profiled,
        "state": completeness(run).state,
        "source": rate.source,
    }


metric_cal = run_throughput.document_of
