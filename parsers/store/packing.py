"""Columns of large files in as few bytes as their numbers need.

Writing a gigabyte takes longer than reading the file that it came from, and a cache is small.
A packed column is pieces of numbers less a base, 1 to 8 bytes each, and behind them an index of
int64: rows, bytes a number, base and offset of each piece.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from typing import Any, BinaryIO, Final

import numpy as np
import numpy.typing as npt
from isal import isal_zlib
from msgspec import Struct

from ccltui.parsers.array_types import I64
from ccltui.parsers.columns import Events

PACKED_ROWS: Final = 1 << 16
"""Rows of a piece. Groups with fewer are stored as they are."""
_INDEX_COLUMNS: Final = 4
_DTYPES: Final = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.int64}


class SummedFile:
    """A file that is written from its beginning, with the checksum (CRC-32) of what was written."""

    def __init__(self, file: BinaryIO) -> None:
        """Write to an open file."""
        self._file = file
        self.checksum = 0

    def write(self, data: bytes | memoryview) -> None:
        """Write bytes at the end. Raises OSError."""
        self.checksum = isal_zlib.crc32(data, self.checksum)
        self._file.write(data)

    def tell(self) -> int:
        """Bytes written so far."""
        return self._file.tell()


def narrow(column: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], int]:
    """Return the integers less a base, in as few bytes as they need; there is at least one."""
    low, high = int(column.min()), int(column.max())
    for size in (1, 2, 4):
        if high - low < 1 << 8 * size:
            return (column - low if low else column).astype(_DTYPES[size]), low
    return column.astype(np.int64, copy=False), 0


def widen(rows: npt.NDArray[Any], base: int, target: npt.NDArray[Any]) -> None:
    """Write the integers that `narrow` packed into ``target``."""
    np.copyto(target, rows, casting="unsafe")  # a sum of different dtypes takes longer
    if base:
        target += base


def write_packed(
    file: SummedFile, pieces: Iterable[npt.NDArray[Any]]
) -> tuple[I64, int, np.dtype[Any]]:
    """Write a column of integers; its index, which is written last, its length and its dtype."""
    index: list[tuple[int, int, int, int]] = []
    dtype: np.dtype[Any] = np.dtype(np.int64)
    length = 0
    for piece in pieces:
        dtype = piece.dtype
        for begin in range(0, len(piece), PACKED_ROWS):
            rows, base = narrow(piece[begin : begin + PACKED_ROWS])
            index.append((len(rows), rows.itemsize, base, file.tell()))
            file.write(np.ascontiguousarray(rows).data)
            length += len(rows)
    file.write(bytes(-file.tell() % 8))
    written = np.array(index, np.int64)
    file.write(written.data)
    return written, length, dtype


class Packed(Struct, frozen=True):
    """A packed column in the bytes of a file."""

    data: npt.NDArray[np.uint8]
    dtype: np.dtype[Any]
    index: I64  # [pieces, 4]

    @classmethod
    def at(
        cls,
        data: npt.NDArray[np.uint8],
        dtype: np.dtype[Any],
        offset: int,
        num_pieces: int,
        length: int,
    ) -> Packed:
        """The column whose index is at ``offset``. Raises ValueError where it does not fit."""
        count = num_pieces * _INDEX_COLUMNS
        index = np.frombuffer(data, np.int64, count, offset).reshape(-1, _INDEX_COLUMNS)
        rows, sizes, _, begins = index.T
        inside = (rows > 0) & (begins >= 0) & (begins + rows * sizes <= len(data))
        if not (inside.all() and np.isin(sizes, list(_DTYPES)).all() and rows.sum() == length):
            raise ValueError("a packed column does not fit")
        return cls(data, dtype, index)

    def first(self) -> int:
        """The first value; there is one."""
        return int(self._piece(0)[0]) + int(self.index[0, 2])

    def column(self) -> npt.NDArray[Any]:
        """All values."""
        found: npt.NDArray[Any] = np.empty(int(self.index[:, 0].sum()), self.dtype)
        done = 0
        for number in range(len(self.index)):
            rows = self._piece(number)
            widen(rows, int(self.index[number, 2]), found[done : done + len(rows)])
            done += len(rows)
        found.flags.writeable = False
        return found

    def _piece(self, number: int) -> npt.NDArray[Any]:
        count, size, _, begin = self.index[number].tolist()
        return np.frombuffer(self.data, _DTYPES[size], count, begin)


class PackedEvents(Events):
    """Events whose columns are unpacked when they are asked for, and kept until `forget`."""

    __slots__ = ("_columns", "_rows")
    _columns: Mapping[str, npt.NDArray[Any] | Packed]
    _rows: int

    def __init__(self, columns: Mapping[str, npt.NDArray[Any] | Packed], rows: int) -> None:
        object.__setattr__(self, "_columns", columns)
        object.__setattr__(self, "_rows", rows)

    def __len__(self) -> int:
        return self._rows

    def __getattr__(self, name: str) -> Any:
        """A column that is not unpacked yet."""
        dtypes: dict[str, type] = dict((*Events.COLUMNS, *Events.SPARSE))
        if name not in dtypes:
            raise AttributeError(name)
        column = self._columns.get(name)
        if column is None:
            column = np.empty(0, dtypes[name])
        elif isinstance(column, Packed):
            column = column.column()
        object.__setattr__(self, name, column)
        return column

    @property
    def first_ns(self) -> int:
        """Start of the first event; there is one."""
        starts = self._columns["start_ns"]
        return starts.first() if isinstance(starts, Packed) else int(starts[0])

    def forget(self) -> npt.NDArray[np.uint8]:
        """Free the columns that were unpacked; return the bytes that they came from."""
        for name in self._columns:
            with contextlib.suppress(AttributeError):
                object.__delattr__(self, name)
        return next(one.data for one in self._columns.values() if isinstance(one, Packed))
