"""State of Kernels: what the rows are, their order, and the filter by name."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import Final

from ccltui.parsers.system.quick_dataclass import dataclass
from ccltui.tui.state.own.own_state import OwnState
from ccltui.tui.state.own.pane_names import KERNELS


class By(Enum):
    """Property by which device work is grouped into rows, named as the pivots in metrics."""

    NAME = "name"
    CATEGORY = "category"
    OPERATOR = "operator"
    MODULE = "module"
    STREAM = "stream"
    RANK = "rank"


class Column(Enum):
    """Column that the rows are sorted by: the largest first, names in order of letters."""

    TOTAL = "total"
    CALLS = "calls"
    MEAN = "mean"
    MAX = "max"
    P95 = "p95"
    EXPOSED = "exposed"
    IMBALANCE = "max/mean"
    TFLOPS = "TFLOPS"
    TBPS = "TB/s"
    ROOFLINE = "roofline"
    OF_B = "B"
    DELTA = "B - A"
    NAME = "name"


@dataclass(frozen=True, slots=True)
class KernelsState:
    """The listing and the selected row; ``pattern`` filters by name."""

    by: By = By.NAME
    sort: Column = Column.TOTAL
    reverse: bool = False
    pattern: str = ""
    row: int = 0

    def grouped_next(self) -> KernelsState:
        """Return the state with the next kind of rows; a filter of other names is dropped."""
        kinds = list(By)
        by = kinds[(kinds.index(self.by) + 1) % len(kinds)]
        return replace(self, by=by, pattern="", row=0)

    def sorted_next(self, step: int, *, compares: bool = False) -> KernelsState:
        """Return the state sorted by the next column, or the previous for -1.

        Columns of a second path are among them where the pane ``compares``.
        """
        columns = [c for c in Column if compares or c not in (Column.OF_B, Column.DELTA)]
        sort = columns[(columns.index(self.sort) + step) % len(columns)]
        return replace(self, sort=sort, reverse=False, row=0)


KERNELS_STATE: Final = OwnState(KERNELS, KernelsState())
