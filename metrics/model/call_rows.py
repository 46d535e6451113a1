"""Row numbers of calls, with the group of events that they number.

Calls are kernels on one rank and host events on another. A row of one table is no row of another,
so that the numbers are only given to who names the group that is indexed.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ccltui.parsers.array_types import I64, Bool
from ccltui.parsers.columns import MISSING, Events, Group, RankTrace
from ccltui.parsers.system.quick_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class CallRows:
    """Rows of the events ``group`` of a trace; `of` gives them as numbers."""

    group: Group
    numbers: I64

    def __len__(self) -> int:
        return len(self.numbers)

    def of(self, group: Group) -> I64:
        """Return the numbers, int64; ValueError where they number another group."""
        if group != self.group:
            raise ValueError(f"these are rows of {self.group}, not of {group}")
        return self.numbers

    def events_of(self, trace: RankTrace) -> Events:
        """Return the group of events that the numbers index."""
        return trace.group(self.group)

    def take(self, rows: npt.NDArray[np.intp] | I64 | Bool) -> CallRows:
        """Return some of the rows (mask or indices)."""
        return CallRows(self.group, self.numbers[rows])

    def with_none(self, count: int) -> CallRows:
        """Return these rows, and -1 for as many further calls."""
        return CallRows(self.group, np.append(self.numbers, np.full(count, MISSING)))
