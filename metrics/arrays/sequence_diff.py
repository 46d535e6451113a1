"""Compute the shortest difference of two sequences: common items in order, and the rest.

Myers' greedy algorithm (An O(ND) difference algorithm and its variations, 1986), all diagonals
at once. Runs of equal items are skipped by comparing ids of blocks of 1, 2, 4, … items.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.reductions import unique_inverse
from ccltui.parsers.array_types import I64, Bool

MAX_DIFFERENCES: Final = 3_000
"""Largest number of items that only one sequence has, for two versions of one sequence."""


class TooDifferentError(ValueError):
    """Two sequences have more than the allowed number of differences."""


_OUTSIDE: Final = np.iinfo(np.int64).min // 2
"""Value for the end of a diagonal that is outside of the sequences."""


class Difference(Struct, frozen=True, eq=False):
    """Positions in two sequences: ``one[i]`` and ``other[i]`` are equal items, both ascending."""

    one: I64
    other: I64

    def __len__(self) -> int:
        return len(self.one)


def difference(one: I64, other: I64, *, most: int = MAX_DIFFERENCES) -> Difference:
    """Match two int64 sequences of ids so that as few items as possible stay unmatched.

    Raises:
        TooDifferentError: more than ``most`` items stay unmatched.
    """
    head = _common(one, other)
    tail = _common(one[head:][::-1], other[head:][::-1])
    left, right = one[head : len(one) - tail], other[head : len(other) - tail]
    inner = _matched(left, right, most)
    ahead, behind = np.arange(head), np.arange(tail)
    return Difference(
        np.concatenate((ahead, inner.one + head, behind + len(one) - tail)),
        np.concatenate((ahead, inner.other + head, behind + len(other) - tail)),
    )


def _common(one: I64, other: I64) -> int:
    """Length of the common prefix."""
    size = min(len(one), len(other))
    unequal = np.flatnonzero(one[:size] != other[:size])
    return int(unequal[0]) if len(unequal) else size


def _matched(one: I64, other: I64, most: int) -> Difference:
    n, m = len(one), len(other)
    nothing = np.empty(0, np.int64)
    if not n or not m:
        if n + m > most:
            raise TooDifferentError(_too_many(most))
        return Difference(nothing, nothing)
    blocks = _Blocks(one, other)
    history: list[I64] = []
    reach = blocks.skip(np.zeros(1, np.int64), np.zeros(1, np.int64))
    diagonals = np.zeros(1, np.int64)
    for _ in range(min(most, n + m)):
        history.append(reach)
        if reach[diagonals == n - m].max(initial=-1) >= n:
            return _walk(history, n, m)
        diagonals, reach = _one_more(reach, n, m, blocks)
    history.append(reach)
    if reach[diagonals == n - m].max(initial=-1) >= n:
        return _walk(history, n, m)
    raise TooDifferentError(_too_many(most))


def _too_many(most: int) -> str:
    return f"more than {most:,} kernels differ: these are not versions of one sequence"


def _one_more(reach: I64, n: int, m: int, blocks: _Blocks) -> tuple[I64, I64]:
    """Furthest positions after one more difference, for the diagonals -d, -d + 2, …, d."""
    count = len(reach) + 1
    diagonals = np.arange(-(count - 1), count, 2, dtype=np.int64)
    x = _start(reach)
    y = x - diagonals
    inside = (x >= 0) & (x <= n) & (y >= 0) & (y <= m)
    x[inside] = blocks.skip(x[inside], y[inside])
    x[~inside] = _OUTSIDE
    return diagonals, x


def _start(reach: I64) -> I64:
    """Position at which each next diagonal is entered, from the neighbour that reached further.

    Diagonal i is entered from i - 1 by skipping an item of the first sequence, from i by skipping
    one of the second.
    """
    never = np.array([_OUTSIDE], np.int64)
    return np.maximum(np.concatenate((never, reach + 1)), np.concatenate((reach, never)))


class _Blocks:
    """Ids of all blocks of 2**p items of both sequences; equal ids mean equal blocks."""

    def __init__(self, one: I64, other: I64) -> None:
        self._n, self._m = len(one), len(other)
        _, ids = unique_inverse(np.concatenate((one, other)))
        self._levels: list[tuple[I64, I64]] = [(ids[: self._n], ids[self._n :])]
        size = 1
        while 2 * size <= min(self._n, self._m):
            a, b = self._levels[-1]
            pairs = [part[:-size] * (self._n + self._m) + part[size:] for part in (a, b)]
            _, ids = unique_inverse(np.concatenate(pairs))
            self._levels.append((ids[: len(pairs[0])], ids[len(pairs[0]) :]))
            size *= 2

    def skip(self, x: I64, y: I64) -> I64:
        """Advance each (x, y) along equal items; return the new x."""
        x, y = x.copy(), y.copy()
        for level in range(len(self._levels) - 1, -1, -1):
            one, other = self._levels[level]
            # several blocks may follow at the highest level, at most one at each level below
            again = True
            while again:
                can = (x < len(one)) & (y < len(other))
                same: Bool = can & (
                    one[np.minimum(x, len(one) - 1)] == other[np.minimum(y, len(other) - 1)]
                )
                x[same] += 1 << level
                y[same] += 1 << level
                again = bool(same.any())
        return x


def _walk(history: list[I64], n: int, m: int) -> Difference:
    """Trace the path back from the end, collecting the matched runs."""
    ones, others = [], []
    x, y = n, m
    for d in range(len(history) - 1, 0, -1):
        before = history[d - 1]
        index = (x - y + d) // 2
        across = int(before[index - 1]) + 1 if index > 0 else _OUTSIDE
        down = int(before[index]) if index < len(before) else _OUTSIDE
        came = max(across, down)
        ones.append(np.arange(came, x))
        others.append(np.arange(came, x) - (x - y))
        diagonal = x - y
        y = came - diagonal
        x = came
        if across >= down:
            x -= 1
        else:
            y -= 1
    ones.append(np.arange(0, x))
    others.append(np.arange(0, x))
    return Difference(
        np.concatenate(ones[::-1]).astype(np.int64), np.concatenate(others[::-1]).astype(np.int64)
    )
