"""Rows of a comparison of jobs: times, parts of a step, device work, collectives, dimensions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ccltui.metrics.compare.job_table import CollectiveKey, Work, WorkKey
from ccltui.metrics.device.step_division import Part

Direction = Literal["longer", "shorter", "not distinguishable", ""]
"""Whether a time changed beyond its 95 % interval; "" where the spread is unknown."""
Status = Literal["added", "gone", "changed", "not distinguishable", ""]


@dataclass(frozen=True, slots=True)
class TimeChange:
    """A time of both sides in ms, None where a side does not have it.

    ``half_width`` is half of the 95 % interval of the difference, None where the spread is unknown.
    """

    name: str
    a: float | None
    b: float | None
    half_width: float | None = None

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
        if self.delta is None or self.half_width is None:
            return ""
        if abs(self.delta) <= self.half_width:
            return "not distinguishable"
        return "longer" if self.delta > 0 else "shorter"


@dataclass(frozen=True, slots=True)
class PartChange:
    """A bar of the waterfall: time of one part of a step in ms, 0 where a side has none."""

    part: Part
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
