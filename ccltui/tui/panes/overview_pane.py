"""The Overview pane: what costs time, the step, the ranks, and other captures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from ccltui.draw.palette import Ink
from ccltui.draw.text import Line, wrap
from ccltui.tui.moves import loss_list
from ccltui.tui.panes.metrics import METRICS
from ccltui.tui.state.answers import Query
from ccltui.tui.state.finding_rows import findings, query
from ccltui.tui.state.pane import Pane, Record, queries_of
from ccltui.tui.state.pane_states import OVERVIEW as NAME
from ccltui.tui.state.pane_states import Section, Sorting
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.view_state import ViewState

if TYPE_CHECKING:
    from ccltui.draw.planes import Planes


class OverviewPane(Pane):
    """Findings, the step, ranks and captures."""

    name = NAME
    key = "1"
    title = "Overview"
    short_title = "Over"
    about = (
        "What costs time, the largest first: what happens, what it costs, how sure that is, and "
        "what to do; the kinds of time of a step, and the times of all steps; ranks, those that "
        "findings name first, alike ones in one row; the step of the first finding on the "
        "Timeline, where there is room; other captures of the folder; what the numbers rest on. "
        "enter: the evidence of a finding, a rank in Timeline, another capture. M: all metrics "
        "and remarks; / and o list those that match, or sorted."
    )

    def why_unavailable(self, scene: Scene) -> str | None:
        """Return None: every directory that opens has findings or a reason for none."""
        return None

    def queries(self, scene: Scene) -> Iterable[Query[Any]]:
        """Return the queries for the second path, and for findings where nothing is a trace."""
        asked = query(scene)
        return [*queries_of(scene), *(() if asked is None else (asked,))]

    def paint(self, scene: Scene, height: int, width: int) -> Planes:
        """Draw the first screen."""
        from ccltui.tui.panes.first_screen import paint

        return paint(scene, height, width)

    def legend(self, scene: Scene, *, narrow: bool) -> Line:
        """Return the iterations that the numbers cover."""
        text = METRICS.remark(scene, narrow=narrow)
        return [(f"{text} ", Ink.TAB)] if text else []

    def status(self, scene: Scene, width: int) -> tuple[Line, Line]:
        """Return the sentences of the selected finding, or what enter does."""
        if not scene.findings.metrics and not findings(scene):
            return [], []
        section = loss_list.section_of(scene)
        if section is Section.FINDINGS:
            return _of_finding(scene, width) if findings(scene) else ([], [])
        return [(f" {_HINTS[section]}", Ink.DIM)], []

    def count(self, scene: Scene) -> int:
        """Return the number of rows of all parts."""
        return sum(loss_list.sections(scene).values())

    def row(self, scene: Scene) -> int:
        """Return the selected row of all parts."""
        return loss_list.selected_row(scene)

    def clicked(self, scene: Scene, row: int) -> ViewState:
        """Show the evidence of a finding or a rank; select a capture."""
        return loss_list.clicked(scene, row)

    def to_row(self, scene: Scene, row: int) -> ViewState:
        """Select a row."""
        return loss_list.to_row(scene, row)

    # Filter and order are those of all metrics, which then come into view.

    is_filtered = True
    is_sorted = True

    def row_pattern(self, scene: Scene) -> str:
        """Return the pattern of the metrics that are listed."""
        return METRICS.row_pattern(scene)

    def with_row_pattern(self, scene: Scene, pattern: str) -> ViewState:
        """List the metrics that match."""
        return replace(METRICS.with_row_pattern(scene, pattern), pane=METRICS.name)

    def sort_columns(self, scene: Scene) -> tuple[str, ...]:
        """Return the columns of the metrics."""
        return METRICS.sort_columns(scene)

    def sorting(self, scene: Scene) -> Sorting:
        """Return the order of the metrics."""
        return METRICS.sorting(scene)

    def with_sorting(self, scene: Scene, sorting: Sorting) -> ViewState:
        """List the metrics in an order."""
        return replace(METRICS.with_sorting(scene, sorting), pane=METRICS.name)

    def records(self, scene: Scene) -> Iterator[Record]:
        """Yield every metric with its unit, as Metrics lists them."""
        return METRICS.records(scene)

    def metric(self, scene: Scene) -> str:
        """Return the metric of the selected part."""
        is_finding = loss_list.section_of(scene) is Section.FINDINGS
        return "findings" if is_finding else super().metric(scene)


OVERVIEW: Final = OverviewPane()

_HINTS: Final = {
    Section.FINDINGS: "enter shows the evidence of a finding; ! shows that of the next",
    Section.CAPTURES: "enter opens this capture; the numbers above are those of the open one",
    Section.RANKS: "share of the time that each rank computes; enter: this rank in Timeline",
}


def _of_finding(scene: Scene, width: int) -> tuple[Line, Line]:
    """Return the sentences of the selected finding; of the headline, which is above, what to do."""
    at = loss_list.chosen_of(scene, Section.FINDINGS)
    row = findings(scene)[at]
    text = f"{row['text']} {row['more']} {row['do']}" if at else _HINTS[Section.FINDINGS]
    lines = wrap(str(text), width - 2, most=2)
    shown: list[Line] = [[(f" {line}", Ink.TEXT if at else Ink.DIM)] for line in lines]
    return shown[0], shown[1] if shown[1:] else []
