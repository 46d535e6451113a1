"""What is typical of several ranks that do the same work, some of which may be slow.

The lower median is of an even number of values the smaller of the two in the middle: of two ranks a
mean of both would accuse both. The median of all would be the fastest of the slow ones, or the
slowest of the others, where half of the ranks are slow. All that differ from the lower median are
therefore set aside first. The median of what remains is neither short nor long by chance.

Theil-Sen slopes with standard errors from Sen's confidence interval.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np

from ccltui.metrics.arrays.by_column import together
from ccltui.metrics.arrays.reductions import columns_of, counts_up, median_along, stable_order
from ccltui.parsers.array_types import F64, I64, Bool

SLOW: Final = 0.05
"""Share by which those that are set aside differ from the lower median."""
LARGE: Final = 100
"""Values of a group from which sorting each group costs less than sorting all together."""


MAX_FILLED: Final = 4
"""Places of a table per value up to which groups are sorted as its rows."""


def lower_median(values: F64) -> float:
    """Return the lower median of the values that are not NaN, NaN without any."""
    ordered = np.sort(values[~np.isnan(values)])
    return float(ordered[(len(ordered) - 1) // 2]) if len(ordered) else float("nan")


def lower_medians(values: F64, group: I64, count: int) -> F64:
    """Return the lower median of each group 0 to ``count`` - 1, NaN for empty ones."""
    ordered, first, sizes = _sorted(values, group, count)
    found = np.full(count, np.nan)
    held = np.flatnonzero(sizes)
    found[held] = ordered[first[held] + (sizes[held] - 1) // 2]
    return found


def slow_ones(values: F64, group: I64, count: int) -> Bool:
    """Return a mask of the values that differ from their group 0 to ``count`` - 1, by value."""
    lower = lower_medians(values, group, count)[group]
    return np.asarray(np.abs(values - lower) > SLOW * lower)


def typical_of_groups(values: F64, group: I64, count: int, slow: Bool) -> F64:
    """Return the typical value of each group 0 to ``count`` - 1, NaN for empty ones.

    Args:
        values: not negative.
        group: group of each value.
        count: number of groups.
        slow: mask of the values that are set aside where others of their group are not.
    """
    found = np.full(count, np.nan)
    whole = np.bincount(group, minlength=count)
    only = np.bincount(group[slow], minlength=count) == whole
    rest = ~slow | only[group]
    kept, of = values[rest], group[rest]
    if not len(kept):
        return found
    slow_here = slow_ones(kept, of, count)
    kept, of = kept[~slow_here], of[~slow_here]
    ordered, first, sizes = _sorted(kept, of, count)
    held = np.flatnonzero(sizes)
    begin, size = first[held], sizes[held]
    found[held] = (ordered[begin + (size - 1) // 2] + ordered[begin + size // 2]) / 2
    return found


def _sorted(values: F64, group: I64, count: int) -> tuple[F64, I64, I64]:
    """Return the values in order in each group, and the first place and the size of each group.

    Small groups are rows of a table, which is filled up with NaN: sorting rows takes a quarter of
    the time of sorting by group and value.
    """
    sizes = np.bincount(group, minlength=count)
    first = np.cumsum(sizes) - sizes
    order = stable_order(group)
    ordered, widest = values[order], int(sizes.max(initial=0))
    if len(values) >= LARGE * count:
        for begin, size in zip(first.tolist(), sizes.tolist(), strict=True):
            ordered[begin : begin + size].sort()
        return ordered, first, sizes
    if count * widest > MAX_FILLED * len(values):
        return values[np.lexsort((values, group))], first, sizes
    begin = np.arange(count) * widest
    if count * widest > len(values):
        rows = np.full(count * widest, np.nan)
        rows[np.arange(len(values)) + np.repeat(begin - first, sizes)] = ordered
        ordered = rows
    ordered.reshape(count, widest).sort(axis=1)
    return ordered, begin, sizes


MAX_POINTS = 64
"""Every pair of points is a slope: 2,016 of 64."""
MIN_POINTS = 8
"""Of fewer the 99 % interval of the median slope reaches past the slopes that there are."""
Z_99 = 2.576
LEAST_ERROR = 1.0
"""Lower limit of the error, in ns per s: no clock rate is known better than to a part in 10^9."""
UNKNOWN_ERROR = 1e6
"""Error of a slope of too few points, in ns per s."""


def slopes(
    time: F64, values: F64, *, points: int = MAX_POINTS, blocks: F64 | None = None
) -> tuple[F64, F64]:
    """Return the slope of every column of ``values`` over ``time``, and its standard error.

    The error is the width of the 99 % interval (Sen 1968) divided by its width in standard
    deviations. Too few points give the slope 0 with `UNKNOWN_ERROR`.

    Args:
        time: float64 [n].
        values: float64 [n, m].
        points: more points than this are first reduced to medians of so many consecutive blocks.
        blocks: what `condensed` makes of the values, where it is known.

    Returns:
        Slopes and errors, float64 [m].
    """
    members = values.shape[1]
    if len(time) < MIN_POINTS:
        return np.zeros(members), np.full(members, UNKNOWN_ERROR)
    order = np.argsort(time, kind="stable")
    ascends = counts_up(order)
    when = condensed(time[order][:, np.newaxis], points)[0]
    level = blocks if ascends else None
    if level is None:
        level = condensed(values if ascends else values[order], points)
    early, late = _pairs(len(when))
    apart = when[late] > when[early]
    early, late = early[apart], late[apart]
    if not len(early):
        return np.zeros(members), np.full(members, UNKNOWN_ERROR)
    low, high = _interval(len(early), len(when))
    middle, error = np.empty((2, members))
    for some in together(len(early), members):
        steep = (level[some, late] - level[some, early]) / (when[late] - when[early])
        steep.sort(axis=1)
        error[some] = (steep[:, high] - steep[:, low]) / (2 * Z_99)
        middle[some] = (steep[:, (len(early) - 1) // 2] + steep[:, len(early) // 2]) / 2
    return middle, np.maximum(error, LEAST_ERROR)


@lru_cache
def _pairs(count: int) -> tuple[I64, I64]:
    """Indices of all pairs of ``count`` points."""
    early, late = np.triu_indices(count, 1)
    return early, late


def condensed(values: F64, points: int = MAX_POINTS) -> F64:
    """Medians of at most ``points`` consecutive blocks of rows, equal in length within 1.

    Returns:
        Float64 [m, points]: those of a column side by side.
    """
    count = len(values)
    if count <= points:
        return np.ascontiguousarray(values.T)
    length, longer = divmod(count, points)
    cut = longer * (length + 1)
    found = np.empty((values.shape[1], points))
    for column, one in enumerate(columns_of(values)):
        if longer:
            found[column, :longer] = median_along(one[:cut].reshape(longer, -1), 1)
        found[column, longer:] = median_along(one[cut:].reshape(points - longer, -1), 1)
    return found


def _interval(num_slopes: int, num_points: int) -> tuple[int, int]:
    """Ranks of the lower and upper confidence limit among the sorted slopes."""
    spread = Z_99 * np.sqrt(num_points * (num_points - 1) * (2 * num_points + 5) / 18)
    low = int(np.floor((num_slopes - spread) / 2)) - 1
    high = int(np.ceil((num_slopes + spread) / 2))
    return max(low, 0), min(high, num_slopes - 1)
