"""Difference of the clocks of two ranks, from the ends of transfers between them.

    f = median(end of the receive - end of the send) of transfers in one direction
    b = the same in the other direction
    clock difference = (f - b) / 2, one-way part of the ends = (f + b) / 2

A transfer ends on both ranks nearly at once, the receiver a little later. What lies between is the
same in both directions and cancels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.reductions import distinct_values, median_along, quantile
from ccltui.metrics.collectives.matching.match import MatchInput
from ccltui.metrics.collectives.matching.p2p import Pairs
from ccltui.parsers.array_types import F64, I64

FEWEST: Final = 4
"""Fewer transfers each way tell no clock."""
MAX_ONE_WAY_NS: Final = 1_000_000
"""Ends that differ by more in both directions are those of copies into buffers."""
_PRESENT_SHARE: Final = 0.1
"""A transfer whose shorter side is below this quantile did not have both sides present."""


class PairedEnds(Struct, frozen=True):
    """Transfers between two ranks, of both directions; arrays of one length.

    Attributes:
        members: indices of the inputs, the first below the second.
        difference_ns: clock of the second minus clock of the first by each transfer, float64.
        end_ns: end on the first rank, int64 on its own clock.
        one_way_ns: how much later the receiver ends.
    """

    members: tuple[int, int]
    difference_ns: F64
    end_ns: I64
    one_way_ns: float


def paired_ends(pairs: Pairs, inputs: Sequence[MatchInput]) -> Iterator[PairedEnds]:
    """Yield the ends of every two ranks with enough transfers in both directions."""
    low = np.minimum(pairs.sender, pairs.receiver)
    high = np.maximum(pairs.sender, pairs.receiver)
    for code in distinct_values(low * len(inputs) + high).tolist():
        first, second = divmod(code, len(inputs))
        rows = np.flatnonzero((low == first) & (high == second))
        found = _ends_of(pairs, inputs, rows, first, second)
        if found is not None:
            yield found


def _ends_of(
    pairs: Pairs, inputs: Sequence[MatchInput], rows: I64, first: int, second: int
) -> PairedEnds | None:
    forward = pairs.sender[rows] == first
    row_of_first = np.where(forward, pairs.send_row[rows], pairs.recv_row[rows])
    row_of_second = np.where(forward, pairs.recv_row[rows], pairs.send_row[rows])
    ones, others = inputs[first].calls, inputs[second].calls
    end = ones.end_ns[row_of_first]
    later = (others.end_ns[row_of_second] - end).astype(np.float64)
    shorter = np.minimum(ones.dur_ns[row_of_first], others.dur_ns[row_of_second])
    present = np.zeros(len(rows), np.bool_)
    for direction in (forward, ~forward):
        if np.count_nonzero(direction) < FEWEST:
            return None
        present |= direction & (shorter >= quantile(shorter[direction], _PRESENT_SHARE))
    f = float(median_along(later[forward & present]))
    b = float(median_along(-later[~forward & present]))
    one_way = (f + b) / 2
    if abs(one_way) > MAX_ONE_WAY_NS:
        return None
    difference = np.where(forward, later - one_way, later + one_way)
    return PairedEnds((first, second), difference[present], end[present], one_way)
