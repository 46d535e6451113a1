"""Line up the calls of one group across its members, by key or by order.

The sequences of several ranks, each of which may lack some collectives, are merged pair by pair.

Join collectives that several kernels execute, and calls that one kernel executes together.

One call may be executed by several kernels, all of which have its sequence number. A rank may
issue several calls as one group, executed by one kernel with the number of the first, while
another rank issues them one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ccltui.metrics.arrays.reductions import (
    distinct_values,
    is_one_value,
    row_all,
    row_any,
    taken,
)
from ccltui.metrics.collectives.matching.align_calls import (
    FEWEST,
    SCATTER_NS,
    ClockDifference,
    Paired,
    Tokens,
    coded,
    difference_between,
    fit,
    fit_all,
    ordinals,
    pair,
    place_gap,
    tabulate,
)
from ccltui.metrics.collectives.matching.validity import (
    COMMUNICATOR,
    ORDER,
    SEQUENCE,
    STEP,
    Line,
    Member,
    evenly,
    fully_dependent,
    pick,
)
from ccltui.parsers.array_types import I64, Bool
from ccltui.parsers.columns import MISSING

MAX_JOINED: Final = 64
"""Largest number of calls that may be one kernel on another rank."""


def runs(keys: I64, tokens: I64) -> tuple[I64, I64]:
    """Return first and last position of each run of consecutive calls of one key and token."""
    if not len(keys):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    changes = (keys[1:] != keys[:-1]) | (tokens[1:] != tokens[:-1])
    first = np.flatnonzero(np.concatenate(([True], changes)))
    return first, np.append(first[1:], len(keys)) - 1


def grouped(positions: I64, elements: I64) -> tuple[I64, Bool, Bool]:
    """Join the calls of some members that other members executed in one kernel.

    Where some members have one kernel with as many elements as the others have in it and in the
    kernels that follow, these are one collective.

    Args:
        positions: int64 [n, m] in order of the sequence numbers, -1 where a member has no kernel
            of that number.
        elements: Elements of each, int64 [n, m], -1 where not known.

    Returns:
        The last position of each line and member, int64 [n, m]; the mask of the lines that remain;
        and the mask of the lines that were joined.
    """
    last = positions.copy()
    keep, joined = np.ones(len(positions), np.bool_), np.zeros(len(positions), np.bool_)
    present = positions >= 0
    known = row_all(present) & row_all(elements > 0)
    uneven = known & row_any(elements != elements[:, :1])
    for line in np.flatnonzero(uneven).tolist():
        stop = _together(present, elements, line)
        if stop > line:
            small = elements[line] < elements[line].max()
            last[line, small] = positions[stop, small]
            keep[line + 1 : stop + 1] = False
            joined[line] = True
    return last, keep, joined


def _together(present: Bool, elements: I64, line: int) -> int:
    """Return the line up to which the smaller calls sum up to the larger one, else ``line``."""
    whole = int(elements[line].max())
    small = elements[line] < whole
    total = elements[line, small].copy()
    for after in range(line + 1, min(line + MAX_JOINED, len(elements))):
        if present[after, ~small].any() or not present[after, small].all():
            return line
        total += elements[after, small]
        if (total == whole).all():
            return after
        if (total > whole).any() or (elements[after, small] == MISSING).any():
            return line
    return line


OTHER_LENGTH: Final = 0.5
SAME_LENGTH: Final = 0.8
NEARLY_ALL: Final = 0.95
"""Shares of the calls of a member that must find a counterpart by time, else order is used:
for sequences of other length, of the same length, and where ends need not be close."""


class Merged(Struct, frozen=True):
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


_CODES = 8191
MIN_ENDS_TOGETHER = 0.5
"""Share of calls that end on all ranks at once from which on ends identify the collectives."""


def line_up(
    members: Sequence[Member], *, by_type: bool, ahead: Sequence[ClockDifference] | None = None
) -> Line:
    """Line up the calls of a group by the best evidence that all members carry.

    ``by_type``: the group is only implied, so that its types may belong to several communicators,
    and each type is lined up separately. ``ahead`` are the clock differences of the members; None
    where not all are known.
    """
    level = None if by_type else _common_sequence(members)
    if level is not None:
        return Line.in_order(len(members[0].rows), len(members), level)
    numbered = [np.flatnonzero(member.column("seq") >= 0) for member in members]
    every = [np.arange(len(member.rows)) for member in members]
    if not by_type and all(len(positions) for positions in numbered):
        line = _by_sequence(members, numbered)
        if _sequence_agrees(members, line):
            if sum(map(len, numbered)) == sum(map(len, every)):
                return line
            rest = [
                np.setdiff1d(whole, part, assume_unique=True)
                for whole, part in zip(every, numbered, strict=True)
            ]
            return Line.joined([line, by_order(members, rest, ahead)], len(members))
    if not by_type:
        return by_order(members, every, ahead)
    kinds = [member.column("kind") for member in members]
    return Line.joined(
        [
            by_order(members, [np.flatnonzero(kind == one) for kind in kinds], ahead)
            for one in distinct_values(np.concatenate(kinds))
        ],
        len(members),
    )


def _common_sequence(members: Sequence[Member]) -> int | None:
    """Return the level of evidence where all members have the same sequence of calls, else None.

    That is the same sequence numbers in one communicator, ascending, and calls of the same type and
    sizes: most groups of a job in which nothing is missing.
    """
    first = members[0]
    seq, tokens, elements = first.column("seq"), first.tokens, first.column("in_elems")
    ids = [_only_communicator(member) for member in members]
    if not len(seq) or seq[0] < 0 or not (seq[1:] > seq[:-1]).all() or ids.count(ids[0]) < len(ids):
        return None
    alike = _equal_to(seq), _equal_to(tokens), _equal_to(elements)
    for member in members[1:]:
        columns = member.column("seq"), member.tokens, member.column("in_elems")
        if not all(is_equal(one) for is_equal, one in zip(alike, columns, strict=True)):
            return None
    return None if ids[0] is None else COMMUNICATOR if ids[0] else SEQUENCE


def _only_communicator(member: Member) -> int | None:
    """Return the identifier of the communicator of all calls of a member, None of several."""
    ids = member.calls.comms_id
    if is_one_value(ids):
        return int(ids[0])
    found = distinct_values(ids[member.rows])
    return int(found[0]) if len(found) == 1 else None


def _by_sequence(members: Sequence[Member], subsets: Sequence[I64]) -> Line:
    seqs = [member.column("seq")[subset] for member, subset in zip(members, subsets, strict=True)]
    ids = [
        member.calls.comms_id[member.rows[subset]]
        for member, subset in zip(members, subsets, strict=True)
    ]
    shared = set.intersection(*(set(distinct_values(one).tolist()) for one in ids)) - {0}
    level = SEQUENCE
    if shared:
        known = distinct_values(np.concatenate(ids))
        low = min(int(seq.min()) for seq in seqs)
        span = max(int(seq.max()) for seq in seqs) - low + 1
        seqs = [
            np.searchsorted(known, one) * span + (seq - low)
            for one, seq in zip(ids, seqs, strict=True)
        ]
        level = COMMUNICATOR
    spans = [
        runs(seq, member.tokens[subset])
        for member, seq, subset in zip(members, seqs, subsets, strict=True)
    ]
    firsts = [subset[first] for subset, (first, _) in zip(subsets, spans, strict=True)]
    table = tabulate([seq[first] for seq, (first, _) in zip(seqs, spans, strict=True)])
    positions = _positions_in_whole(table, firsts)
    last = positions
    if any(len(first) < len(subset) for first, subset in zip(firsts, subsets, strict=True)):
        lasts = [subset[last] for subset, (_, last) in zip(subsets, spans, strict=True)]
        last = _positions_in_whole(table, lasts)
    rank = np.full(len(positions), level, np.int8)
    elements = [pick(m.column("in_elems"), positions[:, i]) for i, m in enumerate(members)]
    if all(map(_equal_to(elements[0]), elements[1:])):  # all members have the same kernels
        return Line(positions, rank, last, np.zeros(len(positions), np.bool_))
    table_of = np.stack(elements, axis=1)
    _, keep, summed = grouped(positions, table_of)
    if summed.any():
        last = np.where(summed[:, np.newaxis], grouped(last, table_of)[0], last)
    return Line(positions[keep], rank[keep], last[keep], summed[keep])


def _equal_to(column: I64) -> Callable[[I64], bool]:
    """Return a function that compares a column; of two of one value it compares the values."""

    def is_equal(other: I64) -> bool:
        if other is column:
            return True
        if is_one_value(column) and is_one_value(other):
            return bool(column[0] == other[0])
        return np.array_equal(column, other)

    return is_equal


def _sequence_agrees(members: Sequence[Member], line: Line) -> bool:
    """Whether at least half of the calls paired by sequence number agree in type and size."""
    is_complete = row_all(line.positions >= 0)
    complete = line.positions if is_complete.all() else line.positions[is_complete]
    if not len(complete):
        return False
    agree = np.ones(len(complete), np.bool_)
    first = taken(members[0].tokens, complete[:, 0])
    is_equal = _equal_to(first)
    for index, member in enumerate(members[1:], start=1):
        tokens = taken(member.tokens, complete[:, index])
        if not is_equal(tokens):
            agree &= tokens == first
    return bool(agree.mean() >= 0.5)


def by_order(
    members: Sequence[Member],
    subsets: Sequence[I64],
    ahead: Sequence[ClockDifference] | None = None,
) -> Line:
    """Line up positions of each member (``subsets``, ascending) step by step, by their order.

    In a step with equal numbers of calls on all members the k-th calls match, unless their ends
    contradict it. In other steps, and outside of steps, calls are lined up by their ends.
    """
    segments = [
        _segments(member.column("step")[subset])
        for member, subset in zip(members, subsets, strict=True)
    ]
    names = distinct_values(np.concatenate(segments))
    codes = [np.searchsorted(names, segment) for segment in segments]
    counts = np.stack([np.bincount(code, minlength=len(names)) for code in codes], axis=1)
    even = row_all(counts == counts[:, :1])
    line = _ordinal_line(names, codes, counts, even, subsets)
    doubtful = _contradicted(members, line, codes, subsets, ahead)
    if doubtful.any():
        even &= ~doubtful
        line = _ordinal_line(names, codes, counts, even, subsets)
    if even.all():
        return line
    known = ahead or _ahead(members, line)
    return Line.joined(
        [line, *_uneven_lines(members, subsets, codes, np.flatnonzero(~even), known)],
        len(members),
    )


def _segments(step: I64) -> I64:
    """Number the segments of time: even for a step, odd for the time between it and the next."""
    latest = np.maximum.accumulate(step) if len(step) else step
    return np.where(step >= 0, 2 * step, 2 * latest + 1)


def _ordinal_line(
    names: I64, codes: Sequence[I64], counts: I64, even: Bool, subsets: Sequence[I64]
) -> Line:
    """Match the k-th calls of segments with equal numbers of calls on all members."""
    kept = [np.flatnonzero(even[code]) for code in codes]
    widest = int(counts[even].max(initial=0))
    keys = [
        code[part] * widest + ordinals(code[part]) for code, part in zip(codes, kept, strict=True)
    ]
    table = _positions_in_whole(tabulate(keys), kept)
    segment = names[codes[0][table[:, 0]]] if len(table) else np.empty(0, np.int64)
    level = np.where(segment % 2 == 0, STEP, ORDER).astype(np.int8)
    return Line.of(_positions_in_whole(table, subsets), level)


def _contradicted(
    members: Sequence[Member],
    line: Line,
    codes: Sequence[I64],
    subsets: Sequence[I64],
    ahead: Sequence[ClockDifference] | None,
) -> Bool:
    """Mark the segments, by code, whose calls disagree in type, size or end despite equal numbers.

    Members may lack equally many, but different, calls.
    """
    wrong = np.zeros(1 + max(int(code.max(initial=-1)) for code in codes), np.bool_)
    if len(line.positions) < FEWEST:
        return wrong
    place = np.full(len(members[0].rows), MISSING, np.int64)
    place[subsets[0]] = codes[0]
    code = place[line.positions[:, 0]]
    tokens, ends = members[0].tokens[line.positions[:, 0]], members[0].end_ns[line.positions[:, 0]]
    dependent = fully_dependent(members[0].column("kind")[line.positions[:, 0]])
    differs = np.zeros(len(code), np.bool_)
    others = _ends(members[1:], line.positions[:, 1:])
    apart = (
        fit_all(others, ends)
        if ahead is None
        else [difference_between(one, ahead[0]) for one in ahead[1:]]
    )
    for index, member in enumerate(members[1:], start=1):
        differs |= member.tokens[line.positions[:, index]] != tokens
        own = others[:, index - 1]
        differs |= dependent & (np.abs(own - ends - apart[index - 1].of(own)) > SCATTER_NS)
    wrong[code[differs]] = True
    return wrong


def _uneven_lines(
    members: Sequence[Member],
    subsets: Sequence[I64],
    codes: Sequence[I64],
    uneven: I64,
    ahead: Sequence[ClockDifference] | None,
) -> list[Line]:
    """Line up the segments in which a member lacks calls: all at once by time, else separately."""
    orders = [np.argsort(code, kind="stable") for code in codes]
    bounds = [
        (np.searchsorted(code[order], uneven), np.searchsorted(code[order], uneven, "right"))
        for code, order in zip(codes, orders, strict=True)
    ]
    every = [np.flatnonzero(np.isin(code, uneven)) for code in codes]
    whole = _merged(
        members,
        _taken(subsets, every),
        ahead,
        _taken(codes, every),
    )
    parts = _taken(subsets, every)
    if any(
        len(found) < len(uneven) for found in (distinct_values(c) for c in _taken(codes, every))
    ):
        whole = _across_segments(members, parts, ahead, whole)
    if whole.by_time or len(uneven) == 1:
        return [_line_of(whole, parts)]
    found = []
    for index in range(len(uneven)):
        parts = [
            subset[order[first[index] : stop[index]]]
            for subset, order, (first, stop) in zip(subsets, orders, bounds, strict=True)
        ]
        alike = [np.zeros(len(part), np.int64) for part in parts]
        found.append(_line_of(_merged(members, parts, ahead, alike), parts))
    return found


def _taken(values: Sequence[I64], rows: Sequence[I64]) -> list[I64]:
    return [one[here] for one, here in zip(values, rows, strict=True)]


def _across_segments(
    members: Sequence[Member],
    parts: Sequence[I64],
    ahead: Sequence[ClockDifference] | None,
    whole: Merged,
) -> Merged:
    """Line up calls by their ends alone, where a member lacks the marker of a segment.

    A file that begins or ends inside a step has calls of it and no marker. The clocks that this
    needs are ``ahead``, else from ``whole``, where the calls of equal segments are lined up.
    """
    if ahead is None:
        complete = whole.places[row_all(whole.places >= 0)]
        if len(complete) < FEWEST:
            return whole
        ends = np.stack(
            [
                m.end_ns[part[complete[:, i]]]
                for i, (m, part) in enumerate(zip(members, parts, strict=True))
            ]
        ).T
        ahead = fit_all(ends[evenly(np.arange(len(ends)))], ends[evenly(np.arange(len(ends))), 0])
    alike = [np.zeros(len(part), np.int64) for part in parts]
    loose = _merged(members, parts, ahead, alike)
    fewer = int(row_all(loose.places >= 0).sum()) < int(row_all(whole.places >= 0).sum())
    return loose if loose.by_time and not fewer else whole


def _merged(
    members: Sequence[Member],
    parts: Sequence[I64],
    ahead: Sequence[ClockDifference] | None,
    codes: Sequence[I64],
) -> Merged:
    """Merge all parts, the longest first; calls that the merged sequence lacks are inserted.

    Only calls in segments of one code can match.
    """
    order = np.argsort([-len(part) for part in parts], kind="stable").tolist()
    tokens = coded(
        [
            member.tokens[part] * _CODES + code
            for member, part, code in zip(members, parts, codes, strict=True)
        ]
    )
    first = order[0]
    whole = members[first]
    dependent = fully_dependent(whole.column("kind")[parts[first]])
    joined = Merged.of(
        tokens[first],
        whole.end_ns[parts[first]],
        len(members),
        first,
        ends_meet=bool(dependent.mean() >= MIN_ENDS_TOGETHER) if len(dependent) else True,
    )
    for index in order[1:]:
        apart = None if ahead is None else difference_between(ahead[index], ahead[first])
        end_ns = members[index].end_ns[parts[index]]
        joined = joined.merged(index, tokens[index], end_ns, apart)
    return joined


def _line_of(joined: Merged, parts: Sequence[I64]) -> Line:
    table = np.stack([pick(part, joined.places[:, i]) for i, part in enumerate(parts)], axis=1)
    return Line.of(table, np.full(len(table), ORDER, np.int8))


def _ahead(members: Sequence[Member], line: Line) -> list[ClockDifference] | None:
    """Return how far each member's clock is ahead of that of the first; None without lines.

    ``line`` holds the segments with equal numbers of calls, all members in every row.
    """
    rows = evenly(np.arange(len(line.positions)))
    if not len(rows):
        return None
    ends = _ends(members, line.positions[rows])
    return fit_all(ends, ends[:, 0])


def _ends(members: Sequence[Member], positions: I64) -> I64:
    """Return the ends of every member's calls, int64 ns [n, m], each on its own clock."""
    ends = [member.end_ns[positions[:, index]] for index, member in enumerate(members)]
    return np.stack(ends).T


def _positions_in_whole(table: I64, subsets: Sequence[I64]) -> I64:
    """Convert positions in subsets to positions in the sequences that they were taken from."""
    columns = [pick(subset, table[:, index]) for index, subset in enumerate(subsets)]
    return np.stack(columns).T
