"""The facts of a job that metrics share: what each needs, what its cost grows with, what it took.

A fact is computed at first use and kept by the view of the job. The function that computes one has
the decorator `fact` with its name. A metric declares the facts that it asks for (``facts`` of
`metric`); those that they need follow from the table. Times are taken only inside of `recorded`.
A fact that an earlier metric asked for is there already: it is a cost of the first. So are the sums
of a rank that several metrics of a large job ask for (`View.expect`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from functools import wraps
from typing import Final, ParamSpec, TypeVar

from msgspec import Struct

_P = ParamSpec("_P")
_T = TypeVar("_T")


class Fact(Struct, frozen=True):
    """A part of what is known of a job.

    Attributes:
        name: Its name in declarations of metrics and in ``--explain-cost``.
        about: What it is, in a few words.
        grows_with: What its cost grows with.
        needs: Facts that may be asked for where this one is computed.
    """

    name: str
    about: str
    grows_with: str
    needs: tuple[str, ...] = ()


_TABLE: Final = (
    Fact("steps", "steps of each rank, by its markers", "host ranges of each rank"),
    Fact("classes", "collective, computation or copy", "distinct names and device events"),
    Fact("launches", "host event that launched each device event", "device events"),
    Fact("step_of_work", "step of each device event", "device events", ("steps", "launches")),
    Fact("busy", "merged times of each class of work", "device events", ("classes",)),
    Fact(
        "sums",
        "time of each kind of device work",
        "device events",
        ("classes", "step_of_work"),
    ),
    Fact("groups", "communicators that files name", "ranks times communicators"),
    Fact(
        "calls",
        "collectives that each rank records",
        "collectives of each rank",
        ("groups", "classes", "step_of_work"),
    ),
    Fact(
        "inferred_groups",
        "communicators that no file names, from the order of events on streams",
        "collectives times ranks; only where files do not name the communicators",
        ("calls",),
    ),
    Fact(
        "named_calls",
        "collectives, each with its communicator",
        "collectives",
        ("calls", "inferred_groups"),
    ),
    Fact("pairs", "sends with their receives", "sends and receives", ("named_calls",)),
    Fact("matches", "collectives matched across ranks", "collectives", ("named_calls",)),
    Fact("clocks", "offset and drift of each clock", "matched collectives", ("matches", "pairs")),
    Fact("arrivals", "who came when to each collective", "matched collectives", ("clocks",)),
    Fact(
        "waits",
        "waiting while nothing computes, at each collective",
        "matched collectives",
        ("arrivals", "busy"),
    ),
    Fact(
        "causes",
        "what late ranks did before they came",
        "late arrivals",
        ("arrivals", "busy"),
    ),
    Fact(
        "roots",
        "the rank where waiting begins",
        "late arrivals that are followed",
        ("causes", "waits"),
    ),
    Fact("step_roots", "the rank where waiting begins, of each step", "steps", ("waits",)),
    Fact(
        "idle_causes",
        "why each device is idle",
        "gaps between device events",
        ("step_of_work",),
    ),
    Fact(
        "partition",
        "the time of all ranks in parts",
        "device events and matched collectives",
        ("roots", "idle_causes"),
    ),
    Fact("lines", "the job as lines that can be replayed", "device events", ("clocks",)),
    Fact("verdict", "replays without one difference each", "lines and replays", ("lines",)),
    Fact("slow_steps", "steps that take longer, and why", "steps", ("step_roots",)),
    Fact(
        "own_times",
        "ranks whose own kernels are slower",
        "device events",
        ("classes", "step_of_work"),
    ),
)

FACTS: Final[Mapping[str, Fact]] = {one.name: one for one in _TABLE}
"""All facts by name, each after those that it needs."""


class Cost(Struct):
    """CPU time of this process and wall time in ns, without that of what was computed inside."""

    cpu_ns: int = 0
    wall_ns: int = 0

    def add(self, cpu_ns: int, wall_ns: int) -> None:
        """Add times."""
        self.cpu_ns += cpu_ns
        self.wall_ns += wall_ns


class CostRecord:
    """Times of metrics and of the facts that were computed for them, in the order of their end.

    A key of ``costs`` is the name of a metric and that of a fact, "" for the metric itself. Two
    empty names are all else: reading the traces.
    """

    def __init__(self) -> None:
        self.costs: dict[tuple[str, str], Cost] = {}
        self._metric = ""
        self._inside = [Cost()]  # for each open block, the time of the blocks inside of it

    @property
    def facts(self) -> frozenset[str]:
        """Facts that were computed."""
        return frozenset(fact for _, fact in self.costs if fact)

    @contextmanager
    def measured(self, metric: str | None = None, fact: str = "") -> Iterator[None]:
        """Add the time of a block to a fact of a metric, of the one that runs unless named."""
        before = self._metric
        self._metric = before if metric is None else metric
        cpu_ns, wall_ns = time.process_time_ns(), time.perf_counter_ns()
        self._inside.append(Cost())
        try:
            yield
        finally:
            inside = self._inside.pop()
            cpu_ns, wall_ns = time.process_time_ns() - cpu_ns, time.perf_counter_ns() - wall_ns
            cost = self.costs.setdefault((self._metric, fact), Cost())
            cost.add(cpu_ns - inside.cpu_ns, wall_ns - inside.wall_ns)
            self._inside[-1].add(cpu_ns, wall_ns)
            self._metric = before


_record: ContextVar[CostRecord | None] = ContextVar("_record", default=None)


@contextmanager
def recorded() -> Iterator[CostRecord]:
    """Record the times of the metrics and facts that are computed in a block."""
    record = CostRecord()
    before = _record.set(record)
    try:
        with record.measured():
            yield record
    finally:
        _record.reset(before)


def of_metric(name: str) -> AbstractContextManager[None]:
    """Return a block whose time is that of a metric, where times are recorded."""
    record = _record.get()
    return nullcontext() if record is None else record.measured(name)


def fact(name: str) -> Callable[[Callable[_P, _T]], Callable[_P, _T]]:
    """Name the fact that the function below computes.

    Raises:
        KeyError: The table has no such fact.
    """
    known = FACTS[name].name

    def named(make: Callable[_P, _T]) -> Callable[_P, _T]:
        @wraps(make)
        def made(*args: _P.args, **kwargs: _P.kwargs) -> _T:
            record = _record.get()
            if record is None:
                return make(*args, **kwargs)
            with record.measured(fact=known):
                return make(*args, **kwargs)

        return made

    return named


def with_needs(names: Iterable[str]) -> frozenset[str]:
    """Return facts with all that they need.

    Raises:
        KeyError: The table has no such fact.
    """
    found: set[str] = set()
    ahead = list(names)
    while ahead:
        name = ahead.pop()
        if name not in found:
            found.add(name)
            ahead += FACTS[name].needs
    return frozenset(found)
