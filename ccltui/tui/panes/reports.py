"""The Reports pane: all-to-all studies and tables of nsys text reports, line by line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from ccltui.draw.palette import Ink
from ccltui.draw.text import wrap
from ccltui.parsers.system.quick_dataclass import dataclass
from ccltui.tui.panes.pages.text_page import TextPage, paint_lines
from ccltui.tui.state.answers import FileQuery
from ccltui.tui.state.own.pane_names import REPORTS as NAME
from ccltui.tui.state.scene import Scene
from ccltui.tui.styled_text import Line

if TYPE_CHECKING:
    from ccltui.draw.planes import Planes
    from ccltui.parsers.job import Job
    from ccltui.report.nsys_text.nsys_overview import OverviewLine


NO_REPORTS: Final = (
    "no text of nsys stats and no all-to-all here; ccltui stats prints the tables of an export"
)


@dataclass(frozen=True, slots=True)
class ReportsQuery(FileQuery["Sequence[OverviewLine]"]):
    """Overview of the nsys files below the open path."""

    path: str

    def answer(self, job: Job, cancelled: Callable[[], bool]) -> Sequence[OverviewLine]:
        """Return the lines of the overview, made in a separate process."""
        from ccltui.report.nsys_text.nsys_overview import nsys_overview
        from ccltui.tui.state.side_tables import made_in_process

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
    kind = ReportsQuery
    definition = "delay: longest less shortest kernel of an exchange, over the devices"

    def why_unavailable(self, scene: Scene) -> str | None:
        """Return the reason when there are no nsys reports."""
        return None if scene.session.has_reports else NO_REPORTS

    def query(self, scene: Scene) -> ReportsQuery:
        """Return the query for the overview of the nsys files."""
        return ReportsQuery(scene.session.path)

    def paint(self, scene: Scene, height: int, width: int) -> Planes:
        """Draw a page of lines with the selected one, repeated in full below where it is cut."""
        return _paint(scene, height, width)

    def is_heading(self, row: OverviewLine) -> bool:
        """Return whether the line names a table or a study."""
        return row.role == "heading"

    def legend(self, scene: Scene, *, narrow: bool) -> Line:
        """Return the filter, and the place of the cursor."""
        count = self.count(scene)
        place = f"line {min(self.row(scene), max(count - 1, 0)) + 1} of {count} "
        return [
            (
                self.listing_text(scene) or ("" if narrow or not count else place),
                Ink.TAB,
            )
        ]

    def command(self, scene: Scene) -> list[str] | None:
        """Return the command that prints these tables."""
        return ["ccltui", "stats", scene.session.path, "--alltoall"]


REPORTS: Final = ReportsPane()


def _paint(scene: Scene, height: int, width: int) -> Planes:
    from ccltui.draw.planes import Planes

    planes = Planes.blank(height, width, Ink.TEXT)
    lines = REPORTS.rows(scene)
    if lines is None:
        planes.put(1, 1, "Files of nsys are being read.", Ink.DIM)
        return planes
    if not lines:
        why = REPORTS.why_no_rows(scene) if REPORTS.row_pattern(scene) else NO_REPORTS
        for y, text in enumerate(wrap(why, width - 2), 1):
            planes.put(y, 1, text, Ink.DIM)
        return planes
    paint_lines(planes, [(line.text, _ink(line)) for line in lines], REPORTS.row(scene))
    return planes


def _ink(line: OverviewLine) -> Ink:
    return {"heading": Ink.STRONG, "problem": Ink.WARNING, "text": Ink.TEXT}[line.role]
