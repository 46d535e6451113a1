"""Rows of a comparison of jobs: times, parts of a step, device work, collectives, dimensions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ccltui.metrics.compare.job_table import CollectiveKey, Work, WorkKey
from ccltui.metrics.findings.partition import Named

Direction = Literal["longer", "shorter", "not distinguishable", ""]
"""Whether a time changed beyond the noise; "" where the noise is unknown: without an interval, and
between two runs of which nobody knows how far runs of one command differ."""
Status = Literal["added", "gone", "changed", "not distinguishable", ""]


@dataclass(frozen=True, slots=True)
class TimeChange:
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


@dataclass(frozen=True, slots=True)
class PartChange:
    """A bar of the waterfall: time of one part of a step in ms, 0 where a side has none."""

    part: Named
    a: float
    b: float

    @property
    def delta(self) -> float:
        """B minus A."""
        return self.b - self.a


@dataclass(frozen=True, slots=True)
class WorkChange:
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


@dataclass(frozen=True, slots=True)
class CollectiveChange:
    """Collectives of one key on both sides: calls and transfer time in ms, of a step or in all."""

    key: CollectiveKey
    calls: tuple[float, float]
    time: TimeChange


@dataclass(frozen=True, slots=True)
class DimensionChange:
    """Exposed communication of one parallel dimension, and its calls and bytes."""

    dim: str
    exposed: TimeChange
    calls: tuple[float, float]
    message_bytes: tuple[float, float]
