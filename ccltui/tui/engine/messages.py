"""Facts that workers post to the application. Nothing here imports Textual."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ccltui.tui.state.session import Session

if TYPE_CHECKING:
    from ccltui.parsers.job import Job
    from ccltui.tui.state.answers import Answered
    from ccltui.tui.state.job_findings import Findings

STOPPING: Final = "stopping: what is loaded remains"
"""Notice from the request to stop loading until loading has ended."""


@dataclass(frozen=True, slots=True)
class JobOpened:
    """Discovery is done; no rank is loaded yet."""

    job: Job


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """Bytes read so far, by path; what else reads the files, "" for the explorer."""

    done_bytes: Mapping[str, int]
    elsewhere: str = ""


@dataclass(frozen=True, slots=True)
class RankLoaded:
    """One more rank, or its beginning, is loaded."""

    job: Job
    path: str


@dataclass(frozen=True, slots=True)
class RankFailed:
    """A file could not be loaded, and why."""

    job: Job
    path: str
    problem: str


@dataclass(frozen=True, slots=True)
class LoadEnded:
    """Loading has ended: everything is loaded, or the user stopped it."""

    stopped: bool


@dataclass(frozen=True, slots=True)
class OpenFailed:
    """The path could not be opened, and why."""

    problem: str


@dataclass(frozen=True, slots=True)
class FindingsReady:
    """Findings of a generation, complete or not."""

    findings: Findings


@dataclass(frozen=True, slots=True)
class Exported:
    """A file was written (``message``), or why not (``problem``)."""

    message: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem outside the screen, in a line; what is shown stays."""

    problem: str


LoadFact = JobOpened | LoadProgress | RankLoaded | RankFailed | LoadEnded | OpenFailed
Fact: TypeAlias = "LoadFact | FindingsReady | Answered[Any] | Exported | Problem"


def after(session: Session, fact: LoadFact) -> Session:
    """Return the session that follows from a fact about loading."""
    match fact:
        case JobOpened(job):
            return session.opened(job)
        case LoadProgress(done_bytes, elsewhere):
            return session.progressed(done_bytes, elsewhere)
        case RankLoaded(job, path):
            return session.with_job(job, path)
        case RankFailed(job, path, problem):
            return session.with_job(job, path, problem)
        case LoadEnded(stopped):
            return session.finished(stopped=stopped)
        case OpenFailed(problem):
            return session.failed(problem)
