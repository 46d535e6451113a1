"""Lateness of every rank over time: the largest lateness in each of some equal parts of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ccltui.metrics.arrays.statistics import microseconds
from ccltui.metrics.view.collective_selection import chosen_of

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.parsers.array_types import I64

LEVELS: Final = 6
"""Number of classes of lateness above the floor, even on a logarithmic scale."""


@dataclass(frozen=True, slots=True, eq=False)
class LateHeat:
    """Largest lateness of ranks (rows) in parts of the time (columns), int64 ns.

    Attributes:
        labels: the ranks of each row; more than one where ranks are folded.
        edges_ns: boundaries of the columns [columns + 1], since the origin of the job.
        late_ns: largest arrival after the first member, clock-free [rows, columns]; -1 where the
            rank took part in no collective that began in that column.
        levels_ns: boundaries of the classes of lateness [LEVELS + 1]: from the lag floor, up to
            which nobody is called late, to the largest lateness. Empty where nothing exceeds it.
        floor_ns: the lag floor.
        steps: id and start of the steps of the first rank that marks any, ns since the origin.
    """

    labels: tuple[tuple[str, ...], ...]
    edges_ns: I64
    late_ns: I64
    levels_ns: I64
    floor_ns: int
    steps: tuple[tuple[int, int], ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form, times in us; None where a rank took part in nothing."""
        return {
            "edges_us": [microseconds(one) for one in self.edges_ns.tolist()],
            "late_us": [
                [None if one < 0 else microseconds(one) for one in row]
                for row in self.late_ns.tolist()
            ],
            "levels_us": [microseconds(one) for one in self.levels_ns.tolist()],
            "floor_us": microseconds(self.floor_ns),
        }


def late_heat(view: View, columns: int, most_rows: int) -> LateHeat:
    """Return the largest lateness of each rank in each of ``columns`` equal parts of the time.

    Collectives are those of `straggler_lag`. A collective belongs to the column in which its first
    member arrived. Where there are more than ``most_rows`` ranks, neighbours share a row, whose
    lateness is the largest of theirs.

    Raises:
        Refusal: no selected collective can tell who is late.
    """
    chosen = chosen_of(view)
    firsts = [one.start_ns.min(axis=1) - view.origin_ns for one in chosen]
    begin = min(int(first.min()) for first in firsts)
    length = max(max(int(first.max()) for first in firsts) + 1 - begin, columns)
    edges = begin + np.arange(columns + 1, dtype=np.int64) * length // columns
    late = np.full((len(view.ranks), columns), -1, np.int64)
    for one, first in zip(chosen, firsts, strict=True):
        column = np.searchsorted(edges, first, side="right") - 1
        where = (one.members[np.newaxis, :], np.minimum(column, columns - 1)[:, np.newaxis])
        np.maximum.at(late, where, one.lateness.late_ns)
    per_row = -(-len(view.ranks) // most_rows)
    rows = range(0, len(view.ranks), per_row)
    labels = [rank.label for rank in view.ranks]
    floor = view.arrivals.floor_ns
    return LateHeat(
        labels=tuple(tuple(labels[row : row + per_row]) for row in rows),
        edges_ns=edges,
        late_ns=np.stack([late[row : row + per_row].max(axis=0) for row in rows]),
        levels_ns=_levels(floor, int(late.max())),
        floor_ns=floor,
        steps=_steps(view),
    )


def _levels(floor_ns: int, largest_ns: int) -> I64:
    """Return boundaries even in the logarithm: lateness extends over several decades."""
    if largest_ns <= floor_ns:
        return np.empty(0, np.int64)
    return np.rint(np.geomspace(max(floor_ns, 1), largest_ns, LEVELS + 1)).astype(np.int64)


def _steps(view: View) -> tuple[tuple[int, int], ...]:
    for rank in view.ranks:
        if rank.steps:
            starts = np.array([step.start_ns for step in rank.steps], np.int64)
            since = view.on_job_clock(rank.label, starts) - view.origin_ns
            return tuple(zip((step.id for step in rank.steps), since.tolist(), strict=True))
    return ()
