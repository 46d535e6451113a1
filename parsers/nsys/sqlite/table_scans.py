"""Create scans of tables and numberings of values and texts, compiled where they were built.

Without compiled code (no compiler, or ``CCLTUI_ACCEL=0``) numpy and SQLite give the same results
more slowly; `pages` has the factor.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from ccltui.parsers.array_types import I32, I64
from ccltui.parsers.system.acceleration import wanted


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
    if not wanted():
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
