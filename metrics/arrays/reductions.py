"""Reductions of arrays: along short rows, to distinct values, to medians; their stable order.

Five of them are written by hand instead of calling numpy (factors measured with numpy 2.4 on
200,000 rows):

* the ``row_*`` functions: numpy runs its innermost loop along a row, which has two numbers where
  a group has two members. One pass a column takes a fiftieth of the time for two members, a
  quarter for eight.
* `distinct_values` and `unique_inverse`: `numpy.unique` takes at least 6 times as long as
  `distinct_values` of integers, 3 times as long for strings, and its first call imports
  `numpy.ma` (10 to 20 ms, longer than many a metric). With ``return_inverse`` it takes 4 to 6
  times as long where the values are a few ascending runs, such as the sequence numbers of several
  ranks one after another, and 0.6 to 1.5 times as long elsewhere.
* `stable_order` and `unique_inverse` of numbers in a small range, such as those of groups or lines,
  count them instead of sorting: a third to a tenth of the time of numpy's stable argsort.
* `median_along`: `numpy.median` takes 50 to 100 times as long for two values, three times as long
  for some hundred, and imports `numpy.ma` as well.
* `quantile`: `numpy.quantile` imports `numpy.ma`, and takes 20 times as long for some hundred.

Find rows by their ids, for ids that are mostly consecutive numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from typing import Any, Final, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from ccltui.metrics.arrays.compiled import available
from ccltui.parsers.array_types import F64, I32, I64, Bool

MAX_COLUMNS: Final = 32
"""Rows of more columns than this are reduced by numpy: its innermost loop is long enough."""

_COMPILED: Final = (np.int8, np.int32, np.int64)

_Kind = TypeVar("_Kind", bound=np.generic)


def row_min(values: npt.NDArray[_Kind], initial: int | None = None) -> npt.NDArray[_Kind]:
    """Return the minimum of each row of ``values`` [n, m], an array [n].

    Args:
        values: array [n, m]; m is at least 1 without ``initial``.
        initial: upper limit of the result; the result where there is no column.
    """
    return _reduce_rows(np.minimum, values, initial)


def row_max(values: npt.NDArray[_Kind], initial: int | None = None) -> npt.NDArray[_Kind]:
    """Return the maximum of each row of ``values`` [n, m], an array [n].

    Args:
        values: array [n, m]; m is at least 1 without ``initial``.
        initial: lower limit of the result; the result where there is no column.
    """
    return _reduce_rows(np.maximum, values, initial)


def row_all(flags: Bool) -> Bool:
    """Return whether all flags of each row are set, bool [n]."""
    return _reduce_rows(np.logical_and, flags)


def row_any(flags: Bool) -> Bool:
    """Return whether any flag of each row is set, bool [n]."""
    return _reduce_rows(np.logical_or, flags)


def row_sum(values: I64) -> I64:
    """Return the sum of each row, int64 [n]."""
    return _reduce_rows(np.add, values)


def row_count(flags: Bool) -> I64:
    """Return the number of flags that are set in each row, int64 [n]."""
    return row_sum(flags.astype(np.int64))


def is_one_value(values: npt.NDArray[Any]) -> bool:
    """Return whether an array is a view of one value, as columns of one value are stored."""
    return values.size > 1 and not any(values.strides)


def repeated(values: npt.NDArray[_Kind], count: int) -> npt.NDArray[_Kind]:
    """Return the first value ``count`` times, as a view of a copy of it."""
    value = values[:1].copy()
    value.flags.writeable = False  # and so is every view of it
    # a fifth of the time that broadcast_to takes, for tens of columns a rank
    return np.ndarray((count,), value.dtype, value, 0, (0,))


def taken(values: npt.NDArray[_Kind], rows: I64) -> npt.NDArray[_Kind]:
    """Return the values of some rows; a view where all are one value."""
    if is_one_value(values) and len(rows):
        return repeated(values, len(rows))
    return values.take(rows)


def counts_up(rows: npt.NDArray[np.signedinteger]) -> bool:
    """Return whether rows are 0, 1, 2 and so on."""
    if not len(rows) or rows[0] != 0 or rows[-1] != len(rows) - 1:
        return not len(rows)
    return bool((rows[1:] > rows[:-1]).all())


def distinct_values(values: npt.NDArray[_Kind]) -> npt.NDArray[_Kind]:
    """Return the distinct values in ascending order, as an array of one dimension.

    ``values`` has any shape and contains numbers other than NaN, or strings.
    """
    if is_one_value(values):
        return values.reshape(-1)[:1].copy()
    if values.dtype.kind in "UO":
        return np.array(sorted(set(values.ravel().tolist())), values.dtype)
    marked = _marked(values)
    if marked is not None:
        low, seen = marked
        present: npt.NDArray[_Kind] = (np.flatnonzero(seen) + low).astype(values.dtype)
        return present
    ordered = np.sort(values, axis=None)
    return ordered[_is_first(ordered)]


def unique_inverse(values: npt.NDArray[_Kind]) -> tuple[npt.NDArray[_Kind], I64]:
    """Return the distinct values of an array of one dimension, and the index of each in them.

    Returns:
        The distinct values in ascending order, and int64 of the length of ``values``.
    """
    if is_one_value(values):
        return values[:1].copy(), np.zeros(len(values), np.int64)
    marked = _marked(values)
    if marked is not None:
        low, seen = marked
        number: I64 = np.cumsum(seen, dtype=np.int64)
        number -= 1
        present: npt.NDArray[_Kind] = (np.flatnonzero(seen) + low).astype(values.dtype)
        return present, number.take(values.astype(np.int64) - low)
    order = np.argsort(values, kind="stable")  # merges ascending runs, see the module docstring
    ordered = values[order]
    is_first = _is_first(ordered)
    inverse = np.empty(len(values), np.int64)
    inverse[order] = np.cumsum(is_first) - 1
    return ordered[is_first], inverse


def joint_inverse(*columns: npt.NDArray[np.signedinteger]) -> tuple[int, I64]:
    """Return how many distinct rows columns have, and the number of each row, int64.

    Rows are numbered in ascending order, the first column first. numpy.unique with an axis sorts
    rows as bytes: 25 times the time of this for 1.3 million rows of three columns.
    """
    count, found = min(len(columns[0]), 1), np.zeros(len(columns[0]), np.int64)
    for column in columns:
        values, number = unique_inverse(column)
        if len(values) > 1:  # a column of one value tells no rows apart
            distinct, found = unique_inverse(found * len(values) + number)
            count = len(distinct)
    return count, found


def distinct_rows(*columns: npt.NDArray[np.signedinteger]) -> tuple[I64, I64]:
    """Return the distinct rows of columns, and the number of each row in them.

    Returns:
        The distinct rows in ascending order as columns, int64 [columns, n], and the place of each
        row among them, int64.
    """
    count, number = joint_inverse(*columns)
    example = np.zeros(count, np.int64)
    example[number] = np.arange(len(number))
    return np.stack([column[example].astype(np.int64) for column in columns]), number


def stable_order(values: npt.NDArray[_Kind]) -> I64:
    """Return the order that sorts numbers, equal ones as they come: int64, like a stable argsort.

    Faster than sorting where the numbers lie in a range that is no larger than a few times their
    count.
    """
    if values.dtype in _COMPILED and len(values) and available():
        from ccltui.metrics.arrays import _passes  # noqa: PLC0415

        found: I64 | None = _passes.stable_order(
            np.ascontiguousarray(values), _marking_range(values.size)
        )
        if found is not None:
            return found
    return np.argsort(values, kind="stable")


def places_among(ordered: I64, values: I64, side: Literal["left", "right"] = "left") -> I64:
    """Return where values belong among ascending ones, as `numpy.searchsorted` does.

    Each is searched from the place of the one before: a fifth of the time where values ascend, too.
    """
    if not available():
        return np.searchsorted(ordered, values, side=side)
    from ccltui.metrics.arrays import _passes  # noqa: PLC0415

    found: I64 = _passes.places_among(
        np.ascontiguousarray(ordered), np.ascontiguousarray(values), side == "right"
    )
    return found


def extremes_by(values: npt.NDArray[np.signedinteger], group: I32, count: int) -> tuple[I64, I64]:
    """Return the lowest and the highest of whole numbers of each group 0 to ``count`` - 1.

    The last of each is that of the numbers in group -1. Groups without a number have the highest
    and the lowest int64.
    """
    if available():
        from ccltui.metrics.arrays import _passes  # noqa: PLC0415

        found: tuple[I64, I64] = _passes.extremes_by(values, group, count)
        return found
    least = np.full(count + 1, np.iinfo(np.int64).max)
    most = np.full(count + 1, np.iinfo(np.int64).min)
    np.minimum.at(least, group, values)
    np.maximum.at(most, group, values)
    return least, most


def rows_by_value(values: npt.NDArray[np.signedinteger]) -> Iterator[tuple[int, I64]]:
    """Yield each distinct integer of an array of one dimension, ascending, and its rows.

    The rows are ascending int64. One sort serves all values, where a mask for each is quadratic in
    groups or ranks.
    """
    if not len(values):
        return
    order = stable_order(values)
    ordered = values[order]
    first = np.flatnonzero(_is_first(ordered))
    yield from zip(ordered[first].tolist(), np.split(order, first[1:]), strict=True)


def unique_counts(values: npt.NDArray[_Kind]) -> tuple[npt.NDArray[_Kind], I64]:
    """Return the distinct values in ascending order, and the number of times that each occurs."""
    found, counts = np.unique(values, return_counts=True)
    return found, counts


def median_along(values: npt.ArrayLike, axis: int = 0) -> F64:
    """Return the median along an axis as float64; NaN where any value is NaN.

    The axis has at least one value.
    """
    given = np.asarray(values)
    if given.ndim == 1 and len(given) > _FEW_VALUES and given.dtype in _COMPILED:
        low, high = values_at(given, [(len(given) - 1) // 2, len(given) // 2])
        return np.asarray((low + high) / 2)
    is_table = given.ndim == 2 and axis == 0 and given.size > 0
    if is_table and len(given) > _LONG and given.flags.c_contiguous:
        return _medians_of_columns(given)
    array = given.astype(np.float64, copy=False)
    size = array.shape[axis]
    if size == 2:
        low, high = np.moveaxis(array, axis, 0)
        return np.asarray((low + high) / 2)
    if not size:
        return np.asarray(np.median(array, axis=axis))
    middle = size // 2
    # NaN is sorted to the end; there is none among whole numbers
    kept = [middle - 1 + size % 2, middle, *([size - 1] if given.dtype.kind == "f" else [])]
    ordered = np.partition(array, kept, axis=axis)
    if array.ndim > 1:
        ordered = np.moveaxis(ordered, axis, 0)
    found = ordered[middle] if size % 2 else (ordered[middle - 1] + ordered[middle]) / 2
    return np.where(np.isnan(ordered[-1]), np.nan, found)


_FEW_VALUES: Final = 1 << 16
"""Up to so many values numpy is as quick as `values_at`, which needs a table of that size."""


def values_at(values: npt.NDArray[Any], places: Sequence[int]) -> list[float]:
    """Return the values of an array of one dimension at places of their ascending order.

    Compiled, of millions, nothing is copied, in a tenth of the time of `np.partition`.
    """
    if len(values) <= _FEW_VALUES or values.dtype not in _COMPILED or not available():
        ordered = np.partition(values, sorted(places))
        return [float(ordered[place]) for place in places]
    from ccltui.metrics.arrays import _passes  # noqa: PLC0415

    whole = np.ascontiguousarray(values)
    found = {place: float(_passes.value_at(whole, place)) for place in set(places)}
    return [found[place] for place in places]


def joined(parts: Iterable[I64]) -> npt.NDArray[Any]:
    """Return one array of some, of four bytes a number where no number needs more."""
    limits = np.iinfo(np.int32)
    small = [
        part.astype(np.int32)
        if part.min(initial=0) >= limits.min and part.max(initial=0) <= limits.max
        else part
        for part in parts
    ]
    return np.concatenate(small) if small else np.empty(0, np.int32)


_LONG: Final = 256
"""Rows from which the columns of a table are copied before they are sorted."""
_TOGETHER: Final = 16
"""Columns that are copied at a time: two lines of the cache of each row."""


def columns_of(values: npt.NDArray[_Kind]) -> Iterator[npt.NDArray[_Kind]]:
    """Yield the columns of a table [n, m], the numbers of each side by side."""
    for some in _columns_together(values):
        yield from some


def _columns_together(values: npt.NDArray[_Kind]) -> Iterator[npt.NDArray[_Kind]]:
    """Yield some columns at a time, as rows.

    Copied twice, which takes a third of the time: all numbers of one of 1,024 columns lie in the
    same few lines of the cache, so that column by column each is read from memory.
    """
    for begin in range(0, values.shape[1], _TOGETHER):
        some = np.ascontiguousarray(values[:, begin : begin + _TOGETHER])
        yield np.ascontiguousarray(some.T)


def _medians_of_columns(values: npt.NDArray[Any]) -> F64:
    """Return the median of each column of a table of many rows: half the time of one call."""
    return np.concatenate([median_along(some, axis=1) for some in _columns_together(values)])


def quantile(values: npt.NDArray[_Kind], share: float) -> float:
    """Return the quantile of numbers other than NaN, linear between neighbours, as numpy does.

    Args:
        values: array of one dimension with at least one number.
        share: from 0, the least value, to 1, the largest.
    """
    last = len(values) - 1
    place = share * last
    below = min(int(place), last)
    above = min(below + 1, last)
    ordered = np.partition(values, (below, above))
    low, high, part = ordered[below].item(), ordered[above].item(), place - below
    # from the nearer neighbour, so that a share of 0.5 is exact from both sides
    return float(low + (high - low) * part if part < 0.5 else high - (high - low) * (1 - part))


def _reduce_rows(
    function: np.ufunc, values: npt.NDArray[_Kind], initial: int | None = None
) -> npt.NDArray[_Kind]:
    found: npt.NDArray[Any]
    if 1 < values.shape[1] <= MAX_COLUMNS:
        found = reduce(function, values.T)
        return found if initial is None else function(found, initial)
    if initial is None:
        found = function.reduce(values, axis=1)
    else:
        found = function.reduce(values, axis=1, initial=initial)
    return np.asarray(found)


def _marked(values: npt.NDArray[_Kind]) -> tuple[int, Bool] | None:
    """Return the lowest of integers in a small range, and which from it on occur; else None."""
    if values.dtype not in _COMPILED or not values.size or not available():
        return None
    from ccltui.metrics.arrays import _passes  # noqa: PLC0415

    marked: tuple[int, Bool] | None = _passes.values_in(
        np.ascontiguousarray(values).reshape(-1), _marking_range(values.size)
    )
    return marked


def _is_first(ordered: npt.NDArray[_Kind]) -> Bool:
    """Mask of the first occurrence of each value in an ascending array."""
    is_first = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    return is_first


def _marking_range(count: int) -> int:
    """Largest range of values in which ``count`` integers are marked instead of sorted."""
    return 4 * count + 1024


_NONE: Final = -1
MAX_TABLE_RATIO: Final = 8
"""A table of ids is quicker than a search up to so many ids in its range per row."""


def first_rows(keys: I64, wanted: I64) -> I32:
    """Return the first row of ``keys`` that equals each of ``wanted``, int32, -1 for none.

    Args:
        keys: id of each row, negative where it has none.
        wanted: ids to find.
    """
    if available():
        from ccltui.metrics.arrays import _passes  # noqa: PLC0415

        columns = np.ascontiguousarray(keys), np.ascontiguousarray(wanted)
        found: I32 | None = _passes.first_rows(*columns, MAX_TABLE_RATIO * len(keys))
        if found is not None:
            return found
    return _first_rows(keys, wanted)


def _first_rows(keys: I64, wanted: I64) -> I32:
    """Return the result of `first_rows` where ids are far apart, or nothing was compiled."""
    known = np.arange(len(keys), dtype=np.int32)
    if len(keys) and keys.min() < 0:
        known = known[keys >= 0]
        keys = keys[known]
    if not len(known) or not len(wanted):
        return np.full(len(wanted), _NONE, np.int32)
    low, high = int(keys.min()), int(keys.max())
    if high - low <= MAX_TABLE_RATIO * len(keys):  # ids are consecutive numbers
        table = np.full(high - low + 2, _NONE, np.int32)
        table[keys[::-1] - low] = known[::-1]  # the first of several with one number
        # numbers outside of the table: its last entry, -1
        return table.take(np.clip(wanted - low, -1, high - low + 1))
    order = np.argsort(keys, kind="stable")
    at = np.minimum(np.searchsorted(keys, wanted, sorter=order), len(keys) - 1)
    rows = order[at]
    return np.where(keys[rows] == wanted, known[rows], np.int32(_NONE))
