"""Find the stack of ranges of each thread: which range lies directly inside which."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ccltui.parsers.array_types import I64
from ccltui.parsers.nsys.report_tables import Ranges


@dataclass(frozen=True, slots=True)
class Stacks:
    """Place of each of some ranges in the stack of its thread.

    ``parent`` is the place of the range around it among the same ranges, -1 without one; ``level``
    counts the ranges around it; ``num_children`` those directly inside.
    """

    parent: I64
    level: I64
    num_children: I64

    def paths(self, numbers: I64, order: I64) -> list[str]:
        """Return the numbers of the ranges around each range and its own: ``:3:17``."""
        parents = self.parent.tolist()
        known: dict[int, str] = {}

        def path(place: int) -> str:
            pending = []
            while place >= 0 and place not in known:
                pending.append(place)
                place = parents[place]
            text = known[place] if place >= 0 else ""
            for one in reversed(pending):
                text = known[one] = f"{text}:{numbers[one]}"
            return text

        return [path(place) for place in order.tolist()]


def stacks(ranges: Ranges, rows: I64) -> Stacks:
    """Return the stacks of ``rows`` of the ranges; other ranges do not count.

    A range is inside another if it neither begins before it nor ends after it. Push/pop ranges
    nest; start/end ranges may overlap, so that a range can be inside several of which none is
    inside another: the shortest of them is its parent, as in nsys. Of ranges with equal times the
    one that is first in the table is outside.
    """
    parent = np.full(len(rows), -1, np.int64)
    level, children = (np.zeros(len(rows), np.int64) for _ in range(2))
    start, end, thread = (
        column[rows] for column in (ranges.start_ns, ranges.end_ns, ranges.thread)
    )
    order = np.lexsort((np.arange(len(rows)), -end, start, thread))
    starts, ends, threads = start.tolist(), end.tolist(), thread.tolist()
    open_ranges: list[int] = []
    for place in order.tolist():
        open_ranges = [
            one
            for one in open_ranges
            if threads[one] == threads[place] and ends[one] >= starts[place]
        ]
        around = [one for one in reversed(open_ranges) if ends[one] >= ends[place]]
        if around:
            inner = min(around, key=lambda one: ends[one] - starts[one])
            parent[place] = inner
            children[inner] += 1
            level[place] = level[inner] + 1
        open_ranges.append(place)
    return Stacks(parent, level, children)


def range_numbers(ranges: Ranges, rows: I64) -> I64:
    """Return the row numbers of ranges, counted from 1 where the source has none."""
    numbers = np.arange(1, len(ranges) + 1) if ranges.number is None else ranges.number
    result: I64 = numbers[rows]
    return result
