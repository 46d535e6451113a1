"""The panes, registered here in order: objects with queries, picture, rows and texts.

Importing this package imports neither numpy nor metrics: the first frame needs only names, keys
and titles.
"""

from __future__ import annotations

from typing import Final

from ccltui.tui.panes.alignment_pane import ALIGNMENT
from ccltui.tui.panes.events import EVENTS
from ccltui.tui.panes.files import FILES
from ccltui.tui.panes.hangs import HANGS
from ccltui.tui.panes.hours import HOURS
from ccltui.tui.panes.kernels import KERNELS
from ccltui.tui.panes.metrics import METRIC, METRICS
from ccltui.tui.panes.overview_pane import OVERVIEW
from ccltui.tui.panes.parallelism_pane import PARALLELISM
from ccltui.tui.panes.ranks_pane import RANKS
from ccltui.tui.panes.runs_and_machines import CLUSTER, RUNS
from ccltui.tui.panes.steps import STEPS
from ccltui.tui.panes.text_page import REPORTS
from ccltui.tui.panes.timeline_pane import TIMELINE
from ccltui.tui.state.pane import Pane, register

PANES: Final[tuple[Pane, ...]] = (
    OVERVIEW,
    METRICS,
    METRIC,
    ALIGNMENT,
    TIMELINE,
    EVENTS,
    FILES,
    STEPS,
    KERNELS,
    PARALLELISM,
    RANKS,
    RUNS,
    CLUSTER,
    REPORTS,
    HANGS,
    HOURS,
)

for _pane in PANES:
    register(_pane)
