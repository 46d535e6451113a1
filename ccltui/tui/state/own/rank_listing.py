"""State of Ranks: what rows are folded by, which are unfolded, filter, order and selected row."""

from __future__ import annotations

from typing import Final

from ccltui.parsers.system.quick_dataclass import dataclass
from ccltui.tui.state.own.own_state import OwnState
from ccltui.tui.state.own.pane_names import RANKS
from ccltui.tui.state.own.sorting import AS_FOUND, Sorting

SINGLE: Final = "rank"
"""Kind of rows that are single ranks."""


@dataclass(frozen=True, slots=True)
class RanksState:
    """Kind of fold ("": the first), names of unfolded rows, filter, selected row and order."""

    kind: str = ""
    unfolded: frozenset[str] = frozenset()
    pattern: str = ""
    row: int = 0
    sorting: Sorting = AS_FOUND


RANKS_STATE: Final = OwnState(RANKS, RanksState())
