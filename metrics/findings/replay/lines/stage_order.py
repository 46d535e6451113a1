"""Order of the pipeline stages, and the direction of every transfer between them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ccltui.metrics.arrays.reductions import distinct_values
from ccltui.metrics.collectives.matching.match import MatchInput, Pairs
from ccltui.metrics.findings.replay.lines.step_lines import IN_BACKWARD, IN_FORWARD, StepLines
from ccltui.parsers.array_types import I8, I64

if TYPE_CHECKING:
    from ccltui.metrics.collectives.matching.match import MatchInput, Pairs
    from ccltui.metrics.model.communicator_groups import CommGroup
    from ccltui.metrics.model.rank_facts import RankFacts

LEAST_AGAINST: Final = 0.1
"""Share of the sends that carry the other direction than their stages tell, from which the stages
hold several chunks: single sends may be launched late."""


def told_by_passes(
    stages: Stages,
    pairs: Pairs,
    ranks: Sequence[tuple[MatchInput, StepLines, RankFacts | None]],
    label_of: Callable[[int], I8],
) -> Stages:
    """Return the stages with the direction of every transfer by the pass that made its content.

    They are unchanged where there are not two stages, where launches are not recorded, and where
    every stage holds one chunk.

    Args:
        stages: with directions by stage.
        pairs: the transfers.
        ranks: by input its calls, its lines, and what is known of it (None: not compared).
        label_of: returns the label of each row of ``gpu`` of a rank (an index).
    """
    if stages.count != 2 or not len(pairs):
        return stages
    found = np.full(len(pairs), UNKNOWN, np.int8)
    for index, (item, lines, facts) in enumerate(ranks):
        mine = np.flatnonzero(pairs.sender == index)
        if facts is None or not len(mine) or item.calls.event_group != "gpu":
            continue
        launched = facts.launched_ns
        sent = launched.take(item.calls.rows.of("gpu")[pairs.send_row[mine]])
        found[mine] = _passes_before(sent, launched.take(lines.gpu_row), label_of(index), lines)
    known = (found != UNKNOWN) & (stages.direction != UNKNOWN)
    against = known & (found != stages.direction)
    if not known.all() or against.sum() < LEAST_AGAINST * len(pairs):
        return stages
    return replace(stages, direction=found, wraps=True)


def _passes_before(sent: I64, launched: I64, labels: I8, lines: StepLines) -> I8:
    """Direction of the last pass of which a kernel was launched before each send."""
    label = labels.take(lines.gpu_row)
    kernels = np.flatnonzero((label != 0) & (launched > np.iinfo(np.int64).min))
    if not len(kernels):
        return np.full(len(sent), UNKNOWN, np.int8)
    order = kernels[np.argsort(launched[kernels], kind="stable")]
    before = np.searchsorted(launched[order], sent, side="left") - 1
    told = label[order[np.maximum(before, 0)]]
    towards = np.where(told == IN_FORWARD, FORWARD, np.where(told == IN_BACKWARD, BACKWARD, 0))
    known = (before >= 0) & (sent > np.iinfo(np.int64).min)
    return np.where(known, towards, UNKNOWN).astype(np.int8)


UNKNOWN, FORWARD, BACKWARD = 0, 1, 2
"""Directions of a transfer: towards the last stage, towards the first."""


class Stages(Struct, frozen=True):
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
    involved = distinct_values(np.concatenate((pairs.sender, pairs.receiver)))
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
