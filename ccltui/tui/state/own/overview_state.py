"""State of Overview: the part with the cursor, the selected row of each part, folded groups."""

from __future__ import annotations

from enum import Enum
from typing import Final

from msgspec import Struct

from ccltui.tui.state.own.own_state import OwnState
from ccltui.tui.state.own.pane_names import OVERVIEW


class Section(Enum):
    """Parts of Overview that have rows to select, from top to bottom."""

    FINDINGS = "findings"
    RANKS = "ranks"
    CAPTURES = "captures"
    METRICS = "metrics"
    NOTES = "notes"


class MetricOrder(Enum):
    """Order of the metrics: by group, or without groups by a column, the largest first."""

    GROUP = "group"
    NAME = "name"
    VALUE = "value"
    UNIT = "unit"
    MIN = "min"
    MAX = "max"
    SPREAD = "spread"
    DELTA = "B - A"


class OverviewState(Struct, frozen=True):
    """Selected rows, listed metrics, and whether one metric or remark covers the pane."""

    section: Section = Section.FINDINGS
    capture: int = 0  # row of the selected capture
    loss: int = 0  # the selected finding
    shown: int | None = None  # the finding whose evidence was shown last
    shown_at: object = None  # the cursor at its place
    rank: int = 0  # row of the bars of ranks
    item: str = ""  # selected row of the metrics: see metric_list
    note: int = 0
    first_row: int = 0  # first row of the open table
    table_open: bool = False
    folded: frozenset[str] = frozenset()  # categories whose metrics are not listed
    lists_unavailable: bool = False
    pattern: str = ""  # of the names of the metrics that are listed, "" for all
    order: MetricOrder = MetricOrder.GROUP
    reverse: bool = False
    hidden: frozenset[str] = frozenset()  # names of metrics that the user hid
    hidden_columns: frozenset[str] = frozenset()


OVERVIEW_STATE: Final = OwnState(OVERVIEW, OverviewState())
