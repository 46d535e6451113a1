"""State of Parallelism: which dimensions are folded, the order, and the selected row."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import Final

from ccltui.parsers.system.quick_dataclass import dataclass
from ccltui.tui.state.own.own_state import OwnState
from ccltui.tui.state.own.pane_names import PARALLELISM


class Sort(Enum):
    """Column that rows are sorted by, the largest first; `NAME` is the order of the metric."""

    NAME = "dimension"
    CALLS = "calls"
    BYTES = "bytes"
    BUSBW = "GB/s"
    EXPOSED = "exposed"
    HIDDEN = "hidden"
    WAIT = "wait"
    SKEW = "skew"
    DELTA = "B - A"


@dataclass(frozen=True, slots=True)
class DimensionsState:
    """Dimensions that are folded other than by default, order, filter and selected row."""

    toggled: frozenset[str] = frozenset()
    sort: Sort = Sort.NAME
    reverse: bool = False
    pattern: str = ""
    row: int = 0

    def sorted_next(self, step: int, *, compares: bool = False) -> DimensionsState:
        """Return the state sorted by the next column, or the previous for -1.

        The difference of a second path is among them where the pane ``compares``.
        """
        columns = [one for one in Sort if compares or one is not Sort.DELTA]
        sort = columns[(columns.index(self.sort) + step) % len(columns)]
        return replace(self, sort=sort, reverse=False, row=0)


DIMENSIONS_STATE: Final = OwnState(PARALLELISM, DimensionsState())
