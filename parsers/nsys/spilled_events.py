"""Events of a rank whose columns stay on disk until they are accessed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ccltui.parsers.array_types import F32, I32, Bool, SortOrder
from ccltui.parsers.columns import MISSING, Events
from ccltui.parsers.event_order import by_start
from ccltui.parsers.nsys.row_merge import Merge
from ccltui.parsers.nsys.sqlite.table_rows import Owner, TableRows

_PIECE_ROWS: Final = 1 << 18
_DTYPES: Final[dict[str, type]] = {**dict(Events.COLUMNS), "blocks": np.int64}


@dataclass(slots=True)
class Segment:
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
