"""Events of a rank whose columns stay on disk until each is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from parsers.columns import I32, MISSING, Bool, Events
from parsers.nsys.rows import Owner, TableRows, by_start


@dataclass(slots=True)
class Segment:
    """What a table gives to a group: rows of ``owners`` (None: all), of those the ``chosen``.

    ``track``: by the table's numbers, those of the rank. ``category``: ids of strings, the second
    for calls of the driver.
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

    def column(self, name: str, base_ns: int) -> npt.NDArray[Any]:
        """A column of the group; one of a single value takes no memory."""
        if name == "category":
            return self._category()
        if name == "args" and self.args is not None:
            return self._of_chosen(self.args)
        if name not in self.table.spill.dtypes:
            return np.broadcast_to(np.array(MISSING, _DTYPES[name]), self.count)
        found = self._of_chosen(self.table.column(name, self.owners))
        if name == "start_ns":
            found += base_ns
        elif name == "track":
            found = self.track[found]
        elif name == "name":
            found = self.table.final[found]
        return found

    def _category(self) -> I32:
        usual, of_driver = self.category
        if usual == of_driver or not self.table.any_driver:
            return np.broadcast_to(np.array(usual, np.int32), self.count)
        driver = self._of_chosen(self.table.column("driver", self.owners))
        return np.where(driver, of_driver, usual).astype(np.int32)

    def _of_chosen(self, column: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return column if self.chosen is None else column[self.chosen]


_DTYPES: Final[dict[str, type]] = {**dict(Events.COLUMNS), "blocks": np.int64}


class _Source:
    """Columns of segments end to end, in order of time. There is at least one segment."""

    def __init__(self, segments: Sequence[Segment], base_ns: int) -> None:
        self._segments = segments
        self._base_ns = base_ns
        self.count = sum(segment.count for segment in segments)

    def has(self, name: str) -> bool:
        """Whether any table has the column."""
        return any(name in segment.table.spill.dtypes for segment in self._segments)

    def column(self, name: str) -> npt.NDArray[Any]:
        """A column of all rows, in order."""
        parts = [segment.column(name, self._base_ns) for segment in self._segments]
        if all(part.strides == (0,) and part[0] == parts[0][0] for part in parts):
            return np.broadcast_to(parts[0][0], self.count)
        return self._ordered(np.concatenate(parts) if len(parts) > 1 else parts[0])

    def _ordered(self, column: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return column if self._order is None else column[self._order]

    @cached_property
    def _order(self) -> npt.NDArray[Any] | None:
        start, dur = (
            np.concatenate([segment.column(name, 0) for segment in self._segments])
            for name in ("start_ns", "dur_ns")
        )
        order = by_start(start, dur)
        return order.astype(np.int32) if order is not None and len(order) < 1 << 31 else order


class SpilledEvents(Events):
    """Columns of a group, each read whenever it is asked for: only one is in memory at a time."""

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
        """A column: the fields of these events are never filled."""
        if name in _DTYPES:
            return self._source.column(name)
        if name == "blocks_per_sm" and self._sms > 0 and self._source.has("blocks"):
            blocks = self._source.column("blocks")
            shares = np.where(blocks >= 0, blocks / self._sms, MISSING).astype(np.float32)
            return shares if (blocks >= 0).any() else shares[:0]
        if name in dict(Events.SPARSE):
            return np.empty(0, dict(Events.SPARSE)[name])
        raise AttributeError(name)
