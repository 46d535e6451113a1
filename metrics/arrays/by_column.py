"""Arrays [n, m] of n collectives on m ranks, with the numbers of one rank side by side.

What is computed rank by rank writes one column after the other: in numpy's usual order each number
of a column of a thousand ranks lies on a page of its own, which takes seven times as long.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from ccltui.metrics.arrays.compiled import available
from ccltui.metrics.arrays.reductions import row_count
from ccltui.parsers.array_types import F64, I32, I64, Bool

_Kind = TypeVar("_Kind", bound=np.generic)


def zeros(shape: tuple[int, ...]) -> I64:
    """Return zeros [n, m], int64, those of a column side by side."""
    return np.zeros(shape[::-1], np.int64).T


_TOGETHER: Final = 1 << 15
"""Numbers that are looked at together: 256 KiB, which stay in the cache of a core."""


def together(size: int, number: int) -> Iterator[slice]:
    """Yield some at a time of a number of columns, or rows, of one size.

    Tables of all take long to make: their pages are new, and read again from memory.
    """
    width = max(_TOGETHER // max(size, 1), 1)
    for begin in range(0, number, width):
        yield slice(begin, begin + width)


def take_rows(values: npt.NDArray[_Kind], rows: I64) -> npt.NDArray[_Kind]:
    """Return some rows of an array [n, m] or [n], the numbers of a column side by side.

    Consecutive rows are a view. Of columns that are views of one, as where all ranks have the same
    rows, one is taken, which nobody may write to: numpy copies them all first.
    """
    if len(rows) and rows[-1] - rows[0] == len(rows) - 1 and (rows[1:] > rows[:-1]).all():
        return values[rows[0] : rows[-1] + 1]
    if _is_one_column(values):
        return np.broadcast_to(values[:, :1].take(rows, axis=0), (len(rows), values.shape[1]))
    return values.T.take(rows, axis=-1).T


def take_columns(values: npt.NDArray[_Kind], columns: Sequence[int]) -> npt.NDArray[_Kind]:
    """Return some columns of an array [n, m]; the array itself where these are all, in order.

    Columns that are views of one stay so, which nobody may write to.
    """
    if list(columns) == list(range(values.shape[1])):
        return values
    if _is_one_column(values):
        return np.broadcast_to(values[:, :1], (len(values), len(columns)))
    return values.T.take(columns, axis=0).T


def _is_one_column(values: npt.NDArray[Any]) -> bool:
    return values.ndim == 2 and values.shape[1] > 1 and not values.strides[1]


def lowest(values: I64) -> I64:
    """Return the first column with the lowest number of each row, int64 [n]; m is at least 1."""
    return _two_lowest(values, most=1)[0]


def highest(values: I64) -> I64:
    """Return the first column with the highest number of each row, int64 [n]; m is at least 1."""
    first, high = np.zeros(len(values), np.int64), values[:, 0].copy()
    for column in range(1, values.shape[1]):
        mine = values[:, column]
        higher = mine > high
        np.copyto(high, mine, where=higher)
        np.copyto(first, column, where=higher)
    return first


def two_lowest(values: I64) -> tuple[I64, I64]:
    """Return the columns with the lowest and the next number of each row, the first of equal ones.

    ``values`` is int64 [n, m] of two columns or more. One pass a column: numpy's argmin copies the
    table first where the numbers of a column lie side by side.
    """
    if available():
        from ccltui.metrics.arrays import _passes  # noqa: PLC0415

        found: tuple[I64, I64] = _passes.two_lowest(values)
        return found
    return _two_lowest(values, most=2)


def _two_lowest(values: I64, *, most: int) -> tuple[I64, I64]:
    count = len(values)
    first, second = np.zeros((2, count), np.int64)
    low = values[:, 0].copy()
    next_low = np.full(count, np.iinfo(np.int64).max)
    for column in range(1, values.shape[1]):
        mine = values[:, column]
        lower = mine < low
        if most > 1:
            between = (mine < next_low) & ~lower
            np.copyto(next_low, mine, where=between)
            np.copyto(second, column, where=between)
            np.copyto(next_low, low, where=lower)
            np.copyto(second, first, where=lower)
        np.copyto(low, mine, where=lower)
        np.copyto(first, column, where=lower)
    return first, second


def marked_median(values: I32 | I64 | F64, marks: Bool) -> F64:
    """Return the median of the marked numbers of each row, float64 [n]; NaN where none is marked.

    ``values`` and ``marks`` are [n, m]; no number is NaN.
    """
    if values.shape[1] == 2:
        one = np.where(marks[:, 0], values[:, 0], np.where(marks[:, 1], values[:, 1], np.nan))
        wide = np.result_type(values, np.int64)  # two numbers of 4 B can add up to more
        both = np.add(values[:, 0], values[:, 1], dtype=wide) / 2
        return np.where(marks.all(axis=1), both, one)
    return _marked_median_compiled(values, marks) if available() else _marked_median(values, marks)


def _marked_median_compiled(values: I32 | I64 | F64, marks: Bool) -> F64:
    """Do what `_marked_median` does without sorting: two fifths of the time for 1,024 columns."""
    from ccltui.metrics.arrays import _passes  # noqa: PLC0415

    found: F64 = _passes.marked_median(values, marks.view(np.uint8))
    return found


def _marked_median(values: I32 | I64 | F64, marks: Bool) -> F64:
    ordered = np.sort(np.where(marks, np.asarray(values, np.float64), np.inf), axis=1)
    number = row_count(marks)
    line = np.arange(len(values))
    low = ordered[line, np.maximum((number - 1) // 2, 0)]
    high = ordered[line, np.minimum(number // 2, values.shape[1] - 1)]
    return np.where(number > 0, (low + high) / 2, np.nan)
