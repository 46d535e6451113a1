"""State of Steps: the chosen step, the order of the rows, and the filter."""

from __future__ import annotations

from typing import Final

from ccltui.parsers.system.quick_dataclass import dataclass
from ccltui.tui.state.own.own_state import OwnState
from ccltui.tui.state.own.pane_names import STEPS
from ccltui.tui.state.own.sorting import Sorting

LENGTH: Final = "on device"
NUMBER: Final = "step"
CULPRIT: Final = "kept by"
PARTS: Final = ("compute", "overlapped", "waiting", "transfer", "bubble", "copies", "idle")
"""Parts of a step in the order of the arrays."""
COLUMNS: Final = (LENGTH, NUMBER, CULPRIT, *PARTS)
"""Columns that steps are sorted by; that of the difference from the median is that of lengths."""


LONGEST_FIRST: Final = Sorting(LENGTH)


@dataclass(frozen=True, slots=True)
class StepsState:
    """State of Steps; ``pattern`` filters by number and by who keeps the others waiting."""

    step: int | None = None  # the chosen one, by its id
    pattern: str = ""
    sorting: Sorting = LONGEST_FIRST


STEPS_STATE: Final = OwnState(STEPS, StepsState())
