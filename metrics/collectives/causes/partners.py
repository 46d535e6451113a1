"""Map each call of a rank to its matched collective or to the other side of its transfer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.reductions import rows_by_value
from ccltui.metrics.collectives.lateness.arrivals import GroupArrivals
from ccltui.metrics.collectives.matching.match import MatchInput
from ccltui.metrics.collectives.matching.p2p import Pairs
from ccltui.parsers.array_types import I64
from ccltui.parsers.columns import MISSING


class Partners(Struct, frozen=True):
    """Matched collective or transfer of every call of a rank; int64 arrays, -1 for none.

    ``number`` and ``instance`` are the matched group and its row; ``other`` and ``other_row`` the
    input on the other side of a transfer and the call there. ``wait_ns`` is how long the call
    waited for the last member, or for the other side: 0 where there is neither.
    """

    number: I64
    instance: I64
    other: I64
    other_row: I64
    wait_ns: I64


def partners_of(
    inputs: Sequence[MatchInput], groups: Sequence[GroupArrivals], pairs: Pairs
) -> Mapping[str, Partners]:
    """Return the partners of all calls of all ranks, by label."""
    found = {item.label: _no_partners(len(item.calls)) for item in inputs}
    for number, group in enumerate(groups):
        usable = np.flatnonzero(group.match.usable)
        for member, label in enumerate(group.labels):
            rows = group.match.rows[usable, member]
            found[label].number[rows] = number
            found[label].instance[rows] = usable
            found[label].wait_ns[rows] = group.wait_ns[usable, member]
    sides = (
        (pairs.sender, pairs.send_row, pairs.receiver, pairs.recv_row),
        (pairs.receiver, pairs.recv_row, pairs.sender, pairs.send_row),
    )
    for own, own_row, other, other_row in sides:
        for index, mine in rows_by_value(own):
            partners = found[inputs[index].label]
            partners.other[own_row[mine]] = other[mine]
            partners.other_row[own_row[mine]] = other_row[mine]
            duration = _durations(inputs, other[mine], other_row[mine])
            waited = inputs[index].calls.dur_ns[own_row[mine]] - duration
            partners.wait_ns[own_row[mine]] = np.maximum(waited, 0)
    return found


def _no_partners(count: int) -> Partners:
    number, instance, other, other_row = np.full((4, count), MISSING, np.int64)
    return Partners(number, instance, other, other_row, np.zeros(count, np.int64))


def _durations(inputs: Sequence[MatchInput], index: I64, row: I64) -> I64:
    result = np.empty(len(index), np.int64)
    for one, here in rows_by_value(index):
        result[here] = inputs[one].calls.dur_ns[row[here]]
    return result
