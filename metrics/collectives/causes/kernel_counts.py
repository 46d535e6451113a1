"""Kernels by name over all ranks of a job: which a late rank ran more often."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from ccltui.metrics.arrays.reductions import distinct_values, row_any, row_count
from ccltui.metrics.model.classify import distinct
from ccltui.parsers.array_types import F64, I32, I64, Bool
from ccltui.parsers.columns import MISSING, RankTrace

if TYPE_CHECKING:
    from ccltui.metrics.collectives.causes.activity import Activity


MAX_COMPARED: Final = 5000
"""So many late arrivals are taken apart by kernel name; of the rest only sums are compared."""
MAX_PEERS: Final = 4
_MAX_CELLS: Final = 500_000
"""So many counts, and so many kernels, are held at once."""


class KernelNames:
    """Numbers for the names of kernels, the same on all ranks."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._ids: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.texts)

    def ids(self, trace: RankTrace, names: I32) -> I64:
        """Numbers of a rank's names (ids into its strings)."""
        table = np.full(len(trace.strings) + 1, MISSING, np.int64)
        for local in distinct(names):
            text = trace.text(local)
            if text not in self._ids:
                self._ids[text] = len(self.texts)
                self.texts.append(text)
            table[local] = self._ids[text]
        return table[names]


def beyond_number(
    activities: Sequence[Activity], begin_ns: I64, end_ns: I64, late: I64, punctual: Bool
) -> F64:
    """Time in kernels beyond their number on the peers.

    ``begin_ns`` and ``end_ns`` are int64 [t, m] on own clocks, ``late`` the member [t] that is
    set against the median of its ``punctual`` peers [t, m]. Float64 ns [t]; NaN from
    ``MAX_COMPARED`` on.
    """
    count = len(late)
    extra = np.full(count, np.nan)
    starts = [one.work[0] for one in activities]
    first = np.stack([np.searchsorted(s, begin_ns[:, i]) for i, s in enumerate(starts)], axis=1)
    stop = np.stack([np.searchsorted(s, end_ns[:, i]) for i, s in enumerate(starts)], axis=1)
    size = max((one.names_end for one in activities), default=0)
    rows = np.flatnonzero(row_any(punctual[:MAX_COMPARED]))
    if not size or not len(rows):
        return extra
    who = np.column_stack((late[rows], _first_marked(punctual[rows], MAX_PEERS)))
    each = max(_MAX_CELLS // (size * who.shape[1]), 1)
    for at in range(0, len(rows), each):
        here = rows[at : at + each]
        extra[here] = _beyond(activities, who[at : at + each], first[here], stop[here], size)
    return extra


def _beyond(activities: Sequence[Activity], who: I64, first: I64, stop: I64, size: int) -> F64:
    """Extra time by row; the first of the members ``who`` [t, w] beside the others (-1: nobody).

    ``first`` and ``stop`` are places in the work of each member [t, m]; names are below ``size``.
    """
    places = first, stop, size
    mine, *theirs = (_tallied(activities, one, *places, timed=False) for one in who.T)
    each_ns = _tallied(activities, who[:, 0], *places, timed=True) / np.maximum(mine, 1)
    more = mine - _middle(np.stack(theirs, axis=1), who[:, 1:] >= 0)
    return np.asarray((np.maximum(more, 0) * each_ns).sum(axis=1))


def _first_marked(marks: Bool, most: int) -> I64:
    """The first so many marked columns of each row, int64 [t, most]; -1 after the last."""
    place = np.where(marks, np.cumsum(marks, axis=1) - 1, most)
    found = np.full((len(marks), most), MISSING, np.int64)
    rows, columns = np.nonzero(place < most)
    found[rows, place[rows, columns]] = columns
    return found


def _tallied(
    activities: Sequence[Activity], who: I64, first: I64, stop: I64, size: int, *, timed: bool
) -> F64:
    """How often each name ran, or for how many ns (``timed``), on one member a row; [t, name].

    ``who`` [t] are members (-1: nobody), ``first`` and ``stop`` [t, m] places in their work.
    """
    found = np.zeros((len(who), size))
    for member in distinct_values(who[who >= 0]).tolist():
        _, dur, name = activities[member].work
        rows = np.flatnonzero(who == member)
        begin, length = first[rows, member], stop[rows, member] - first[rows, member]
        for part in _portions(length):
            many = length[part]
            pick = np.repeat(begin[part] - (np.cumsum(many) - many), many) + np.arange(many.sum())
            cell = np.repeat(np.arange(len(many)) * size, many) + name.take(pick)
            weights = dur.take(pick) if timed else None
            sums = np.bincount(cell, weights, len(many) * size)
            found[rows[part]] = sums.reshape(len(many), size)
    return found


def _portions(length: I64) -> list[slice]:
    """Consecutive segments that hold about as many kernels as are taken apart at once."""
    portion = np.cumsum(length) // _MAX_CELLS
    edges = [0, *(np.flatnonzero(np.diff(portion)) + 1).tolist(), len(length)]
    return [slice(a, b) for a, b in pairwise(edges)]


def _middle(values: F64, there: Bool) -> F64:
    """Median over those of [t, w, name] that are there [t, w], float64 [t, name]."""
    ordered = np.sort(np.where(there[:, :, np.newaxis], values, np.inf), axis=1)
    count = row_count(there)
    line = np.arange(len(values))
    return np.asarray((ordered[line, (count - 1) // 2] + ordered[line, count // 2]) / 2)
