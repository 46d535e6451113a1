"""Columns of many rows, told apart by owner: what was read and is not yet sorted.

A file of gigabytes would not fit into memory as columns, and its rows do not come rank by rank.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ccltui.parsers.array_types import I32, I64
from ccltui.parsers.store.packing import narrow, widen

MEMORY_BYTES: Final = 64 << 20


@dataclass(slots=True)
class Scratch:
    """Where the columns of one file go: to memory while there is ``room``, then to the disk."""

    directory: Path | None
    room: int = MEMORY_BYTES
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def takes(self, size: int) -> bool:
        """Whether so many bytes still go to memory; then they are taken off."""
        with self._lock:
            taken = size <= self.room
            self.room -= size if taken else 0
            return taken


@dataclass(frozen=True, slots=True)
class _Block:
    """A column of a block: numbers less ``base``, in memory or at ``begin`` of the file."""

    base: int
    dtype: np.dtype[Any]
    rows: npt.NDArray[Any] | None
    begin: int


class Spill:
    """Rows in the order in which they came; ``dtypes`` of the columns."""

    def __init__(self, scratch: Scratch, dtypes: Mapping[str, type]) -> None:
        self.dtypes = dtypes
        self._scratch = scratch
        self._descriptor = -1
        self._used = 0
        self._columns: dict[str, list[_Block]] = {name: [] for name in dtypes}
        self._firsts: list[I64] = []  # of each block, the first row of every owner, and the end
        self._counts: dict[int, int] = {}

    def __del__(self) -> None:
        with contextlib.suppress(AttributeError, OSError):
            if self._descriptor >= 0:
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
            column, base = narrow(columns[name])
            self._columns[name].append(self._kept(column if order is None else column[order], base))

    def owners(self) -> Mapping[int, int]:
        """Rows of each owner that has any."""
        return self._counts

    def column(self, name: str, owners: Sequence[int]) -> npt.NDArray[Any]:
        """A column of all rows of ``owners``. Raises OSError."""
        count = sum(self._counts.get(owner, 0) for owner in owners)
        return next(self.pieces(name, owners, max(count, 1)), np.empty(0, self.dtypes[name]))

    def pieces(self, name: str, owners: Sequence[int], room: int) -> Iterator[npt.NDArray[Any]]:
        """The same piece by piece, each of at most ``room`` rows and only valid until the next."""
        count = sum(self._counts.get(owner, 0) for owner in owners)
        buffer: npt.NDArray[Any] = np.empty(min(count, room), self.dtypes[name])
        wanted, done = sorted(owners), 0
        for block, firsts in zip(self._columns[name], self._firsts, strict=True):
            for first, last in _runs(firsts, wanted):
                begin = first
                while begin < last:
                    end = min(last, begin + room - done)
                    self._fill(buffer[done : done + end - begin], block, begin)
                    done, begin = done + end - begin, end
                    if done == room:
                        yield buffer
                        done = 0
        if done:
            yield buffer[:done]

    def _kept(self, column: npt.NDArray[Any], base: int) -> _Block:
        if self._scratch.takes(column.nbytes):
            return _Block(base, column.dtype, column, 0)
        if self._descriptor < 0:
            # Open as long as the columns are wanted, and without a name: nothing is left behind.
            self._descriptor, name = tempfile.mkstemp(prefix="ccltui-", dir=self._scratch.directory)
            Path(name).unlink()
        begin, data = self._used, np.ascontiguousarray(column).view(np.uint8).data
        while len(data):
            written = os.pwrite(self._descriptor, data, self._used)
            self._used += written
            data = data[written:]
        return _Block(base, column.dtype, None, begin)

    def _fill(self, target: npt.NDArray[Any], block: _Block, first: int) -> None:
        """Write the rows of a block from ``first`` on into ``target``."""
        rows = block.rows
        if rows is None:
            rows = np.empty(len(target), block.dtype)
            self._read(rows.view(np.uint8).data, block.begin + first * block.dtype.itemsize)
        else:
            rows = rows[first : first + len(target)]
        widen(rows, block.base, target)

    def _read(self, target: memoryview, begin: int) -> None:
        while len(target):
            done = os.preadv(self._descriptor, [target], begin)
            if not done:
                raise OSError("a temporary file was cut off")
            target, begin = target[done:], begin + done


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
