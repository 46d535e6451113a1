"""The Overview pane: what costs time, the step, the ranks; metrics and remarks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from ccltui.draw.palette import Ink
from ccltui.draw.text import fit, wrap
from ccltui.tui.state.answers import Query
from ccltui.tui.state.finding_rows import findings
from ccltui.tui.state.metric_list import chosen_metric
from ccltui.tui.state.pane import Pane, Record
from ccltui.tui.state.pane_names import OVERVIEW as NAME
from ccltui.tui.state.pane_states import OVERVIEW_STATE, Section
from ccltui.tui.state.scene import Scene, rank_name
from ccltui.tui.state.session import measured_steps
from ccltui.tui.state.view_state import ViewState
from ccltui.tui.styled_text import GAP, Line

if TYPE_CHECKING:
    from ccltui.draw.planes import Planes
    from ccltui.metrics.metric import Metric
    from ccltui.metrics.result import Result


class OverviewPane(Pane):
    """Findings, the step and ranks; metrics and remarks; or the tables of one metric."""

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
        "by group: (by rank) in brackets is another number, ! is partial, sparklines begin at 0 "
        "unless they begin with ±. There enter opens the tables of a metric, a group, what to "
        "do about a remark; / lists those that match, o sorts by a column instead of groups, H "
        "hides one, | hides or lists columns. Beside a second path: its value B, the "
        "difference, and whether that is beyond the noise of the steps."
    )
    names_communicator = False

    def why_unavailable(self, scene: Scene) -> str | None:
        """Return None: every directory that opens has findings or a reason for none."""
        return None

    def queries(self, scene: Scene) -> Iterable[Query[Any]]:
        """Return the queries for the second path, and for findings where nothing is a trace."""
        from ccltui.tui.state.finding_rows import query
        from ccltui.tui.state.second_path import queries_of

        asked = query(scene)
        return [*queries_of(scene), *(() if asked is None else (asked,))]

    def paint(self, scene: Scene, height: int, width: int) -> Planes:
        """Draw the page, beside it one metric by rank where it is wide."""
        from ccltui.tui.panes.overview_picture import paint

        return paint(scene, height, width)

    def legend(self, scene: Scene, *, narrow: bool) -> Line:
        """Return the iterations that the numbers cover."""
        other = _against(scene, narrow=narrow)
        if other:
            return [(other, Ink.TAB)]
        steps = measured_steps(scene.findings.steps, scene.session.filter)
        if not steps or narrow:  # the title of the step has their number, and tabs need the room
            return []
        first, last = steps[0].id, steps[-1].id
        if first == last:
            return [(f"iteration {first} ", Ink.TAB)]
        return [(f"iterations {first}-{last} (n={len(steps)}) ", Ink.TAB)]

    def status(self, scene: Scene, width: int) -> tuple[Line, Line]:
        """Return what enter does, or the definition of the selected metric and its basis."""
        if not scene.findings.metrics and not findings(scene):
            return [], []
        from ccltui.tui.moves.overview_rows import section_of, shows_first_screen

        section, table_open = section_of(scene), OVERVIEW_STATE.of(scene.state).table_open
        metric = _chosen(scene)
        is_below = table_open or not shows_first_screen(scene)
        if metric is not None and (section is Section.METRICS or table_open) and is_below:
            return _definition(scene, metric, width)
        if section is Section.FINDINGS:
            return _of_finding(scene, width)
        is_listed = is_below or section in (Section.RANKS, Section.CAPTURES)
        return [(f" {_HINTS[section]}", Ink.DIM)] if is_listed else [], []

    def count(self, scene: Scene) -> int:
        """Return the number of rows of all parts; of lines where the tables of one are open."""
        from ccltui.tui.moves.overview_rows import sections

        if not OVERVIEW_STATE.of(scene.state).table_open:
            return sum(sections(scene).values())
        from ccltui.tui.panes.metric_lines import body_lines

        metric = _chosen(scene)
        return 0 if metric is None else len(body_lines(scene, metric, _ANY_WIDTH))

    def row(self, scene: Scene) -> int:
        """Return the selected row of all parts, or the first line where tables are open."""
        own = OVERVIEW_STATE.of(scene.state)
        from ccltui.tui.moves.overview_rows import selected_row

        return own.first_row if own.table_open else selected_row(scene)

    def clicked(self, scene: Scene, row: int) -> ViewState:
        """Show the evidence of a finding or a rank; select other rows."""
        from ccltui.tui.moves import overview_rows

        if OVERVIEW_STATE.of(scene.state).table_open:
            return self.to_row(scene, row)
        return overview_rows.clicked(scene, row)

    def to_row(self, scene: Scene, row: int) -> ViewState:
        """Select a row, or scroll the open tables to begin with a line."""
        from ccltui.tui.moves import overview_rows

        own = OVERVIEW_STATE.of(scene.state)
        if own.table_open:
            return OVERVIEW_STATE.put(scene.state, replace(own, first_row=row))
        return overview_rows.to_row(scene, row)

    is_filtered = True

    def row_pattern(self, scene: Scene) -> str:
        """Return the pattern of the metrics that are listed."""
        return OVERVIEW_STATE.of(scene.state).pattern

    def with_row_pattern(self, scene: Scene, pattern: str) -> ViewState:
        """List metrics whose label, name or group matches."""
        from ccltui.tui.moves import overview_rows

        return overview_rows.filtered(scene, pattern)

    def records(self, scene: Scene) -> Iterator[Record]:
        """Yield every metric with its unit, or the opened metric rank by rank."""
        opened = OVERVIEW_STATE.of(scene.state).table_open
        metric = _chosen(scene)
        return _by_rank(scene, metric) if opened and metric is not None else _listed_metrics(scene)

    def metric(self, scene: Scene) -> str:
        """Return the selected metric, or that of the finding or the board."""
        from ccltui.tui.moves.overview_rows import section_of

        section = section_of(scene)
        if section is Section.FINDINGS:
            return "findings"
        metric = _chosen(scene)
        if section is Section.METRICS and metric is not None:
            return metric.name
        return super().metric(scene)


OVERVIEW: Final = OverviewPane()

_ANY_WIDTH: Final = 1000
"""Width to count the lines of tables with: their number is the same at each."""
_HINTS: Final = {
    Section.FINDINGS: "enter shows the evidence of a finding; ! shows that of the next",
    Section.CAPTURES: "enter opens this capture; the numbers above are those of the open one",
    Section.RANKS: "share of the time that each rank computes; enter: this rank in Timeline",
    Section.METRICS: "enter folds or unfolds; / filters, o sorts, H hides; u: unavailable ones",
    Section.NOTES: "enter shows what can be done",
}


def _against(scene: Scene, *, narrow: bool) -> str:
    """Return the second path, and why its numbers are no verdict; "" without a second path."""
    from ccltui.tui.state.second_path import compared

    found = compared(scene)
    if found is None or scene.other is None:
        return ""
    standing = found.standing.split(":")[0] if narrow else found.standing
    return f"B: {scene.other.name} {f'({fit(standing, 60).rstrip()}) ' if standing else ''}"


def _of_finding(scene: Scene, width: int) -> tuple[Line, Line]:
    """Return the sentences of the selected finding; of the headline, which is above, what to do."""
    from ccltui.tui.moves.overview_rows import chosen_of

    at = chosen_of(scene, Section.FINDINGS)
    row = findings(scene)[at]
    text = f"{row['text']} {row['more']} {row['do']}" if at else _HINTS[Section.FINDINGS]
    lines = wrap(str(text), width - 2, most=2)
    shown: list[Line] = [[(f" {line}", Ink.TEXT if at else Ink.DIM)] for line in lines]
    return shown[0], shown[1] if shown[1:] else []


def _chosen(scene: Scene) -> Metric | None:

    return chosen_metric(scene)


def _definition(scene: Scene, metric: Metric, width: int) -> tuple[Line, Line]:
    from ccltui.tui.state.metric_list import fallback, leading, rank_columns
    from ccltui.tui.state.second_path import compared

    result = scene.findings.results.get(metric.name)
    text = wrap(f"{metric.title}: {metric.definition}", width - 2, most=2)
    above: Line = [(f" {text[0]}", Ink.TEXT)]
    if len(text) > 1 or result is None:
        return above, [(f" {line}", Ink.TEXT) for line in text[1:]]
    parts = [f"{key}: {value}" for key, value in result.basis.items()]
    sides = compared(scene)
    row = None if sides is None else sides.metrics.get(metric.name)
    if row is not None and row.why:
        parts = [row.why, *parts]
    columns = rank_columns(result, tuple(scene.findings.lanes))
    if leading(columns, metric.headline) is None and fallback(columns) is not None:
        parts = [f"(by rank): {fallback(columns)}", *parts]
    return above, [(f" {GAP.join(parts)}", Ink.DIM)]


def _listed_metrics(scene: Scene) -> Iterator[Record]:
    """Yield every metric that is not filtered out or hidden, in order, with the listed columns.

    Each has name, value, unit, window, and the reason where it is absent.
    """
    from ccltui.tui.state.metric_list import chosen_metrics, listed_columns

    listed = listed_columns(scene)
    for metric in chosen_metrics(scene):
        result = scene.findings.results.get(metric.name)
        if result is None:
            continue
        yield {
            "category": metric.category,
            "metric": metric.name,
            "label": metric.title,
            "value": result.value,
            "unit": metric.unit,
            "status": result.status,
            **_cells_of_b(scene, metric.name, listed),
            **_ends(scene, metric, result, listed),
            "window": result.basis.get("window"),
            "reason": result.reasons[0].message if result.reasons else None,
        }


def _ends(scene: Scene, metric: Metric, result: Result, listed: Sequence[str]) -> Record:
    from ccltui.tui.state.metric_list import extremes, leading, rank_columns

    columns = rank_columns(result, tuple(scene.findings.lanes))
    own = leading(columns, metric.headline)
    found = None if own is None else extremes(columns[own])
    cells: Record = {}
    for name, (label, value) in zip(("min", "max"), found or (("", None),) * 2, strict=True):
        if name in listed:
            cells |= {name: value, f"{name}_rank": rank_name(label) if label else None}
    return cells


def _cells_of_b(scene: Scene, name: str, listed: Sequence[str]) -> Record:
    from ccltui.tui.state.second_path import compared

    found = compared(scene)
    if found is None:
        return {}
    row = found.metrics.get(name)
    cells: Record = {
        "B": None if row is None else row.b,
        "B - A": None if row is None else row.delta,
        "change": None if row is None else row.direction,
    }
    return {name: value for name, value in cells.items() if name in listed}


def _by_rank(scene: Scene, metric: Metric) -> Iterator[Record]:
    """Yield one metric for the job, then rank by rank."""
    from ccltui.tui.state.metric_list import rank_columns

    labels = tuple(scene.findings.lanes)
    result = scene.findings.results.get(metric.name)
    if result is None or result.value is None:
        return
    columns = rank_columns(result, labels)
    yield {"rank": None, "value": result.value, **dict.fromkeys(columns)}
    for label in labels if columns else ():
        cells = {name: column.get(label) for name, column in columns.items()}
        yield {"rank": label, "value": None, **cells}
