"""Theil-Sen slopes that are certain not to be zero."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]

MAX_POINTS = 64
MIN_POINTS = 8
Z_99 = 2.576


def certain_slopes(time: F64, values: F64) -> F64:
    """Slope of every column of ``values`` [n, m] over ``time`` [n], float64 [m].

    It is 0 where the 99 % interval of the Theil-Sen estimate (Sen 1968) includes 0, or where
    there are too few points. Many points are first condensed to medians of consecutive blocks.
    """
    if len(time) < MIN_POINTS:
        return np.zeros(values.shape[1])
    blocks = np.array_split(np.argsort(time, kind="stable"), min(len(time), MAX_POINTS))
    when = np.array([np.median(time[block]) for block in blocks])
    level = np.stack([np.median(values[block], axis=0) for block in blocks])
    early, late = np.triu_indices(len(when), 1)
    apart = when[late] > when[early]
    early, late = early[apart], late[apart]
    if not len(early):
        return np.zeros(values.shape[1])
    slopes = np.sort(
        (level[late] - level[early]) / (when[late] - when[early])[:, np.newaxis], axis=0
    )
    low, high = _interval(len(slopes), len(when))
    certain = (slopes[low] > 0) | (slopes[high] < 0)
    return np.where(certain, np.median(slopes, axis=0), 0.0)


def _interval(num_slopes: int, num_points: int) -> tuple[int, int]:
    """Ranks of the lower and upper confidence limit among the sorted slopes."""
    spread = Z_99 * np.sqrt(num_points * (num_points - 1) * (2 * num_points + 5) / 18)
    low = int(np.floor((num_slopes - spread) / 2)) - 1
    high = int(np.ceil((num_slopes + spread) / 2))
    return max(low, 0), min(high, num_slopes - 1)
