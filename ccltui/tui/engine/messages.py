"""Facts that workers post to the application. Nothing here imports Textual."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from msgspec import Struct

from ccltui.tui.state.session import Session

if TYPE_CHECKING:
    from ccltui.parsers.job import Job
    from ccltui.tui.state.answers import Answered
    from ccltui.tui.state.followed import Looked
    from ccltui.tui.state.job_findings import Findings

STOPPING: Final = "stopping: what is loaded remains"
"""Notice from the request to stop loading until loading has ended."""


class JobOpened(Struct, frozen=True):
    """Discovery is done; no rank is loaded yet."""

    job: Job


class LoadProgress(Struct, frozen=True):
    """Bytes read so far, by path; what else reads the files, "" for the explorer."""

    done_bytes: Mapping[str, int]
    elsewhere: str = ""


class FilesRead(Struct, frozen=True):
    """Further files were read, begun or failed: why each failed, "" for the others, by path."""

    job: Job
    problems: Mapping[str, str]


class LoadEnded(Struct, frozen=True):
    """Loading has ended: everything is loaded, or the user stopped it."""

    stopped: bool


class JobFollowed(Struct, frozen=True):
    """The files of a followed directory changed: the job as they are now, loaded whole."""

    job: Job


class OpenFailed(Struct, frozen=True):
    """The path could not be opened, and why."""

    problem: str


class FindingsReady(Struct, frozen=True):
    """Findings of a generation, complete or not."""

    findings: Findings


class Exported(Struct, frozen=True):
    """A file was written (``message``), or why not (``problem``)."""

    message: str = ""
    problem: str = ""


class Problem(Struct, frozen=True):
    """A problem outside the screen, in a line; what is shown stays."""

    problem: str


LoadFact = JobOpened | LoadProgress | FilesRead | LoadEnded | JobFollowed | OpenFailed
Fact: TypeAlias = "LoadFact | Looked | FindingsReady | Answered[Any] | Exported | Problem"


def log_line(fact: Fact) -> str:
    """Return what the log of a run states of a fact: its kind, and the files that were read."""
    problems = fact.problems if isinstance(fact, FilesRead) else {}
    files = (f"{path} ({problem})" if problem else path for path, problem in problems.items())
    return " ".join([type(fact).__name__, *files])


def after(session: Session, fact: LoadFact) -> Session:
    """Return the session that follows from a fact about loading."""
    match fact:
        case JobOpened(job):
            return session.opened(job)
        case LoadProgress(done_bytes, elsewhere):
            return session.progressed(done_bytes, elsewhere)
        case FilesRead(job, problems):
            return session.with_job(job, problems)
        case LoadEnded(stopped):
            return session.finished(stopped=stopped)
        case JobFollowed(job):
            return session.followed(job)
        case OpenFailed(problem):
            return session.failed(problem)
