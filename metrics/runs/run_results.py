"""What the metrics of runs share: which runs there are, which one leads, and how to refuse."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ccltui.metrics.result import Reason, Result
from ccltui.metrics.runs.run_files import Run, read_runs
from ccltui.metrics.unavailable import Refusal, refuse
from ccltui.metrics.view.side_results import side_answer
from ccltui.parsers.nsys import NSYS_TEXT
from ccltui.parsers.runs import (
    LAUNCHER_METADATA,
    RUN_COMPLETE,
    STEP_LOG,
    TRAINING_LOG,
    TRAINING_METRICS,
)

if TYPE_CHECKING:
    from ccltui.metrics.registry import Metric
    from ccltui.metrics.view.job_view import View

T = TypeVar("T")

RUN_OVERRIDE: Final = "run"
NEEDS: Final = ("run directory: training_metrics.json, training_steps.jsonl or a training log",)
PARAMETERS: Final = {RUN_OVERRIDE: "the run that the value is of, by its folder"}


def told_runs(
    view: View, tell: Callable[[Run], T | None], what: str
) -> tuple[list[tuple[Run, T]], tuple[Run, T]]:
    """Runs that tell something, and the leading one: that asked for, else the first by name.

    Raises Refusal where no run tells ``what``.
    """
    runs = read_runs(view.job.discovery)
    if not runs:
        if not view.job.ranks and not view.job.discovery.files:
            view.require_traces()
        raise refuse("no_side_file", f"no run directory here: {NEEDS[0].partition(': ')[2]}")
    told = [(run, value) for run in runs if (value := tell(run)) is not None]
    if not told:
        raise Refusal(
            Reason("no_side_file", f"no run tells {what}"),
            *(Reason("no_side_file", problem) for run in runs for problem in run.problems),
        )
    return told, _leading(view, told)


def _leading(view: View, told: Sequence[tuple[Run, T]]) -> tuple[Run, T]:
    wanted = view.card.text(RUN_OVERRIDE)
    if not wanted:
        return told[0]
    fitting = [pair for pair in told if pair[0].name == wanted.rstrip("/")]
    if not fitting:
        names = ", ".join(run.name for run, _ in told[:8])
        raise refuse("no_side_file", f"no run {wanted!r}; there are {names}")
    return fitting[0]


def run_answer(
    metric: Metric,
    view: View,
    details: Mapping[str, Any],
    *,
    told: Sequence[tuple[Run, Any]],
    leading: Run,
    basis: Mapping[str, str],
    reasons: Sequence[Reason] = (),
    warnings: Sequence[str] = (),
) -> Result:
    """The result of a metric of runs; several runs are listed, never averaged."""
    if len(told) > 1:
        more = f"{len(told)} runs, which are never averaged: the value is that of {leading.name}; "
        warnings = (*warnings, f"{more}{RUN_OVERRIDE} chooses another")
    files = [file.path for run, _ in told for file in run.folder.files if file.format in _READ]
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
)
