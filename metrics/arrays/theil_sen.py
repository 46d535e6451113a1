"""Theil-Sen slopes with the error that Sen's interval gives them."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ccltui.metrics.arrays.reductions import median_along
from ccltui.parsers.array_types import F64, I64

MAX_POINTS = 64
MIN_POINTS = 8
Z_99 = 2.576
LEAST_ERROR = 1.0
"""ns per s: no clock is told better than to a part in 10^9."""
UNKNOWN_ERROR = 1e6
"""ns per s: error of a slope that too few points tell."""


def slopes(time: F64, values: F64, *, points: int = MAX_POINTS) -> tuple[F64, F64]:
    """Slope of every column of ``values`` [n, m] over ``time`` [n], and its standard error.

    Both float64 [m]. The error is a 99 % interval (Sen 1968) over its width in standard
    deviations. Too few points give the slope 0 with `UNKNOWN_ERROR`. Many points are first
    condensed to medians of at most ``points`` consecutive blocks.
    """
    members = values.shape[1]
    if len(time) < MIN_POINTS:
        return np.zeros(members), np.full(members, UNKNOWN_ERROR)
    order = np.argsort(time, kind="stable")
    when = _condensed(time[order][:, np.newaxis], points)[:, 0]
    level = _condensed(values[order], points)
    early, late = _pairs(len(when))
    apart = when[late] > when[early]
    early, late = early[apart], late[apart]
    if not len(early):
        return np.zeros(members), np.full(members, UNKNOWN_ERROR)
    steep = np.sort(
        (level[late] - level[early]) / (when[late] - when[early])[:, np.newaxis], axis=0
    )
    low, high = _interval(len(steep), len(when))
    error = (steep[high] - steep[low]) / (2 * Z_99)
    return median_along(steep), np.maximum(error, LEAST_ERROR)


@lru_cache
def _pairs(count: int) -> tuple[I64, I64]:
    """Indices of all pairs of so many."""
    early, late = np.triu_indices(count, 1)
    return early, late


def _condensed(values: F64, points: int) -> F64:
    """Medians of at most so many consecutive blocks of rows, their lengths one apart."""
    count = len(values)
    if count <= points:
        return values
    length, longer = divmod(count, points)
    cut = longer * (length + 1)
    parts = (values[:cut], length + 1, longer), (values[cut:], length, points - longer)
    return np.concatenate(
        [median_along(part.reshape(number, size, -1), 1) for part, size, number in parts if number]
    )


def _interval(num_slopes: int, num_points: int) -> tuple[int, int]:
    """Ranks of the lower and upper confidence limit among the sorted slopes."""
    spread = Z_99 * np.sqrt(num_points * (num_points - 1) * (2 * num_points + 5) / 18)
    low = int(np.floor((num_slopes - spread) / 2)) - 1
    high = int(np.ceil((num_slopes + spread) / 2))
    return max(low, 0), min(high, num_slopes - 1)
