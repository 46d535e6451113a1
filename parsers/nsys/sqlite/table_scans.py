"""Read rows of an SQLite table from the pages of its file, and number their values and texts.

Hand-written, with ``_btree.pyx``, because SQLite returns each value as a Python object. The same
columns of kernels, copies, calls and OS calls take 7.9 times the CPU time through the sqlite3
module in an export of 2.2 MB, and 16 times in one of 55 MB; through ``group_concat`` in
`database`, the fallback, 6.2 and 8.1 times. Pages are also read without Python's lock, several
tables at once. Without compiled code (no compiler, or ``CCLTUI_ACCEL=0``) numpy and SQLite give the
same results more slowly.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from ccltui.parsers.array_types import I32, I64
from ccltui.parsers.columns import MISSING
from ccltui.parsers.machine_limits import wants_compiled_code


class Numbers(Protocol):
    """Numbering of int64 values, from 0 in order of appearance."""

    def of(self, values: I64) -> I32:
        """Return the number of each value."""

    def values(self) -> I64:
        """Return the values by number."""


class Texts(Protocol):
    """Numbering of texts, from 0 in order of appearance."""

    def add(self, text: bytes) -> int:
        """Return the number of a text."""

    def values(self) -> list[tuple[bytes, bool]]:
        """Return the texts by number, and whether each was cut before a mark."""


class Scan(Protocol):
    """Scan of the rows of one table in order; see ``_btree.pyx``."""

    last_row: int | None
    complete: bool

    def take(self, room: int) -> list[I64]:
        """Return at most ``room`` further rows as columns, empty after the last readable row."""


class _PlainNumbers:
    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}

    def of(self, values: I64) -> I32:
        known = self._numbers
        found, inverse = _distinct(values)
        numbers = [known.setdefault(value, len(known)) for value in found.tolist()]
        return np.array(numbers, np.int32)[inverse]

    def values(self) -> I64:
        return np.array(list(self._numbers), np.int64)


class _PlainTexts:
    def __init__(self, marks: tuple[bytes, bytes]) -> None:
        self._marks = [mark for mark in marks if mark]
        self._numbers: dict[tuple[bytes, bool], int] = {}

    def add(self, text: bytes) -> int:
        ends = [at for mark in self._marks if (at := text.find(mark)) >= 0]
        key = (text[: min(ends)], True) if ends else (text, False)
        return self._numbers.setdefault(key, len(self._numbers))

    def values(self) -> list[tuple[bytes, bool]]:
        return list(self._numbers)


def new_numbers() -> Numbers:
    """Return an empty numbering of values."""
    if not available():
        return _PlainNumbers()
    from ccltui.parsers.nsys.sqlite import _btree  # noqa: PLC0415

    numbers: Numbers = _btree.Numbers()
    return numbers


def new_texts(marks: tuple[bytes, bytes] = (b"", b""), *, blobs: bool = False) -> Texts:
    """Return an empty numbering of texts.

    Args:
        marks: A text is cut before the first of these that it contains; b"" for none.
        blobs: Accept values that are bytes, not text.
    """
    if not available():
        return _PlainTexts(marks)
    from ccltui.parsers.nsys.sqlite import _btree  # noqa: PLC0415

    texts: Texts = _btree.Texts(*marks, blobs)
    return texts


def available() -> bool:
    """Return whether the compiled code was built and is not turned off."""
    if not wants_compiled_code():
        return False
    try:
        import ccltui.parsers.nsys.sqlite._btree  # noqa: F401, PLC0415
    except ImportError:
        return False
    return True


def new_scan(
    descriptor: int, root: int, places: Sequence[int], texts: Sequence[Texts | None]
) -> Scan | None:
    """Return a scan of a table, None without compiled code or for files that it cannot read.

    Args:
        descriptor: File descriptor of the database.
        root: Root page of the table's tree.
        places: Positions of the columns in a row, ascending.
        texts: The numbering of each text column, None for columns of integers.
    """
    if not available():
        return None
    head = os.pread(descriptor, 100, 0)
    page_bytes = int.from_bytes(head[16:18], "big")
    page_bytes = 1 << 16 if page_bytes == 1 else page_bytes
    is_utf8 = int.from_bytes(head[56:60], "big") == 1
    if len(head) < 100 or not is_utf8 or page_bytes < 512 or page_bytes & (page_bytes - 1):
        return None
    from ccltui.parsers.nsys.sqlite import _btree  # noqa: PLC0415

    pages = os.fstat(descriptor).st_size // page_bytes
    scan: Scan = _btree.Scan(
        descriptor, page_bytes, page_bytes - head[20], pages, root, list(places), list(texts)
    )
    return scan


def _distinct(values: I64) -> tuple[I64, I64]:
    """Return distinct values in order of appearance, and the index of each row's value.

    Columns of a file hold few values in long runs, so only the first row of each run is compared.
    """
    if not len(values):
        return values, np.empty(0, np.int64)
    begins = np.flatnonzero(np.insert(values[1:] != values[:-1], 0, True))
    found, first, inverse = np.unique(values[begins], return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return found[order], np.repeat(rank[inverse], np.diff(np.append(begins, len(values))))


RowFilter = tuple[str, Sequence[int]]
"""A column, and the values that rows must have in it."""


def numbered(values: Sequence[Any], texts: Texts | None) -> I64:
    """Return a column of SQLite values as int64; for a text column the numbers of its texts."""
    if texts is None:
        return np.array(values, np.int64)
    return np.array([MISSING if v is None else texts.add(_bytes(v)) for v in values], np.int64)


def _bytes(value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    if not isinstance(value, str):
        raise TypeError(value)
    return value.encode("utf-8", "surrogateescape")


def newest_after(last: int, newest: int) -> int:
    """Return ``newest``, the row id to continue after.

    Raises:
        sqlite3.DatabaseError: It is not above ``last``: a damaged file leads back to earlier rows.
    """
    if newest <= last:
        raise sqlite3.DatabaseError("its rows are out of order")
    return newest


def rows_after(only: RowFilter | None) -> str:
    """Return the condition for rows after a row id, restricted to those that ``only`` selects."""
    if only is None:
        return "rowid > ?"
    column, values = only
    return f"rowid > ? AND {quoted(column)} IN ({', '.join(map(str, values))})"


def select(columns: str, table: str, where: str) -> str:
    """Return a SELECT statement, without a condition if ``where`` is empty."""
    return f"SELECT {columns} FROM {quoted(table)}" + (f" WHERE {where}" if where else "")


def quoted(name: str) -> str:
    """Quote the name of a table or column."""
    return '"' + name.replace('"', '""') + '"'


def decoded(raw: bytes) -> str:
    """Decode a text that may not be UTF-8."""
    return raw.decode("utf-8", "replace")


class Pages:
    """Iterator over blocks of rows from a scan, with the columns that were asked for."""

    def __init__(
        self,
        scan: Scan,
        names: Sequence[str],
        columns: Sequence[str | None],
        only: RowFilter | None,
        *,
        room: int,
        check_cancelled: Callable[[], None],
    ) -> None:
        """Wrap a scan.

        Args:
            scan: The scan of the table.
            names: Names of the scan's columns.
            columns: Columns of the blocks; None, or a name that is not scanned, gives -1.
            only: A column, and the values that rows must have in it.
            room: Most rows of a block.
            check_cancelled: Called before each block; raises to stop reading.
        """
        self._scan = scan
        self._names = names
        self._columns = columns
        self._only = only
        self._room = room
        self._check_cancelled = check_cancelled

    @property
    def complete(self) -> bool:
        """Whether every row of the table was returned."""
        return self._scan.complete

    @property
    def last_row(self) -> int | None:
        """Row id of the last row that was returned, None before the first."""
        return self._scan.last_row

    def __iter__(self) -> Iterator[list[I64]]:
        while True:
            self._check_cancelled()
            found = dict(zip(self._names, self._scan.take(self._room), strict=True))
            if not len(next(iter(found.values()))):
                return
            if self._only is not None:
                column, values = self._only
                rows = np.logical_or.reduce([found[column] == value for value in values])
                if not rows.any():
                    continue
                if not rows.all():
                    found = {name: values[rows] for name, values in found.items()}
            absent = np.full(len(next(iter(found.values()))), MISSING, np.int64)
            yield [absent if name is None else found.get(name, absent) for name in self._columns]
