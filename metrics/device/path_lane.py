"""The device work of one rank as a lane: which piece came before which."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ccltui.metrics.arrays.compiled import available
from ccltui.parsers.array_types import I64
from ccltui.parsers.columns import MISSING

if TYPE_CHECKING:
    from ccltui.metrics.view.rank_view import RankView


class Lane:
    """The device work of one rank, each piece with what came before it."""

    def __init__(self, rank: RankView) -> None:
        self.rank = rank
        gpu = rank.trace.group("gpu")
        self.rows = np.flatnonzero(gpu.dur_ns > 0)  # what takes no time decides nothing
        self.start = gpu.start_ns.take(self.rows)
        self.end = self.start + gpu.dur_ns.take(self.rows)
        self.before, self._ends_last = before_and_last(self.start, self.end)
        # To which piece of which other lane the way leads on, -1 where it stays here.
        self.jump_lane = np.full(len(self.rows), MISSING, np.int64)
        self.jump_to = np.full(len(self.rows), MISSING, np.int64)

    @cached_property
    def of_call(self) -> I64:
        """Piece of work that each of the rank's calls is, -1 where it took no time."""
        calls = self.rank.calls
        if calls.event_group != "gpu":
            return np.full(len(calls), MISSING, np.int64)
        piece = np.full(len(self.rank.facts.classes), MISSING, np.int64)
        piece[self.rows] = np.arange(len(self.rows))
        return piece[calls.row]

    def last_before(self, time_ns: int) -> int:
        """The work that ends last of that which began before a time, -1 without any."""
        begun = int(np.searchsorted(self.start, time_ns, side="left"))
        return int(self._ends_last[begun - 1]) if begun else MISSING

    def along(self, piece: int, outside: int) -> tuple[I64, int]:
        """A piece and those before it, up to the first before place ``outside``.

        It ends before a piece that leads to another lane, which comes second, else -1. Which leads
        where must not change any more.
        """
        if available():
            from ccltui.metrics.arrays import _passes  # noqa: PLC0415

            found: tuple[I64, int] = _passes.along(self.before, self.jump_lane, piece, outside)
            return found
        before, jump = self._lists
        chain = [piece]
        while piece >= outside:
            piece = before[piece]
            if piece < 0 or jump[piece] >= 0:
                return np.array(chain, np.int64), piece
            chain.append(piece)
        return np.array(chain, np.int64), MISSING

    @cached_property
    def _lists(self) -> tuple[list[int], list[int]]:
        """The columns that the walk looks at one by one: lists are faster there."""
        return self.before.tolist(), self.jump_lane.tolist()


def before_and_last(start_ns: I64, end_ns: I64) -> tuple[I64, I64]:
    """What ended last before each piece began, and what of those up to it ends last.

    Pieces by start, none of them empty. Places, int64; -1 where nothing ended before; of pieces
    that end together the last, and of those that end last together the last too.
    """
    by_end = np.argsort(end_ns, kind="stable")  # nearly in order
    if available():
        from ccltui.metrics.arrays import _passes  # noqa: PLC0415

        found: tuple[I64, I64] = _passes.before_and_last(start_ns, end_ns, by_end)
        return found
    place = np.searchsorted(end_ns[by_end], start_ns, side="right") - 1
    before = np.where(place >= 0, by_end[place], MISSING)
    reaches = np.where(end_ns == np.maximum.accumulate(end_ns), np.arange(len(end_ns)), 0)
    return before, np.maximum.accumulate(reaches)
