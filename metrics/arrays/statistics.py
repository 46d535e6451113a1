"""Statistics by the names that results use, on plain lists; None where undefined.

mean is arithmetic, p50 the median (mean of the two middle values), p90 to p99 the nearest
rank, std the sample standard deviation (n - 1).
"""

from __future__ import annotations

import math
import statistics as exact
from collections.abc import Callable, Mapping, Sequence

Number = int | float


def mean(values: Sequence[Number]) -> float | None:
    """Arithmetic mean, None of nothing."""
    return math.fsum(values) / len(values) if values else None


def median(values: Sequence[Number]) -> float | None:
    """Middle value, or the mean of the two middle values."""
    return float(exact.median(values)) if values else None


def nearest_rank(values: Sequence[Number], share: float) -> Number | None:
    """The ceil(share * n)-th smallest value, for 0 < share <= 1."""
    if not values:
        return None
    return sorted(values)[rank_place(len(values), share)]


def rank_place(count: int, share: float) -> int:
    """Where the ceil(share * n)-th smallest of n > 0 values stands in order, from 0."""
    # a product a hair above a whole number must not move the rank
    return max(math.ceil(share * count - 1e-9), 1) - 1


def sample_std(values: Sequence[Number]) -> float | None:
    """Standard deviation with n - 1, None for fewer than two values."""
    return float(exact.stdev(values)) if len(values) > 1 else None


def ratio(numerator: Number, denominator: Number) -> float | None:
    """Quotient, None when the denominator is zero."""
    return numerator / denominator if denominator else None


def over_ranks(
    values: Mapping[str, Number], unit: Callable[[Number], float] = float
) -> dict[str, float | None]:
    """Mean, min, max and spread (max - min) of a per-rank number, converted by ``unit``."""
    numbers = list(values.values())
    average = mean(numbers)
    if average is None:
        return {"mean": None, "min": None, "max": None, "spread": None}
    low, high = min(numbers), max(numbers)
    return {
        "mean": unit(average),
        "min": unit(low),
        "max": unit(high),
        "spread": unit(high - low),
    }


def milliseconds(nanoseconds: Number) -> float:
    """Nanoseconds as ms, exact to the ns below about 100 days."""
    return nanoseconds / 1_000_000


def microseconds(nanoseconds: Number) -> float:
    """Nanoseconds as µs, exact to the ns below about 100 days."""
    return nanoseconds / 1_000
