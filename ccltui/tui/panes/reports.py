"""The Reports pane: all-to-all studies and tables of nsys text reports, line by line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from ccltui.draw.palette import Ink
from ccltui.tui.panes.text_page import TextPage
from ccltui.tui.state.answers import FileQuery
from ccltui.tui.state.pane_states import REPORTS as NAME
from ccltui.tui.state.scene import Scene

if TYPE_CHECKING:
    from ccltui.parsers.job import Job
    from ccltui.report.alltoall_study import OverviewLine


NO_REPORTS: Final = (
    "no text of nsys stats and no all-to-all here; ccltui stats prints the tables of an export"
)


class ReportsQuery(FileQuery["Sequence[OverviewLine]"], frozen=True):
    """Overview of the nsys files below the open path."""

    path: str

    def answer(self, job: Job, cancelled: Callable[[], bool]) -> Sequence[OverviewLine]:
        """Return the lines of the overview, made in a separate process."""
        from ccltui.report.alltoall_study import nsys_overview
        from ccltui.tui.state.query_kinds import made_in_process

        return made_in_process(partial(nsys_overview, self.path), cancelled)


class ReportsPane(TextPage["OverviewLine"]):
    """Studies of all-to-all and the tables of every nsys text report."""

    name = NAME
    key = "9"
    title = "Reports"
    short_title = "Rep"
    about = (
        "What files of nsys contain: for each node how long its all-to-all exchanges waited for "
        "the last device (p50, p95, the whole distribution) and where device time went, shares "
        "below 1 % added up; then the tables of every text of nsys stats. ccltui stats prints "
        "them."
    )
    asks = ReportsQuery
    opens_without_traces = False  # Overview has the findings on the tables
    noun = "line"
    waiting = "files of nsys are being read"
    nothing = NO_REPORTS
    definition = "delay: longest less shortest kernel of an exchange, over the devices"

    def why_unavailable(self, scene: Scene) -> str | None:
        """Return the reason when there are no nsys reports."""
        return None if scene.session.has_reports else NO_REPORTS

    def query(self, scene: Scene) -> ReportsQuery | None:
        """Return the query for the overview of the nsys files."""
        return None if scene.session.job is None else ReportsQuery(scene.session.path)

    def is_heading(self, row: OverviewLine) -> bool:
        """Return whether the line names a table or a study."""
        return row.role == "heading"

    def ink(self, row: OverviewLine) -> Ink:
        """Return the style of what a line says."""
        return {"heading": Ink.STRONG, "problem": Ink.WARNING, "text": Ink.TEXT}[row.role]

    def remark(self, scene: Scene, *, narrow: bool) -> str:
        """Return the place of the cursor, where filter and order leave room for it."""
        count, own = self.count(scene), self.own.of(scene.state)
        if narrow or not count or own.pattern or own.sorting.text:
            return ""
        return f"line {self.row(scene) + 1} of {count}"

    def command(self, scene: Scene) -> list[str] | None:
        """Return the command that prints these tables."""
        return ["ccltui", "stats", scene.session.path, "--alltoall"]


REPORTS: Final = ReportsPane()
