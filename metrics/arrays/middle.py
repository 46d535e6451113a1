"""Medians of float arrays.

As `numpy.median` has them, which first imports masked arrays: that takes longer than many a metric.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ccltui.parsers.array_types import F64


def middle_of(values: npt.ArrayLike, axis: int = 0) -> F64:
    """Median along an axis, of at least one value; NaN where any of them is."""
    several = np.moveaxis(np.asarray(values, np.float64), axis, 0)
    low, high = (len(several) - 1) // 2, len(several) // 2
    if len(several) <= 2:
        return np.asarray((several[low] + several[high]) / 2)  # in any order
    ordered = np.partition(several, [low, high], axis=0)
    middle = (ordered[low] + ordered[high]) / 2
    return np.where(np.isnan(several.max(axis=0)), np.nan, middle)  # of NaNs the maximum is one
