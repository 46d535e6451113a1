"""Spread between runs, and the interval of the difference of two means (Welch).

The spread within a run, over its steps, does not hold what differs from run to run: nodes, network,
clocks of the devices, other jobs. It is known from several runs of a side, or stated by the user.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

# Two-sided 95 % quantiles of Student's t by degrees of freedom (NIST/SEMATECH handbook, 1.3.6.7.2).
_T95: Final = (
    (1, 12.706),
    (2, 4.303),
    (3, 3.182),
    (4, 2.776),
    (5, 2.571),
    (6, 2.447),
    (7, 2.365),
    (8, 2.306),
    (9, 2.262),
    (10, 2.228),
    (12, 2.179),
    (15, 2.131),
    (20, 2.086),
    (30, 2.042),
    (60, 2.000),
)
_T95_OF_MANY: Final = 1.960


class Sample(Struct, frozen=True):
    """Values of one side; ``what`` names one value in the plural, such as "runs"."""

    values: tuple[float, ...]
    what: str

    @property
    def mean(self) -> float:
        """Arithmetic mean."""
        return math.fsum(self.values) / len(self.values)

    @property
    def std(self) -> float | None:
        """Sample standard deviation (n - 1), None of one value."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None


def half_width(a: Sample, b: Sample) -> float | None:
    """Return half of the 95 % interval of the difference of two means (Welch).

    A side with one value is assumed to have the standard deviation of the other side. None where
    both sides have one value.
    """
    if a.std is None and b.std is None:
        return None
    std_a = a.std if a.std is not None else b.std or 0.0
    std_b = b.std if b.std is not None else a.std or 0.0
    parts = [std_a**2 / len(a.values), std_b**2 / len(b.values)]
    error = math.sqrt(sum(parts))
    if error == 0:
        return 0.0
    counts = [max(len(side.values) - 1, 0) for side in (a, b)]
    weights = [part**2 / count for part, count in zip(parts, counts, strict=True) if count]
    has_single_value = not all(counts)
    # The variance of a single value is unknown: use the degrees of freedom of the other side.
    freedom = (
        max(counts) if has_single_value else sum(parts) ** 2 / sum(weights) if sum(weights) else 1
    )
    return t95(freedom) * error


def t95(freedom: float) -> float:
    """Return the two-sided 95 % quantile of Student's t.

    Between tabulated degrees of freedom the quantile of the next smaller number is returned.
    """
    fitting = [value for degrees, value in _T95 if degrees <= freedom + 1e-9]
    return _T95_OF_MANY if freedom >= 1000 else fitting[-1] if fitting else _T95[0][1]


def parts_of(values: Sequence[float], count: int) -> tuple[float, ...]:
    """Return the means of ``count`` consecutive parts of equal length.

    Consecutive values are not independent repetitions; means of long parts nearly are. All values
    are returned where there are fewer than ``count``.
    """
    size = len(values) // count
    if not size:
        return tuple(values)
    return tuple(math.fsum(values[i * size : (i + 1) * size]) / size for i in range(count))


INDISTINCT: Final = "not distinguishable from noise between runs"
ADVICE: Final = (
    "name more runs of each side (--also-a, --also-b), or state by how much two runs of one "
    "command differ (--runs-vary PCT)"
)
ONE_RUN: Final = f"one run a side, so the spread between runs is unknown: {ADVICE}"
"""Why a difference of two single runs is called neither better nor worse."""


def stated(runs_vary_pct: float) -> str:
    """Return the note on a difference that is judged by the spread that the user stated."""
    return f"runs of one command vary by {runs_vary_pct:g} %, as stated by --runs-vary"


def limit_of(value: float | None, runs_vary_pct: float | None) -> float | None:
    """Return the stated spread in the unit of ``value``, None where none is stated."""
    return None if value is None or runs_vary_pct is None else runs_vary_pct / 100 * abs(value)
