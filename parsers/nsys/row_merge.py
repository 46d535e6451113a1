"""Merge the rows of several tables by time without holding all of them in memory.

nsys writes the rows of a table nearly sorted: a few of ten thousand are late. Late rows, and the
rows of the smaller tables, are held in memory and inserted into the stream of the largest table.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from ccltui.parsers.array_types import I64, Bool

_MAX_SHARE: Final = 0.3
"""Largest share of inserted rows: above it, sorting all rows is faster."""
_ALWAYS_INSERTED: Final = 1 << 12
"""Number of rows that are inserted whatever their share is."""


class Rows(Protocol):
    """Rows of one table; `pieces` of all columns have the same lengths, or there is one piece."""

    @property
    def count(self) -> int:
        """Number of rows."""

    def pieces(self, name: str, base_ns: int) -> Iterator[npt.NDArray[Any]]:
        """Yield a column in pieces, each valid until the next."""


@dataclass(slots=True)
class _Piece:
    """A piece of the main table, its late rows, and the rows inserted into the others.

    Attributes:
        length: Number of rows of the piece.
        late: Late rows of the piece.
        first_late: Index of the first of them among all late rows.
        before: Position of each inserted row among the rows that are not late.
        first: First inserted row, among all inserted rows.
        last: End of the inserted rows.
        last_source: Number of the last piece that contains one of the inserted rows.
    """

    length: int
    late: npt.NDArray[np.intp]
    first_late: int
    before: npt.NDArray[np.intp] = field(default_factory=lambda: np.empty(0, np.intp))
    first: int = 0
    last: int = 0
    last_source: int = -1


class Merge:
    """Order of the rows of ``tables`` by (start, longer first, order of the tables and rows).

    The largest table is streamed; the others and its late rows are inserted.
    """

    def __init__(self, tables: Sequence[Rows]) -> None:
        """Find where to insert rows; the tables have at least one row."""
        self._tables = tables
        self._main = max(range(len(tables)), key=lambda index: tables[index].count)
        total = sum(table.count for table in tables)
        self._max_inserted = max(_MAX_SHARE * total, _ALWAYS_INSERTED)
        self.num_inserted = total - tables[self._main].count
        self._pieces, late = self._find_late_rows()
        if not self.is_efficient:
            return
        others = [self._keys(number) for number in range(len(tables)) if number != self._main]
        start, dur, place = (np.concatenate(keys) for keys in zip(late, *others, strict=True))
        order = np.lexsort((place, -dur, start))
        self._slots = np.empty_like(
            order
        )  # index among inserted rows, of late rows, then of the other tables
        self._slots[order] = np.arange(len(order))
        keys = start[order], dur[order], place[order]
        self._end = self._place_inserted(*keys) if self.num_inserted else 0

    @property
    def is_efficient(self) -> bool:
        """Whether few enough rows are inserted to be faster than a sort; if not, do not use it."""
        return self.num_inserted <= self._max_inserted

    def pieces(self, name: str, base_ns: int) -> Iterator[npt.NDArray[Any]]:
        """Yield a column in order, in pieces that are valid until the next.

        A piece is delayed until the late rows that are inserted into it were read.
        """
        if not self.num_inserted:
            yield from self._tables[self._main].pieces(name, base_ns)
            return
        inserted: npt.NDArray[Any] = np.empty(0)
        held: deque[tuple[_Piece, npt.NDArray[Any]]] = deque()
        for number, (piece, column) in enumerate(self._main_pieces(name, base_ns)):
            if not number:
                inserted = self._of_others(name, base_ns, column.dtype)
            inserted[self._slots[piece.first_late :][: len(piece.late)]] = column[piece.late]
            held.append((piece, np.delete(column, piece.late)))
            while held and held[0][0].last_source <= number:
                whole, rest = held.popleft()
                some = inserted[whole.first : whole.last]
                yield np.insert(rest, whole.before, some) if len(some) else rest
        if self._end < self.num_inserted:
            yield inserted[self._end :]

    def _of_others(self, name: str, base_ns: int, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        """Return the inserted values, with those of the other tables filled in."""
        inserted: npt.NDArray[Any] = np.empty(self.num_inserted, dtype)
        done = self._pieces[-1].first_late + len(self._pieces[-1].late)
        for number, table in enumerate(self._tables):
            for column in table.pieces(name, base_ns) if number != self._main else ():
                inserted[self._slots[done : done + len(column)]] = column
                done += len(column)
        return inserted

    def _main_pieces(self, name: str, base_ns: int) -> Iterator[tuple[_Piece, npt.NDArray[Any]]]:
        """Yield the pieces of the main table with the rows of one of its columns."""
        main = self._tables[self._main]
        column: npt.NDArray[Any] = np.empty(0)
        done = 0
        given = main.pieces(name, base_ns)
        for piece in self._pieces:
            while piece.length and done >= len(column):
                column, done = next(given), 0
            yield piece, column[done : done + piece.length]
            done += piece.length

    def _offset(self, number: int) -> int:
        return sum(table.count for table in self._tables[:number])

    def _keys(self, number: int) -> tuple[I64, I64, I64]:
        """Return start, duration and position of all rows of a table."""
        table = self._tables[number]
        start, dur = (
            np.concatenate([np.empty(0, np.int64), *(p.copy() for p in table.pieces(name, 0))])
            for name in ("start_ns", "dur_ns")
        )
        return start, dur, np.arange(len(start)) + self._offset(number)

    def _times(self) -> Iterator[tuple[I64, I64]]:
        """Yield starts and durations of the main table."""
        main = self._tables[self._main]
        return zip(main.pieces("start_ns", 0), main.pieces("dur_ns", 0), strict=True)

    def _find_late_rows(self) -> tuple[list[_Piece], tuple[I64, I64, I64]]:
        """Return the pieces of the main table with their late rows, and the keys of these."""
        pieces: list[_Piece] = []
        keys: list[tuple[I64, I64, I64]] = [(np.empty(0, np.int64),) * 3]
        known, begin, num_late = _Latest(), self._offset(self._main), 0
        for start, dur in self._times() if self.is_efficient else ():
            late = np.flatnonzero(known.late(start, dur))
            self.num_inserted += len(late)
            if not self.is_efficient:
                break
            pieces.append(_Piece(len(start), late, num_late))
            keys.append((start[late], dur[late], late + begin))
            begin, num_late = begin + len(start), num_late + len(late)
        columns = [np.concatenate([key[column] for key in keys]) for column in range(3)]
        return pieces, (columns[0], columns[1], columns[2])

    def _place_inserted(self, start: I64, dur: I64, place: I64) -> int:
        """Find where rows with these sorted keys are inserted; return how many not at the end."""
        done, first = 0, self._offset(self._main)
        begin, ends = first, np.cumsum([piece.length for piece in self._pieces])
        for piece, (starts, durs) in zip(self._pieces, self._times(), strict=True):
            places = np.delete(np.arange(len(starts)), piece.late)
            if len(places):
                rest = starts[places]
                some = slice(done, int(np.searchsorted(start, rest[-1], "right")))
                low = np.searchsorted(rest, start[some], "left")
                high = np.searchsorted(rest, start[some], "right")
                for tied in np.flatnonzero(low < high).tolist():
                    key = (-int(dur[done + tied]), int(place[done + tied]))
                    while low[tied] < high[tied]:
                        row = places[low[tied]]
                        if key < (-int(durs[row]), int(row) + begin):
                            break
                        low[tied] += 1
                # A row after the last row of the piece may go after later rows of equal start.
                count = int((low < len(rest)).sum())
                piece.before = low[:count]
                piece.first, piece.last = done, done + count
                from_main = place[done : done + count] - first
                from_main = from_main[(from_main >= 0) & (from_main < ends[-1])]
                if len(from_main):
                    piece.last_source = int(np.searchsorted(ends, from_main.max(), "right"))
                done += count
            begin += len(starts)
        return done


class _Latest:
    """The latest row so far; a later row that sorts before it is late."""

    def __init__(self) -> None:
        self._start = np.iinfo(np.int64).min
        self._dur = 0

    def late(self, start: I64, dur: I64) -> Bool:
        """Return which rows of the next piece are late."""
        if not len(start):
            return np.zeros(0, np.bool_)
        highest = np.maximum.accumulate(np.append(self._start, start))
        late: Bool = start < highest[:-1]
        # Rows of equal start are sorted longer first: a row that is longer than the last row
        # that was not late is late.
        for row in np.flatnonzero(start == highest[:-1]).tolist():
            before = row - 1
            while before >= 0 and late[before]:
                before -= 1
            kept = int(dur[before]) if before >= 0 else self._dur
            late[row] = dur[row] > kept
        last = np.flatnonzero(~late)
        if len(last):
            self._start, self._dur = int(start[last[-1]]), int(dur[last[-1]])
        return late
