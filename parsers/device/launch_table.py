"""The time of the call that launched device work, by correlation id, in few bytes a call."""

from __future__ import annotations

from typing import Final

import numpy as np

from ccltui.parsers.array_types import I64, U32
from ccltui.parsers.columns import Events
from ccltui.parsers.device.aligned_pieces import aligned
from ccltui.parsers.system.quick_dataclass import dataclass

UNKNOWN_NS: Final = np.iinfo(np.int64).min
"""Launch time of work without a launch record."""
_MAX_TABLE_RATIO: Final = 8
"""A table of ids is quicker than a search up to so many ids in its range per call."""
_NONE: Final = np.uint32(0xFFFF_FFFF)


@dataclass(frozen=True, slots=True)
class LaunchTable:
    """Start of the first call with each correlation id.

    Ids are consecutive numbers in most files: ``ticks`` has an entry for each number from ``low``
    on, in units of 2**``shift`` ns after ``base_ns``. Elsewhere it has one for each of ``ids``.
    """

    low: int
    base_ns: int
    shift: int
    ticks: U32
    ids: I64 | None = None

    @classmethod
    def of(cls, calls: Events) -> LaunchTable:
        """Return the table of the calls of a rank, read piece by piece."""
        low, high, count = _range(calls)
        if not count:
            return cls(0, 0, 0, np.empty(0, np.uint32))
        base = calls.first_ns
        last = max(int(piece[-1]) for piece in calls.pieces("start_ns") if len(piece))
        shift = max((last - base).bit_length() - 31, 0)  # about 1 us in a recording of an hour
        if high - low > _MAX_TABLE_RATIO * count:
            return cls._searched(calls, base, shift)
        ticks = np.full(high - low + 1, _NONE, np.uint32)
        for start, correlation in aligned(calls, ("start_ns", "correlation")):
            known = np.flatnonzero(correlation >= 0)[::-1]
            where, when = correlation[known] - low, _ticks(start[known], base, shift)
            # Calls are in order of their starts, and the last value that is assigned remains: of
            # several calls with one id the first, here and over pieces.
            is_new = ticks[where] == _NONE
            ticks[where[is_new]] = when[is_new]
        return cls(low, base, shift, ticks)

    @classmethod
    def _searched(cls, calls: Events, base: int, shift: int) -> LaunchTable:
        correlation = np.asarray(calls.correlation)
        rows = np.flatnonzero(correlation >= 0)
        ids, first = np.unique(correlation[rows], return_index=True)
        when = _ticks(np.asarray(calls.start_ns)[rows[first]], base, shift)
        return cls(0, base, shift, when, ids)

    def launched_ns(self, correlation: I64) -> I64:
        """Return the launch of each id, at most 2**shift ns early; `UNKNOWN_NS` where none is."""
        if not len(self.ticks):
            return np.full(len(correlation), UNKNOWN_NS)
        if self.ids is None:
            # Ids outside of the table wrap around to large numbers.
            offset = (correlation - self.low).view(np.uint64)
            known = offset < len(self.ticks)
            place = np.minimum(offset, len(self.ticks) - 1).view(np.int64)
        else:
            place = np.minimum(np.searchsorted(self.ids, correlation), len(self.ids) - 1)
            known = self.ids[place] == correlation
        ticks = self.ticks.take(place)
        known &= ticks != _NONE
        times = (ticks.astype(np.int64) << self.shift) + self.base_ns
        return np.where(known, times, UNKNOWN_NS)


def _range(calls: Events) -> tuple[int, int, int]:
    """Return the lowest and the highest id, and the number of calls with one."""
    low, high, count = np.iinfo(np.int64).max, -1, 0
    for piece in calls.pieces("correlation"):
        known = piece[piece >= 0]
        if len(known):
            low, high = min(low, int(known.min())), max(high, int(known.max()))
            count += len(known)
    return int(low), high, count


def _ticks(start_ns: I64, base_ns: int, shift: int) -> U32:
    return np.asarray((start_ns - base_ns) >> shift).astype(np.uint32)
