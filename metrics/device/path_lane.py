"""Lane of the critical path: the device work of one rank with the predecessor of each piece."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ccltui.metrics.arrays.compiled import available
from ccltui.metrics.arrays.reductions import unique_inverse
from ccltui.parsers.array_types import I64
from ccltui.parsers.columns import MISSING

if TYPE_CHECKING:
    from ccltui.metrics.view.rank_view import RankView
    from ccltui.parsers.columns import Events, RankTrace


class Lane:
    """The device work of one rank, with the predecessor of each piece.

    ``before`` is the piece that ended last before each piece began, -1 without any. ``jump_lane``
    and ``jump_to`` are the lane and the piece of another rank at which the path continues, -1 where
    it stays on this lane.
    """

    def __init__(self, rank: RankView) -> None:
        self.rank = rank
        gpu = rank.trace.group("gpu")
        rows = np.flatnonzero(gpu.dur_ns > 0)  # work without duration delays nothing
        self.rows = with_ties_by_name(rows, gpu, rank.trace)
        self.start = gpu.start_ns.take(self.rows)
        self.end = self.start + gpu.dur_ns.take(self.rows)
        self.before, self._ends_last = before_and_last(self.start, self.end)
        self.jump_lane = np.full(len(self.rows), MISSING, np.int64)
        self.jump_to = np.full(len(self.rows), MISSING, np.int64)

    @cached_property
    def of_call(self) -> I64:
        """Piece of work of each of the rank's calls, -1 for a call without duration."""
        calls = self.rank.recorded_calls
        if calls.event_group != "gpu":
            return np.full(len(calls), MISSING, np.int64)
        piece = np.full(len(self.rank.facts.classes), MISSING, np.int64)
        piece[self.rows] = np.arange(len(self.rows))
        return piece[calls.rows.of("gpu")]

    def last_before(self, time_ns: int) -> int:
        """Return the piece that ends last among those that began before a time, -1 without any."""
        begun = int(np.searchsorted(self.start, time_ns, side="left"))
        return int(self._ends_last[begun - 1]) if begun else MISSING

    def along(self, piece: int, outside: int) -> tuple[I64, int]:
        """Follow predecessors from a piece to the first with an index below ``outside``.

        The chain ends earlier before a piece that leads to another lane. ``jump_lane`` must not
        change after the first call.

        Returns:
            The pieces of the chain, and the piece that leads to another lane, else -1.
        """
        if available():
            from ccltui.metrics.arrays import _passes  # noqa: PLC0415

            found: tuple[I64, int] = _passes.along(self.before, self.jump_lane, piece, outside)
            return found
        before, jump = self._lists
        chain = [piece]
        most = piece + 2  # predecessors have smaller indices where starts ascend, as they must
        while piece >= outside:
            piece = before[piece]
            if piece < 0 or jump[piece] >= 0 or len(chain) == most:
                return np.array(chain, np.int64), piece
            chain.append(piece)
        return np.array(chain, np.int64), MISSING

    @cached_property
    def _lists(self) -> tuple[list[int], list[int]]:
        """Columns as lists, which are faster than arrays for access to single elements."""
        return self.before.tolist(), self.jump_lane.tolist()


def with_ties_by_name(rows: I64, gpu: Events, trace: RankTrace) -> I64:
    """Return ascending rows with those of one start and one duration in order of their names.

    The file may have them in any order, and one of them is the piece that ends last.
    """
    start, length = gpu.start_ns.take(rows), gpu.dur_ns.take(rows)
    alike = (start[1:] == start[:-1]) & (length[1:] == length[:-1])
    if not alike.any():
        return rows
    tied = np.append(alike, False) | np.append(False, alike)
    names, place = unique_inverse(gpu.name.take(rows[tied]))
    texts = [trace.strings[one] if one >= 0 else "" for one in names.tolist()]
    order = sorted(range(len(names)), key=texts.__getitem__)
    rank = np.empty(len(names), np.int64)
    rank[order] = np.arange(len(names))
    found = rows.copy()
    found[tied] = rows[tied][np.lexsort((rank[place], -length[tied], start[tied]))]
    return found


def before_and_last(start_ns: I64, end_ns: I64) -> tuple[I64, I64]:
    """Return, for each piece, its predecessor, and the piece that ends last among those up to it.

    Args:
        start_ns: starts of the pieces, ascending.
        end_ns: ends of the pieces, after their starts.

    Returns:
        Indices, int64: the piece that ended last before each piece began, -1 without any, and the
        piece that ends last among those up to it. Of several that end together the last one.
    """
    by_end = np.argsort(end_ns, kind="stable")  # quick: ends are nearly in order
    if available():
        from ccltui.metrics.arrays import _passes  # noqa: PLC0415

        found: tuple[I64, I64] = _passes.before_and_last(start_ns, end_ns, by_end)
        return found
    place = np.searchsorted(end_ns[by_end], start_ns, side="right") - 1
    before = np.where(place >= 0, by_end[place], MISSING)
    reaches = np.where(end_ns == np.maximum.accumulate(end_ns), np.arange(len(end_ns)), 0)
    return before, np.maximum.accumulate(reaches)
