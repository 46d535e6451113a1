"""Order of the pipeline stages, and the direction of every transfer between them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ccltui.metrics.collectives.matching.match import MatchInput
from ccltui.metrics.collectives.matching.p2p import Pairs
from ccltui.parsers.array_types import I8, I64

if TYPE_CHECKING:
    from ccltui.metrics.model.communicator_groups import CommGroup

UNKNOWN, FORWARD, BACKWARD = 0, 1, 2
"""Directions of a transfer: towards the last stage, towards the first."""


@dataclass(frozen=True, slots=True)
class Stages:
    """``stage`` of each rank by input, -1 without a pipeline; ``count`` stages.

    ``direction`` is that of each pair, ``wraps`` whether any transfer leads from the last stage to
    the first, as where a rank holds several chunks of the model. In a ``ring`` ranks do the same
    work and pass data on.
    """

    stage: I64
    count: int
    direction: I8
    wraps: bool
    ring: bool = False


def stages_of(
    inputs: Sequence[MatchInput], pairs: Pairs, groups: Sequence[CommGroup], steps: Sequence[I64]
) -> Stages:
    """Return the stage of every rank: its place in its pipeline group, else from the transfers.

    ``steps`` are the steps of the calls of each input, which may differ from those that the calls
    state.
    """
    ring = len(pairs) > 0 and _is_ring(inputs, pairs, groups)
    if ring or not len(pairs):
        none = np.full(len(inputs), -1, np.int64)
        return Stages(none, 1, np.full(len(pairs), UNKNOWN, np.int8), wraps=False, ring=ring)
    stage = _of_groups(inputs, pairs, groups)
    if stage is None:
        stage = _of_transfers(inputs, pairs, steps)
    count = int(stage.max()) + 1
    source, destination = stage[pairs.sender], stage[pairs.receiver]
    known = (source >= 0) & (destination >= 0)
    hop = destination - source
    direction = np.where(hop == 1, FORWARD, np.where(hop == -1, BACKWARD, UNKNOWN))
    wrap = known & (count > 2) & (np.abs(hop) == count - 1)
    direction = np.where(wrap, np.where(hop < 0, FORWARD, BACKWARD), direction)
    direction = np.where(known, direction, UNKNOWN).astype(np.int8)
    return Stages(stage, max(count, 1), direction, wraps=bool(wrap.any()))


def _is_ring(inputs: Sequence[MatchInput], pairs: Pairs, groups: Sequence[CommGroup]) -> bool:
    """Whether ranks pass data around, as in context parallelism, instead of up and down stages.

    Groups say so, or all ranks send and receive, and no two of them in both directions: gradients
    return to where the activations of a pipeline came from.
    """
    ring = {rank: group.ranks for group in groups if group.dim == "cp" for rank in group.ranks}
    links = set(zip(pairs.sender.tolist(), pairs.receiver.tolist(), strict=True))
    if all(inputs[b].rank in ring.get(inputs[a].rank, ()) for a, b in links):
        return True
    senders, receivers = {a for a, _ in links}, {b for _, b in links}
    return senders == receivers and not any((b, a) in links for a, b in links)


def _of_groups(
    inputs: Sequence[MatchInput], pairs: Pairs, groups: Sequence[CommGroup]
) -> I64 | None:
    """Place of each rank in its pipeline group; None where a rank with transfers is in none."""
    place = {
        rank: index
        for group in groups
        if group.dim == "pp" and len(group.ranks) > 1
        for index, rank in enumerate(group.ranks)
    }
    stage = np.array(
        [-1 if item.rank is None else place.get(item.rank, -1) for item in inputs], np.int64
    )
    involved = np.union1d(pairs.sender, pairs.receiver)
    if (stage[involved] < 0).any():
        return None
    hops = np.abs(stage[pairs.sender] - stage[pairs.receiver])
    last = int(stage.max())
    # Ranks of one stage may pass data around.
    return stage if np.isin(hops, (0, 1, last)).all() and hops.any() else None


def _of_transfers(inputs: Sequence[MatchInput], pairs: Pairs, steps: Sequence[I64]) -> I64:
    """Stages from who sends first: the first transfer to end in a step is forward.

    The first to begin may be a receive of the other direction that was posted ahead. Where ranks
    hold several chunks of the model, the last stage sends to the first too: the first is then the
    one that sends before it has received.
    """
    above: dict[int, set[int]] = {}
    votes = _first_senders(inputs, pairs, steps)
    for (low, high), forward in votes.items():
        source, destination = (low, high) if forward >= 0 else (high, low)
        above.setdefault(source, set()).add(destination)
        above.setdefault(destination, set())
    stage = np.full(len(inputs), -1, np.int64)
    fed = {rank for ranks in above.values() for rank in ranks}
    starts = sorted(set(above) - fed)
    begun = _reached(above, starts)
    if len(begun) < len(above):
        sends = _sends_first(inputs, pairs, steps)
        while left := sorted(set(above) - begun, key=lambda rank: (-sends[rank], rank)):
            starts.append(left[0])
            begun |= _reached(above, left[:1])
    level, depth = sorted(starts), 0
    while level:
        stage[level] = depth
        following = {rank for one in level for rank in above[one]}
        level = sorted(rank for rank in following if stage[rank] < 0)
        depth += 1
    return stage


def _reached(above: Mapping[int, Collection[int]], starts: Collection[int]) -> set[int]:
    """Ranks that transfers lead to from some ranks, with these."""
    found, left = set(starts), list(starts)
    while left:
        following = set(above[left.pop()]) - found
        found |= following
        left += following
    return found


def _sends_first(inputs: Sequence[MatchInput], pairs: Pairs, steps: Sequence[I64]) -> I64:
    """Steps of each input in which its first transfer to end is a send."""
    found = np.zeros(len(inputs), np.int64)
    for index, item in enumerate(inputs):
        sent = pairs.send_row[pairs.sender == index]
        received = pairs.recv_row[pairs.receiver == index]
        row = np.concatenate([sent, received])
        is_send = np.arange(len(row)) < len(sent)
        step = steps[index][row]
        order = np.lexsort((item.calls.end_ns[row], step))
        first = order[np.flatnonzero(np.diff(step[order], prepend=-2))]
        found[index] = int(is_send[first].sum())
    return found


def _first_senders(
    inputs: Sequence[MatchInput], pairs: Pairs, steps: Sequence[I64]
) -> dict[tuple[int, int], int]:
    """By pair of inputs, steps in which the lower sends first less those in which it does not."""
    low = np.minimum(pairs.sender, pairs.receiver)
    high = np.maximum(pairs.sender, pairs.receiver)
    upward = pairs.sender == low
    row = np.where(upward, pairs.send_row, pairs.recv_row)  # of the call on the lower input
    end, step = np.empty(len(pairs), np.int64), np.empty(len(pairs), np.int64)
    for index, item in enumerate(inputs):
        mine = low == index
        end[mine], step[mine] = item.calls.end_ns[row[mine]], steps[index][row[mine]]
    order = np.lexsort((end, step, high, low))
    key = np.stack([low, high, step])[:, order]
    first = np.ones(len(order), np.bool_)
    first[1:] = (key[:, 1:] != key[:, :-1]).any(axis=0)
    votes: dict[tuple[int, int], int] = {}
    for a, b, up in zip(
        key[0][first].tolist(), key[1][first].tolist(), upward[order][first].tolist(), strict=True
    ):
        votes[a, b] = votes.get((a, b), 0) + (1 if up else -1)
    return votes
