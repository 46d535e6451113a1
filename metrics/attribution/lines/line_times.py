"""Times along the lines of all ranks, by line and position."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ccltui.metrics.attribution.lines.call_table import CallTable
from ccltui.metrics.attribution.lines.step_lines import StepLines
from ccltui.parsers.array_types import F64, I64


class LineTimes:
    """Times along the lines of all ranks, by line and position."""

    def __init__(self, ranks: Sequence[StepLines], table: CallTable) -> None:
        self.ranks, self.rank = ranks, table.rank
        sizes = [len(one.steps) for one in ranks]
        self.place = np.concatenate([np.arange(count) for count in sizes])
        self.first = np.concatenate([one.first for one in ranks])
        self.size = np.concatenate([one.stop - one.first for one in ranks])
        self.origin = np.concatenate([one.origin_ns for one in ranks])

    def busy(self, lines: I64, at: I64) -> F64:
        """Busy time from the begin of each line to each position, [lines, positions]."""
        found = np.empty((len(lines), len(at)))
        for row, line in enumerate(lines.tolist()):
            busy, first = self.ranks[self.rank[line]].busy_ns, self.first[line]
            found[row] = busy[first + at] - busy[first]
        return found

    def along(self, line: I64, at: I64) -> tuple[I64, I64, I64, I64]:
        """By operation: end of the work before it, start of the kernel at it, idle sums.

        Times are from the origin of the line; the sums are of idle time before the kernel and
        through it. Where no kernel follows, its start is the largest int64.
        """
        before, start = np.zeros(len(at), np.int64), np.full(len(at), np.iinfo(np.int64).max)
        idle, through = np.zeros(len(at), np.int64), np.zeros(len(at), np.int64)
        edges = np.searchsorted(self.rank[line], np.arange(len(self.ranks) + 1))
        for index, one in enumerate(self.ranks):
            here = slice(int(edges[index]), int(edges[index + 1]))
            lines = line[here]
            place, origin = self.first[lines] + at[here], self.origin[lines]
            if not len(one.start_ns):
                continue
            inner = at[here] > 0
            before[here] = np.where(inner, one.reach_ns[np.maximum(place - 1, 0)] - origin, 0)
            held = at[here] < self.size[lines]
            next_start = one.start_ns[np.minimum(place, len(one.start_ns) - 1)] - origin
            start[here] = np.where(held, next_start, start[here])
            idle[here] = one.gap_ns[place]
            through[here] = one.gap_ns[np.minimum(place + 1, len(one.gap_ns) - 1)]
        return before, start, idle, through
