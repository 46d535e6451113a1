"""Messages between the explorer and the server process that computes its findings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, NoReturn

from ccltui.tui.state.answers import Answered, ViewQuery
from ccltui.tui.state.job_findings import Findings
from ccltui.tui.state.session import Session

if TYPE_CHECKING:
    from ccltui.metrics.metric import Metric
    from ccltui.metrics.result import Result
    from ccltui.metrics.view.job_view import View
    from ccltui.parsers.ingest.rank_transfer import TransferredRank
    from ccltui.parsers.job import Job


@dataclass(frozen=True, slots=True)
class AddRank:
    """A rank, and the number that refers to it in later requests.

    The file of its columns may be sent beside the message.
    """

    number: int
    handed: TransferredRank


@dataclass(frozen=True, slots=True)
class SetJob:
    """The job without its ranks, and the numbers of the ranks that belong to it."""

    job: Job
    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StartRun:
    """Compute the findings for a session of the newest job, and cancel the run before."""

    run: int
    session: Session


@dataclass(frozen=True, slots=True)
class PrepareQueries:
    """Prepare to answer queries about a session of the newest job."""

    session: Session


@dataclass(frozen=True, slots=True)
class CancelRun:
    """Cancel a run if it is the current one."""

    run: int


@dataclass(frozen=True, slots=True)
class AskQuery:
    """A query about the findings of a generation."""

    number: int
    generation: int
    query: ViewQuery[Any]


Request = AddRank | SetJob | StartRun | PrepareQueries | CancelRun | AskQuery


@dataclass(frozen=True, slots=True)
class FindingsChanged:
    """Changes in the findings of a run."""

    run: int
    changes: Changes


@dataclass(frozen=True, slots=True)
class RunFinished:
    """A run has ended; ``complete`` as :meth:`ccltui.tui.engine.analysis.Analyst.run` returns."""

    run: int
    complete: bool


@dataclass(frozen=True, slots=True)
class QueryAnswered:
    """The answer to a query, None where its generation is no longer available."""

    number: int
    answered: Answered[Any] | None


@dataclass(frozen=True, slots=True)
class RunFailed:
    """A run has failed, and why; ``process_ends`` where the server process ends too."""

    run: int
    problem: str
    process_ends: bool = False


@dataclass(frozen=True, slots=True)
class RankUnavailable:
    """The file of a rank's columns cannot be mapped any more."""

    number: int


Reply = FindingsChanged | RunFinished | QueryAnswered | RunFailed | RankUnavailable


@dataclass(frozen=True, slots=True)
class Changes:
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


_FIELDS = tuple(one.name for one in fields(Findings) if one.name != "results")


def without_compute(metric: Metric) -> Metric:
    """Return a metric with its names and texts only: the explorer does not compute it."""
    return replace(metric, compute=_compute_unavailable)


def _compute_unavailable(view: View) -> NoReturn:
    raise RuntimeError("the process with the screen computes no metric")
