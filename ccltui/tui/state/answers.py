"""Findings of a job so far, and queries that panes send to workers with their typed answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from msgspec import Struct, field

if TYPE_CHECKING:
    from ccltui.draw.timeline_chart import Lane, Minimap
    from ccltui.metrics.metric import Metric
    from ccltui.metrics.result import Result
    from ccltui.metrics.view.job_view import View
    from ccltui.parsers.job import Job
    from ccltui.tui.state.communicator import Communicator, RankCalls, WorstFirst


class Step(Struct, frozen=True):
    """One iteration on the job's clock, ns since its origin."""

    id: int
    start_ns: int
    end_ns: int


class Span(Struct, frozen=True):
    """Time span in ns since the job's origin."""

    start_ns: int
    end_ns: int


class Findings(Struct, frozen=True):
    """Results computed so far; a part that is not computed yet has its default."""

    generation: int = -1
    matched: int = -1  # generation that the communicators belong to
    metrics: tuple[Metric, ...] = ()
    results: Mapping[str, Result] = field(default_factory=dict)
    communicators: tuple[Communicator, ...] | None = None
    worst_first: WorstFirst | None = None  # order of the collectives of all communicators
    calls: Mapping[str, RankCalls] = field(default_factory=dict)
    harm_ns: Mapping[str, int] = field(default_factory=dict)
    lanes: Mapping[str, Lane] = field(default_factory=dict)
    tracks: frozenset[str] = frozenset()  # of `Lane`: those in which any rank has work
    minimap: Minimap | None = None  # overview of the lanes
    steps: tuple[Step, ...] = ()
    span: Span | None = None
    origin_ns: int = 0  # zero of all times here, on the common clock
    clock: str = ""  # text on how precisely times of different ranks compare
    nodes: Mapping[str, int] = field(default_factory=dict)  # number of each rank's host, by label
    groups: Mapping[int, Mapping[str, int]] = field(default_factory=dict)  # see groups_by_size
    complete: bool = False

    @property
    def is_matched(self) -> bool:
        """Whether the communicators belong to this generation."""
        return self.communicators is not None and self.matched == self.generation

    def has_work(self, *tracks: str) -> bool:
        """Whether any rank has work in one of these tracks of `Lane`."""
        return bool(self.lanes) and not self.tracks.isdisjoint(tracks)


A = TypeVar("A")


class Query(Struct, Generic[A], frozen=True):
    """Query with an answer of type ``A``; equal queries have equal answers.

    Queries are pickled where another process computes the answer.
    """

    of_collectives: ClassVar[bool] = False
    """Whether the answer depends on matched collectives, not only on single ranks."""
    keeps_last: ClassVar[bool] = False
    """Whether a query without an answer leaves the previous answer in place, with a notice."""


class ViewQuery(Query[A], frozen=True):
    """Query that is answered from the metrics' view of the job."""

    def answer(self, view: View, findings: Findings) -> A:
        """Compute the answer.

        Args:
            view: The job as the metrics read it.
            findings: The findings of the scene that the query was made for.

        Raises:
            re.error, KeyError, IndexError, NoBlockError, TooDifferentError: There is no answer.
        """
        raise NotImplementedError


class FileQuery(Query[A], frozen=True):
    """Query that is answered from files beside the traces, in a thread of the explorer."""

    def answer(self, job: Job, cancelled: Callable[[], bool]) -> A:
        """Read the files; the result is discarded once ``cancelled``."""
        raise NotImplementedError


class Answered(Struct, Generic[A], frozen=True):
    """Result of a query; ``problem`` is the reason where there is no answer."""

    query: Query[A]
    answer: A | None = None
    problem: str = ""


class Answers(Struct, frozen=True):
    """The newest result of each kind of query."""

    _newest: Mapping[type[Query[Any]], Answered[Any]] = field(default_factory=dict)

    def latest(self, kind: type[Query[A]]) -> A | None:
        """Return the newest answer to any query of a kind, None where there is none."""
        found = self._newest.get(kind)
        return None if found is None else found.answer

    def to(self, query: Query[A] | None) -> Answered[A] | None:
        """Return the result of exactly this query, None while it is not known."""
        if query is None:
            return None
        found = self._newest.get(type(query))
        return found if found is not None and found.query == query else None

    def answer(self, query: Query[A] | None) -> A | None:
        """Return the answer to exactly this query, None while it is not known."""
        found = self.to(query)
        return None if found is None else found.answer

    def problem(self, query: Query[Any] | None) -> str:
        """Return the reason why this query has no answer, "" while that is not known."""
        found = self.to(query)
        return "" if found is None else found.problem

    def with_result(self, found: Answered[Any]) -> Answers:
        """Return a copy with a result in place of the previous one of its kind."""
        return Answers({**self._newest, type(found.query): found})
