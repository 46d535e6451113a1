"""Names of the panes that shared code opens or mentions; a pane is looked up by its name."""

from __future__ import annotations

from typing import Final

OVERVIEW: Final = "overview"
METRICS: Final = "metrics"
METRIC: Final = "metric"
ALIGNMENT: Final = "alignment"
TIMELINE: Final = "timeline"
EVENTS: Final = "events"
FILES: Final = "files"
STEPS: Final = "steps"
KERNELS: Final = "kernels"
PARALLELISM: Final = "parallelism"
RANKS: Final = "ranks"
RUNS: Final = "runs"
CLUSTER: Final = "cluster"
REPORTS: Final = "reports"
HANGS: Final = "hangs"
HOURS: Final = "hours"
