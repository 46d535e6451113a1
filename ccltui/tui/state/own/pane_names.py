"""Names of the panes that shared code opens or names; a pane is found by its name."""

from __future__ import annotations

from typing import Final

SUMMARY: Final = "summary"
ALIGNMENT: Final = "alignment"
TIMELINE: Final = "timeline"
EVENTS: Final = "events"
FILES: Final = "files"
STEPS: Final = "steps"
RUNS: Final = "runs"
CLUSTER: Final = "cluster"
REPORTS: Final = "reports"
