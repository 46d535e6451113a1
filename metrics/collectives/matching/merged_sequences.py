"""Merge the sequences of collectives of several ranks, each of which may lack some."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from ccltui.metrics.collectives.matching.align_by_time import (
    SCATTER_NS,
    ClockDifference,
    Paired,
    fit,
    pair,
)
from ccltui.metrics.collectives.matching.align_calls import place_gap
from ccltui.metrics.collectives.matching.nearest_calls import Tokens
from ccltui.parsers.array_types import I64
from ccltui.parsers.columns import MISSING
from ccltui.parsers.system.quick_dataclass import dataclass

OTHER_LENGTH: Final = 0.5
SAME_LENGTH: Final = 0.8
NEARLY_ALL: Final = 0.95
"""Shares of the calls of a member that must find a counterpart by time, else order is used:
for sequences of other length, of the same length, and where ends need not be close."""


@dataclass(frozen=True, slots=True)
class Merged:
    """The calls that any member has, in order, with their tokens and ends.

    ``end_ns`` is on the clock of the first member, ``places`` int64 [n, m] the position of each
    call in each member's sequence, -1 where it lacks it. ``ends_meet``: most of them end on all
    ranks at once, unlike all-to-alls and broadcasts. ``by_time``: all of them were lined up
    by time.
    """

    tokens: Tokens
    end_ns: I64
    places: I64
    ends_meet: bool = True
    by_time: bool = True

    @classmethod
    def of(
        cls, tokens: Tokens, end_ns: I64, members: int, first: int, *, ends_meet: bool = True
    ) -> Merged:
        """Create the sequence of the member ``first`` alone, with room for ``members``."""
        places = np.full((len(tokens), members), MISSING, np.int64)
        places[:, first] = np.arange(len(tokens))
        return cls(tokens, end_ns, places, ends_meet)

    def merged(
        self, member: int, tokens: Tokens, end_ns: I64, ahead: ClockDifference | None
    ) -> Merged:
        """Add a member, whose clock is ``ahead`` of that of the first; None where not known.

        Its calls are lined up by their ends and inserted where no other member has them. Where the
        ends do not decide, all of its calls are placed among the calls already present.
        """
        if self._in_order(tokens, end_ns, ahead):
            return self._placed(member, np.arange(len(tokens)))
        least = SAME_LENGTH if len(tokens) == len(self.tokens) and not ahead else OTHER_LENGTH
        least = least if self.ends_meet else NEARLY_ALL
        paired = pair(tokens, end_ns, self.tokens, self.end_ns, ahead, least=least)
        if paired is None or not self._is_better(paired, tokens, end_ns):
            return self._fitted(member, tokens, end_ns, ahead)
        found = paired.positions
        held = found >= 0
        places = self.places.copy()
        places[found[held], member] = np.flatnonzero(held)
        more = np.flatnonzero(~held)
        if not len(more):
            return replace(self, places=places)
        here = end_ns - paired.ahead.of(end_ns)
        inserted = np.full((len(more), places.shape[1]), MISSING, np.int64)
        inserted[:, member] = more
        at = _gaps(found, len(self.tokens))[more]
        return Merged(
            np.insert(self.tokens, at, tokens[more]),
            np.insert(self.end_ns, at, here[more]),
            np.insert(places, at, inserted, axis=0),
            self.ends_meet,
            self.by_time,
        )

    def _in_order(self, tokens: Tokens, end_ns: I64, ahead: ClockDifference | None) -> bool:
        """Whether the calls equal those present one by one, in token and end."""
        if len(tokens) != len(self.tokens) or not np.array_equal(tokens, self.tokens):
            return False
        apart = ahead or fit(end_ns, self.end_ns)
        return bool((np.abs(end_ns - apart.of(end_ns) - self.end_ns) <= SCATTER_NS).all())

    def _is_better(self, paired: Paired, tokens: Tokens, end_ns: I64) -> bool:
        """Whether pairing by time matches more calls than pairing in order."""
        if len(tokens) != len(self.tokens):
            return True
        apart = np.abs(end_ns - paired.ahead.of(end_ns) - self.end_ns)
        in_order = (tokens == self.tokens) & (apart <= SCATTER_NS)
        return int((paired.positions >= 0).sum()) > int(in_order.sum())

    def _fitted(
        self, member: int, tokens: Tokens, end_ns: I64, ahead: ClockDifference | None
    ) -> Merged:
        by_order = replace(self, by_time=False)
        if len(tokens) > len(self.tokens):
            return by_order
        apart = None if ahead is None or not len(end_ns) else int(ahead.of(end_ns[:1])[0])
        at = place_gap(tokens, end_ns, self.tokens, self.end_ns, ahead_ns=apart)
        return by_order._placed(member, at)

    def _placed(self, member: int, at: I64) -> Merged:
        places = self.places.copy()
        places[at, member] = np.arange(len(at))
        return replace(self, places=places)


def _gaps(positions: I64, count: int) -> I64:
    """Return the insertion place of each call: before the next one with a position."""
    after = np.where(positions >= 0, positions, count)
    return np.asarray(np.minimum.accumulate(after[::-1])[::-1])
