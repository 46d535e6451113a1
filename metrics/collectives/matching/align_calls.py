"""Line up two sequences of collectives: by a common key, by one gap, or by their ends.

Two sequences are lined up by ends where either lacks some calls: collectives of one group end in
the same order on all ranks and nearly at once, so that the differences of their ends are the
difference of two clocks, constant but for drift and scatter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ccltui.metrics.arrays.reductions import distinct_values, median_along, unique_inverse
from ccltui.metrics.arrays.typical import slopes
from ccltui.metrics.collectives.matching.validity import nearest_rank
from ccltui.parsers.array_types import I64, Bool
from ccltui.parsers.columns import MISSING

Tokens = npt.NDArray[np.integer]

_NEVER: Final = np.iinfo(np.int64).max
_BITS: Final = 62
_Calls = tuple[I64, I64]
"""Codes of calls, ascending, and their ends, ascending among equal codes."""


class CodedCalls(Struct, frozen=True):
    """The calls of two sequences coded as small numbers, and the stable order by these codes.

    Both sequences ascend in time, and so do equal codes in that order.
    """

    code: I64
    other_code: I64
    order: I64
    other_order: I64

    @classmethod
    def of(cls, tokens: Tokens, other_tokens: Tokens) -> CodedCalls:
        """Code calls so that equal tokens have equal codes; int16 tokens are codes already."""
        small = tokens.dtype == other_tokens.dtype == np.int16
        code, other = (tokens, other_tokens) if small else coded((tokens, other_tokens))
        return cls(code.astype(np.int64), other.astype(np.int64), _ordered(code), _ordered(other))

    def nearest(self, ends_ns: I64, other_ends_ns: I64, near_ns: int) -> I64:
        """Return the counterpart of each call in the other sequence, int64, -1 for none.

        Their ends are at most ``near_ns`` apart, and each is the nearest of the other.
        """
        place = np.full(len(ends_ns), MISSING, np.int64)
        if not len(ends_ns) or not len(other_ends_ns):
            return place
        own = self.code[self.order], ends_ns[self.order]
        other = self.other_code[self.other_order], other_ends_ns[self.other_order]
        key, other_key = _keys(own, other)
        forth, apart = _closest(key, own, other_key, other)
        back, _ = _closest(other_key, other, key, own)
        mutual = (apart <= near_ns) & (back[forth] == np.arange(len(key)))
        place[self.order[mutual]] = self.other_order[forth[mutual]]
        return place


def coded(tokens: Sequence[Tokens]) -> list[Tokens]:
    """Number the tokens alike in all sequences, as int16 where that suffices, else int64."""
    names = distinct_values(tokens[0]) if len(tokens) else np.empty(0, np.int64)
    places = []
    for one in tokens:
        place = _place(names, one)
        if place is None:
            names = distinct_values(np.concatenate((names, distinct_values(one))))
            return coded((names, *tokens))[1:]
        places.append(place)
    small = np.int16 if len(names) < 1 << 15 else np.int64
    return [place.astype(small) for place in places]


def _place(names: Tokens, tokens: Tokens) -> I64 | None:
    """Return the place of each token among the names, None where one is missing."""
    if not len(tokens):
        return np.empty(0, np.int64)
    if not len(names):
        return None
    place = np.minimum(np.searchsorted(names, tokens), len(names) - 1)
    return place if np.array_equal(names[place], tokens) else None


def _ordered(code: Tokens) -> I64:
    return np.argsort(code, kind="stable")


def _keys(own: _Calls, other: _Calls) -> tuple[I64, I64]:
    """Return keys that order the calls of both sequences by code, then by end."""
    (code, ends), (other_code, other_ends) = own, other
    base = min(int(ends.min()), int(other_ends.min()))
    span = max(int(ends.max()), int(other_ends.max())) - base + 1
    number = 1 + max(int(code[-1]), int(other_code[-1]))
    shift = max(0, (number * span).bit_length() - _BITS)
    width = (span >> shift) + 1
    here, there = ((part - base) >> shift for part in (ends, other_ends))
    return code * width + here, other_code * width + there


def _closest(key: I64, own: _Calls, among_key: I64, among: _Calls) -> tuple[I64, I64]:
    """Return the call of the same code with the nearest end, and the distance, int64 ns."""
    (code, times), (among_code, ends) = own, among
    right = np.searchsorted(among_key, key)
    left = np.maximum(right - 1, 0)
    right = np.minimum(right, len(among_key) - 1)
    before, after = (
        np.where(among_code[one] == code, np.abs(ends[one] - times), _NEVER)
        for one in (left, right)
    )
    return np.where(before < after, left, right), np.minimum(before, after)


def tabulate(keys: Sequence[I64]) -> I64:
    """Return the position of each key in each member, int64 [n, m], -1 where it has none.

    Lines are ascending in key. Repeats of a key within a member are distinguished by ordinal.
    """
    distinct = _without_repeats(keys)
    filled = [key for key in distinct if len(key)]
    if not filled:
        return np.empty((0, len(keys)), np.int64)
    low = min(int(key.min()) for key in filled)
    span = max(int(key.max()) for key in filled) - low + 1
    if span > 4 * max(len(key) for key in filled) + 1024:
        return tabulate(_as_ranks(distinct))
    # one row per member, so that the columns of the result are contiguous
    table = np.full((len(keys), span), MISSING, np.int64)
    for member, key in enumerate(distinct):
        table[member, key - low] = np.arange(len(key))
    used = (table >= 0).any(axis=0)
    return (table if used.all() else table[:, used]).T


def ordinals(key: I64) -> I64:
    """Return the number of equal keys before each, int64."""
    if np.all(key[1:] > key[:-1]):
        return np.zeros(len(key), np.int64)
    order = np.argsort(key, kind="stable")
    ordered = key[order]
    opens = np.concatenate((np.ones(1, np.bool_), ordered[1:] != ordered[:-1]))
    first = np.flatnonzero(opens)
    counts = np.diff(np.append(first, len(key)))
    result = np.empty(len(key), np.int64)
    result[order] = np.arange(len(key)) - np.repeat(first, counts)
    return result


def place_gap(
    tokens: Tokens,
    ends_ns: I64,
    longer_tokens: Tokens,
    longer_ends_ns: I64,
    *,
    ahead_ns: int | None = None,
) -> I64:
    """Return the positions in a longer sequence of one that lacks a run of its calls, int64.

    ``tokens`` encode type, dtype and elements of a call, ``ends_ns`` are the ends, on two clocks
    that differ by ``ahead_ns`` where that is known. The gap is placed where fewest tokens disagree,
    then where the times between ends (and, with known clocks, the ends) agree best, then first: a
    sequence that fits both ways is lined up from its end, because windows open at different times
    and close together.
    """
    count = len(tokens)
    gap = len(longer_tokens) - count
    before = _summed(tokens != longer_tokens[:count])
    after = _summed(tokens != longer_tokens[gap:])
    wrong = before + (after[-1] - after)
    candidates = np.flatnonzero(wrong == wrong.min())
    cost = _unevenness(ends_ns, longer_ends_ns)
    if ahead_ns is not None:
        cost += _distance(ends_ns - ahead_ns, longer_ends_ns)
    first_after = int(candidates[np.argmin(cost[candidates])])
    positions = np.arange(count, dtype=np.int64)
    positions[first_after:] += gap
    return positions


def _distance(ends_ns: I64, longer_ends_ns: I64) -> I64:
    """Return for each place of the gap the summed distance of the ends on one clock, ns."""
    count = len(ends_ns)
    gap = len(longer_ends_ns) - count
    before = _summed(np.abs(ends_ns - longer_ends_ns[:count]))
    after = _summed(np.abs(ends_ns - longer_ends_ns[gap:]))
    return np.asarray(before + (after[-1] - after))


def _unevenness(ends_ns: I64, longer_ends_ns: I64) -> I64:
    """Return for each place of the gap the summed difference of times between ends, ns."""
    count = len(ends_ns)
    gap = len(longer_ends_ns) - count
    between = np.diff(ends_ns)
    before = _summed(np.abs(between - np.diff(longer_ends_ns[:count])))
    after = _summed(np.abs(between - np.diff(longer_ends_ns[gap:])))
    cost = np.zeros(count + 1, np.int64)
    if count < 2:
        return cost
    cost[0], cost[count] = after[-1], before[-1]
    across = np.abs(between - (longer_ends_ns[gap + 1 :] - longer_ends_ns[: count - 1]))
    cost[1:count] = before[:-1] + across + (after[-1] - after[1:])
    return cost


def _summed(values: I64) -> I64:
    """Return the sums of the first 0, 1, … values."""
    total = np.zeros(len(values) + 1, np.int64)
    np.cumsum(values, out=total[1:])
    return total


def _without_repeats(keys: Sequence[I64]) -> list[I64]:
    counted = [ordinals(key) for key in keys]
    width = 1 + max((int(ordinal.max(initial=0)) for ordinal in counted), default=0)
    if width == 1:
        return list(keys)
    ranked = _as_ranks(keys)
    return [key * width + ordinal for key, ordinal in zip(ranked, counted, strict=True)]


def _as_ranks(keys: Sequence[I64]) -> list[I64]:
    """Number the keys 0, 1, … in ascending order over all members."""
    _, ranks = unique_inverse(np.concatenate(list(keys)))
    return np.split(ranks, np.cumsum([len(key) for key in keys])[:-1])


SCATTER_NS: Final = 200_000
"""Largest distance of the ends of one collective on one clock."""
_BIN_NS: Final = SCATTER_NS
_COLUMNS: Final = 64
_POINTS: Final = 24
"""Number of blocks for the slope: enough for calls that are lined up within ``SCATTER_NS``."""
_VOTERS: Final = 128
"""Calls in the middle whose distances to others vote for a difference of the clocks."""
_NEARLY_ALL: Final = 0.9
"""Share of the calls from which a fit is not repeated: the others may lack a counterpart."""
_SLACK: Final = 64
"""Number of calls that may be missing on both sides, beyond the difference of the lengths."""
SPREAD_FACTOR: Final = 4
"""Ends may be this many times the p95 of their distances apart, if that is more."""
FEWEST: Final = 3
"""Pairs that a difference of clocks rests on where none is known: two calls agree by chance."""


class ClockDifference(Struct, frozen=True):
    """Lead of one clock over another: ``offset_ns`` at ``at_ns``, ``rate`` in ns per ns."""

    offset_ns: float
    rate: float
    at_ns: int

    def of(self, times_ns: I64) -> I64:
        """Return the difference at times of the clock that is ahead, int64 ns."""
        drifted = np.rint((times_ns - self.at_ns) * self.rate).astype(np.int64)
        return np.asarray(round(self.offset_ns) + drifted)


def difference_between(ahead: ClockDifference, other: ClockDifference) -> ClockDifference:
    """Return how far one clock is ahead of another, given how far both are ahead of a third.

    Each lead is stated at times of its own clock: clocks that are half a second apart drift by tens
    of microseconds in that time.
    """
    then = ahead.at_ns - round(ahead.offset_ns) + round(other.offset_ns)
    offset = ahead.offset_ns - (round(other.offset_ns) + round((then - other.at_ns) * other.rate))
    return ClockDifference(offset, ahead.rate - other.rate, ahead.at_ns)


def fit(ends_ns: I64, other_ns: I64) -> ClockDifference:
    """Return how far a clock is ahead, from the ends of the same collectives on both clocks.

    The rate is 0 unless the drift exceeds three standard errors.
    """
    return fit_all(ends_ns[:, np.newaxis], other_ns)[0]


def fit_all(ends_ns: I64, other_ns: I64) -> list[ClockDifference]:
    """Return the same for many clocks, int64 [n, m], against one, int64 [n]."""
    middle = int(other_ns[0]) + int(median_along(other_ns - other_ns[0]))
    difference = (ends_ns - other_ns[:, np.newaxis]).astype(np.float64)
    since = other_ns - middle
    found = []
    for first in range(0, difference.shape[1], _COLUMNS):
        part = difference[:, first : first + _COLUMNS]
        slope, error = slopes(since / 1e9, part, points=_POINTS)
        rates = np.where(np.abs(slope) > 3 * error, slope / 1e9, 0.0)
        drifted = since[:, np.newaxis] * rates if rates.any() else 0.0
        offsets = median_along(part - drifted)
        # convert to the clock that is ahead: it reads the middle later, and its own rate there
        found += [
            ClockDifference(offset, rate / (1 + rate), middle + round(offset))
            for offset, rate in zip(offsets.tolist(), rates.tolist(), strict=True)
        ]
    return found


class Paired(Struct, frozen=True):
    """Positions of calls among others, int64 ascending, -1 for none; and the clock difference."""

    positions: I64
    ahead: ClockDifference


def pair(
    tokens: Tokens,
    ends_ns: I64,
    other_tokens: Tokens,
    other_ends_ns: I64,
    ahead: ClockDifference | None = None,
    *,
    least: float = 0.5,
) -> Paired | None:
    """Pair the calls of two sequences.

    Args:
        tokens: One number per call for its type, dtype and sizes.
        ends_ns: Ends of the calls, ascending.
        other_tokens: Likewise of the other sequence.
        other_ends_ns: Likewise.
        ahead: How far this clock is ahead of the other; None to estimate it from the difference
            that most pairs share.
        least: Share of the shorter sequence that must find a counterpart.

    Returns:
        None where fewer calls find a counterpart, or, with unknown clocks, fewer than three.
    """
    known = ahead or _most_common_difference(tokens, ends_ns, other_tokens, other_ends_ns)
    if known is None or not len(tokens) or not len(other_tokens):
        return None
    near_ns, alike = SCATTER_NS, CodedCalls.of(tokens, other_tokens)
    for _ in range(2):
        here = ends_ns - known.of(ends_ns)
        anchors = _ascending(alike.nearest(here, other_ends_ns, near_ns))
        found = np.flatnonzero(anchors >= 0)
        if len(found) < 2:
            break
        known = fit(ends_ns[found], other_ends_ns[anchors[found]])
        apart = (ends_ns - known.of(ends_ns))[found] - other_ends_ns[anchors[found]]
        near_ns = max(SCATTER_NS, round(SPREAD_FACTOR * nearest_rank(np.abs(apart), 0.95)))
        if len(found) >= _NEARLY_ALL * min(len(tokens), len(other_tokens)):
            break
    here = ends_ns - known.of(ends_ns)
    anchors = _ascending(alike.nearest(here, other_ends_ns, near_ns))
    positions = _filled(anchors, (tokens, here), (other_tokens, other_ends_ns), near_ns)
    matched = int((positions >= 0).sum())
    if matched < (1 if ahead else FEWEST) or (
        matched < least * min(len(tokens), len(other_tokens))
    ):
        return None
    return Paired(positions, known)


def _most_common_difference(
    tokens: Tokens, ends: I64, other_tokens: Tokens, other_ends: I64
) -> ClockDifference | None:
    """Return the difference shared by most pairs of like calls at similar places.

    Only calls in the middle are used: over a longer time, drift would spread the differences.
    """
    count, others = len(tokens), len(other_tokens)
    reach = abs(others - count) + _SLACK
    first = max(0, (count - _VOTERS) // 2)
    place = np.arange(first, min(first + _VOTERS, count))[:, np.newaxis]
    there = place + np.arange(-reach, reach + 1)
    inside = np.clip(there, 0, max(others - 1, 0))
    like = (there == inside) & (tokens[place] == other_tokens[inside]) if others else there < 0
    every = np.sort((ends[place] - other_ends[inside])[like] if others else ends[:0])
    if not len(every):
        return None
    within = np.searchsorted(every, every + _BIN_NS, side="right") - np.arange(len(every))
    best = int(within.argmax())
    chosen = every[best : best + int(within[best])]
    return ClockDifference(float(median_along(chosen)), 0.0, int(ends[len(ends) // 2]))


def _ascending(place: I64) -> I64:
    """Keep only the places that are above all before and below all after them; -1 for others."""
    known = np.flatnonzero(place >= 0)
    if not len(known):
        return place
    values = place[known]
    before = np.concatenate(([-1], np.maximum.accumulate(values)[:-1]))
    after = np.concatenate((np.minimum.accumulate(values[::-1])[::-1][1:], [_NEVER]))
    result = np.full(len(place), MISSING, np.int64)
    keep = (values > before) & (values < after)
    result[known[keep]] = values[keep]
    return result


def _filled(anchors: I64, own: tuple[Tokens, I64], other: tuple[Tokens, I64], near_ns: int) -> I64:
    """Fill the calls between anchors: in order where that fits, else the best pairing.

    ``own`` and ``other`` are tokens and ends of the two sequences.
    """
    (tokens, ends), (other_tokens, other_ends) = own, other
    positions = anchors.copy()
    known = np.flatnonzero(anchors >= 0)
    edges = np.concatenate(([-1], known, [len(tokens)]))
    sides = np.concatenate(([-1], anchors[known], [len(other_tokens)]))
    open_blocks = np.flatnonzero((np.diff(edges) > 1) & (np.diff(sides) > 1))
    for block in open_blocks.tolist():
        mine = slice(int(edges[block]) + 1, int(edges[block + 1]))
        theirs = slice(int(sides[block]) + 1, int(sides[block + 1]))
        alike = np.array_equal(tokens[mine], other_tokens[theirs])
        if alike and (np.abs(ends[mine] - other_ends[theirs]) <= near_ns).all():
            positions[mine] = np.arange(theirs.start, theirs.stop)
        else:
            like = tokens[mine, np.newaxis] == other_tokens[theirs]
            found = _best_pairing(like, ends[mine], other_ends[theirs], near_ns)
            positions[mine] = np.where(found >= 0, found + theirs.start, MISSING)
    return positions


def _best_pairing(like: Bool, ends: I64, other_ends: I64, near_ns: int) -> I64:
    """Return the pairing of two short sequences with most near and like pairs, then nearest ends.

    Dynamic programming: a near and like pair gains 2 minus its distance over ``near_ns``.
    """
    rows, columns = like.shape
    distance = np.abs(ends[:, np.newaxis] - other_ends)
    gain = np.where(like & (distance <= near_ns), 2.0 - distance / near_ns, -1.0)
    best = np.zeros((rows + 1, columns + 1))
    for row in range(rows):
        taken = np.where(gain[row] > 0, best[row, :-1] + gain[row], -1.0)
        best[row + 1, 1:] = np.maximum.accumulate(np.maximum(taken, best[row, 1:]))
    positions = np.full(rows, MISSING, np.int64)
    row, column = rows, columns
    while row and column:
        if best[row, column] == best[row - 1, column]:
            row -= 1
        elif best[row, column] == best[row, column - 1]:
            column -= 1
        else:
            row, column = row - 1, column - 1
            positions[row] = column
    return positions
