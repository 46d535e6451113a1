"""The lower median: of an even number of values the smaller of the two in the middle.

With two workers a mean of the two in the middle would accuse both.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ccltui.metrics.arrays.reductions import stable_order
from ccltui.parsers.array_types import F64, I64

LARGE: Final = 100
"""Values of a group from which dividing each of them costs less than sorting all together."""


def lower_median(values: F64) -> float:
    """Return the lower median of finite values, NaN without any."""
    ordered = np.sort(values[~np.isnan(values)])
    return float(ordered[(len(ordered) - 1) // 2]) if len(ordered) else float("nan")


def lower_medians(values: F64, group: I64, count: int) -> F64:
    """Return the lower median of each group 0 to ``count`` - 1, NaN for empty ones."""
    sizes = np.bincount(group, minlength=count)
    first = np.cumsum(sizes) - sizes
    if len(values) >= LARGE * count:  # few large groups: each is divided, not sorted
        ordered = values[stable_order(group)]
        found = np.full(count, np.nan)
        for one, begin in enumerate(first.tolist()):
            if size := int(sizes[one]):
                middle = (size - 1) // 2
                found[one] = np.partition(ordered[begin : begin + size], middle)[middle]
        return found
    order = np.lexsort((values, group))
    place = np.minimum(first + np.maximum(sizes - 1, 0) // 2, max(len(order) - 1, 0))
    if not len(order):
        return np.full(count, np.nan)
    return np.where(sizes > 0, values[order][place], np.nan)
