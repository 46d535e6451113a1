"""Match calls of different ranks to collectives.

The first possible one of four levels of evidence is used:

    level  key                                                         confidence
    1      communicator id and sequence number                         high
    2      group and sequence number                                   high
    3      step and ordinal in it                                      medium or low
    4      order alone, lined up by end where one rank has fewer calls medium or low

A key is trusted at most at medium where no size confirms it. A match by order is trusted only
where its members overlap in time as those of a collective must: max(start) <= min(end) on one
clock.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ccltui.metrics.arrays.by_column import take_columns, take_rows
from ccltui.metrics.arrays.reductions import (
    distinct_values,
    is_one_value,
    median_along,
    row_all,
    rows_by_value,
)
from ccltui.metrics.collectives.matching.align_calls import ClockDifference
from ccltui.metrics.collectives.matching.lineup import by_order, line_up
from ccltui.metrics.collectives.matching.validity import (
    CONFIDENCES,
    HIGH,
    LOW,
    MEDIUM,
    ComparedEnds,
    Member,
    judge,
    pick,
)
from ccltui.metrics.facts import fact
from ccltui.metrics.model.calls import Calls
from ccltui.metrics.model.classify import TYPES
from ccltui.metrics.model.communicator_groups import CommGroup
from ccltui.parsers.array_types import I8, I64, Bool
from ccltui.parsers.columns import MISSING

__all__ = [
    "CONFIDENCES",
    "HIGH",
    "IMPLIED",
    "LOW",
    "MEDIUM",
    "METHODS",
    "GroupMatch",
    "MatchInput",
    "Matches",
    "match_calls",
]

METHODS: Final = {
    1: "communicator id and sequence number",
    2: "group and sequence number",
    3: "step and ordinal",
    4: "order",
}
"""Key of each level of evidence."""

IMPLIED = -1
"""Group index of the single group assumed for a job without any process group.

Kernels of different libraries are never one collective: those of further libraries have lower
indices.
"""

FEWEST_OF_SEVERAL = 4
"""Number of ranks from which on an implied group may be several communicators.

Such communicators end together by chance.
"""

_POINT_TO_POINT = np.array([name in ("Send", "Recv") for name in TYPES])
_SENDRECV = TYPES.index("SendRecv")


class MatchInput(Struct, frozen=True):
    """The collectives of one rank; a rank of unknown number (None) is not matched."""

    label: str
    rank: int | None
    host: str
    calls: Calls


class GroupMatch(Struct, frozen=True, dict=True):
    """The collectives of one group: n instances by m members present, in order of time.

    ``rows`` is int64 [n, m]: the row in that member's `Calls`, -1 where it has no such call.
    ``level`` is 1 to 4, ``confidence`` LOW, MEDIUM or HIGH, ``step`` the step id or -1.
    ``agrees`` marks instances of one type, dtype and size; ``overlap`` those whose last start is
    not after the first end on one clock (1 yes, 0 no, -1 not all members present). ``in_step``
    marks those that are LOW only because their members, which end together, may be several
    communicators: these advance alike, as if they were one.
    """

    group: int
    labels: tuple[str, ...]
    rows: I64
    kind: I8
    level: I8
    confidence: I8
    step: I64
    agrees: Bool
    overlap: I8
    in_step: Bool
    missing: tuple[int, ...] = ()  # ranks of the group without a call in any file
    until: I64 | None = None  # as rows, the last kernel, where a collective has several
    whole: bool = True  # False: the group may have members without a file

    @cached_property
    def complete(self) -> Bool:
        """Whether every member has its call, bool [n]."""
        return row_all(self.rows >= 0)

    @cached_property
    def usable(self) -> Bool:
        """Complete, and of one type, dtype and size, bool [n]."""
        return self.complete & self.agrees

    def instance(self, row: int) -> GroupMatch:
        """Select one instance."""
        return self.where(slice(row, row + 1))

    def where(self, here: slice | Bool | I64) -> GroupMatch:
        """Select instances by mask, slice or index."""
        names = ("rows", "kind", "level", "confidence", "step", "agrees", "overlap", "in_step")
        until = None if self.until is None else self.until[here]
        return replace(self, until=until, **{name: getattr(self, name)[here] for name in names})

    @property
    def num_incomplete(self) -> int:
        """Instances that lack a member's call."""
        return int((~self.complete).sum())

    @property
    def num_mismatched(self) -> int:
        """Complete instances whose members disagree on type, dtype or size."""
        return int((self.complete & ~self.agrees).sum())


class Matches(Struct, frozen=True):
    """The matches of all groups of a job, and what was not matched."""

    groups: tuple[GroupMatch, ...]
    skipped: Mapping[str, str]  # label -> why the rank is not matched
    single_rank_groups: int = 0  # groups of which one rank alone is present
    ungrouped: int = 0  # calls that name no group in a job where others do


@fact("matches")
def match_calls(
    inputs: Sequence[MatchInput],
    groups: Sequence[CommGroup],
    *,
    clocks: Mapping[str, ClockDifference] | None = None,
    only: frozenset[int] | None = None,
    ends: dict[int, ComparedEnds] | None = None,
) -> Matches:
    """Match every group collective across the ranks of its group.

    Sends and receives are matched by `match_p2p`. Where no call of the job names a group with its
    ranks, all ranks together are one group, matched type by type. Ranks that are unknown, claimed
    by several files or recorded by another kind of event than most are skipped.

    Args:
        inputs: The calls of each rank.
        groups: The communicators that the calls index.
        clocks: How far the clock of each label is ahead of a common one, for calls that are lined
            up by order; None where not known.
        only: Indices of the groups to match; None for all.
        ends: Takes the ends that were compared by group, of 4,096 instances at most.
    """
    skipped = _skipped(inputs)
    chosen = [inputs[index] for index in taking_part(inputs)]
    known = np.array([bool(group.ranks) for group in groups] + [False])
    libraries = _unnamed_libraries([item.calls for item in chosen], known)
    rows = [_rows_by_group(item.calls, known, libraries) for item in chosen]
    named = any(group > IMPLIED for parts in rows for group in parts)
    matched = []
    alone = 0
    of_group: defaultdict[int, list[tuple[MatchInput, I64]]] = defaultdict(list)
    for item, parts in zip(chosen, rows, strict=True):
        for index, own in parts.items():
            of_group[index].append((item, own))
    for index, members in sorted(of_group.items(), key=lambda pair: pair[0]):
        if (named and index <= IMPLIED) or (only is not None and index not in only):
            continue
        if len(members) < 2:
            alone += 1
        else:
            group = None if index < 0 else groups[index]
            matched.append(_match_group(index, members, group, clocks, ends))
    unnamed = [part for parts in rows for group, part in parts.items() if group <= IMPLIED]
    lost = sum(map(len, unnamed)) if named else 0
    return Matches(tuple(matched), skipped, alone, lost)


def taking_part(inputs: Sequence[MatchInput]) -> list[int]:
    """Indices of the inputs that can be matched, by ascending rank."""
    skipped = _skipped(inputs)
    ranked = [(item.rank, index) for index, item in enumerate(inputs) if item.label not in skipped]
    return [index for _, index in sorted(ranked)]


def gather(match: GroupMatch, inputs: Mapping[str, MatchInput], column: str) -> I64:
    """Return one column of the calls of every member, int64 [n, m], -1 where one has no call.

    A collective of several kernels begins with the first and lasts to the end of the last.
    """
    first = _picked(match.labels, match.rows, inputs, column)
    if column != "dur_ns" or match.until is None:
        return first
    start = _picked(match.labels, match.rows, inputs, "start_ns")
    end = _picked(match.labels, match.until, inputs, "start_ns")
    end += _picked(match.labels, match.until, inputs, "dur_ns")
    return np.where(match.rows >= 0, end - start, MISSING)


def gather_starts(
    match: GroupMatch, inputs: Mapping[str, MatchInput], rows: I64, members: Sequence[int]
) -> I64:
    """Return the recorded starts of some instances on some members, int64 [rows, members]."""
    labels = [match.labels[member] for member in members]
    chosen = take_columns(take_rows(match.rows, rows), members)
    return _picked(labels, chosen, inputs, "start_ns")


def _picked(labels: Sequence[str], rows: I64, inputs: Mapping[str, MatchInput], column: str) -> I64:
    found = np.empty(rows.shape[::-1], np.int64)
    for member, label in enumerate(labels):
        found[member] = pick(getattr(inputs[label].calls, column), rows[:, member])
    return found.T


def disagreements(
    matches: Matches, groups: Sequence[CommGroup], *, limit: int = 8, incomplete: bool = True
) -> tuple[str, ...]:
    """Return a sentence for each mismatched and each incomplete instance, at most ``limit``."""
    sentences: list[str] = []
    for match in matches.groups:
        name = "all ranks" if match.group < 0 else groups[match.group].label
        doubtful = ~match.usable if incomplete else match.complete & ~match.agrees
        rows = np.flatnonzero(doubtful)[: limit - len(sentences)]
        sentences += [_disagreement(match, int(index), name) for index in rows]
    return tuple(sentences)


def _disagreement(match: GroupMatch, index: int, name: str) -> str:
    what = f"collective {index} of {name} ({TYPES[match.kind[index]]})"
    absent = [label for label, row in zip(match.labels, match.rows[index], strict=True) if row < 0]
    if absent:
        return f"{what} is missing on rank {', '.join(absent[:8])}"
    return f"{what} differs in type, dtype or size between its ranks"


def _skipped(inputs: Sequence[MatchInput]) -> dict[str, str]:
    claims = Counter(item.rank for item in inputs)
    sources = Counter(item.calls.source for item in inputs if len(item.calls.start_ns))
    usual = sources.most_common(1)[0][0] if sources else ""
    skipped = {}
    for item in inputs:
        if item.rank is None:
            skipped[item.label] = "its rank is unknown"
        elif claims[item.rank] > 1:
            skipped[item.label] = f"rank {item.rank} is claimed by {claims[item.rank]} files"
        elif len(item.calls.start_ns) and item.calls.source != usual:
            own, others = _recorded_as(item.calls.source), _recorded_as(usual)
            skipped[item.label] = f"it recorded its collectives as {own}, the others as {others}"
    return skipped


def _recorded_as(source: str) -> str:
    """Return the events that calls were read from in words."""
    return {"kernel": "kernels", "cpu_op": "operators"}.get(source, f"operators ({source})")


def _between_two(calls: Calls) -> Bool:
    """Mask of the sends and receives, and of batches of both whose peer is known."""
    return np.asarray(_POINT_TO_POINT[calls.kind] | ((calls.kind == _SENDRECV) & (calls.dst >= 0)))


def _unnamed_libraries(calls: Sequence[Calls], known: Bool) -> I64:
    """Return the libraries of all collectives that name no group, ascending."""
    unknown = ~known
    calls = [one for one in calls if unknown[distinct_values(one.group)].any()]
    rows = [~_between_two(one) & unknown[one.group] for one in calls]
    found = [one.library[mask] for one, mask in zip(calls, rows, strict=True)]
    return distinct_values(np.concatenate([*found, np.empty(0, np.int8)])).astype(np.int64)


def _rows_by_group(calls: Calls, known: Bool, libraries: I64) -> dict[int, I64]:
    """Return the rows of group collectives by group index, each ascending in time.

    Groups whose ranks no file states (``known`` is False) cannot be identified across ranks and
    become ``IMPLIED``, or a lower index by the library of the kernel.
    """
    are_alike = all(is_one_value(one) for one in (calls.group, calls.kind, calls.dst))
    if are_alike and known[calls.group[0]]:
        return {} if _between_two(calls)[0] else {int(calls.group[0]): _first_rows(len(calls))}
    rows = np.flatnonzero(~_between_two(calls))
    group = calls.group[rows]
    is_known = known[group]
    if not is_known.all():
        unnamed = IMPLIED - np.searchsorted(libraries, calls.library[rows]).astype(np.int32)
        group = np.where(is_known, group, unnamed)
    return {index: rows[here] for index, here in rows_by_value(group)}


@lru_cache(maxsize=8)
def _first_rows(count: int) -> I64:
    """Return the rows below a number: one array for the ranks with as many calls each."""
    rows = np.arange(count)
    rows.flags.writeable = False
    return rows


def _match_group(
    index: int,
    chosen: Sequence[tuple[MatchInput, I64]],
    group: CommGroup | None,
    clocks: Mapping[str, ClockDifference] | None,
    ends: dict[int, ComparedEnds] | None,
) -> GroupMatch:
    members = [Member(item.calls, rows) for item, rows in chosen]
    stated = group is not None
    named = group is not None and not group.implied
    whole = group is None or not group.implied or group.size > 0
    found = [(clocks or {}).get(item.label) for item, _ in chosen]
    known = [one for one in found if one is not None]
    ahead = known if len(known) == len(chosen) else None
    line = line_up(members, by_type=not stated, ahead=ahead)
    several = not named and (len(members) >= FEWEST_OF_SEVERAL or not whole)
    verdict = judge(members, line, stated=stated, several=several)
    order = np.argsort(verdict.first_start_ns, kind="stable")
    present = {item.rank for item, _ in chosen}

    is_ordered = bool((order == np.arange(len(order))).all())
    if ends is not None and is_ordered:
        ends[index] = verdict.ends

    def rows_of(positions: I64) -> I64:
        rows = slice(None) if is_ordered else order
        if is_ordered and line.is_in_order and all(one.rows is members[0].rows for one in members):
            return np.broadcast_to(members[0].rows[:, np.newaxis], positions.shape)
        found = np.empty((len(members), len(order)), np.int64)
        for i, one in enumerate(members):
            found[i] = pick(one.rows, positions[rows, i])
        return found.T

    return GroupMatch(
        group=index,
        labels=tuple(item.label for item, _ in chosen),
        rows=rows_of(line.positions),
        kind=verdict.kind[order],
        level=line.level[order],
        confidence=verdict.confidence[order],
        step=verdict.step[order],
        agrees=verdict.agrees[order],
        overlap=verdict.overlap[order],
        in_step=verdict.in_step[order],
        missing=tuple(rank for rank in group.ranks if rank not in present) if group else (),
        until=rows_of(line.last) if line.has_pieces else None,
        whole=whole,
    )


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
    if is_one_value(calls.kind) and calls.kind[0] not in (kind, SENDRECV):
        return {}
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
