"""Rows of several tables by time, without all of them in memory.

nsys writes the rows of a table nearly in order: a few of ten thousand come late. Those, and the
rows of the smaller tables, are inserted where they belong while the others pass by.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from ccltui.parsers.array_types import I64, Bool

_LARGEST_SHARE: Final = 0.3
"""Of all rows: where more are to be inserted, sorting them all is quicker."""
_FEW: Final = 1 << 12
"""Rows that are always inserted."""


class Rows(Protocol):
    """The rows of one table; `pieces` of all columns have the same lengths, or there is one."""

    @property
    def count(self) -> int:
        """How many."""

    def pieces(self, name: str, base_ns: int) -> Iterator[npt.NDArray[Any]]:
        """A column piece by piece, each only valid until the next."""


@dataclass(slots=True)
class _Piece:
    """Of a piece of the main table: its length, late rows, and what is inserted into the rest.

    ``needs``: number of the last piece that has any of it.
    """

    length: int
    late: npt.NDArray[np.intp]
    first_late: int  # of all late rows
    before: npt.NDArray[np.intp] = field(default_factory=lambda: np.empty(0, np.intp))
    first: int = 0  # of the rows that are inserted
    last: int = 0
    needs: int = -1


class Merge:
    """How the rows of ``tables`` come by (start, longer first, as given).

    One of them, the largest, passes by; the others and its late rows are inserted.
    """

    def __init__(self, tables: Sequence[Rows]) -> None:
        """There is at least one row."""
        self._tables = tables
        self._main = max(range(len(tables)), key=lambda index: tables[index].count)
        total = sum(table.count for table in tables)
        self._most = max(_LARGEST_SHARE * total, _FEW)
        self.num_inserted = total - tables[self._main].count
        self._pieces, late = self._looked_through()
        if not self.is_worth_it:
            return
        others = [self._keys(number) for number in range(len(tables)) if number != self._main]
        start, dur, place = (np.concatenate(keys) for keys in zip(late, *others, strict=True))
        order = np.lexsort((place, -dur, start))
        self._slots = np.empty_like(order)  # among what is inserted, of late rows and of others
        self._slots[order] = np.arange(len(order))
        keys = start[order], dur[order], place[order]
        self._end = self._placed(*keys) if self.num_inserted else 0

    @property
    def is_worth_it(self) -> bool:
        """Whether so few rows are inserted that this is better than to sort all; else no more."""
        return self.num_inserted <= self._most

    def pieces(self, name: str, base_ns: int) -> Iterator[npt.NDArray[Any]]:
        """A column in order, each piece only valid until the next.

        A piece is held back until the late rows that belong into it have come.
        """
        if not self.num_inserted:
            yield from self._tables[self._main].pieces(name, base_ns)
            return
        inserted: npt.NDArray[Any] = np.empty(0)
        held: deque[tuple[_Piece, npt.NDArray[Any]]] = deque()
        for number, (piece, column) in enumerate(self._along(name, base_ns)):
            if not number:
                inserted = self._of_others(name, base_ns, column.dtype)
            inserted[self._slots[piece.first_late :][: len(piece.late)]] = column[piece.late]
            held.append((piece, np.delete(column, piece.late)))
            while held and held[0][0].needs <= number:
                whole, rest = held.popleft()
                some = inserted[whole.first : whole.last]
                yield np.insert(rest, whole.before, some) if len(some) else rest
        if self._end < self.num_inserted:
            yield inserted[self._end :]

    def _of_others(self, name: str, base_ns: int, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        """Room for what is inserted, with the values that do not come from the main table."""
        inserted: npt.NDArray[Any] = np.empty(self.num_inserted, dtype)
        done = self._pieces[-1].first_late + len(self._pieces[-1].late)
        for number, table in enumerate(self._tables):
            for column in table.pieces(name, base_ns) if number != self._main else ():
                inserted[self._slots[done : done + len(column)]] = column
                done += len(column)
        return inserted

    def _along(self, name: str, base_ns: int) -> Iterator[tuple[_Piece, npt.NDArray[Any]]]:
        """The pieces of the main table with those of one of its columns."""
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
        """Start, duration and place of all rows of a table."""
        table = self._tables[number]
        start, dur = (
            np.concatenate([np.empty(0, np.int64), *(p.copy() for p in table.pieces(name, 0))])
            for name in ("start_ns", "dur_ns")
        )
        return start, dur, np.arange(len(start)) + self._offset(number)

    def _times(self) -> Iterator[tuple[I64, I64]]:
        """Starts and durations of the main table."""
        main = self._tables[self._main]
        return zip(main.pieces("start_ns", 0), main.pieces("dur_ns", 0), strict=True)

    def _looked_through(self) -> tuple[list[_Piece], tuple[I64, I64, I64]]:
        """The pieces of the main table with their late rows, and the keys of these."""
        pieces: list[_Piece] = []
        keys: list[tuple[I64, I64, I64]] = [(np.empty(0, np.int64),) * 3]
        known, begin, num_late = _Latest(), self._offset(self._main), 0
        for start, dur in self._times() if self.is_worth_it else ():
            late = np.flatnonzero(known.late(start, dur))
            self.num_inserted += len(late)
            if not self.is_worth_it:
                break
            pieces.append(_Piece(len(start), late, num_late))
            keys.append((start[late], dur[late], late + begin))
            begin, num_late = begin + len(start), num_late + len(late)
        columns = [np.concatenate([key[column] for key in keys]) for column in range(3)]
        return pieces, (columns[0], columns[1], columns[2])

    def _placed(self, start: I64, dur: I64, place: I64) -> int:
        """Find where the rows with these keys go, which are in order; how many not at the end."""
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
                # What goes behind the last row may go behind later ones that begin with it.
                count = int((low < len(rest)).sum())
                piece.before = low[:count]
                piece.first, piece.last = done, done + count
                from_main = place[done : done + count] - first
                from_main = from_main[(from_main >= 0) & (from_main < ends[-1])]
                if len(from_main):
                    piece.needs = int(np.searchsorted(ends, from_main.max(), "right"))
                done += count
            begin += len(starts)
        return done


class _Latest:
    """The latest row so far; one before it is late."""

    def __init__(self) -> None:
        self._start = np.iinfo(np.int64).min
        self._dur = 0

    def late(self, start: I64, dur: I64) -> Bool:
        """Which rows of the next piece are late."""
        if not len(start):
            return np.zeros(0, np.bool_)
        highest = np.maximum.accumulate(np.append(self._start, start))
        late: Bool = start < highest[:-1]
        # Of rows that begin at once, the longer first: one that is longer than the row that was
        # kept before it is late.
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
