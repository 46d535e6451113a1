"""Theil-Sen slopes with standard errors from Sen's confidence interval."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ccltui.metrics.arrays.reductions import median_along
from ccltui.parsers.array_types import F64, I64

MAX_POINTS = 64
MIN_POINTS = 8
Z_99 = 2.576
LEAST_ERROR = 1.0
"""Lower limit of the error, in ns per s: no clock rate is known better than to a part in 10^9."""
UNKNOWN_ERROR = 1e6
"""Error of a slope of too few points, in ns per s."""


def slopes(time: F64, values: F64, *, points: int = MAX_POINTS) -> tuple[F64, F64]:
    """Return the slope of every column of ``values`` over ``time``, and its standard error.

    The error is the width of the 99 % interval (Sen 1968) divided by its width in standard
    deviations. Too few points give the slope 0 with `UNKNOWN_ERROR`.

    Args:
        time: float64 [n].
        values: float64 [n, m].
        points: more points than this are first reduced to medians of so many consecutive blocks.

    Returns:
        Slopes and errors, float64 [m].
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
    """Indices of all pairs of ``count`` points."""
    early, late = np.triu_indices(count, 1)
    return early, late


def _condensed(values: F64, points: int) -> F64:
    """Medians of at most ``points`` consecutive blocks of rows, equal in length within 1."""
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
