"""Kernels by name over all ranks of a job: which took a late rank longer, or ran more often."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from metrics.classify import distinct
from metrics.distinct import distinct_values
from parsers.columns import I32, I64, MISSING, Bool, RankTrace

if TYPE_CHECKING:
    from metrics.collectives.activity import Activity

F64 = npt.NDArray[np.float64]

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


def compare(
    activities: Sequence[Activity], begin_ns: I64, end_ns: I64, late: I64, punctual: Bool
) -> tuple[F64, I64]:
    """Time in kernels beyond their number on the peers, and the name that took longest beyond.

    ``begin_ns`` and ``end_ns`` are int64 [t, m] on own clocks, ``late`` the member [t] that is
    set against the median of its ``punctual`` peers [t, m]. Float64 ns and name numbers [t]; NaN
    and -1 from ``MAX_COMPARED`` on.
    """
    count = len(late)
    extra, worst = np.full(count, np.nan), np.full(count, MISSING, np.int64)
    starts = [one.work[0] for one in activities]
    first = np.stack([np.searchsorted(s, begin_ns[:, i]) for i, s in enumerate(starts)], axis=1)
    stop = np.stack([np.searchsorted(s, end_ns[:, i]) for i, s in enumerate(starts)], axis=1)
    size = max((int(one.work[2].max(initial=-1)) for one in activities), default=-1) + 1
    rows = np.flatnonzero(punctual[:MAX_COMPARED].any(axis=1))
    if not size or not len(rows):
        return extra, worst
    who = np.column_stack((late[rows], _first_marked(punctual[rows], MAX_PEERS)))
    each = max(_MAX_CELLS // (size * who.shape[1]), 1)
    for at in range(0, len(rows), each):
        here = rows[at : at + each]
        told = _tallies(activities, who[at : at + each], first[here], stop[here], size)
        extra[here], worst[here] = _beyond(*told, who[at : at + each] >= 0)
    return extra, worst


def _first_marked(marks: Bool, most: int) -> I64:
    """The first so many marked columns of each row, int64 [t, most]; -1 after the last."""
    place = np.where(marks, np.cumsum(marks, axis=1) - 1, most)
    found = np.full((len(marks), most), MISSING, np.int64)
    rows, columns = np.nonzero(place < most)
    found[rows, place[rows, columns]] = columns
    return found


def _tallies(
    activities: Sequence[Activity], who: I64, first: I64, stop: I64, size: int
) -> tuple[F64, F64]:
    """How often each name ran, and for how many ns in all; float64 [t, w, name].

    ``who`` [t, w] are members (-1: nobody), ``first`` and ``stop`` [t, m] places in their work.
    """
    number, total = np.zeros((2, *who.shape, size))
    for member in distinct_values(who[who >= 0]).tolist():
        _, dur, name = activities[member].work
        rows, slots = np.nonzero(who == member)
        begin, length = first[rows, member], stop[rows, member] - first[rows, member]
        for part in _portions(length):
            many = length[part]
            pick = np.repeat(begin[part] - (np.cumsum(many) - many), many) + np.arange(many.sum())
            cell = np.repeat(np.arange(len(many)) * size, many) + name[pick]
            shape = len(many), size
            counts = np.bincount(cell, minlength=len(many) * size)
            number[rows[part], slots[part]] = counts.reshape(shape)
            sums = np.bincount(cell, dur[pick], len(many) * size)
            total[rows[part], slots[part]] = sums.reshape(shape)
    return number, total


def _portions(length: I64) -> list[slice]:
    """Consecutive segments that hold about as many kernels as are taken apart at once."""
    portion = np.cumsum(length) // _MAX_CELLS
    edges = [0, *(np.flatnonzero(np.diff(portion)) + 1).tolist(), len(length)]
    return [slice(a, b) for a, b in pairwise(edges)]


def _beyond(number: F64, total: F64, there: Bool) -> tuple[F64, I64]:
    """Extra time and the worst name by row; the first of each row beside the others ``there``."""
    usual_number, usual = _middle(number, there), _middle(total, there)
    each = total[:, 0] / np.maximum(number[:, 0], 1)
    extra = (np.maximum(number[:, 0] - usual_number, 0) * each).sum(axis=1)
    return extra, (total[:, 0] - usual).argmax(axis=1)


def _middle(values: F64, there: Bool) -> F64:
    """Median over the peers that are there, float64 [t, name]."""
    ordered = np.sort(np.where(there[:, 1:, np.newaxis], values[:, 1:], np.inf), axis=1)
    count = there[:, 1:].sum(axis=1)
    line = np.arange(len(values))
    return np.asarray((ordered[line, (count - 1) // 2] + ordered[line, count // 2]) / 2)
