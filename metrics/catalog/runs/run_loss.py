"""Losses of a training run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ccltui.metrics.metric import metric
from ccltui.metrics.runs.key_figures import Loss, loss
from ccltui.metrics.runs.run_files import NEEDS, PARAMETERS, Run, run_answer, runs_with

if TYPE_CHECKING:
    from ccltui.metrics.result import Result
    from ccltui.metrics.view.job_view import View


@metric(
    unit="nats",
    definition=(
        "Last training loss in nats that a run recorded: that of its last step where steps are "
        "logged, otherwise the mean of its last epoch."
    ),
    needs=NEEDS,
    keys=(
        "run",
        "last_train_loss",
        "best_val_loss",
        "num_points",
        "train_loss",
        "steps",
        "runs",
    ),
    headline="last_train_loss",
    label="training loss",
    higher_is_better=False,
    needs_traces=False,
    parameters=PARAMETERS,
)
def run_loss(view: View) -> Result:
    """Last training loss and best validation loss."""
    told, (run, found) = runs_with(view, loss, "a loss")
    details: dict[str, Any] = {
        **_row(run, found),
        "train_loss": list(found.curve),
        "steps": list(found.steps),
        "runs": [_row(one, value) for one, value in told],
    }
    return run_answer(
        run_loss, view, details, runs=told, leading=run, basis={"source": found.source}
    )


def _row(run: Run, found: Loss) -> dict[str, Any]:
    return {
        "run": run.name,
        "last_train_loss": found.last_train,
        "best_val_loss": found.best_val,
        "num_points": len(found.curve),
    }


metric_cal = run_loss.document_of
