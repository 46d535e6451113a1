"""Events of a rank whose columns stay on disk until they are accessed.

Rows of several tables are merged by time without holding all of them in memory. nsys writes the
rows of a table nearly sorted: a few of ten thousand are late. Late rows, and the rows of the
smaller tables, are held in memory and inserted into the stream of the largest table.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from ccltui.parsers.array_types import F32, I32, I64, Bool, SortOrder
from ccltui.parsers.columns import MISSING, Events, by_start
from ccltui.parsers.nsys.sqlite.table_rows import Owner, TableRows

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


class _Piece(Struct):
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


_PIECE_ROWS: Final = 1 << 18
_DTYPES: Final[dict[str, type]] = {**dict(Events.COLUMNS), "blocks": np.int64}


class Segment(Struct):
    """Rows that one table contributes to one group of events.

    Attributes:
        table: The table.
        owners: The owners whose rows are taken, None for all.
        track: Track number in the rank, by track number in the table.
        category: String ids of the category, the second for calls of the driver API.
        chosen: Which of the owners' rows are taken, None for all.
        args: Row of collective arguments of each of the owners' rows, None for none.
        count: Number of rows.
    """

    table: TableRows
    owners: set[Owner] | None
    track: I32
    category: tuple[int, int]
    chosen: Bool | None = None
    args: I32 | None = None
    count: int = 0

    def __post_init__(self) -> None:
        if self.chosen is not None:
            self.count = int(self.chosen.sum())
        else:
            owned = self.table.owned().items()
            self.count = sum(n for o, n in owned if self.owners is None or o in self.owners)

    def pieces(self, name: str, base_ns: int) -> Iterator[npt.NDArray[Any]]:
        """Yield a column in pieces, each valid until the next.

        A column of a single value is one piece, a view of that value.
        """
        if name == "category" and self._is_of_driver:
            yield from self._categories()
        elif name == "args" and self.args is not None:
            yield self.args if self.chosen is None else self.args[self.chosen]
        elif name not in self.table.spill.dtypes:
            value = self.category[0] if name == "category" else MISSING
            yield np.broadcast_to(np.array(value, _DTYPES[name]), self.count)
        else:
            for piece in self._rows(name):
                yield self._converted(name, piece, base_ns)

    @property
    def _is_of_driver(self) -> bool:
        return self.category[0] != self.category[1] and self.table.any_driver

    def _categories(self) -> Iterator[I32]:
        usual, of_driver = self.category
        for driver in self._rows("driver"):
            yield np.where(driver, of_driver, usual).astype(np.int32)

    def _rows(self, name: str) -> Iterator[npt.NDArray[Any]]:
        done = 0
        for piece in self.table.pieces(name, self.owners, _PIECE_ROWS):
            done += len(piece)
            yield piece if self.chosen is None else piece[self.chosen[done - len(piece) : done]]

    def _converted(self, name: str, piece: npt.NDArray[Any], base_ns: int) -> npt.NDArray[Any]:
        """Convert stored values: absolute starts, and final ids of tracks and names."""
        if name == "start_ns":
            piece += base_ns
        elif name in ("track", "name"):
            ids: I32 = (self.track if name == "track" else self.table.final)[piece]
            return ids
        return piece


class _Source:
    """Columns of one or more segments, in order of time."""

    def __init__(self, segments: Sequence[Segment], base_ns: int) -> None:
        self._segments = segments
        self._base_ns = base_ns
        self.count = sum(segment.count for segment in segments)

    def has(self, name: str) -> bool:
        """Return whether any table has the column."""
        return any(name in segment.table.spill.dtypes for segment in self._segments)

    def column(self, name: str) -> npt.NDArray[Any]:
        """Return a column of all rows, in order."""
        return self._joined(name, self.pieces(name))

    def pieces(self, name: str) -> Iterator[npt.NDArray[Any]]:
        """Yield a column in pieces, each valid until the next."""
        if self._merge is not None:
            return self._merge.pieces(name, self._base_ns)
        column = self._joined(name, self._unordered(name))
        order = self._order
        return iter([column if column.strides == (0,) or order is None else column[order]])

    def _unordered(self, name: str) -> Iterator[npt.NDArray[Any]]:
        return chain.from_iterable(one.pieces(name, self._base_ns) for one in self._segments)

    def _joined(self, name: str, pieces: Iterator[npt.NDArray[Any]]) -> npt.NDArray[Any]:
        found: npt.NDArray[Any] = np.empty(0, _DTYPES[name])
        done = 0
        for piece in pieces:
            if len(piece) == self.count:
                return piece
            if not len(found):
                found = np.empty(self.count, _DTYPES[name])
            found[done : done + len(piece)] = piece
            done += len(piece)
        return found

    @cached_property
    def _merge(self) -> Merge | None:
        """The merge that orders rows piece by piece, None where too many are out of order."""
        merge = Merge(self._segments)
        return merge if merge.is_efficient else None

    @cached_property
    def _order(self) -> SortOrder | None:
        """The order of all rows, None where they are sorted."""
        start, dur = (self._joined(n, self._unordered(n)) for n in ("start_ns", "dur_ns"))
        return by_start(start, dur)


class SpilledEvents(Events):
    """Events of a group; a column is read from disk on each access and is not cached."""

    __slots__ = ("_sms", "_source")
    _source: _Source
    _sms: int

    def __init__(self, segments: Sequence[Segment], base_ns: int, sms: int = MISSING) -> None:
        some = [segment for segment in segments if segment.count]
        object.__setattr__(self, "_source", _Source(some, base_ns))
        object.__setattr__(self, "_sms", sms)

    def __len__(self) -> int:
        return self._source.count

    def __getattr__(self, name: str) -> Any:
        """Read a column; the fields of the base class are never set."""
        if name in _DTYPES:
            return self._source.column(name)
        if name == "blocks_per_sm" and self._states_blocks():
            return self._shares(self._source.column("blocks"))
        if name in dict(Events.SPARSE):
            return np.empty(0, dict(Events.SPARSE)[name])
        raise AttributeError(name)

    @property
    def comes_in_pieces(self) -> bool:
        """True: every column can be read in pieces."""
        return True

    def pieces(self, name: str) -> Iterator[npt.NDArray[Any]]:
        """Yield a column in pieces, each valid until the next."""
        if name == "blocks_per_sm" and self._states_blocks():
            yield from map(self._shares, self._source.pieces("blocks"))
        elif name in _DTYPES:
            yield from self._source.pieces(name)

    def _states_blocks(self) -> bool:
        known = self._sms > 0 and self._source.has("blocks")
        return known and any((piece >= 0).any() for piece in self._source.pieces("blocks"))

    def _shares(self, blocks: npt.NDArray[Any]) -> F32:
        return np.where(blocks >= 0, blocks / self._sms, MISSING).astype(np.float32)
