"""Find the other rank of sends and receives, and which of the two sends.

Frameworks post the send after a pass of a pipeline together with the receive before the next one
(`batch_isend_irecv`). That is one kernel on each side, of which a file names neither communicator
nor peer. It ends on both ranks at once, on a common clock, although they begin it at different
times: as in `stream_evidence`, two calls count by how much better their ends agree than their
durations. Partners are neighbours in the pipelines that files name, members of pairs that share a
context, or ranks at one distance in all of the job. A rank does the same in every step, so that the
batches at one place in a step have one partner.

Where no transfer of two ranks is named, the first and the last batches of a step hold one transfer:
stages fill the pipeline with sends before they begin to take turns (1F1B). Where they never do, and
the first stage receives the first gradients right behind its last send (GPipe), all batches do.

Of an inferred pair the device of the rank that receives often idles until the transfer has ended
and continues at once; the rank that sends does not wait. Ranks that exchange data wait on both
sides: they stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ccltui.metrics.arrays.reductions import (
    distinct_values,
    joint_inverse,
    rows_by_value,
    unique_inverse,
)
from ccltui.metrics.collectives.clocks.clock_model import RESIDUALS, ClockModel
from ccltui.metrics.collectives.implied.stream_clocks import RankClock
from ccltui.metrics.collectives.implied.stream_evidence import FEWEST, FINE_NS
from ccltui.metrics.collectives.matching.match import RECV, SEND, SENDRECV, MatchInput, taking_part
from ccltui.metrics.model.calls import ROUNDING_NS, SOON_NS, Calls
from ccltui.metrics.model.classify import COMM, COMP, TYPES
from ccltui.metrics.model.communicator_groups import CommGroup
from ccltui.metrics.model.rank_facts import RankFacts
from ccltui.parsers.array_types import F64, I64, Bool
from ccltui.parsers.columns import MISSING

LEAST_APART_NS: Final = 20_000
"""Ends of one batch are at most this far apart, or `RESIDUALS` residuals of the clocks."""
LEAST_PAIRED: Final = 0.8
"""Share of the batches that has to have a partner where no file names a pipeline: exchanges of more
than two ranks have none."""
MOST_TOLD: Final = 0.5
"""Share of the transfers that are still no send and no receive, from which they are batches."""
LEAST_BEHIND: Final = 0.75
"""Share of the transfers behind which work begins before the next one, if they are batches: of
sends and receives by themselves about half are."""
MOST_ALIKE: Final = 0.5
"""Share of the batches behind which partners that are stages may run the same kernels."""
USUAL: Final = 0.5
"""Share of the steps in which batches at one place end with those of their partner: by chance some
end with those of another rank now and then."""
CLEAR: Final = 3.0
"""The evidence of a distance between partners is this many times that of any other, where there is
another one. Ranks of one tensor-parallel group end their batches together too, but they also begin
them together; the members of an exchange of several ranks do not, and none of its distances is
clear."""
LEAST_EVIDENCE: Final = 0.5
"""Mean evidence of its pairs of batches: their durations differ 1.6 times as far as their ends."""


class CommonClock(Struct, frozen=True):
    """One clock of several ranks: ``times_of`` converts times (ns) of an input to it.

    ``inputs`` are the ranks, as indices, ``error_ns`` is how far apart ends of one call may be.
    """

    inputs: frozenset[int]
    times_of: Callable[[int, I64], I64]
    error_ns: int = LEAST_APART_NS

    @classmethod
    def of_model(cls, clocks: ClockModel, inputs: Sequence[MatchInput]) -> CommonClock:
        """Return the clock of all ranks that are comparable with the first one that has a clock."""
        labels = [item.label for item in inputs]
        known = [i for i, one in enumerate(labels) if clocks.clocks[one].known]
        here = [i for i in known if clocks.comparable([labels[known[0]], labels[i]])]
        return cls(
            frozenset(here),
            lambda index, times: clocks.corrected(labels[index], times),
            max(LEAST_APART_NS, RESIDUALS * (clocks.residual_p95_ns or 0)),
        )

    @classmethod
    def of_streams(cls, clocks: Mapping[int, RankClock]) -> CommonClock:
        """Return the clock of most ranks among those that their streams tell."""
        bases = [one.of for one in clocks.values()]
        most = max(bases, key=bases.count, default=MISSING)
        here = frozenset(index for index, one in clocks.items() if one.of == most)
        return cls(here, lambda index, times: times - clocks[index].ahead.of(times))


class _Batches(Struct, frozen=True):
    """Batches of one rank in order of their ends on the common clock.

    ``place`` is equal for those at one place in their steps; outside of steps each has its own.
    """

    rows: I64
    end_ns: I64
    dur_ns: I64
    place: I64


class _Line(Struct, frozen=True):
    """Ranks (inputs) of which neighbours send to each other, and their communicator, -1: unnamed.

    ``are_stages``: of a pipeline, and not ranks that share a context. ``in_turns``: all of them are
    here, so that it is known how they fill it before they take turns.
    """

    ranks: tuple[int, ...]
    group: int = MISSING
    in_turns: bool = True
    are_stages: bool = True


class _Link(Struct, frozen=True):
    """Two neighbours of a line (inputs), and which of their batches may be one.

    ``pairs`` are [n, 2], indices of `_Batches` of both that end together; ``evidence`` [n] is that
    of their durations, ``closeness`` [n] that of their ends. ``ahead`` is how many sends the lower
    one of ``line`` makes at most before they take turns.
    """

    sides: tuple[int, int]
    pairs: I64
    evidence: F64
    closeness: F64
    ahead: int
    line: _Line


class _Partners(Struct, frozen=True):
    """Links, and the batches of each on both sides, masks; ``evidence`` is that of all pairs."""

    links: Sequence[_Link]
    mine: Sequence[tuple[Bool, Bool]]
    evidence: float = 0.0

    @property
    def count(self) -> int:
        """Number of batches with a partner."""
        return sum(int(one.sum()) for both in self.mine for one in both)


def has_batches(inputs: Sequence[MatchInput]) -> bool:
    """Return whether two ranks or more have transfers of which no file names group or peer."""
    return sum(len(_nameless(item)) >= FEWEST for item in inputs) > 1


def with_batches(
    inputs: Sequence[MatchInput],
    groups: Sequence[CommGroup],
    clock: CommonClock,
    facts_of: Callable[[str], RankFacts],
    *,
    world_size: int | None = None,
) -> tuple[tuple[MatchInput, ...], tuple[CommGroup, ...]] | None:
    """Return the calls with group and peer of each batch, and the groups with those of pipelines.

    A batch of a send and a receive remains one call of type SendRecv, whose source and destination
    are the same peer. One that holds a single transfer is a send or a receive.

    Args:
        inputs: The calls of each rank.
        groups: The communicators that the calls index.
        clock: A common clock.
        facts_of: Returns what depends on one trace, by label.
        world_size: Number of ranks of the job; None where no file states it.

    Returns:
        None where the batches are not those of pairs of ranks, or not all on the common clock.
    """
    here = [i for i in taking_part(inputs) if len(_nameless(inputs[i])) >= FEWEST]
    if len(here) < 2 or not clock.inputs >= set(here):
        return None
    found = {index: _batches(inputs[index], index, clock) for index in here}
    limit = clock.error_ns
    index_of = {inputs[index].rank: index for index in found}
    partners = _partners(found, _lines_of_groups(groups, index_of), limit)
    is_named = bool(partners.links)
    partners = partners if is_named else _by_distance(found, index_of, limit, world_size)
    following = _following(inputs, found, partners, facts_of)
    alike = _alike(following, partners)
    fills = [_fills_first(inputs, found, following, link.line) for link in partners.links]
    may_be_one_program = (alike or 0.0) > MOST_ALIKE and not all(fills)
    if not partners.links or (alike is None and not is_named) or may_be_one_program:
        return None
    links = [
        replace(link, ahead=len(found[link.sides[0]].rows) if first else link.ahead)
        for link, first in zip(partners.links, fills, strict=True)
    ]
    return _applied(inputs, groups, found, replace(partners, links=links))


def batches_of_streams(
    inputs: Sequence[MatchInput],
    told: Sequence[MatchInput],
    groups: Sequence[CommGroup],
    clock: CommonClock,
    facts_of: Callable[[str], RankFacts],
    *,
    world_size: int | None,
) -> tuple[tuple[MatchInput, ...], tuple[CommGroup, ...]] | None:
    """Do what `with_batches` does for a job without any metadata; None where it has no batches.

    Streams were taken for communicators there, those of transfers too. Where the waits of one side
    tell most sends from receives, they are no batches; nor are they where no pass lies between.

    Args:
        inputs: The calls of each rank, with inferred groups.
        told: The same with sends and receives told apart.
        groups: All communicators that the calls index.
        clock: A common clock.
        facts_of: Returns what depends on one trace, by label.
        world_size: Number of ranks of the job; None where no file states it.
    """
    count, untold = (
        sum(int((item.calls.kind == SENDRECV).sum()) for item in some) for some in (inputs, told)
    )
    if not count or untold < MOST_TOLD * count:
        return None
    several = np.array([len(group.ranks) > 2 for group in groups] + [False])
    for kept in (np.zeros_like(several), several):  # an exchange of experts has a group of its own
        alone = [_without_groups(item, kept) for item in inputs]
        if not _take_turns(alone, facts_of):
            continue
        found = with_batches(alone, groups, clock, facts_of, world_size=world_size)
        if found is not None:
            changed = zip(found[0], told, strict=True)
            return tuple(_with_others(item, before) for item, before in changed), found[1]
    return None


def _with_others(item: MatchInput, told: MatchInput) -> MatchInput:
    """Return the calls with type and group of those transfers of which no peer was found."""
    calls, before = item.calls, told.calls
    unpaired = (calls.kind == SENDRECV) & (calls.dst < 0)
    kind = np.where(unpaired, before.kind, calls.kind)
    group = np.where(unpaired, before.group, calls.group)
    return replace(item, calls=replace(calls, kind=kind, group=group))


def _following(
    inputs: Sequence[MatchInput],
    batches: Mapping[int, _Batches],
    found: _Partners,
    facts_of: Callable[[str], RankFacts],
) -> Mapping[int, I64]:
    """Return what runs behind each batch of the stages, see `_kernels_behind`, by rank."""
    numbers: dict[str, int] = {}
    staged = {index for link in found.links if link.line.are_stages for index in link.sides}
    return {
        index: _kernels_behind(facts_of(inputs[index].label), inputs[index].calls, one, numbers)
        for index, one in batches.items()
        if index in staged
    }


def _alike(following: Mapping[int, I64], found: _Partners) -> float | None:
    """Return the share of the batches behind which partners run the same kernels, None without any.

    Ranks of one program that exchange data do. Of two stages that take turns one begins with a
    forward pass and the other with a backward pass.
    """
    same = count = 0
    for link in found.links:
        if not link.line.are_stages:
            continue
        one, other = (following[i][at] for i, at in zip(link.sides, link.pairs.T, strict=True))
        runs = (one != 0) | (other != 0)
        same, count = same + int((runs & (one == other)).sum()), count + int(runs.sum())
    return same / count if count else None


def _fills_first(
    inputs: Sequence[MatchInput],
    batches: Mapping[int, _Batches],
    following: Mapping[int, I64],
    line: _Line,
) -> bool:
    """Whether the stages of a line end all forward passes of a step before the first backward one.

    Then nothing runs between the last send of the first stage and the first gradients, in the
    middle of a step, but on the last stage, which turns there. In 1F1B a pass lies between any two
    batches of the first stage.
    """
    first, last = line.ranks[0], line.ranks[-1]
    if not line.in_turns or not {first, last} <= following.keys():
        return False
    idle, turns = (_idle_middle(inputs[i], batches[i], following[i]) for i in (first, last))
    return idle > USUAL >= turns


def _idle_middle(item: MatchInput, batches: _Batches, following: I64) -> float:
    """Return the share of the steps in the middle of whose batches nothing runs."""
    order = np.argsort(batches.rows)
    runs, steps = following[order] != 0, _steps(item.calls)[batches.rows[order]]
    middle = [
        len(here) % 2 == 0 and not runs[here[len(here) // 2 - 1]]
        for step, here in rows_by_value(steps)
        if step != MISSING
    ]
    return float(np.mean(middle)) if middle else 0.0


def _kernels_behind(
    facts: RankFacts, calls: Calls, batches: _Batches, numbers: dict[str, int]
) -> I64:
    """Return a sum over the kernels that begin behind each batch before the next one, int64 [n].

    It is equal for the same names in the same order, 0 without any. ``numbers`` has the number of
    each name on all ranks, and gets those of further ones.
    """
    gpu = facts.trace.group("gpu")
    rows = np.flatnonzero(facts.classes == COMP)
    rows = rows[np.argsort(gpu.start_ns.take(rows), kind="stable")]
    names, place = unique_inverse(gpu.name.take(rows))
    known = [numbers.setdefault(facts.trace.text(one), len(numbers)) for one in names.tolist()]
    name = _MIXED * (1 + np.array(known, np.int64))[place] if len(rows) else np.empty(0, np.int64)
    begun = np.searchsorted(gpu.start_ns.take(rows), calls.start_ns[batches.rows])
    order = np.argsort(begun, kind="stable")
    stop = np.empty(len(begun), np.int64)
    stop[order] = np.append(begun[order[1:]], len(rows))
    plain, by_place = (np.append(0, np.cumsum(one)) for one in (name, name * np.arange(len(name))))
    total = plain[stop] - plain[begun]
    return np.asarray(total + _MIXED * (by_place[stop] - by_place[begun] - begun * total))


_MIXED: Final = np.int64(0x5851F42D4C957F2D)
"""An odd number whose multiples differ in all bits: sums of them, modulo 2^64, hardly coincide."""


def _without_groups(item: MatchInput, kept: Bool) -> MatchInput:
    """Return the calls without the groups of transfers, but for those in a mask of the groups."""
    calls = item.calls
    group = np.where((calls.kind == SENDRECV) & ~kept[calls.group], MISSING, calls.group)
    return replace(item, calls=replace(calls, group=group.astype(np.int32)))


def _take_turns(inputs: Sequence[MatchInput], facts_of: Callable[[str], RankFacts]) -> bool:
    """Return whether a pass lies between two transfers.

    A send that is no batch begins with the receive before the next pass.
    """
    count = behind = 0
    for item in inputs:
        facts = facts_of(item.label)
        work = facts.trace.group("gpu").start_ns.take(np.flatnonzero(facts.classes == COMP))
        begun = np.searchsorted(np.sort(work), item.calls.start_ns[_nameless(item)])
        behind += int((np.diff(begun) > 0).sum())
        count += max(len(begun) - 1, 0)
    return behind >= LEAST_BEHIND * max(count, FEWEST)


def _nameless(item: MatchInput) -> I64:
    calls = item.calls
    return np.flatnonzero((calls.kind == SENDRECV) & (calls.group < 0) & (calls.dst < 0))


def _batches(item: MatchInput, index: int, clock: CommonClock) -> _Batches:
    rows = _nameless(item)  # in the order of their begins, which is that of the program
    place = len(rows) + np.arange(len(rows))
    for step, here in rows_by_value(_steps(item.calls)[rows]):
        if step != MISSING:
            place[here] = np.arange(len(here))
    end = clock.times_of(index, item.calls.end_ns[rows])
    order = np.argsort(end, kind="stable")
    return _Batches(rows[order], end[order], item.calls.dur_ns[rows[order]], place[order])


def _steps(calls: Calls) -> I64:
    """Step of each call: as marked, else how often the rarest other call recurred before it.

    -1 for all where nothing recurs.
    """
    if not (calls.step == MISSING).all():
        return calls.step
    others = np.flatnonzero(calls.kind != SENDRECV)
    count, number = joint_inverse(
        *(column[others].astype(np.int64) for column in (calls.kind, calls.group))
    )
    times = np.bincount(number, minlength=count)
    often = np.flatnonzero(times >= FEWEST)
    if not len(often):
        return calls.step
    marks = calls.end_ns[others[number == often[times[often].argmin()]]]
    return np.searchsorted(np.sort(marks), calls.start_ns).astype(np.int64)


def _lines_of_groups(
    groups: Sequence[CommGroup], index_of: Mapping[int | None, int]
) -> list[_Line]:
    """Return the pipelines that files name, and the pairs of ranks that share a context."""
    found = []
    for number, group in enumerate(groups):
        staged = group.dim == "pp" and len(group.ranks) > 1
        if group.implied or not (staged or _is_context_pair(group)):
            continue
        if set(group.ranks) <= index_of.keys():
            ranks = tuple(index_of[rank] for rank in group.ranks)
            found.append(_Line(ranks, number, in_turns=staged, are_stages=staged))
    return found


def _is_context_pair(group: CommGroup) -> bool:
    return group.dim == "cp" and len(group.ranks) == 2


def _by_distance(
    batches: Mapping[int, _Batches],
    index_of: Mapping[int | None, int],
    limit: int,
    world_size: int | None,
) -> _Partners:
    """Return the partners at the distance that pairs most batches, none where it is unclear.

    It divides the number of ranks, as a pipeline goes through all of them. Where ranks are missing
    it is not known how many stages follow.
    """
    whole = sum(len(one.rows) for one in batches.values())
    size = max(rank for rank in index_of if rank is not None) + 1
    complete = len(index_of) == size == (world_size or size)
    best, second = _Partners((), ()), 0.0
    for apart in range(1, size // 2 + 1):
        if size % apart:
            continue
        places = [range(first, size, apart) for first in range(apart)]
        ranks = [tuple(index_of[rank] for rank in one if rank in index_of) for one in places]
        found = _partners(batches, [_Line(one, in_turns=complete) for one in ranks], limit)
        if found.evidence > best.evidence:
            best, second = found, best.evidence
        else:
            second = max(second, found.evidence)
    pairs = sum(len(link.pairs) for link in best.links)
    is_clear = best.evidence > max(CLEAR * second, LEAST_EVIDENCE * pairs)
    return best if is_clear and best.count >= LEAST_PAIRED * whole else _Partners((), ())


def _partners(batches: Mapping[int, _Batches], lines: Sequence[_Line], limit: int) -> _Partners:
    """Return the links of neighbours, and the batches of each by their place in the steps.

    The batches at one place are those of the link with which they end closest over all steps.
    """
    links = [
        _linked(batches, sides, limit, (len(line.ranks) - 1 - place) * line.in_turns, line)
        for line in lines
        for place, sides in enumerate(pairwise(line.ranks))
    ]
    best = {index: np.zeros(2 * len(one.rows)) for index, one in batches.items()}
    whose = {index: np.full(len(one), MISSING, np.int64) for index, one in best.items()}
    for number, link in enumerate(links):
        for index, at in zip(link.sides, link.pairs.T, strict=True):
            place, size = batches[index].place, len(best[index])
            sums = np.bincount(place[at], link.closeness + link.evidence, size)
            often = np.bincount(place[at], minlength=size)
            sums[often < USUAL * np.bincount(place, minlength=size)] = 0.0
            whose[index][sums > best[index]] = number
            best[index] = np.maximum(best[index], sums)
    kept, mine = [], []
    for number, link in enumerate(links):
        one, other = (whose[index][batches[index].place] == number for index in link.sides)
        if min(one.sum(), other.sum()) >= FEWEST:
            kept.append(link)
            mine.append((one, other))
    return _Partners(kept, mine, sum(float(link.evidence.sum()) for link in links))


def _linked(
    batches: Mapping[int, _Batches], sides: tuple[int, int], limit: int, ahead: int, line: _Line
) -> _Link:
    """Return the batches of two ranks that end nearest to each other."""
    one, other = (batches[index] for index in sides)
    there = _nearest(one.end_ns, other.end_ns)
    here = np.flatnonzero(_nearest(other.end_ns, one.end_ns)[there] == np.arange(len(there)))
    pairs = np.stack([here, there[here]], axis=1)
    apart = np.abs(one.end_ns[pairs[:, 0]] - other.end_ns[pairs[:, 1]])
    pairs, apart = pairs[apart <= limit], apart[apart <= limit]
    unlike = np.abs(one.dur_ns[pairs[:, 0]] - other.dur_ns[pairs[:, 1]])
    evidence, closeness = (
        np.log((far + FINE_NS) / (apart + FINE_NS)) for far in (unlike, np.int64(limit))
    )
    return _Link(sides, pairs, evidence, closeness, ahead, line)


def _nearest(times: I64, among: I64) -> I64:
    """Return the place of the nearest of ascending times to each time."""
    after = np.clip(np.searchsorted(among, times), 0, len(among) - 1)
    before = np.maximum(after - 1, 0)
    nearer = np.abs(times - among[before]) <= np.abs(among[after] - times)
    return np.asarray(np.where(nearer, before, after))


_CHANGED: Final = ("kind", "group", "src", "dst")


def _applied(
    inputs: Sequence[MatchInput],
    groups: Sequence[CommGroup],
    batches: Mapping[int, _Batches],
    found: _Partners,
) -> tuple[tuple[MatchInput, ...], tuple[CommGroup, ...]]:
    """Return the inputs with kinds, groups and peers of the batches of links."""
    every, number_of = list(groups), dict[tuple[int, ...], int]()
    columns = {
        index: {name: getattr(inputs[index].calls, name).copy() for name in _CHANGED}
        for link in found.links
        for index in link.sides
    }
    for link, mine in zip(found.links, found.mine, strict=True):
        number = link.line.group
        if number < 0:
            number = number_of.setdefault(link.line.ranks, len(every))
        if number == len(every):
            every.append(_pipeline(sorted(inputs[i].rank or 0 for i in link.line.ranks)))
        for side, (index, peer) in enumerate((link.sides, link.sides[::-1])):
            rows = np.sort(batches[index].rows[mine[side]])
            first, last = _single(inputs[index], inputs[peer].rank, groups, rows, link.ahead)
            sends, receives = (first, last) if side == 0 else (last, first)
            kind = np.where(sends, SEND, np.where(receives, RECV, SENDRECV))
            own, other = inputs[index].rank or 0, inputs[peer].rank or 0
            values = kind, number, np.where(sends, own, other), np.where(receives, own, other)
            for name, value in zip(_CHANGED, values, strict=True):
                columns[index][name][rows] = value
    changed = tuple(
        replace(item, calls=replace(item.calls, **columns[index])) if index in columns else item
        for index, item in enumerate(inputs)
    )
    return changed, tuple(every)


def _pipeline(ranks: Sequence[int]) -> CommGroup:
    label = f"pp {','.join(map(str, ranks))}"
    return CommGroup(
        tuple(ranks), "", "batches", dim="pp", label=label, size=len(ranks), implied=True
    )


def _single(
    item: MatchInput, peer: int | None, groups: Sequence[CommGroup], rows: I64, ahead: int
) -> tuple[Bool, Bool]:
    """Mask the batches of a rank with a peer that hold one transfer: the first and last of a step.

    None does where files name transfers of these ranks, or steps are not told. Before stages take
    turns, the lower one sends as many micro-batches ahead as stages follow it, or all of them.
    """
    calls, steps = item.calls, _steps(item.calls)[rows]
    first, last = np.zeros((2, len(rows)), np.bool_)
    pairs = [len(one.ranks) == 2 and peer in one.ranks for one in groups]
    with_peer = (calls.src == peer) | (calls.dst == peer) | np.array([*pairs, False])[calls.group]
    named = np.isin(calls.kind, (SEND, RECV)) & with_peer
    if not ahead or named.any() or (steps == MISSING).any():
        return first, last
    for _, here in rows_by_value(steps):
        alone = min(ahead, len(here) // 2)
        first[here[:alone]], last[here[len(here) - alone :]] = True, True
    return first, last


FEWEST_WAITS: Final = 3
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
    if max(one, other) >= FEWEST_WAITS and max(one, other) >= ONE_SIDED * (one + other):
        whole = [np.full(len(mine), one > other) for mine in rows]
        return whole[0], ~whole[1]
    places = [_places(mine, here) for mine, here in zip(calls, rows, strict=True)]
    if not np.array_equal(places[0], places[1]) or (places[0] < 0).any():
        return None
    more = np.bincount(places[0], waited[0].astype(np.float64) - waited[1])
    all_told = np.bincount(places[0], waited[0] != waited[1])
    told = (np.abs(more) >= ONE_SIDED * all_told) & (all_told > 0)
    if not told.all() or all_told.sum() < FEWEST_WAITS:
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
