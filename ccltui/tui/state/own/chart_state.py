"""States of the two charts, Alignment and Timeline, apart from the viewports."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from ccltui.tui.state.own.own_state import OwnState
from ccltui.tui.state.own.pane_names import ALIGNMENT, TIMELINE


class AlignmentState(Struct, frozen=True):
    """Colour scale of lag, and number of ranks in the pane."""

    linear: bool = False  # colours of lag by equal steps, else by equal factors
    ranks_in_view: int = 0  # 0 for all


class TimelineState(Struct, frozen=True):
    """Content of the rows, number of rows per rank, and ranks whose host is unfolded."""

    kernels: str = ""  # category of kernels, "" for all
    merged: bool = False  # one row per rank, else two
    ranks_per_lane: int = 1
    hosts: tuple[str, ...] = ()


ALIGNMENT_STATE: Final = OwnState(ALIGNMENT, AlignmentState())
TIMELINE_STATE: Final = OwnState(TIMELINE, TimelineState())
