"""Numbers for values and texts, and scans of tables: compiled where that was built.

Without it (no compiler, or ``CCLTUI_ACCEL=0``) numpy and SQLite give the same, more slowly.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from ccltui.parsers.array_types import I32, I64
from ccltui.parsers.system.acceleration import wanted


class Numbers(Protocol):
    """Small numbers for int64 values, in order of appearance."""

    def of(self, values: I64) -> I32:
        """Numbers of values."""

    def values(self) -> I64:
        """The values by number."""


class Texts(Protocol):
    """Small numbers for texts, in order of appearance."""

    def add(self, text: bytes) -> int:
        """Number of one text."""

    def values(self) -> list[tuple[bytes, bool]]:
        """The texts by number, and whether each was cut before a mark."""


class Scan(Protocol):
    """The rows of one table in order; see ``_btree.pyx``."""

    last_row: int | None
    complete: bool

    def take(self, room: int) -> list[I64]:
        """The next rows as columns, empty after the last one that can be read here."""


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
    """Numbers of nothing yet."""
    if not available():
        return _PlainNumbers()
    from ccltui.parsers.nsys.sqlite import _btree  # noqa: PLC0415

    numbers: Numbers = _btree.Numbers()
    return numbers


def new_texts(marks: tuple[bytes, bytes] = (b"", b""), *, blobs: bool = False) -> Texts:
    """Texts, each up to the first of ``marks`` in it; ``blobs``: of any bytes."""
    if not available():
        return _PlainTexts(marks)
    from ccltui.parsers.nsys.sqlite import _btree  # noqa: PLC0415

    texts: Texts = _btree.Texts(*marks, blobs)
    return texts


def available() -> bool:
    """Whether the compiled parts were built, and are wanted."""
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
    """A scan of the table whose tree begins at page ``root``, None where there can be none.

    ``places``: of the wanted columns in a row, rising. ``texts``: where those of a column go,
    None for integers.
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
    """Distinct values in order of appearance, and for each row which of them it is.

    Columns of a file hold few values in long runs: only the beginnings of runs are compared.
    """
    if not len(values):
        return values, np.empty(0, np.int64)
    begins = np.flatnonzero(np.insert(values[1:] != values[:-1], 0, True))
    found, first, inverse = np.unique(values[begins], return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return found[order], np.repeat(rank[inverse], np.diff(np.append(begins, len(values))))
