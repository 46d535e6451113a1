"""Messages between the explorer and the server process that computes its findings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from msgspec import Struct, field
from msgspec.structs import replace

from ccltui.tui.state.answers import Answered, ViewQuery
from ccltui.tui.state.job_findings import Findings
from ccltui.tui.state.session import Session

if TYPE_CHECKING:
    from ccltui.metrics.metric import Metric
    from ccltui.metrics.result import Result
    from ccltui.metrics.view.job_view import View
    from ccltui.parsers.ingest.rank_transfer import TransferredRank
    from ccltui.parsers.job import Job


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
        """Return the changes that turn ``before`` into ``now``."""
        values = {
            name: value
            for name in _FIELDS
            if (value := getattr(now, name)) is not getattr(before, name)
        }
        if "metrics" in values:
            values["metrics"] = tuple(without_compute(metric) for metric in now.metrics)
        drops_results = not before.results.keys() <= now.results.keys()
        known = {} if drops_results else before.results
        results = {
            name: result for name, result in now.results.items() if known.get(name) is not result
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
