"""Line up sequences of calls by a common key, or by the place of one gap."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ccltui.metrics.arrays.reductions import unique_inverse
from ccltui.metrics.collectives.matching.nearest_calls import Tokens
from ccltui.parsers.array_types import I64
from ccltui.parsers.columns import MISSING


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
