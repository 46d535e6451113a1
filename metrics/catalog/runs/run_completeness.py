"""Runs that ended on their own, and what the other runs lack."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ccltui.metrics.metric import metric
from ccltui.metrics.runs.completeness import Completeness, completeness
from ccltui.metrics.runs.run_files import NEEDS, Run, run_answer, runs_with

if TYPE_CHECKING:
    from ccltui.metrics.result import Result
    from ccltui.metrics.view.job_view import View


@metric(
    unit="runs",
    definition=("Number of runs that did not end on their own, out of all run directories found."),
    needs=NEEDS,
    keys=("num_incomplete", "num_unmarked", "num_runs", "runs"),
    label="incomplete runs",
    higher_is_better=False,
    needs_traces=False,
)
def run_completeness(view: View) -> Result:
    """The state of every run."""
    told, (first, _) = runs_with(view, completeness, "how it ended")
    states = [done.state for _, done in told]
    details: dict[str, Any] = {
        "num_incomplete": states.count("incomplete"),
        "num_unmarked": states.count("unmarked"),
        "num_runs": len(told),
        "runs": [_row(run, done) for run, done in told],
    }
    warnings = [f"{run.name}: {done.sentence}" for run, done in told if done.sentence]
    return run_answer(
        run_completeness,
        view,
        details,
        runs=told[:1],
        leading=first,
        basis={"complete": "a mark of completion, or the end that the program's log prints"},
        warnings=warnings,
    )


def _row(run: Run, done: Completeness) -> dict[str, Any]:
    return {
        "run": run.name,
        "state": done.state,
        "present": list(done.present),
        "missing": list(done.missing),
        "faults": list(done.faults),
        "ended": done.ended,
        "last_step": done.last_step,
        "total_steps": done.total_steps,
        "problems": list(run.problems),
    }


metric_cal = run_completeness.document_of
