"""Find which side of an inferred pair of ranks sends, where files name no operation.

The device of a rank that receives often idles until the transfer has ended and continues at once;
the rank that sends does not wait. Ranks that exchange data wait on both sides: they stay as they
are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ccltui.metrics.arrays.reductions import distinct_values
from ccltui.metrics.collectives.matching.match import RECV, SEND, MatchInput
from ccltui.metrics.model.calls import Calls
from ccltui.metrics.model.classify import COMM, TYPES
from ccltui.metrics.model.communicator_groups import CommGroup
from ccltui.metrics.model.rank_facts import RankFacts
from ccltui.parsers.array_types import I64, Bool

SOON_NS: Final = 30_000
"""A kernel that begins this soon after a call ended, on an idle device, waited for it."""
ROUNDING_NS: Final = 2_000
"""Ends of events are sums of a start and a duration, each rounded, to whole microseconds in old
files."""
FEWEST: Final = 3
"""Fewer waits of one side alone tell no direction."""
ONE_SIDED: Final = 0.8
"""Share of the calls with one waiting side in which this must be the same side."""
_SENDRECV: Final = TYPES.index("SendRecv")


def with_sides(
    inputs: Sequence[MatchInput],
    groups: Sequence[CommGroup],
    streams: Mapping[str, I64],
    facts_of: Callable[[str], RankFacts],
) -> list[MatchInput]:
    """Return the calls with transfers of inferred pairs of ranks as sends and receives.

    Args:
        inputs: The calls of each rank, with inferred groups.
        groups: All communicators that the calls index.
        streams: Stream of each call, by label.
        facts_of: Returns what depends on one trace, by label.
    """
    waits: dict[int, Bool] = {}
    told: dict[_Pair, tuple[Bool, Bool]] = {}
    untold: list[_Pair] = []
    for pair in _pairs(inputs, groups):
        for index in pair.sides:
            if index not in waits:
                waits[index] = waiting(facts_of(inputs[index].label), inputs[index].calls)
        found = _directions(
            [inputs[index].calls for index in pair.sides],
            pair.rows,
            [waits[index][mine] for index, mine in zip(pair.sides, pair.rows, strict=True)],
        )
        if found is None:
            untold.append(pair)
        else:
            told[pair] = found
    roles = _roles(inputs, streams, told)
    for pair in untold:
        found = _by_role(inputs, streams, pair, roles) or _opposite(pair, told, untold)
        if found is not None:
            told[pair] = found
    kinds = [item.calls.kind.copy() for item in inputs]
    for pair, found in told.items():
        for index, mine, receives in zip(pair.sides, pair.rows, found, strict=True):
            kinds[index][mine] = np.where(receives, RECV, SEND)
    return [
        replace(item, calls=replace(item.calls, kind=kind))
        for item, kind in zip(inputs, kinds, strict=True)
    ]


class _Pair(Struct, frozen=True, eq=False):
    """Transfers of an inferred group of two ranks: indices of the inputs, and the rows of each."""

    sides: tuple[int, int]
    rows: tuple[I64, I64]


def _pairs(inputs: Sequence[MatchInput], groups: Sequence[CommGroup]) -> list[_Pair]:
    index_of = {item.rank: index for index, item in enumerate(inputs)}
    found = []
    for number, group in enumerate(groups):
        if not group.implied or len(group.ranks) != 2:
            continue
        one, other = (index_of[rank] for rank in group.ranks)
        rows = [_transfers(inputs[index].calls, number) for index in (one, other)]
        if all(map(len, rows)):
            found.append(_Pair((one, other), (rows[0], rows[1])))
    return found


def _roles(
    inputs: Sequence[MatchInput],
    streams: Mapping[str, I64],
    told: Mapping[_Pair, tuple[Bool, Bool]],
) -> dict[int, set[bool]]:
    """Return by stream whether its transfers are receives: ranks number their streams alike."""
    found: dict[int, set[bool]] = {}
    for pair, sides in told.items():
        for index, rows, receives in zip(pair.sides, pair.rows, sides, strict=True):
            for stream in distinct_values(streams[inputs[index].label][rows]).tolist():
                found.setdefault(stream, set()).update(distinct_values(receives).tolist())
    return found


def _by_role(
    inputs: Sequence[MatchInput],
    streams: Mapping[str, I64],
    pair: _Pair,
    roles: Mapping[int, set[bool]],
) -> tuple[Bool, Bool] | None:
    """Return the direction of a pair whose streams have one role each with other ranks."""
    sides = []
    for index, rows in zip(pair.sides, pair.rows, strict=True):
        own = streams[inputs[index].label][rows]
        role = roles.get(int(own[0]), set())
        if (own != own[0]).any() or len(role) != 1:
            return None
        sides.append(np.full(len(rows), next(iter(role))))
    return (sides[0], sides[1]) if sides[0][0] != sides[1][0] else None


def _opposite(
    pair: _Pair, told: Mapping[_Pair, tuple[Bool, Bool]], untold: Sequence[_Pair]
) -> tuple[Bool, Bool] | None:
    """Return the direction of what goes back: gradients of the activations that a stage sends.

    Only of two ranks that have one other queue, with one direction.
    """
    others = [found for one, found in told.items() if one.sides == pair.sides]
    unknown = sum(one.sides == pair.sides for one in untold)
    if len(others) != 1 or unknown != 1 or not (others[0][0].all() or others[0][1].all()):
        return None
    receives = bool(others[0][1].all())
    return np.full(len(pair.rows[0]), receives), np.full(len(pair.rows[1]), not receives)


def _transfers(calls: Calls, group: int) -> I64:
    """Rows of the transfers of a group; none where it has other calls too."""
    mine = np.flatnonzero(calls.group == group)
    return mine if (calls.kind[mine] == _SENDRECV).all() else mine[:0]


def waiting(facts: RankFacts, calls: Calls) -> Bool:
    """Return for each call whether the device idled until its end and then continued.

    Of the calls that end in one idle time only the last ends it.
    """
    gpu = facts.trace.group("gpu")
    rows = np.flatnonzero(facts.classes != COMM)
    if not len(rows) or not len(calls):
        return np.zeros(len(calls), np.bool_)
    track = np.maximum(gpu.track.take(rows), 0)
    weight = np.bincount(track, weights=gpu.dur_ns.take(rows))
    rows = rows[track == int(weight.argmax())]
    start = gpu.start_ns.take(rows)
    reach = np.maximum.accumulate(start + gpu.dur_ns.take(rows))
    end = calls.end_ns
    after = np.searchsorted(start, end - ROUNDING_NS, side="left")
    idle = (after > 0) & (after < len(rows))
    idle &= end > reach[np.maximum(after - 1, 0)]
    soon = start[np.minimum(after, len(rows) - 1)] - end <= SOON_NS
    latest = np.full(len(rows) + 1, np.iinfo(np.int64).min)
    np.maximum.at(latest, after[idle], end[idle])
    return np.asarray(idle & soon & (end >= latest[after]))


def _directions(
    calls: Sequence[Calls], rows: Sequence[I64], waited: Sequence[Bool]
) -> tuple[Bool, Bool] | None:
    """Return which calls of either side are receives; None where it is not told."""
    if len(rows[0]) == len(rows[1]):  # both may wait for something else too
        waited = [waited[0] & ~waited[1], waited[1] & ~waited[0]]
    one, other = (int(mine.sum()) for mine in waited)
    if max(one, other) >= FEWEST and max(one, other) >= ONE_SIDED * (one + other):
        whole = [np.full(len(mine), one > other) for mine in rows]
        return whole[0], ~whole[1]
    places = [_places(mine, here) for mine, here in zip(calls, rows, strict=True)]
    if not np.array_equal(places[0], places[1]) or (places[0] < 0).any():
        return None
    more = np.bincount(places[0], waited[0].astype(np.float64) - waited[1])
    all_told = np.bincount(places[0], waited[0] != waited[1])
    told = (np.abs(more) >= ONE_SIDED * all_told) & (all_told > 0)
    if not told.all() or all_told.sum() < FEWEST:
        return None
    receives = np.asarray(more[places[0]] > 0)
    return receives, ~receives


def _places(calls: Calls, rows: I64) -> I64:
    """Place of each call among those of its step, -1 outside of steps."""
    step = calls.step[rows]
    edges = np.flatnonzero(np.diff(step, prepend=-2))
    sizes = np.diff(edges, append=len(step))
    place = np.arange(len(step)) - np.repeat(edges, sizes)
    return np.where(step >= 0, place, -1)
