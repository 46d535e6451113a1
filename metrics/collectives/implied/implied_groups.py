"""Infer the communicators that traces do not name, from streams and ends of calls.

A communicator has a stream of its own on each rank, and its calls end nearly at once on all ranks.
Where no trace names any, streams of two ranks belong to one communicator if their like calls always
end together. Where only some ranks name none, the calls of a stream are paired by type and end with
those that another rank made in each group that contains the rank; the group with most pairs is that
of the stream.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ccltui.metrics.arrays.compiled import has_near_ends
from ccltui.metrics.arrays.reductions import distinct_values, median_along, unique_inverse
from ccltui.metrics.collectives.implied.stream_clocks import RankClock, stream_clocks
from ccltui.metrics.collectives.implied.stream_evidence import (
    FEWEST,
    USUAL,
    Queue,
    places_of,
    queues_of,
)
from ccltui.metrics.collectives.matching.align_calls import ClockDifference, pair
from ccltui.metrics.collectives.matching.match import MatchInput, taking_part
from ccltui.metrics.collectives.matching.validity import EQUAL_INPUTS, EQUAL_OUTPUTS, ONE_CLOCK_NS
from ccltui.metrics.facts import fact
from ccltui.metrics.model.calls import ROUNDING_NS, Calls
from ccltui.metrics.model.classify import TYPES
from ccltui.metrics.model.communicator_groups import CommGroup
from ccltui.parsers.array_types import F64, I32, I64, Bool
from ccltui.parsers.columns import MISSING

MEETING: Final = 0.8
"""Share of the steps in which the ends at one place must agree over all groups."""
WAITING: Final = 0.5
"""Share of the steps in which groups must wait for another there: without it they are in step."""
SPREAD: Final = 3
"""Ends agree within this many times the spread of those of one group."""
LEAST_WAIT_NS: Final = 50_000
"""A group that begins this much later than another one keeps it waiting."""


def shared_apart(
    found: Sequence[Sequence[Queue]], clocks: Mapping[int, RankClock]
) -> list[list[Queue]]:
    """Return the groups of streams, with the calls that several have together as one more group.

    Args:
        found: Groups of streams.
        clocks: Clock of each rank, by the index of its input.
    """
    streams: dict[tuple[int, int], list[Sequence[Queue]]] = {}
    alone: list[list[Queue]] = []
    for group in found:
        used = {(queue.stream, queue.library) for queue in group}
        if len(used) == 1:
            streams.setdefault(used.pop(), []).append(group)
        else:
            alone.append(list(group))
    for groups in streams.values():
        alone += _apart(groups, clocks)
    return alone


def _apart(groups: Sequence[Sequence[Queue]], clocks: Mapping[int, RankClock]) -> list[list[Queue]]:
    """Split the calls of the groups of one stream into those of each and those of all."""
    as_they_are = [list(group) for group in groups]
    queues = [queue for group in groups for queue in group]
    owners = {queue.owner for queue in queues}
    bases = {clocks[owner].of for owner in owners}
    if len(groups) < 2 or len(owners) < len(queues) or len(bases) > 1:
        return as_they_are
    if any(not np.array_equal(queue.what, queues[0].what) for queue in queues):
        return as_they_are
    place = places_of(queues[0])
    if place is None:
        return as_they_are
    together = _together([len(group) for group in groups], queues, clocks, place)
    if not FEWEST <= together.sum() <= len(place) - FEWEST:
        return as_they_are
    parts = [[_rows(queue, ~together) for queue in group] for group in groups]
    return [*parts, [_rows(queue, together) for queue in queues]]


def _together(
    sizes: Sequence[int], queues: Sequence[Queue], clocks: Mapping[int, RankClock], place: I64
) -> Bool:
    """Whether each call is of all groups at once, by its place in the step, bool [n]."""
    ends = np.stack([q.end_ns - clocks[q.owner].ahead.of(q.end_ns) for q in queues])
    starts = ends - np.stack([queue.dur_ns for queue in queues])
    first = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    begin = np.maximum.reduceat(starts, first, axis=0)
    inside = np.maximum.reduceat(ends, first, axis=0) - np.minimum.reduceat(ends, first, axis=0)
    limit = SPREAD * (inside.max(axis=0) + ROUNDING_NS)
    meets = ends.max(axis=0) - ends.min(axis=0) <= limit
    waits = meets & (begin.max(axis=0) - begin.min(axis=0) > np.maximum(limit, LEAST_WAIT_NS))
    count = np.bincount(place)
    is_shared = np.bincount(place, meets) >= MEETING * count
    is_shared &= np.bincount(place, waits) >= WAITING * count
    return np.asarray(is_shared[place])


def _rows(queue: Queue, chosen: Bool) -> Queue:
    """Return some calls of a queue."""
    return replace(
        queue,
        rows=queue.rows[chosen],
        kind=queue.kind[chosen],
        what=queue.what[chosen],
        end_ns=queue.end_ns[chosen],
        dur_ns=queue.dur_ns[chosen],
    )


RESOLUTION_NS: Final = 1_000
"""Least usual distance of ends, the resolution of times over all ranks."""
ALIKE: Final = 1.4
"""Ends of a further member may be this many times as far apart as those of known members."""
CHANCE: Final = 2.0
"""Added to that ratio, divided by the square root of the number of calls: sampling error."""
APART: Final = 1.5
"""Streams of different communicators end at least this many times further apart."""


def alike_within(count: int) -> float:
    """Return how many times further apart than others ends of a member may be, of some calls."""
    return ALIKE + CHANCE / float(np.sqrt(count))


def regular_groups(
    queues: Sequence[Queue],
    ranks: Sequence[int],
    size: int,
    distances: Distances,
    usual_ns: float,
) -> list[list[int]]:
    """Return groups of streams, as indices of the queues.

    Args:
        queues: The calls of each rank by stream.
        ranks: Global rank of each queue.
        size: Number of ranks of the job.
        distances: Mean times between the ends of like calls of two queues.
        usual_ns: Usual distance of the ends of one communicator.

    Returns:
        Nothing for streams that some of the ranks do not have, or have twice, for those that no
        division fits, and for sends and receives, of which ranks in step end many together.
    """
    present = sorted(set(ranks))
    found: list[list[int]] = []
    for one in sorted({(queue.stream, queue.library) for queue in queues}):
        mine = [i for i, queue in enumerate(queues) if (queue.stream, queue.library) == one]
        mine.sort(key=lambda index: ranks[index])
        if [ranks[index] for index in mine] != present:
            continue
        if all((queues[index].kind == _SENDRECV).all() for index in mine):
            continue
        table = distances.among(mine).table()
        alike = alike_within(min(len(queues[index].rows) for index in mine))
        number = _best(np.array(present), size, table, APART * alike * usual_ns, alike)
        if number is not None:
            groups = [np.flatnonzero(number == one).tolist() for one in distinct_values(number)]
            found += [[mine[place] for place in group] for group in groups]
    return found


def _best(ranks: I64, size: int, distance: F64, limit: float, alike: float) -> I64 | None:
    """Return the group of each rank in the division with the largest groups that fits.

    None of its ends may be further apart than ``limit``, and ``alike`` times those of the division
    that fits best. None where all groups end as close together as ranks of one: they are not told
    apart. A single group that ends apart from all others tells how wide they are: a slow one often
    does, while the others advance in step.
    """
    found: list[tuple[float, I64]] = []
    for number in _divisions(ranks, size):
        together = number[:, np.newaxis] == number
        np.fill_diagonal(together, val=False)
        apart = float(distance[together].mean()) if together.any() else np.inf
        if apart <= limit:
            found.append((apart, number))
    least = min((apart for apart, _ in found), default=0.0)
    most = alike * max(least, RESOLUTION_NS)
    chosen = next((number for apart, number in found if apart <= most), None)
    if chosen is None:
        return None
    together = chosen[:, np.newaxis] == chosen
    meets = ((distance <= most) & ~together).any(axis=1)
    return chosen if (np.bincount(chosen, meets)[distinct_values(chosen)] == 0).any() else None


def _divisions(ranks: I64, size: int) -> Iterator[I64]:
    """Yield the number of the group of each rank for each division, the largest groups first."""
    for width in range(size, 1, -1):
        if size % width:
            continue
        for stride in range(1, size // width + 1):
            if (size // width) % stride == 0:
                yield ranks // (width * stride) * stride + ranks % stride


CLOCKS_NS: Final = 20_000
"""Largest error of the clock difference of two hosts that is removed from distances of ends."""
SAMPLES: Final = 256
"""Number of calls of a stream that are compared, evenly spread."""
FAR: Final = 8
"""A call whose nearest like call ends this many times the median further away may be missing."""
_NEVER: Final = np.inf
_SENDRECV: Final = TYPES.index("SendRecv")


class ImpliedGroup(Struct, frozen=True):
    """Global ranks of a communicator, and its stream on all of them (-1: several).

    ``whole``: files of all ranks of the job exist, so that the communicator has no other ranks.
    """

    ranks: tuple[int, ...]
    stream: int
    whole: bool = True

    def as_group(self) -> CommGroup:
        """Return a communicator group labelled by its stream."""
        text = f"stream {self.stream}" if self.stream >= 0 else "streams"
        size = len(self.ranks) if self.whole else MISSING
        return CommGroup(self.ranks, "", text, label=text, size=size, implied=True)


class Implied(Struct, frozen=True):
    """Inferred groups, and by label the group index of every call, int32, -1 for none.

    ``clocks`` are those of the ranks by the index of their input, against one of each set of hosts.
    """

    groups: tuple[ImpliedGroup, ...]
    index: Mapping[str, I32]
    clocks: Mapping[int, RankClock]

    def applied(
        self, inputs: Sequence[MatchInput], groups: Sequence[CommGroup]
    ) -> tuple[list[MatchInput], list[CommGroup]]:
        """Return the calls with their groups, which are appended to the ``groups`` of files."""
        first = np.int32(len(groups))
        named = []
        for item in inputs:
            own = self.index[item.label]
            group = np.where(own >= 0, own + first, item.calls.group).astype(np.int32)
            named.append(replace(item, calls=replace(item.calls, group=group)))
        return named, [*groups, *(group.as_group() for group in self.groups)]


@fact("inferred_groups")
def implied_groups(
    inputs: Sequence[MatchInput],
    streams: Mapping[str, I64],
    world_size: int | None = None,
    *,
    also_single: bool = False,
) -> Implied | None:
    """Infer communicators from streams and ends of calls.

    Args:
        inputs: The calls of each rank.
        streams: Stream of each call, by label.
        world_size: Number of ranks of the job; None where no file states it.
        also_single: Whether a single group of every call of every rank is returned too.

    Returns:
        None where no group is found, or only one that every call of every rank may be of.
    """
    queues = queues_of(inputs, streams)
    clocks = stream_clocks(inputs, queues)
    found = _found(queues, _distances(queues, clocks), inputs, world_size)
    members = [part for one in shared_apart(found, clocks) for part in _transfers(one)]
    is_single = len(members) == 1 and _is_of_all(members[0], queues, len(taking_part(inputs)))
    if is_single and not also_single:
        return None
    index = {item.label: np.full(len(item.calls), MISSING, np.int32) for item in inputs}
    whole = _all_there(inputs, world_size)
    groups: list[ImpliedGroup] = []
    for part in members:
        for queue in part:
            index[inputs[queue.owner].label][queue.rows] = len(groups)
        used = {queue.stream for queue in part}
        ranks = sorted(rank for q in part if (rank := inputs[q.owner].rank) is not None)
        groups.append(ImpliedGroup(tuple(ranks), used.pop() if len(used) == 1 else MISSING, whole))
    return Implied(tuple(groups), index, clocks) if groups else None


def _found(
    queues: Sequence[Queue],
    distances: Distances,
    inputs: Sequence[MatchInput],
    world_size: int | None,
) -> list[list[Queue]]:
    """Return groups of streams: those of divisions of all ranks, then any others."""
    ranks = [inputs[queue.owner].rank or 0 for queue in queues]
    usual = max(distances.usual(), RESOLUTION_NS)
    regular = regular_groups(
        queues,
        ranks,
        max([world_size or 0, *(rank + 1 for rank in ranks)]),
        distances,
        usual,
    )
    known = {index for group in regular for index in group}
    left = [index for index in range(len(queues)) if index not in known]
    found = [[queues[index] for index in group] for group in regular if len(group) > 1]
    return found + _components([queues[i] for i in left], distances.among(left), usual)


def _is_of_all(part: Sequence[Queue], queues: Sequence[Queue], num_ranks: int) -> bool:
    """Whether the only group found may be that of all ranks, each of which has a single stream.

    A stream whose ends do not meet those of most ranks is left out of the group where a file lacks
    much, or where ends of all-to-alls scatter; the order of the calls can still match them.
    """
    return len(queues) == len({queue.owner for queue in queues}) == num_ranks < 2 * len(part)


def _all_there(inputs: Sequence[MatchInput], world_size: int | None) -> bool:
    """Whether no rank of the job is missing, by its size and the highest rank."""
    ranks = {inputs[index].rank for index in taking_part(inputs)}
    known = [rank for rank in ranks if rank is not None]
    return len(known) >= max(world_size or 0, max(known, default=-1) + 1)


class Distances(Struct, frozen=True):
    """The mean time between ends of like calls of two streams, of those that end together.

    Attributes:
        one: Index of the first stream of each pair, ascending.
        other: Likewise of the second one, which is larger, ascending for one first.
        ns: Likewise the distance.
        count: Number of streams.
    """

    one: I64
    other: I64
    ns: F64
    count: int

    @classmethod
    def of_both(cls, one: I64, other: I64, ns: F64, count: int) -> Distances:
        """Return the larger distance of streams that were measured from either side."""
        order = np.lexsort((np.maximum(one, other), np.minimum(one, other)))
        low, high = np.minimum(one, other)[order], np.maximum(one, other)[order]
        first = np.flatnonzero((low[1:] == low[:-1]) & (high[1:] == high[:-1]) & (low != high)[1:])
        return cls(
            low[first], high[first], np.maximum(*(ns[order[first + i]] for i in (0, 1))), count
        )

    def among(self, streams: Sequence[int]) -> Distances:
        """Return those of some streams, by the place of each."""
        place = np.full(self.count, MISSING, np.int64)
        place[list(streams)] = np.arange(len(streams))
        one, other = place[self.one], place[self.other]
        kept = (one >= 0) & (other >= 0)
        return Distances(one[kept], other[kept], self.ns[kept], len(streams))

    def table(self) -> F64:
        """Return the distances of all pairs, infinite for others, float64 [q, q]."""
        found = np.full((self.count, self.count), _NEVER)
        found[self.one, self.other] = found[self.other, self.one] = self.ns
        return found

    def usual(self) -> float:
        """Return the median over streams of the distance to the nearest other stream, ns."""
        nearest = np.full(self.count, _NEVER)
        for side in (self.one, self.other):
            np.minimum.at(nearest, side, self.ns)
        finite = nearest[np.isfinite(nearest)]
        return float(median_along(finite)) if len(finite) else 0.0

    def closest_first(self) -> Iterator[tuple[I64, I64, F64]]:
        """Yield both streams and the distance of pairs, the closest first, some at a time."""
        order = np.argsort(self.ns, kind="stable")
        for begin in range(0, len(order), _EDGES):
            some = order[begin : begin + _EDGES]
            yield self.one[some], self.other[some], self.ns[some]


_EDGES: Final = 4096
"""Number of pairs of streams that are looked at together: most are found joined by then."""


def _distances(queues: Sequence[Queue], clocks: Mapping[int, RankClock]) -> Distances:
    """Return the mean time between ends of like calls of two streams.

    Over the calls inside the time of both. A call without counterpart counts as ``ONE_CLOCK_NS``,
    and not at all where the other stream lacks the record of it. Streams of which a smaller share
    than ``USUAL`` has a counterpart are left out. Between hosts, whose clock difference is less
    precise, a constant difference of all ends by up to ``CLOCKS_NS`` is removed.
    """
    times = [queue.end_ns - clocks[queue.owner].ahead.of(queue.end_ns) for queue in queues]
    base = np.array([clocks[queue.owner].of for queue in queues], np.int64)
    ahead = [clocks[queue.owner].ahead for queue in queues]
    if has_near_ends() and len(queues):
        return Distances.of_both(*_compiled_distances(queues, times, base, ahead), len(queues))
    count = len(queues)
    first = np.array([one[0] for one in times], np.int64)
    last = np.array([one[-1] for one in times], np.int64)
    tables = _tables(queues, times)
    found: list[tuple[int, int, float]] = []
    for index, (time, queue) in enumerate(zip(times, queues, strict=True)):
        chosen = distinct_values(np.linspace(0, len(time) - 1, SAMPLES).astype(np.int64))
        nearest = _nearest_of_all(time[chosen], queue.kind[chosen], tables, count)
        # The ends of one call differ a little, also those of the first and the last.
        inside = (time[chosen, np.newaxis] >= first - ONE_CLOCK_NS) & (
            time[chosen, np.newaxis] <= last + ONE_CLOCK_NS
        )
        number = inside.sum(axis=0)
        near = (inside & np.isfinite(nearest)).sum(axis=0)
        usual = (number >= FEWEST) & (near >= USUAL * number) & (base == base[index])
        for other in np.flatnonzero(usual).tolist():
            rows = np.flatnonzero(inside[:, other])
            apart = nearest[rows, other]
            apart = apart if ahead[other] == ahead[index] else _without_clocks(apart)
            far = np.abs(apart) > FAR * max(float(median_along(np.abs(apart))), RESOLUTION_NS)
            if far.any():
                lacking = _lacks_record(chosen[rows[far]], time, times[other])
                apart = np.delete(apart, np.flatnonzero(far)[lacking])
            mean = float(np.minimum(np.abs(apart), ONE_CLOCK_NS).mean())
            found.append((index, other, mean))
    one, another, ns = zip(*found, strict=True) if found else ((), (), ())
    pairs = np.array(one, np.int64), np.array(another, np.int64)
    return Distances.of_both(*pairs, np.array(ns, np.float64), count)


def _compiled_distances(
    queues: Sequence[Queue], times: Sequence[I64], base: I64, ahead: Sequence[ClockDifference]
) -> tuple[I64, I64, F64]:
    """Return from which stream to which one the distances of `_distances` are, and these."""
    from ccltui.metrics.arrays import _near_ends  # noqa: PLC0415 - not built everywhere

    first = np.cumsum([0, *map(len, times)], dtype=np.int64)
    _, kind = unique_inverse(np.concatenate([queue.kind for queue in queues]))
    whose = np.repeat(np.arange(len(queues)), np.diff(first))
    time = np.concatenate(times)
    order = np.lexsort((time, kind))
    chosen = [
        begin + distinct_values(np.linspace(0, size - 1, SAMPLES).astype(np.int64))
        for begin, size in zip(first.tolist(), np.diff(first).tolist(), strict=False)
    ]
    numbers = {one: number for number, one in enumerate(dict.fromkeys(ahead))}
    found: tuple[I64, I64, F64] = _near_ends.distances(
        *(time, kind.astype(np.int64), first, base),
        np.array([numbers[one] for one in ahead], np.int64),
        *(time[order], whose[order], np.searchsorted(kind[order], np.arange(kind.max() + 2))),
        np.concatenate(chosen),
        np.cumsum([0, *map(len, chosen)], dtype=np.int64),
        *(ONE_CLOCK_NS, CLOCKS_NS, FAR, RESOLUTION_NS, FEWEST, USUAL),
    )
    return found


def _lacks_record(rows: I64, times: I64, other: I64) -> Bool:
    """Whether another stream has fewer calls than this one around each of some calls, bool [n].

    ``rows`` index ``times``, the ends of this stream; ``other`` are the ends of the other one.
    Around a call is the time from the end before it to the end after it. Streams of two
    communicators have a call each there, at other times.
    """
    begin = times[np.maximum(rows - 1, 0)] - ONE_CLOCK_NS
    end = times[np.minimum(rows + 1, len(times) - 1)] + ONE_CLOCK_NS
    own, there = (
        np.searchsorted(one, end, side="right") - np.searchsorted(one, begin)
        for one in (times, other)
    )
    return np.asarray(there < own)


def _without_clocks(apart: F64) -> F64:
    """Return differences of ends without a median that a clock error explains."""
    middle = float(median_along(apart[np.isfinite(apart)]))
    return apart - middle if abs(middle) <= CLOCKS_NS else apart


def _tables(queues: Sequence[Queue], times: Sequence[I64]) -> dict[int, tuple[I64, I64]]:
    """Return by type the ends of the calls of all streams, ascending, and the stream of each."""
    every = np.concatenate([*times, np.empty(0, np.int64)])
    what = np.concatenate([*(queue.kind for queue in queues), np.empty(0, np.int64)])
    whose = np.repeat(np.arange(len(queues)), [len(one) for one in times])
    tables = {}
    for kind in distinct_values(what).tolist():
        rows = np.flatnonzero(what == kind)
        rows = rows[np.argsort(every[rows], kind="stable")]
        tables[kind] = every[rows], whose[rows]
    return tables


def _nearest_of_all(
    times: I64, kinds: I64, tables: Mapping[int, tuple[I64, I64]], count: int
) -> F64:
    """Return the difference of each time to the nearest like call of every stream, ns [n, count].

    Infinite where that is above ``ONE_CLOCK_NS``.
    """
    nearest = np.full((len(times), count), _NEVER)
    for kind in distinct_values(kinds).tolist():
        among, whose = tables[kind]
        rows = np.flatnonzero(kinds == kind)
        low = np.searchsorted(among, times[rows] - ONE_CLOCK_NS)
        size = np.searchsorted(among, times[rows] + ONE_CLOCK_NS, side="right") - low
        line = np.repeat(np.arange(len(rows)), size)
        place = np.arange(len(line)) - np.repeat(np.cumsum(size) - size, size) + low[line]
        apart = (among[place] - times[rows[line]]).astype(np.float64)
        order = np.argsort(-np.abs(apart), kind="stable")  # the nearest is written last
        nearest[rows[line[order]], whose[place[order]]] = apart[order]
    return nearest


def _components(queues: Sequence[Queue], distances: Distances, usual: float) -> list[list[Queue]]:
    """Group streams that end together, the closest joined first, one per rank.

    A stream whose ends are at most the limit apart joins the members. Up to ``APART`` times further
    apart it may be of their communicator or of another that advances in step with it: all such
    streams are one group. A second stream of one rank in it tells that it is none.
    """
    part = np.arange(len(queues))
    members = {one: [one] for one in range(len(queues))}
    owners = [1 << queue.owner for queue in queues]  # a bit for each rank of the members
    reach = dict.fromkeys(members, 0.0)
    ambiguous: set[int] = set()
    near: list[tuple[int, int]] = []
    number = np.array([len(queue.rows) for queue in queues], np.int64)
    widest = alike_within(int(number.min(initial=FEWEST)))
    for ones, others, apart in distances.closest_first():
        alike = ALIKE + CHANCE / np.sqrt(np.minimum(number[ones], number[others]))
        if apart[0] > APART * widest * max(usual, *reach.values()):
            break  # reach grows only where streams are joined: none is any more
        rows = np.flatnonzero(part[ones] != part[others])
        columns = (ones[rows], others[rows], apart[rows], alike[rows])
        for first, second, far, times in zip(*(one.tolist() for one in columns), strict=True):
            one, other = int(part[first]), int(part[second])
            limit = times * max(reach[one], reach[other], usual)
            if one == other or far > APART * limit:
                continue
            if owners[one] & owners[other]:
                ambiguous.update((one, other))
                continue
            if far > limit:
                near.append((first, second))
                continue
            part[members[other]] = one
            members[one] += members.pop(other)
            owners[one] |= owners[other]
            reach[one] = max(far, reach[one], reach.pop(other))
            if other in ambiguous:
                ambiguous.add(one)
    for one, other in _in_step(members, part.tolist(), near):
        ambiguous = {one if root == other else root for root in ambiguous}
        members[one] += members.pop(other)
    return [
        [queues[i] for i in sorted(here, key=lambda i: queues[i].owner)]
        for root, here in members.items()
        if len(here) > 1
        and root not in ambiguous
        and len({queues[i].owner for i in here}) == len(here)
    ]


def _in_step(
    members: Mapping[int, Sequence[int]], part: Sequence[int], near: Sequence[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Return pairs of groups to join, the second to the first, that streams ``near`` connect."""
    root = {one: one for one in members}

    def top(one: int) -> int:
        while root[one] != one:
            one = root[one]
        return one

    joined = []
    for here, there in near:
        one, other = top(part[here]), top(part[there])
        if one != other:
            root[other] = one
            joined.append((one, other))
    return joined


def _transfers(part: list[Queue]) -> list[list[Queue]]:
    """Split a group of transfers into pairs of one sender and one receiver.

    Transfers use two streams, one per side. Ranks of a pipeline stage that advance together end
    such transfers together: they are paired by the order of their ranks, as stages hold their ranks
    in order.
    """
    streams = sorted({queue.stream for queue in part})
    transfers = all((queue.kind == _SENDRECV).all() for queue in part)
    sides = [[queue for queue in part if queue.stream == stream] for stream in streams]
    if not transfers or len(sides) != 2 or len(sides[0]) != len(sides[1]):
        return [part]
    return [list(pair) for pair in zip(*sides, strict=True)]


MIN_PAIRED: Final = 0.5
"""Least share of the shorter of two sequences that is paired if they are of one group."""
NEARLY_AS_MANY: Final = 0.95
"""Of groups with at least this share of the most pairs, that with the closest ends is taken."""
_COPIED: Final = ("kind", "dtype", "in_elems", "out_elems")

_EXCHANGES: Final = np.array([name in ("AllToAll", "SendRecv") for name in TYPES])
"""Types whose kernels are named alike."""


class _Fit(Struct, frozen=True):
    """Group whose calls fit those of a stream: the rows that are paired, and those of the other."""

    group: int
    rows: I64
    other: Calls
    other_rows: I64
    scatter_ns: float


def with_groups_of_others(
    inputs: Sequence[MatchInput], streams: Mapping[str, I64], groups: Sequence[CommGroup]
) -> tuple[MatchInput, ...]:
    """Return the calls with the groups of ranks that name none inferred from those of others.

    Args:
        inputs: The calls of each rank.
        streams: Stream of each call, by label of the ranks that name no group.
        groups: The communicators that files name, with their ranks.

    Returns:
        The inputs. Calls that are paired have the group, type, dtype and, where all members have
        the same, sizes of their pair and no sequence number, so that they are matched by their
        order. Others are unchanged.
    """
    known = np.array([bool(group.ranks) for group in groups] + [False])
    part = set(taking_part(inputs))
    named = [item for item in inputs if known[item.calls.group].any()]
    return tuple(
        _named(item, streams[item.label], named, groups)
        if index in part and item.label in streams
        else item
        for index, item in enumerate(inputs)
    )


def _named(
    item: MatchInput, stream: I64, others: Sequence[MatchInput], groups: Sequence[CommGroup]
) -> MatchInput:
    calls = item.calls
    columns = {name: getattr(calls, name).copy() for name in ("group", *_COPIED)}
    for one in distinct_values(stream[stream >= 0]).tolist():
        rows = np.flatnonzero(stream == one)
        if len(rows) < FEWEST:
            continue
        fits = [
            fit
            for index, group in enumerate(groups)
            if item.rank in group.ranks and (fit := _fit(calls, rows, index, others)) is not None
        ]
        if not fits:
            continue
        most = max(len(fit.rows) for fit in fits)
        near = [fit for fit in fits if len(fit.rows) >= NEARLY_AS_MANY * most]
        best = min(near, key=lambda fit: fit.scatter_ns)
        columns["group"][rows] = best.group
        for name in _COPIED:
            columns[name][best.rows] = getattr(best.other, name)[best.other_rows]
        # Of an exchange each member has sizes of its own.
        for name, equal in (("in_elems", EQUAL_INPUTS), ("out_elems", EQUAL_OUTPUTS)):
            own = best.rows[~equal[columns["kind"][best.rows]]]
            columns[name][own] = getattr(calls, name)[own]
    return replace(item, calls=replace(calls, **columns))


def _fit(calls: Calls, rows: I64, group: int, others: Sequence[MatchInput]) -> _Fit | None:
    """Pair the calls of a stream with those of the rank that made most calls in a group."""
    number = [int(np.count_nonzero(item.calls.group == group)) for item in others]
    most = int(np.argmax(number))
    if number[most] < FEWEST:
        return None
    other = others[most].calls
    there = _by_end(other, np.flatnonzero(other.group == group))
    here = _by_end(calls, rows)
    ends, other_ends = calls.end_ns[here], other.end_ns[there]
    found = pair(_tokens(calls, here), ends, _tokens(other, there), other_ends, least=MIN_PAIRED)
    if found is None:
        return None
    paired: Bool = found.positions >= 0
    at = found.positions[paired]
    apart = np.abs((ends - found.ahead.of(ends))[paired] - other_ends[at])
    return _Fit(group, here[paired], other, there[at], float(median_along(apart)))


def _by_end(calls: Calls, rows: I64) -> I64:
    return np.asarray(rows[np.argsort(calls.end_ns[rows], kind="stable")])


def _tokens(calls: Calls, rows: I64) -> I64:
    kind = calls.kind[rows].astype(np.int64)
    return np.where(_EXCHANGES[kind], _SENDRECV, kind)
