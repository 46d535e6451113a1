"""Kernels by name over all ranks of a job: which took a late rank longer, or ran more often."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from metrics.classify import distinct
from parsers.columns import I32, I64, MISSING, Bool, RankTrace

if TYPE_CHECKING:
    from metrics.collectives.activity import Activity

F64 = npt.NDArray[np.float64]

MAX_COMPARED: Final = 5000
"""So many late arrivals are taken apart by kernel name; of the rest only sums are compared."""
MAX_PEERS: Final = 4


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
    if not size:
        return extra, worst
    for row in range(min(count, MAX_COMPARED)):
        peers = np.flatnonzero(punctual[row])[:MAX_PEERS].tolist()
        if not peers:
            continue
        who = [int(late[row]), *peers]
        tables = [_tally(activities[i], int(first[row, i]), int(stop[row, i]), size) for i in who]
        number, total = tables[0]
        usual_number = _middle([table[0] for table in tables[1:]])
        usual = _middle([table[1] for table in tables[1:]])
        each = total / np.maximum(number, 1)
        extra[row] = float((np.maximum(number - usual_number, 0) * each).sum())
        worst[row] = int((total - usual).argmax())
    return extra, worst


def _middle(rows: Sequence[I64] | Sequence[F64]) -> F64:
    """Median over a few rows; for so few faster than the general one."""
    if len(rows) == 1:
        return np.asarray(rows[0], np.float64)
    ordered = np.sort(np.stack(rows), axis=0)
    middle = len(ordered) // 2
    return np.asarray((ordered[(len(ordered) - 1) // 2] + ordered[middle]) / 2)


def _tally(activity: Activity, first: int, stop: int, size: int) -> tuple[I64, F64]:
    """How often each name ran, and for how many ns in all."""
    _, dur, name = activity.work
    here = name[first:stop]
    number = np.bincount(here, minlength=size).astype(np.int64)
    return number, np.bincount(here, dur[first:stop], size).astype(np.float64)
