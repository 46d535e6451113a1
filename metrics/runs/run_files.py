"""Read the files of runs, each once; unreadable files become one line each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from ccltui.metrics.result import Reason, Result
from ccltui.metrics.unavailable import Refusal, refuse
from ccltui.metrics.view.provenance import require_traces, side_answer
from ccltui.parsers.cluster import NCCL_LOG
from ccltui.parsers.columns import Note
from ccltui.parsers.discovery.run_settings import RunFolder, run_folders
from ccltui.parsers.errors import TraceError, contained
from ccltui.parsers.format import Format
from ccltui.parsers.nsys import NSYS_REPORT, NSYS_SQLITE, NSYS_TEXT, NSYS_TEXT_TRACE
from ccltui.parsers.runs import (
    LAUNCHER_METADATA,
    PROFILE_SUMMARY,
    RUN_COMPLETE,
    STEP_LOG,
    TRAINING_LOG,
    TRAINING_METRICS,
    WATCHDOG_LOG,
)
from ccltui.parsers.side.unread_files import LOG

if TYPE_CHECKING:
    from ccltui.metrics.result import MetricDefinition
    from ccltui.metrics.view.job_view import View
    from ccltui.parsers.found_files import Discovery, FoundFile
    from ccltui.parsers.nsys.typed_table import StatsText
    from ccltui.parsers.runs.run_records import Completion, Launch, ProfileSummary, StepLog
    from ccltui.parsers.runs.training_log import TrainingLog
    from ccltui.parsers.runs.training_metrics import Configuration, TrainingMetrics


T = TypeVar("T")

_MOST_LOGS: Final = 8
"""Number of logs read per run; the logs of many ranks repeat each other."""
_REMEMBERED: Final = 64


class Run(Struct, frozen=True):
    """One run. ``problems`` are unreadable files, ``notes`` the remarks of the readers.

    ``traced_ranks`` is the world size of the traces where they can only be of this run.
    """

    name: str
    folder: RunFolder
    metrics: TrainingMetrics | None = None
    steps: StepLog | None = None
    log: TrainingLog | None = None
    launch: Launch | None = None
    completion: Completion | None = None
    stats: tuple[StatsText, ...] = ()
    summary: ProfileSummary | None = None
    traced_ranks: int | None = None
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def configuration(self) -> Configuration:
        """Configuration of the run, as far as `training_metrics.json` states it."""
        from ccltui.parsers.runs.training_metrics import Configuration  # noqa: PLC0415

        return Configuration() if self.metrics is None else self.metrics.configuration

    @property
    def world_size(self) -> int | None:
        """Number of ranks, by the first file that states it."""
        stated = (
            self.configuration.world_size,
            None if self.launch is None else self.launch.world_size,
            None if self.completion is None else self.completion.world_size,
            None if self.log is None else self.log.world_size,
            self.traced_ranks,
        )
        return next((size for size in stated if size), None)

    @property
    def git_commit(self) -> str:
        """Commit of the source code of the run, "" where no file states it."""
        return self.configuration.git_commit or (
            "" if self.launch is None else self.launch.git_commit
        )

    @property
    def profiled(self) -> bool | None:
        """Whether nsys recorded the run: by its switches, else by its files; None if neither."""
        stated = None if self.launch is None else self.launch.is_on("NSYS")
        if stated is not None:
            return stated
        if self.folder.of(NSYS_REPORT, NSYS_SQLITE, NSYS_TEXT, NSYS_TEXT_TRACE, PROFILE_SUMMARY):
            return True
        return False if self.metrics is not None and self.metrics.generation == "2.0" else None


def read_runs(discovery: Discovery) -> tuple[Run, ...]:
    """Read every run below a directory, in the natural order of their names."""
    runs = tuple(_read(folder, discovery.root) for folder in run_folders(discovery))
    traced = {file.world_size for file in discovery.files if file.world_size}
    if len(runs) != 1 or len(traced) != 1:
        return runs
    return (replace(runs[0], traced_ranks=traced.pop()),)


@lru_cache(maxsize=_REMEMBERED)
def _read(folder: RunFolder, root: str) -> Run:
    return _RunReader(folder).run(root)


class _RunReader(Struct):
    folder: RunFolder
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def run(self, root: str) -> Run:
        # imported here, as directories without runs need none of these readers
        from ccltui.parsers.nsys.stats_text import read_stats_text  # noqa: PLC0415
        from ccltui.parsers.runs.run_records import (  # noqa: PLC0415
            read_completion,
            read_launch,
            read_profile_summary,
            read_step_log,
        )
        from ccltui.parsers.runs.training_metrics import read_training_metrics  # noqa: PLC0415

        metrics = self._first(TRAINING_METRICS, read_training_metrics)
        steps = self._first(STEP_LOG, read_step_log)
        launch = self._first(LAUNCHER_METADATA, read_launch)
        completion = self._first(RUN_COMPLETE, read_completion)
        stats = [
            self._one(file, read_stats_text) for file in self.folder.of(NSYS_TEXT, NSYS_TEXT_TRACE)
        ]
        summary = self._first(PROFILE_SUMMARY, read_profile_summary)
        log = self._log()
        for part in (metrics, steps, launch, log, summary):
            if part is not None:
                self._note(part.notes)
        return Run(
            name=self.folder.name or PurePosixPath(root).name or root,
            folder=self.folder,
            metrics=metrics,
            steps=steps,
            log=log,
            launch=launch,
            completion=completion,
            stats=tuple(one for one in stats if one is not None),
            summary=summary,
            problems=tuple(dict.fromkeys(self.problems)),
            notes=tuple(self.notes),
        )

    def _first(self, wanted: Format, read: Callable[..., T]) -> T | None:
        """Read the first readable file of a format, files nearest to the run's folder first."""
        found = sorted(self.folder.of(wanted), key=lambda file: file.path.count("/"))
        for file in found:
            value = self._one(file, read)
            if value is not None:
                return value
        return None

    def _one(self, file: FoundFile, read: Callable[..., T]) -> T | None:
        if file.problem is not None:
            self.problems.append(f"{file.path}: {file.problem}")
            return None
        try:
            with contained(file.path):
                return read(Path(file.real_path), shown=file.path)
        except TraceError as error:
            self.problems.append(str(error))
            return None

    def _log(self) -> TrainingLog | None:
        """Return the log with most steps, else one that states how the run ended."""
        from ccltui.parsers.runs.training_log import read_training_log  # noqa: PLC0415

        logs_of_any_kind = self.folder.of(TRAINING_LOG, WATCHDOG_LOG, LOG, NCCL_LOG)
        candidates = sorted(logs_of_any_kind, key=_log_order)
        logs = [self._one(file, read_training_log) for file in candidates[:_MOST_LOGS]]
        read = [log for log in logs if log is not None]
        return max(read, key=lambda log: (len(log), bool(log.end.kind)), default=None)

    def _note(self, notes: Sequence[Note]) -> None:
        self.notes += [note.message for note in notes]


def _log_order(file: FoundFile) -> tuple[object, ...]:
    name = PurePosixPath(file.path).name.lower()
    return (file.format is not TRAINING_LOG, "nccl" in name, "train" not in name, file.path)


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
