"""Facts that workers post to the application, and messages to the server process and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from ccltui.tui.state.answers import Answered, Findings, ViewQuery
from ccltui.tui.state.session import Session

if TYPE_CHECKING:
    from ccltui.metrics.metric import Metric
    from ccltui.metrics.result import Result
    from ccltui.metrics.view.job_view import View
    from ccltui.parsers.ingest.load import TransferredRank
    from ccltui.parsers.job import Job
    from ccltui.tui.state.session import Looked


class AddRank(Struct, frozen=True):
    """A rank, and the number that refers to it in later requests.

    The file of its columns may be sent beside the message.
    """

    number: int
    handed: TransferredRank


class SetJob(Struct, frozen=True):
    """The job without its ranks, and the numbers of the ranks that belong to it."""

    job: Job
    numbers: tuple[int, ...]


class StartRun(Struct, frozen=True):
    """Compute the findings for a session of the newest job, and cancel the run before."""

    run: int
    session: Session


class PrepareQueries(Struct, frozen=True):
    """Prepare to answer queries about a session of the newest job."""

    session: Session


class CancelRun(Struct, frozen=True):
    """Cancel a run if it is the current one."""

    run: int


class AskQuery(Struct, frozen=True):
    """A query about the findings of a generation."""

    number: int
    generation: int
    query: ViewQuery[Any]


Request = AddRank | SetJob | StartRun | PrepareQueries | CancelRun | AskQuery


class FindingsChanged(Struct, frozen=True):
    """Changes in the findings of a run."""

    run: int
    changes: Changes


class RunFinished(Struct, frozen=True):
    """A run has ended; ``complete`` as :meth:`ccltui.tui.engine.analysis.Analyst.run` returns."""

    run: int
    complete: bool


class QueryAnswered(Struct, frozen=True):
    """The answer to a query, None where its generation is no longer available."""

    number: int
    answered: Answered[Any] | None


class RunFailed(Struct, frozen=True):
    """A run has failed, and why; ``process_ends`` where the server process ends too."""

    run: int
    problem: str
    process_ends: bool = False


class RankUnavailable(Struct, frozen=True):
    """The file of a rank's columns cannot be mapped any more."""

    number: int


Reply = FindingsChanged | RunFinished | QueryAnswered | RunFailed | RankUnavailable


class Changes(Struct, frozen=True):
    """Difference of two findings: changed fields, and results that are new or changed."""

    values: Mapping[str, Any] = field(default_factory=dict)
    results: Mapping[str, Result] = field(default_factory=dict)
    drops_results: bool = False  # results from before are no longer valid

    @classmethod
    def between(cls, before: Findings, now: Findings) -> Changes:
        """Return the changes that turn ``before`` into ``now``, in few objects."""
        # Imported where numpy is there already.
        from ccltui.tui.engine.packed_findings import StructTable, packed  # noqa: PLC0415

        values = {
            name: value
            for name in _FIELDS
            if (value := getattr(now, name)) is not getattr(before, name)
        }
        for name in ("lanes", "calls"):
            if name in values:
                values[name] = StructTable.of(values[name])
        if "metrics" in values:
            values["metrics"] = tuple(without_compute(metric) for metric in now.metrics)
        drops_results = not before.results.keys() <= now.results.keys()
        known = {} if drops_results else before.results
        results = {
            name: packed(result)
            for name, result in now.results.items()
            if known.get(name) is not result
        }
        return cls(values, results, drops_results)

    def applied(self, before: Findings) -> Findings:
        """Return the findings after these changes."""
        results = {**({} if self.drops_results else before.results), **self.results}
        return replace(before, **self.values, results=results)


_FIELDS = tuple(name for name in Findings.__struct_fields__ if name != "results")


def without_compute(metric: Metric) -> Metric:
    """Return a metric with its names and texts only: the explorer does not compute it."""
    return replace(metric, compute=_compute_unavailable, sums=())


def _compute_unavailable(view: View) -> NoReturn:
    raise RuntimeError("the process with the screen computes no metric")


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
