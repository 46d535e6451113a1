"""The lower median: of an even number of values the smaller of the two in the middle.

With two workers a mean of the two in the middle would accuse both.
"""

from __future__ import annotations

import numpy as np

from ccltui.parsers.array_types import F64, I64


def lower_median(values: F64) -> float:
    """Return the lower median of finite values, NaN without any."""
    ordered = np.sort(values[~np.isnan(values)])
    return float(ordered[(len(ordered) - 1) // 2]) if len(ordered) else float("nan")


def lower_medians(values: F64, group: I64, count: int) -> F64:
    """Return the lower median of each group 0 to ``count`` - 1, NaN for empty ones."""
    order = np.lexsort((values, group))
    sizes = np.bincount(group, minlength=count)
    first = np.cumsum(sizes) - sizes
    place = np.minimum(first + np.maximum(sizes - 1, 0) // 2, max(len(order) - 1, 0))
    if not len(order):
        return np.full(count, np.nan)
    return np.where(sizes > 0, values[order][place], np.nan)
