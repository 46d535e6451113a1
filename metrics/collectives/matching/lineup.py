"""Line up the calls of one group across its members, by key or by order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ccltui.metrics.arrays.reductions import distinct_values, row_all
from ccltui.metrics.collectives.matching.align_by_time import (
    FEWEST,
    SCATTER_NS,
    ClockDifference,
    difference_between,
    fit_all,
)
from ccltui.metrics.collectives.matching.align_calls import ordinals, tabulate
from ccltui.metrics.collectives.matching.end_deviation import evenly, fully_dependent
from ccltui.metrics.collectives.matching.group_member import (
    COMMUNICATOR,
    ORDER,
    SEQUENCE,
    STEP,
    Line,
    Member,
    pick,
)
from ccltui.metrics.collectives.matching.merged_sequences import Merged
from ccltui.metrics.collectives.matching.nearest_calls import coded
from ccltui.metrics.collectives.matching.split_calls import grouped, runs
from ccltui.parsers.array_types import I64, Bool
from ccltui.parsers.columns import MISSING

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
    numbered = [np.flatnonzero(member.column("seq") >= 0) for member in members]
    every = [np.arange(len(member.rows)) for member in members]
    if not by_type and all(len(positions) for positions in numbered):
        line = _by_sequence(members, numbered)
        if _sequence_agrees(members, line):
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
    lasts = [subset[last] for subset, (_, last) in zip(subsets, spans, strict=True)]
    table = tabulate([seq[first] for seq, (first, _) in zip(seqs, spans, strict=True)])
    positions = _positions_in_whole(table, firsts)
    elements = np.stack(
        [pick(member.column("in_elems"), positions[:, i]) for i, member in enumerate(members)],
        axis=1,
    )
    _, keep, summed = grouped(positions, elements)
    last = _positions_in_whole(table, lasts)
    if summed.any():
        last = np.where(summed[:, np.newaxis], grouped(last, elements)[0], last)
    rank = np.full(int(keep.sum()), level, np.int8)
    return Line(positions[keep], rank, last[keep], summed[keep])


def _sequence_agrees(members: Sequence[Member], line: Line) -> bool:
    """Whether at least half of the calls paired by sequence number agree in type and size."""
    complete = line.positions[row_all(line.positions >= 0)]
    if not len(complete):
        return False
    agree = np.ones(len(complete), np.bool_)
    first = members[0].tokens[complete[:, 0]]
    for index, member in enumerate(members[1:], start=1):
        agree &= member.tokens[complete[:, index]] == first
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
