"""The values that occur in an array, and where.

As `numpy.unique` has them, which first imports masked arrays: that takes longer than many a metric.
"""

from __future__ import annotations

from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from ccltui.metrics.arrays.compiled import available
from ccltui.parsers.array_types import I64, Bool

_COMPILED: Final = (np.int8, np.int32, np.int64)

_Kind = TypeVar("_Kind", bound=np.generic)


def distinct_values(values: npt.NDArray[_Kind]) -> npt.NDArray[_Kind]:
    """Each value once, ascending, in one dimension; of numbers that are no NaN, or of texts."""
    if values.dtype.kind in "UO":
        return np.array(sorted(set(values.ravel().tolist())), values.dtype)
    if values.dtype in _COMPILED and values.size and available():
        from ccltui.metrics.arrays import _passes  # noqa: PLC0415

        marked = _passes.values_in(np.ascontiguousarray(values).reshape(-1), _room(values.size))
        if marked is not None:
            low, seen = marked
            present: npt.NDArray[_Kind] = (np.flatnonzero(seen) + low).astype(values.dtype)
            return present
    ordered = np.sort(values, axis=None)
    return ordered[_opens(ordered)]


def numbered(values: npt.NDArray[_Kind]) -> tuple[npt.NDArray[_Kind], I64]:
    """Each value of one dimension once, ascending, and which of them each is, int64."""
    order = np.argsort(values, kind="stable")  # what is in a few ascending runs is merged
    ordered = values[order]
    opens = _opens(ordered)
    place = np.empty(len(values), np.int64)
    place[order] = np.cumsum(opens) - 1
    return ordered[opens], place


def counted(values: npt.NDArray[_Kind]) -> tuple[npt.NDArray[_Kind], I64]:
    """Each value of one dimension once, ascending, and how often it occurs, int64."""
    found, place = numbered(values)
    return found, np.bincount(place, minlength=len(found))


def _opens(ordered: npt.NDArray[_Kind]) -> Bool:
    """Where each value of an ascending array stands first."""
    is_first = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    return is_first


def _room(count: int) -> int:
    """In how large a range so many integers are marked rather than sorted."""
    return 4 * count + 1024
