"""What the explorer and the process that computes for it say to each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, NoReturn

from ccltui.tui.state.answers import Answered, ViewQuery
from ccltui.tui.state.job_findings import Findings
from ccltui.tui.state.session import Session

if TYPE_CHECKING:
    from ccltui.metrics.registry import Metric
    from ccltui.metrics.result import Result
    from ccltui.metrics.view.job_view import View
    from ccltui.parsers.ingest.rank_transfer import Handed
    from ccltui.parsers.job import Job


@dataclass(frozen=True, slots=True)
class NewRank:
    """A rank, known by ``number`` from here on; the file of its columns may come beside it."""

    number: int
    handed: Handed


@dataclass(frozen=True, slots=True)
class NewJob:
    """The job without its ranks, and which ranks are in it."""

    job: Job
    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Analyse:
    """Compute for a session of the newest job, and nothing for an earlier one any more."""

    run: int
    session: Session


@dataclass(frozen=True, slots=True)
class Look:
    """Be ready to answer about a session of the newest job."""

    session: Session


@dataclass(frozen=True, slots=True)
class Stop:
    """Nobody waits for a run any more."""

    run: int


@dataclass(frozen=True, slots=True)
class Ask:
    """A question about the findings of a generation."""

    number: int
    generation: int
    query: ViewQuery[Any]


Order = NewRank | NewJob | Analyse | Look | Stop | Ask


@dataclass(frozen=True, slots=True)
class Grown:
    """What is new in the findings of a run."""

    run: int
    changes: Changes


@dataclass(frozen=True, slots=True)
class Finished:
    """A run is over; ``told_all`` as :meth:`ccltui.tui.engine.analysis.Analyst.run` returns."""

    run: int
    told_all: bool


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a question, None where nobody can give one any more."""

    number: int
    answered: Answered[Any] | None


@dataclass(frozen=True, slots=True)
class Broken:
    """A run cannot go on, and why; ``ends`` where the process cannot either."""

    run: int
    problem: str
    ends: bool = False


@dataclass(frozen=True, slots=True)
class Lost:
    """The columns of a rank are not where they were."""

    number: int


News = Grown | Finished | Reply | Broken | Lost


@dataclass(frozen=True, slots=True)
class Changes:
    """Fields of findings that have others than before; results only where they are new."""

    values: Mapping[str, Any] = field(default_factory=dict)
    results: Mapping[str, Result] = field(default_factory=dict)
    anew: bool = False  # no result of before holds

    @classmethod
    def between(cls, before: Findings, now: Findings) -> Changes:
        """What leads from one to the other."""
        values = {
            name: value
            for name in _FIELDS
            if (value := getattr(now, name)) is not getattr(before, name)
        }
        if "metrics" in values:
            values["metrics"] = tuple(elsewhere(metric) for metric in now.metrics)
        anew = not before.results.keys() <= now.results.keys()
        known = {} if anew else before.results
        results = {
            name: result for name, result in now.results.items() if known.get(name) is not result
        }
        return cls(values, results, anew)

    def applied(self, before: Findings) -> Findings:
        """The findings after these changes."""
        results = {**({} if self.anew else before.results), **self.results}
        return replace(before, **self.values, results=results)


_FIELDS = tuple(one.name for one in fields(Findings) if one.name != "results")


def elsewhere(metric: Metric) -> Metric:
    """A metric as the explorer knows it: what it is called, not how it is computed."""
    return replace(metric, compute=_not_here)


def _not_here(view: View) -> NoReturn:
    raise RuntimeError("the process with the screen computes no metric")
