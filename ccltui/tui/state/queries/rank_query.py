"""Query of Ranks: the waits of all ranks, their nodes and groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ccltui.tui.state.answers import ViewQuery

if TYPE_CHECKING:
    from ccltui.metrics.findings.waits.rank_lateness import RankTable
    from ccltui.metrics.view.job_view import View
    from ccltui.tui.state.job_findings import Findings


@dataclass(frozen=True, slots=True)
class RanksQuery(ViewQuery["RankTable"]):
    """Query for the table; ``is_measured`` is whether the waits are computed."""

    keeps_last = True

    generation: int
    is_measured: bool

    def answer(self, view: View, findings: Findings) -> RankTable:
        """Return the table."""
        from ccltui.metrics.findings.waits.rank_lateness import rank_table  # noqa: PLC0415

        return rank_table(view, findings.results.get("straggler_lag"))
