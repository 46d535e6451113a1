"""Select runs and build results for the metrics of runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ccltui.metrics.result import Reason, Result
from ccltui.metrics.runs.run_files import Run, read_runs
from ccltui.metrics.unavailable import Refusal, refuse
from ccltui.metrics.view.provenance import require_traces, side_answer
from ccltui.parsers.nsys import NSYS_TEXT, NSYS_TEXT_TRACE
from ccltui.parsers.runs import (
    LAUNCHER_METADATA,
    RUN_COMPLETE,
    STEP_LOG,
    TRAINING_LOG,
    TRAINING_METRICS,
)

if TYPE_CHECKING:
    from ccltui.metrics.result import MetricDefinition
    from ccltui.metrics.view.job_view import View

T = TypeVar("T")

_MOST_NAMED: Final = 4
RUN_OVERRIDE: Final = "run"
NEEDS: Final = ("run directory: training_metrics.json, training_steps.jsonl or a training log",)
PARAMETERS: Final = {RUN_OVERRIDE: "the run that the value is of, by its folder"}


def runs_with(
    view: View,
    figure_of: Callable[[Run], T | None],
    what: str,
    why_not: Callable[[Run], str] | None = None,
) -> tuple[list[tuple[Run, T]], tuple[Run, T]]:
    """Return the runs with a figure, and the leading one: that requested, else the first by name.

    Args:
        view: The view of the job.
        figure_of: Computes the figure of a run; None where the run has none.
        what: The figure in words, for the message.
        why_not: Reason why a run has no figure, "" where nothing more is known.

    Raises:
        Refusal: No run has the figure.
    """
    runs = read_runs(view.job.discovery)
    if not runs:
        if not view.job.ranks and not view.job.discovery.files:
            require_traces(view)
        raise refuse("no_side_file", f"no run directory here: {NEEDS[0].partition(': ')[2]}")
    found = [(run, value) for run in runs if (value := figure_of(run)) is not None]
    if not found:
        known = [text for run in runs if why_not is not None and (text := why_not(run))]
        raise Refusal(
            Reason("no_side_file", "; ".join([f"no run records {what}", *known[:_MOST_NAMED]])),
            *(Reason("no_side_file", problem) for run in runs for problem in run.problems),
        )
    return found, _leading(view, found)


def _leading(view: View, runs: Sequence[tuple[Run, T]]) -> tuple[Run, T]:
    wanted = view.card.text(RUN_OVERRIDE)
    if not wanted:
        return runs[0]
    fitting = [pair for pair in runs if pair[0].name == wanted.rstrip("/")]
    if not fitting:
        names = ", ".join(run.name for run, _ in runs[:8])
        raise refuse("no_side_file", f"no run {wanted!r}; there are {names}")
    return fitting[0]


def run_answer(
    metric: MetricDefinition,
    view: View,
    details: Mapping[str, Any],
    *,
    runs: Sequence[tuple[Run, Any]],
    leading: Run,
    basis: Mapping[str, str],
    reasons: Sequence[Reason] = (),
    warnings: Sequence[str] = (),
) -> Result:
    """Return the result of a metric of runs; several runs are listed, never averaged."""
    if len(runs) > 1:
        more = f"{len(runs)} runs, which are never averaged: the value is that of {leading.name}; "
        warnings = (*warnings, f"{more}{RUN_OVERRIDE} chooses another")
    files = [file.path for run, _ in runs for file in run.folder.files if file.format in _READ]
    return side_answer(
        metric,
        view,
        details,
        files=files,
        basis={"run": leading.name, **basis},
        reasons=reasons,
        warnings=(*warnings, *leading.problems, *leading.notes),
    )


_READ: Final = (
    TRAINING_METRICS,
    STEP_LOG,
    LAUNCHER_METADATA,
    RUN_COMPLETE,
    TRAINING_LOG,
    NSYS_TEXT,
    NSYS_TEXT_TRACE,
)
