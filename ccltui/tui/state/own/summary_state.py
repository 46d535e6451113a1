"""State of Summary: the part with the cursor, and the selected row of each part."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from ccltui.tui.state.own.own_state import OwnState
from ccltui.tui.state.own.pane_names import SUMMARY


class Section(Enum):
    """Parts of Summary, from top to bottom."""

    LOSSES = "losses"
    METRICS = "metrics"
    NOTES = "notes"


@dataclass(frozen=True, slots=True)
class SummaryState:
    """Selected rows, and whether one metric or remark covers the pane."""

    section: Section = Section.METRICS
    metric: int = 0
    loss: int | None = None  # the loss whose evidence was shown last
    note: int = 0
    first_rank: int = 0  # first rank of the per-rank table while it is open
    table_open: bool = False


SUMMARY_STATE: Final = OwnState(SUMMARY, SummaryState())
