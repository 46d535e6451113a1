"""Report of one command, and its JSON document (``schema_version`` 1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from ccltui.metrics.result import Result
from ccltui.metrics.view.view_options import ViewOptions
from ccltui.parsers.window import (
    MAX_LISTED,
    Window,
    format_ranks,
    format_steps,
    format_window,
    ranges_text,
)

if TYPE_CHECKING:
    from ccltui.parsers.job import Job
    from ccltui.report import documents
    from ccltui.report.gates import Verdict

SCHEMA_VERSION: Final = 1


class TraceSummary(Struct, frozen=True):
    """Summary of the opened traces, with the files that could not be read."""

    path: str
    ranks: int = 0
    world_size: int | None = None
    sources: tuple[str, ...] = ()
    capture: str = ""
    missing_ranks: tuple[int, ...] = ()  # the first of them where they are thousands
    failures: tuple[tuple[str, str], ...] = ()
    complete: bool = True
    num_lost: int = 0  # failures of files that could not be inspected and may be sound
    num_missing_ranks: int = 0
    missing_text: str = ""  # all missing ranks as ranges
    is_sample: bool = False  # ranks that have a file are missing on purpose

    @property
    def expected_ranks(self) -> int | None:
        """Number of ranks of the job, None where nothing states it."""
        return self.ranks + self.num_missing_ranks if self.is_sample else self.world_size

    @classmethod
    def of(cls, job: Job, *, complete: bool = True) -> TraceSummary:
        """Summarise the traces of a job; ``complete`` is False where loading was stopped."""
        return cls(
            path=job.path,
            ranks=len(job.ranks),
            world_size=job.world_size,
            sources=tuple(sorted({trace.source.format for trace in job.ranks})),
            capture=job.capture.name,
            missing_ranks=tuple(job.missing_ranks[:MAX_LISTED]),
            num_missing_ranks=len(job.missing_ranks),
            missing_text=ranges_text(job.missing_ranks),
            is_sample=bool(job.unread_ranks),
            failures=tuple((failure.path, failure.error) for failure in job.failures),
            complete=complete,
            num_lost=sum(failure.is_lost for failure in job.failures),
        )

    def to_dict(self) -> documents.Trace:
        """The JSON form."""
        return {
            "path": self.path,
            "ranks": self.ranks,
            "world_size": self.world_size,
            "sources": list(self.sources),
            "capture": self.capture,
            "missing_ranks": list(self.missing_ranks),
            "num_missing_ranks": self.num_missing_ranks,
            "failures": [{"path": path, "error": error} for path, error in self.failures],
            "complete": self.complete,
        }


class Entry(Struct, frozen=True):
    """One metric's result and the key of its details that holds the value."""

    result: Result
    headline: str


class Report(Struct, frozen=True):
    """Content of the output of a headless command, independent of the format."""

    trace: TraceSummary
    selection: ViewOptions
    entries: Sequence[Entry]
    verdicts: Sequence[Verdict] = ()
    detail: bool = False


def document(report: Report) -> dict[str, Any]:
    """The JSON document of a report."""
    return {
        **head(report),
        "results": [result_dict(entry.result) for entry in report.entries],
        "gates": [verdict.to_dict() for verdict in report.verdicts],
    }


def head(report: Report) -> documents.MetricsHead:
    """First members of every JSON document and every JSON line of a report."""
    return {
        "schema_version": SCHEMA_VERSION,
        "trace": report.trace.to_dict(),
        "window": _window_dict(report.selection.window),
        "selection": _selection_dict(report.selection),
    }


def result_dict(result: Result) -> dict[str, Any]:
    """One result; ``details`` is the dictionary that ``ccl-metrics`` prints."""
    return {
        "metric": result.metric,
        "status": result.status,
        "value": result.value,
        "unit": result.unit,
        "definition": result.definition,
        "reason": result.reason,
        "reasons": [reason.to_dict() for reason in result.reasons],
        "details": result.to_document(),
        "warnings": list(result.warnings),
    }


def _selection_dict(selection: ViewOptions) -> documents.SelectionOf:
    """The restriction of the numbers as JSON, ranges of steps and ranks as their shortest text."""
    return {
        "steps": None if selection.steps is None else format_steps(selection.steps),
        "ranks": None if selection.ranks is None else format_ranks(selection.ranks),
        "group": selection.group,
        "span": selection.span,
        "profile_mode": selection.profile_mode,
        "raw_clocks": selection.raw_clocks,
        "overrides": dict(selection.overrides),
    }


def _window_dict(window: Window | None) -> documents.WindowOf | None:
    if window is None:
        return None
    return {
        "text": format_window(window),
        "start_ns": window.start_ns,
        "end_ns": window.end_ns,
    }
