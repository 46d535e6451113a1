"""Columns of many rows on disk, told apart by owner: what was read and is not yet sorted.

A file of gigabytes would not fit into memory as columns, and its rows do not come rank by rank.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from parsers.columns import I32, I64

_Block = tuple[int, np.dtype[Any]]
"""Where the column of a block begins in the file, and how wide its numbers are."""


class Spill:
    """Rows in the order in which they came; ``dtypes`` of the columns."""

    def __init__(self, directory: Path | None, dtypes: Mapping[str, type]) -> None:
        # Open as long as the columns are wanted, and without a name: nothing is left behind.
        self._descriptor, name = tempfile.mkstemp(prefix="ccltui-", dir=directory)
        Path(name).unlink()
        self.dtypes = dtypes
        self._used = 0
        self._columns: dict[str, list[_Block]] = {name: [] for name in dtypes}
        self._firsts: list[I64] = []  # of each block, the first row of every owner, and the end
        self._counts: dict[int, int] = {}

    def __del__(self) -> None:
        with contextlib.suppress(AttributeError, OSError):
            os.close(self._descriptor)

    def append(self, owner: I32, columns: Mapping[str, npt.NDArray[Any]]) -> None:
        """Add a block; ``owner`` are small numbers. Raises OSError where the disk is full."""
        if not len(owner):
            return
        counts = np.bincount(owner)
        for number in np.flatnonzero(counts).tolist():
            self._counts[number] = self._counts.get(number, 0) + int(counts[number])
        order = None if counts.max() == len(owner) else _order(owner)
        self._firsts.append(np.concatenate([[0], np.cumsum(counts)]))
        for name in self.dtypes:
            column = _narrow(columns[name])
            self._columns[name].append((self._used, column.dtype))
            self._write(column if order is None else column[order])

    def owners(self) -> Mapping[int, int]:
        """Rows of each owner that has any."""
        return self._counts

    def column(self, name: str, owners: Sequence[int]) -> npt.NDArray[Any]:
        """A column of all rows of ``owners``. Raises OSError."""
        count = sum(self._counts.get(owner, 0) for owner in owners)
        result: npt.NDArray[Any] = np.empty(count, self.dtypes[name])
        wanted, done = sorted(owners), 0
        for (begin, dtype), firsts in zip(self._columns[name], self._firsts, strict=True):
            for first, last in _runs(firsts, wanted):
                rows: npt.NDArray[Any] = np.empty(last - first, dtype)
                self._read(rows.view(np.uint8).data, begin + first * dtype.itemsize)
                result[done : done + len(rows)] = rows
                done += len(rows)
        return result

    def _write(self, column: npt.NDArray[Any]) -> None:
        data = np.ascontiguousarray(column).view(np.uint8).data
        while len(data):
            written = os.pwrite(self._descriptor, data, self._used)
            self._used += written
            data = data[written:]

    def _read(self, target: memoryview, begin: int) -> None:
        while len(target):
            done = os.preadv(self._descriptor, [target], begin)
            if not done:
                raise OSError("a temporary file was cut off")
            target, begin = target[done:], begin + done


def _narrow(column: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The same numbers in as few bytes as they need: most are small, and disks are slow."""
    low, high = int(column.min()), int(column.max())
    for dtype in (np.int8, np.int16, np.int32):
        limits = np.iinfo(dtype)
        if limits.min <= low and high <= limits.max:
            return column.astype(dtype, copy=False)
    return column


def _order(owner: I32) -> I64:
    """Rows by owner, otherwise as they are; small numbers are sorted without comparisons."""
    small = owner.astype(np.int16) if owner.max() < 1 << 15 else owner
    return np.argsort(small, kind="stable").astype(np.int64, copy=False)


def _runs(firsts: I64, owners: Sequence[int]) -> list[tuple[int, int]]:
    """First and end row of each owner in one block."""
    runs: list[tuple[int, int]] = []
    for owner in owners:
        if owner + 1 >= len(firsts):
            break
        first, last = int(firsts[owner]), int(firsts[owner + 1])
        if runs and runs[-1][1] == first:
            runs[-1] = (runs[-1][0], last)
        elif last > first:
            runs.append((first, last))
    return runs
