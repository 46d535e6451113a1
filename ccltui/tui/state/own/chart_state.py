"""States of the two charts, Alignment and Timeline, beyond the viewports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ccltui.tui.state.own.own_state import OwnState
from ccltui.tui.state.own.pane_names import ALIGNMENT, TIMELINE


@dataclass(frozen=True, slots=True)
class AlignmentState:
    """How lag is coloured and how many ranks share the pane."""

    linear: bool = False  # colours of lag: by equal steps, else by equal factors
    ranks_in_view: int = 0  # 0 for all


@dataclass(frozen=True, slots=True)
class TimelineState:
    """What the rows show, and how many ranks share one."""

    kernels: str = ""  # category of kernels, "" for all
    merged: bool = False  # one row a rank, else two
    ranks_per_lane: int = 1


ALIGNMENT_STATE: Final = OwnState(ALIGNMENT, AlignmentState())
TIMELINE_STATE: Final = OwnState(TIMELINE, TimelineState())
