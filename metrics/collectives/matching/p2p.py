"""Match sends to receives by pair of ranks and order."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Final

import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.reductions import distinct_values, median_along, row_all, rows_by_value
from ccltui.metrics.collectives.matching.group_member import Member
from ccltui.metrics.collectives.matching.lineup import by_order
from ccltui.metrics.collectives.matching.match import MatchInput, taking_part
from ccltui.metrics.model.classify import TYPES
from ccltui.metrics.model.communicator_groups import CommGroup
from ccltui.parsers.array_types import I64

_OUTLIER_NS: Final = 50_000
"""Ends of one transfer are closer than that on clocks that do not drift."""
_OUTLIER_RATIO: Final = 10
"""On clocks that drift they are this many times the usual distance apart at most."""

SEND, RECV = TYPES.index("Send"), TYPES.index("Recv")
SENDRECV = TYPES.index("SendRecv")


class Pairs(Struct, frozen=True):
    """Matched transfers, int64 arrays of one length, ordered by sender and its row.

    ``sender`` and ``receiver`` index the inputs, the rows that rank's `Calls`.
    """

    sender: I64
    send_row: I64
    receiver: I64
    recv_row: I64

    def __len__(self) -> int:
        return len(self.sender)


def match_p2p(inputs: Sequence[MatchInput], groups: Sequence[CommGroup] = ()) -> Pairs:
    """Pair the sends and receives of every (source, destination), first with first.

    The peer of a call that does not state it is the other rank of its group, if that has two
    ranks. Both sides are lined up step by step; where one has fewer calls in a step, the gap is
    placed where sizes and ends agree best. Where both have equally many in every step, order
    decides, unless it puts the ends of more transfers apart than a gap leaves out. Calls whose
    peer is unknown or has no file are not paired. A batch of a send and a receive, which states
    both, is on one side of two pairs.
    """
    part = taking_part(inputs)
    index_of = {inputs[index].rank: index for index in part}
    received = {
        (peer, index): rows
        for index in part
        for peer, rows in _by_peer(inputs[index], RECV, groups, index_of).items()
    }
    found: list[I64] = []
    for sender in part:
        for receiver, sent in _by_peer(inputs[sender], SEND, groups, index_of).items():
            rows = received.get((sender, receiver))
            if rows is not None:
                found.append(_pair(inputs, sender, sent, receiver, rows))
    table = np.concatenate([np.empty((0, 4), np.int64), *found])
    table = table[np.lexsort((table[:, 1], table[:, 0]))]
    return Pairs(*(np.ascontiguousarray(column) for column in table.T))


def _by_peer(
    item: MatchInput,
    kind: int,
    groups: Sequence[CommGroup],
    index_of: dict[int | None, int],
) -> dict[int, I64]:
    """Return the rows of one kind by input index of the other side, ascending in time."""
    calls = item.calls
    peer = calls.dst if kind == SEND else calls.src
    rows = np.flatnonzero((calls.kind == kind) | ((calls.kind == SENDRECV) & (peer >= 0)))
    peers = np.asarray(peer[rows], np.int64)
    group = calls.group[rows]
    in_pair = (peers < 0) & (group >= 0) & bool(groups)
    for index in distinct_values(group[in_pair]).tolist():
        peers = np.where(
            in_pair & (group == index), _other_rank(groups[index].ranks, item.rank), peers
        )
    return {
        index_of[peer]: rows[here]
        for peer, here in rows_by_value(peers)
        if peer in index_of and peer != item.rank
    }


def _other_rank(ranks: tuple[int, ...], rank: int | None) -> int:
    if len(ranks) != 2 or rank not in ranks:
        return -1
    return ranks[0] if ranks[1] == rank else ranks[1]


class _Side(Member, frozen=True, dict=True):
    """The transfers of one direction between two ranks, on one of them.

    Most of them end on both ranks at once, like collectives in which every rank waits for every
    other, so that they are lined up by time where that pairs more of them than order.
    """

    def column(self, name: str) -> I64:
        """Return one column; the type is that of a collective that ends on all ranks at once."""
        if name == "kind":
            return np.full(len(self.rows), TYPES.index("AllReduce"), np.int64)
        return super().column(name)

    @cached_property
    def tokens(self) -> I64:
        """One number per transfer for elements and dtype, the same on both sides."""
        elements = np.maximum(self.column("in_elems"), self.column("out_elems"))
        return elements * 4096 + self.column("dtype")


def _pair(
    inputs: Sequence[MatchInput], sender: int, sent: I64, receiver: int, received: I64
) -> I64:
    sides = [_Side(inputs[sender].calls, sent), _Side(inputs[receiver].calls, received)]
    line = by_order(sides, [np.arange(len(sent)), np.arange(len(received))])
    both = line.positions[row_all(line.positions >= 0)]
    in_order = np.stack([np.arange(len(sent))] * 2, axis=1)
    if np.array_equal(sides[0].column("step"), sides[1].column("step")):
        left_out = len(sent) - len(both)
        both = in_order if _num_outliers(sides, in_order) <= left_out else both
    columns = (sent[both[:, 0]], received[both[:, 1]])
    ends = np.full(len(both), sender), np.full(len(both), receiver)
    return np.stack([ends[0], columns[0], ends[1], columns[1]], axis=1)


def _num_outliers(sides: Sequence[Member], both: I64) -> int:
    """Return how many pairs end far from where their clocks make the others end.

    Pairs in order have few such ends if nothing is missing: a step of a clock. Records that are
    missing on both sides shift all pairs between them.
    """
    apart = sides[1].end_ns[both[:, 1]] - sides[0].end_ns[both[:, 0]]
    apart = np.abs(apart - median_along(apart))
    limit = max(_OUTLIER_NS, _OUTLIER_RATIO * float(median_along(apart)))
    return int(np.count_nonzero(apart > limit))
