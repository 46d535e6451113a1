"""What workers tell the application: frozen facts. Nothing here needs a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ccltui.tui.state.session import Session

if TYPE_CHECKING:
    from ccltui.parsers.job import Job
    from ccltui.tui.state.answers import Answered
    from ccltui.tui.state.job_findings import Findings

STOPPING: Final = "stopping: what is loaded stays"
"""Notice until loading has ended."""


@dataclass(frozen=True, slots=True)
class JobOpened:
    """Discovery is done; no rank is loaded yet."""

    job: Job


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """Bytes read so far, by path."""

    done_bytes: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class RankLoaded:
    """One more rank can be looked at, or its beginning."""

    job: Job
    path: str


@dataclass(frozen=True, slots=True)
class RankFailed:
    """One file gave nothing, and why."""

    job: Job
    path: str
    problem: str


@dataclass(frozen=True, slots=True)
class LoadEnded:
    """Nothing more will come: all is loaded, or the user stopped it."""

    stopped: bool


@dataclass(frozen=True, slots=True)
class OpenFailed:
    """There is nothing to look at, and why."""

    problem: str


@dataclass(frozen=True, slots=True)
class FindingsReady:
    """More of what is computed for a generation."""

    findings: Findings


@dataclass(frozen=True, slots=True)
class Exported:
    """A file was written, or why not."""

    said: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something went wrong beside the screen, in a line; what is there stays."""

    problem: str


LoadFact = JobOpened | LoadProgress | RankLoaded | RankFailed | LoadEnded | OpenFailed
Fact: TypeAlias = "LoadFact | FindingsReady | Answered[Any] | Exported | Trouble"


def after(session: Session, fact: LoadFact) -> Session:
    """The session that follows from a fact about loading."""
    match fact:
        case JobOpened(job):
            return session.opened(job)
        case LoadProgress(done_bytes):
            return session.progressed(done_bytes)
        case RankLoaded(job, path):
            return session.with_job(job, path)
        case RankFailed(job, path, problem):
            return session.with_job(job, path, problem)
        case LoadEnded(stopped):
            return session.finished(stopped=stopped)
        case OpenFailed(problem):
            return session.failed(problem)
