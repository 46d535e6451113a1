"""Columns of large files in as few bytes as their numbers need.

Writing a gigabyte takes longer than reading the file that it came from, and a cache is small.
A packed column is pieces of numbers less a base, 1 to 8 bytes each, and behind them an index of
int64: rows, bytes a number, base and offset of each piece.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, BinaryIO, Final

import numpy as np
import numpy.typing as npt
from isal import isal_zlib
from msgspec import Struct

from ccltui.parsers.array_types import I64

PACKED_ROWS: Final = 1 << 16
"""Rows of a piece. Groups with fewer are stored as they are."""
_INDEX_COLUMNS: Final = 4
INDEX_BYTES: Final = 8 * _INDEX_COLUMNS
"""Bytes of a piece in the index."""
_ALIGNMENT: Final = 64
_DTYPES: Final = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.int64}


class SummedFile:
    """A file that is written from its beginning, with the checksum (CRC-32) of each column."""

    def __init__(self, file: BinaryIO) -> None:
        """Write to an open file."""
        self._file = file
        self.checksum = 0

    def begin_column(self) -> int:
        """Begin a column at a multiple of 64 bytes, and return its first byte."""
        self._file.write(bytes(-self._file.tell() % _ALIGNMENT))
        self.checksum = 0
        return self._file.tell()

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
) -> tuple[int, int, np.dtype[Any]]:
    """Write a column of integers; its number of pieces, its length and its dtype."""
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
    file.write(np.array(index, np.int64).data)
    return len(index), length, dtype


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
        end: int,
        num_pieces: int,
        length: int,
    ) -> Packed:
        """The column whose index ends at ``end``. Raises ValueError where it does not fit."""
        count, begin = num_pieces * _INDEX_COLUMNS, end - INDEX_BYTES * num_pieces
        index = np.frombuffer(data, np.int64, count, begin).reshape(-1, _INDEX_COLUMNS)
        rows, sizes, _, begins = index.T
        inside = (rows > 0) & (begins >= 0) & (begins + rows * sizes <= len(data))
        if not (inside.all() and np.isin(sizes, list(_DTYPES)).all() and rows.sum() == length):
            raise ValueError("a packed column does not fit")
        return cls(data, dtype, index)

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
