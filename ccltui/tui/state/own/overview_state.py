"""State of Overview: the part with the cursor, the selected row of each part, folded groups."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from ccltui.tui.state.own.own_state import OwnState
from ccltui.tui.state.own.pane_names import OVERVIEW


class Section(Enum):
    """Parts of Overview that have rows to select, from top to bottom."""

    FINDINGS = "findings"
    RANKS = "ranks"
    METRICS = "metrics"
    NOTES = "notes"


@dataclass(frozen=True, slots=True)
class OverviewState:
    """Selected rows, folded groups, and whether one metric or remark covers the pane."""

    section: Section = Section.FINDINGS
    loss: int | None = None  # the finding whose evidence was shown last
    rank: int = 0  # row of the board of ranks
    item: str = ""  # selected row of the metrics: see metric_list
    note: int = 0
    first_row: int = 0  # first row of the open table
    table_open: bool = False
    folded: frozenset[str] = frozenset()  # categories whose metrics are not listed
    lists_unavailable: bool = False


OVERVIEW_STATE: Final = OwnState(OVERVIEW, OverviewState())
