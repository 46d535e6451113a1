"""Rows of a comparison of jobs: times, parts of a step, device work, collectives, dimensions.

Check whether two jobs did the same work, from what cards, traces and operators state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from ccltui.metrics.compare.comparable import Check, Comparability, Verdict
from ccltui.metrics.compare.compare_runs import Sample, half_width
from ccltui.metrics.compare.job_side import CollectiveKey, JobTable, Work, WorkKey
from ccltui.metrics.findings.rank_time.partition import Named

if TYPE_CHECKING:
    from collections.abc import Callable

    from ccltui.metrics.compare.job_side import JobTable, Work
    from ccltui.parsers.array_types import F64


_REQUIRED: Final = ("model", "batch", "ranks", "steps")
_REPORTED: Final = ("gpu", "precision", "parallel degrees", "step marker", "profiler")
"""Properties whose effect is compared, or that change what is recorded: differences are stated."""
_SAME_WORK: Final = 0.95
"""Share of the attributed device time of each side in operators and shapes that both sides have,
from which model and batch are the same: another batch or width changes the shapes of the matrix
products, in which most of the time is."""


class JobChecks(Comparability, frozen=True):
    """Checks of two jobs; ``basis`` says what equality of model and batch rests on, "" on cards."""

    basis: str = ""

    @property
    def verdict(self) -> Verdict:
        """Not comparable where a required property differs, unknown where one is not known."""
        if self.differences:
            return "not comparable"
        return "unknown" if self.unknown else "comparable"


def job_checks(a: JobTable, b: JobTable) -> JobChecks:
    """Compare the properties of two sides.

    Model and batch are equal where both sides are parts of one job, where the cards state the same,
    or, where the cards do not state them, where the operators have the same shapes.
    """
    basis = _basis(a, b)
    checks = []
    for name in _REQUIRED:
        of_a, of_b = (_value(side, name) for side in (a, b))
        if name in ("model", "batch") and basis and not (of_a and of_b and of_a != of_b):
            of_a = of_b = of_a or of_b or basis
        checks.append(Check(name, of_a, of_b, required=True))
    size_a, size_b = a.facts.get("world size", ""), b.facts.get("world size", "")
    # The number of ranks that were profiled is known; that of the job may not be.
    checks.append(Check("world size", size_a, size_b, required=bool(size_a and size_b)))
    checks += [
        Check(name, a.facts.get(name, ""), b.facts.get(name, ""), required=False)
        for name in _REPORTED
    ]
    return JobChecks(tuple(checks), basis)


def _value(side: JobTable, name: str) -> str:
    if name == "steps":
        return "marked" if side.has_steps else ""
    return side.facts.get(name, "")


def _basis(a: JobTable, b: JobTable) -> str:
    if a.job == b.job:
        return "one job"
    shares = _shared(a.operators, b.operators), _shared(b.operators, a.operators)
    return "same operators and shapes" if min(shares) >= _SAME_WORK else ""


def _shared(mine: Mapping[WorkKey, Work], others: Mapping[WorkKey, Work]) -> float:
    """Share of my attributed time in operators with shapes that the other side has; 0 without."""
    attributed = sum(work.total_ns for (name, _), work in mine.items() if name)
    shared = sum(work.total_ns for key, work in mine.items() if key[1] and key in others)
    return shared / attributed if attributed else 0.0


Direction = Literal["longer", "shorter", "not distinguishable", ""]
"""Whether a time changed beyond the noise; "" where the noise is unknown: without an interval, and
between two runs of which nobody knows how far runs of one command differ."""
Status = Literal["added", "gone", "changed", "not distinguishable", ""]


class TimeChange(Struct, frozen=True):
    """A time of both sides in ms, None where a side does not have it.

    Attributes:
        name: what it is the time of.
        a: time of A.
        b: time of B.
        half_width: half of the 95 % interval of the difference, of runs where a side has several,
            else of steps; None where it is unknown.
        runs_vary_ms: spread between runs that the user stated, None for none.
        is_one_run: whether A and B are one run each, so that the interval is that within runs.
    """

    name: str
    a: float | None
    b: float | None
    half_width: float | None = None
    runs_vary_ms: float | None = None
    is_one_run: bool = False

    @property
    def delta(self) -> float | None:
        """B minus A."""
        return None if self.a is None or self.b is None else self.b - self.a

    @property
    def delta_pct(self) -> float | None:
        """B minus A in percent of A; None where A is 0 or unknown."""
        return None if self.delta is None or not self.a else 100 * self.delta / self.a

    @property
    def direction(self) -> Direction:
        """Whether B is longer or shorter than A."""
        if self.is_beyond is None or self.delta is None:
            return ""
        if not self.is_beyond:
            return "not distinguishable"
        if self.is_one_run and self.runs_vary_ms is None:
            return ""
        return "longer" if self.delta > 0 else "shorter"

    @property
    def is_beyond(self) -> bool | None:
        """Whether the difference exceeds all noise that is known, None where none is.

        Of one run a side without a stated spread that is the noise within the runs alone.
        """
        known = [one for one in (self.half_width, self.runs_vary_ms) if one is not None]
        return None if self.delta is None or not known else abs(self.delta) > max(known)


class PartChange(Struct, frozen=True):
    """A bar of the waterfall: time of one part of a step in ms, 0 where a side has none."""

    part: Named
    a: float
    b: float

    @property
    def delta(self) -> float:
        """B minus A."""
        return self.b - self.a


class WorkChange(Struct, frozen=True):
    """Device work of one key on both sides; ``time`` is in the unit of the comparison."""

    key: WorkKey
    a: Work | None
    b: Work | None
    time: TimeChange

    @property
    def status(self) -> Status:
        """Whether the work is only in one side, and whether its time changed beyond the noise."""
        if self.a is None or self.b is None:
            return "added" if self.a is None else "gone"
        direction = self.time.direction
        if direction == "longer" or direction == "shorter":  # noqa: PLR1714 - narrows the type
            return "changed"
        return direction


class CollectiveChange(Struct, frozen=True):
    """Collectives of one key on both sides: calls and transfer time in ms, of a step or in all."""

    key: CollectiveKey
    calls: tuple[float, float]
    time: TimeChange


class DimensionChange(Struct, frozen=True):
    """Exposed communication of one parallel dimension, and its calls and bytes."""

    dim: str
    exposed: TimeChange
    calls: tuple[float, float]
    message_bytes: tuple[float, float]


class RunIntervals(Struct, frozen=True):
    """Rows with the intervals of runs in place of those of steps."""

    a: Sequence[JobTable]
    b: Sequence[JobTable]

    @classmethod
    def of(cls, a: JobTable, b: JobTable) -> RunIntervals | None:
        """Return the intervals of two sides, None where both are one run."""
        return cls(a.runs or (a,), b.runs or (b,)) if a.runs or b.runs else None

    def of_steps(self, row: TimeChange, of: Callable[[JobTable], F64 | None]) -> TimeChange:
        """Return a time of a step, whose values by step in a run ``of`` returns."""
        return replace(row, half_width=self._width(lambda run: _mean(of(run))))

    def of_kind(self, row: TimeChange) -> TimeChange:
        """Return the time of a kind of parts of a step."""
        return self.of_steps(row, lambda run: run.kinds_ms.get(row.name))

    def of_work(self, row: WorkChange, table: Literal["kernels", "operators"]) -> WorkChange:
        """Return device work with the wider of the two intervals.

        That of steps holds for all rows at once, which that of runs does not.
        """
        steps = row.time.half_width
        own = self._width(lambda run: _per_step(run, getattr(run, table).get(row.key)))
        wider = None if own is None or steps is None else max(own, steps)
        return replace(row, time=replace(row.time, half_width=wider))

    def _width(self, of: Callable[[JobTable], float | None]) -> float | None:
        sides = [
            tuple(value for run in runs if (value := of(run)) is not None)
            for runs in (self.a, self.b)
        ]
        if not all(sides):
            return None
        return half_width(*(Sample(values, "runs") for values in sides))


def _mean(values: F64 | None) -> float | None:
    return None if values is None or not len(values) else float(values.mean())


def _per_step(run: JobTable, work: Work | None) -> float:
    return 0.0 if work is None else work.total_ns / 1e6 / (run.num_rank_steps or 1)
