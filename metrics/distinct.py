"""The values that occur in an array.

As `numpy.unique` has them, which first imports masked arrays: that takes longer than many a metric.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

_DENSE: Final = 4
_FEW: Final = 1024
"""Integers in a range of so many times their number and so many more are marked, not sorted."""

_Kind = TypeVar("_Kind", bound=np.generic)


def distinct_values(values: npt.NDArray[_Kind]) -> npt.NDArray[_Kind]:
    """Each value once, ascending, in one dimension; of numbers that are no NaN, or of texts."""
    if values.dtype.kind in "UO":
        return np.array(sorted(set(values.ravel().tolist())), values.dtype)
    if values.dtype.kind == "i" and values.size:
        low, high = int(values.min()), int(values.max())
        if high - low < _DENSE * values.size + _FEW:
            seen = np.zeros(high - low + 1, np.bool_)
            seen[np.subtract(values.ravel(), low, dtype=np.int64)] = True
            return (np.flatnonzero(seen) + low).astype(values.dtype)
    ordered = np.sort(values, axis=None)
    is_first: npt.NDArray[Any] = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    found: npt.NDArray[_Kind] = ordered[is_first]
    return found
