"""Statistics of plain lists, named as in results; None where undefined.

mean is arithmetic, p50 the median (mean of the two middle values), p90 to p99 the nearest
rank, std the sample standard deviation (n - 1).

Measures of load balance: load factor, coefficient of variation, Gini coefficient, entropy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ccltui.metrics.arrays.reductions import median_along
from ccltui.parsers.array_types import F64

Number = int | float


def mean(values: Sequence[Number]) -> float | None:
    """Return the arithmetic mean, None of no value."""
    return math.fsum(values) / len(values) if values else None


def median(values: Sequence[Number]) -> float | None:
    """Return the middle value, or the mean of the two middle values; None of no value."""
    if not values:
        return None
    ordered, middle = sorted(values), len(values) // 2
    return float(
        ordered[middle] if len(values) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
    )


def nearest_rank(values: Sequence[Number], share: float) -> Number | None:
    """Return the ceil(share * n)-th smallest value, 0 < share <= 1; None of no value."""
    if not values:
        return None
    return sorted(values)[rank_place(len(values), share)]


def rank_place(count: int, share: float) -> int:
    """Return the index, in ascending order, of the ceil(share * n)-th smallest of n > 0 values."""
    # rounding may put the product just above an integer, which must not raise the rank
    return max(math.ceil(share * count - 1e-9), 1) - 1


def sample_std(values: Sequence[Number]) -> float | None:
    """Return the standard deviation with n - 1, None of fewer than two values."""
    import statistics  # noqa: PLC0415  (with random and fractions, 3 ms that few metrics need)

    return float(statistics.stdev(values)) if len(values) > 1 else None


def students_t(deviations: float, freedom: int) -> float:
    """Return the quantile of Student's t where the normal distribution has ``deviations``.

    So many estimated deviations are as rare as ``deviations`` known ones. Expansion of Fisher and
    Cornish (1960) to the second order, which is too small below five degrees of freedom; infinite
    without any.
    """
    if freedom < 1:
        return math.inf
    z = deviations
    first = (z**3 + z) / (4 * freedom)
    second = (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
    return z + first + second


def ratio(numerator: Number, denominator: Number) -> float | None:
    """Return the quotient, None where the denominator is zero."""
    return numerator / denominator if denominator else None


def over_ranks(
    values: Mapping[str, Number], unit: Callable[[Number], float] = float
) -> dict[str, float | None]:
    """Return mean, min, max and spread (max - min) over ranks, converted by ``unit``."""
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
    """Convert ns to ms, exact to the ns below about 100 days."""
    return nanoseconds / 1_000_000


def microseconds(nanoseconds: Number) -> float:
    """Convert ns to µs, exact to the ns below about 100 days."""
    return nanoseconds / 1_000


KEYS = (
    "load_factor",
    "max_min_ratio",
    "zero_experts",
    "cv",
    "gini",
    "entropy_bits",
    "entropy_norm",
)


def balance(loads: Sequence[float] | F64) -> dict[str, Any]:
    """Return the measures of KEYS of non-negative loads; all None of no load, or where all are 0.

    For equal loads the load factor is 1, cv 0, Gini 0 and the normalised entropy 1; where one of n
    has all of the load, they are n, √(n−1), 1−1/n and 0. ``max_min_ratio`` is None where a load is
    0 (``zero_experts`` counts these). ``cv`` uses the standard deviation of the population.
    """
    values = np.sort(np.asarray(loads, np.float64))
    total, count = math.fsum(values.tolist()), len(values)
    if not count or not total:
        return dict.fromkeys(KEYS)
    mean = total / count
    share = values[values > 0] / total
    entropy = max(0.0, -math.fsum((share * np.log2(share)).tolist()))
    ranks = 2 * np.arange(1, count + 1) - count - 1
    return {
        "load_factor": float(values[-1]) / mean,
        "max_min_ratio": float(values[-1] / values[0]) if values[0] > 0 else None,
        "zero_experts": int((values == 0).sum()),
        "cv": float(np.std(values)) / mean,
        "gini": max(0.0, math.fsum((ranks * values).tolist()) / (count * total)),
        "entropy_bits": entropy,
        "entropy_norm": min(1.0, entropy / math.log2(count)) if count > 1 else None,
    }


Distribution = dict[str, float | int | None]

_SHARES = (("p90", 0.90), ("p95", 0.95), ("p99", 0.99))


def distribution(values: Sequence[float]) -> Distribution:
    """Return mean, median, nearest-rank p90, p95 and p99, and n; all but n None of no value."""
    if not len(values):
        return {"mean": None, "p50": None, **{name: None for name, _ in _SHARES}, "n": 0}
    ordered = np.sort(np.asarray(values, np.float64))
    count = len(ordered)
    ranks = {name: rank_place(count, share) for name, share in _SHARES}
    return {
        "mean": math.fsum(ordered.tolist()) / count,
        "p50": float(median_along(ordered)),
        **{name: float(ordered[rank]) for name, rank in ranks.items()},
        "n": count,
    }
