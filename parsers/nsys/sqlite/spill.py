"""Store unsorted columns by owner, in memory up to a limit and then on disk.

The columns of a file of gigabytes do not fit into memory, and its rows are not sorted by rank.
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
    """Storage of the columns of one file: ``room`` bytes of memory, then files in ``directory``."""

    directory: Path | None
    room: int = MEMORY_BYTES
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def reserve(self, size: int) -> bool:
        """Reserve ``size`` bytes of memory; False if there is no room for them."""
        with self._lock:
            taken = size <= self.room
            self.room -= size if taken else 0
            return taken


@dataclass(frozen=True, slots=True)
class _Block:
    """A column of a block, minus ``base``: in memory (``rows``), or at byte ``begin`` on disk."""

    base: int
    dtype: np.dtype[Any]
    rows: npt.NDArray[Any] | None
    begin: int


class Spill:
    """Rows in the order of their blocks, grouped by owner within each block.

    ``dtypes`` are those of the columns, by name.
    """

    def __init__(self, scratch: Scratch, dtypes: Mapping[str, type]) -> None:
        self.dtypes = dtypes
        self._scratch = scratch
        self._descriptor = -1
        self._used = 0
        self._columns: dict[str, list[_Block]] = {name: [] for name in dtypes}
        self._firsts: list[I64] = []  # by block: first row of every owner, and the end
        self._counts: dict[int, int] = {}

    def __del__(self) -> None:
        with contextlib.suppress(AttributeError, OSError):
            if self._descriptor >= 0:
                os.close(self._descriptor)

    def append(self, owner: I32, columns: Mapping[str, npt.NDArray[Any]]) -> None:
        """Add a block; ``owner`` numbers the owner of each row. Raises OSError on a full disk."""
        if not len(owner):
            return
        counts = np.bincount(owner)
        for number in np.flatnonzero(counts).tolist():
            self._counts[number] = self._counts.get(number, 0) + int(counts[number])
        order = None if counts.max() == len(owner) else _order(owner)
        self._firsts.append(np.concatenate([[0], np.cumsum(counts)]))
        for name in self.dtypes:
            column, base = narrow(columns[name])
            self._columns[name].append(
                self._stored(column if order is None else column[order], base)
            )

    def owners(self) -> Mapping[int, int]:
        """Return the number of rows of each owner that has any."""
        return self._counts

    def column(self, name: str, owners: Sequence[int]) -> npt.NDArray[Any]:
        """Return a column of all rows of ``owners``. Raises OSError."""
        count = sum(self._counts.get(owner, 0) for owner in owners)
        return next(self.pieces(name, owners, max(count, 1)), np.empty(0, self.dtypes[name]))

    def pieces(self, name: str, owners: Sequence[int], room: int) -> Iterator[npt.NDArray[Any]]:
        """Yield a column in pieces of at most ``room`` rows, each valid until the next."""
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

    def _stored(self, column: npt.NDArray[Any], base: int) -> _Block:
        if self._scratch.reserve(column.nbytes):
            return _Block(base, column.dtype, column, 0)
        if self._descriptor < 0:
            # Unlinked at once: the file disappears when its descriptor is closed.
            self._descriptor, name = tempfile.mkstemp(prefix="ccltui-", dir=self._scratch.directory)
            Path(name).unlink()
        begin, data = self._used, np.ascontiguousarray(column).view(np.uint8).data
        while len(data):
            written = os.pwrite(self._descriptor, data, self._used)
            self._used += written
            data = data[written:]
        return _Block(base, column.dtype, None, begin)

    def _fill(self, target: npt.NDArray[Any], block: _Block, first: int) -> None:
        """Write the rows of a block, starting at ``first``, into ``target``."""
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
    """Return a stable order of rows by owner; numpy sorts int16 by radix, without comparisons."""
    small = owner.astype(np.int16) if owner.max() < 1 << 15 else owner
    return np.argsort(small, kind="stable").astype(np.int64, copy=False)


def _runs(firsts: I64, owners: Sequence[int]) -> list[tuple[int, int]]:
    """Return the first and end rows of owners in one block; adjacent owners are merged."""
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
