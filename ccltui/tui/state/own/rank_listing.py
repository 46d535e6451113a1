"""State of Ranks: what rows are folded by, which are unfolded, filter and selected row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ccltui.tui.state.own.own_state import OwnState
from ccltui.tui.state.own.pane_names import RANKS

SINGLE: Final = "rank"
"""Kind of rows that are single ranks."""


@dataclass(frozen=True, slots=True)
class RanksState:
    """Kind of fold ("": the first there is), names of unfolded rows, filter and selected row."""

    kind: str = ""
    unfolded: frozenset[str] = frozenset()
    pattern: str = ""
    row: int = 0


RANKS_STATE: Final = OwnState(RANKS, RanksState())
