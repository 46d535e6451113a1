"""The Summary pane: largest losses, every metric, and remarks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ccltui.draw.palette import Ink
from ccltui.draw.text import wrap
from ccltui.tui.state.own.pane_names import SUMMARY as NAME
from ccltui.tui.state.own.summary_state import SUMMARY_STATE, Section
from ccltui.tui.state.pane import Pane, Record
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.session import measured_steps
from ccltui.tui.state.view_state import ViewState
from ccltui.tui.styled_text import GAP, Line

if TYPE_CHECKING:
    from ccltui.draw.planes import Planes


class SummaryPane(Pane):
    """Losses, metrics and remarks, or one metric rank by rank."""

    name = NAME
    key = "1"
    title = "Summary"
    short_title = "Sum"
    about = (
        "What most time is lost to: ! shows where, the largest first. Then every metric with its "
        "unit; (by rank) in brackets shows another number, min and max name the rank, spread is "
        "between them over the mean; -- says why it is not there. enter: a metric by rank with its "
        "definition, a remark with what to do."
    )
    names_communicator = False

    def paint(self, scene: Scene, height: int, width: int) -> Planes:
        """Draw losses and metrics, below or beside them one metric by rank, then remarks."""
        from ccltui.tui.panes import summary

        return summary.paint(scene, height, width)

    def legend(self, scene: Scene, *, narrow: bool) -> Line:
        """Return the iterations that the numbers cover."""
        steps = measured_steps(scene.findings.steps, scene.session.filter)
        if not steps:
            return []
        first, last = steps[0].id, steps[-1].id
        if first == last:
            return [(f"iteration {first} ", Ink.TAB)]
        return [(f"iterations {first}-{last} (n={len(steps)}) ", Ink.TAB)]

    def status(self, scene: Scene, width: int) -> tuple[Line, Line]:
        """Return the selected loss, or the definition of the selected metric and its basis."""
        return _definition(scene, width)

    def count(self, scene: Scene) -> int:
        """Return the number of losses, metrics and remarks; of ranks where one metric is open."""
        if SUMMARY_STATE.of(scene.state).table_open:
            return len(scene.findings.lanes)
        return sum(_sections(scene).values())

    def row(self, scene: Scene) -> int:
        """Return the selected row of all parts, or the first rank where one metric is open."""
        own = SUMMARY_STATE.of(scene.state)
        return own.first_rank if own.table_open else _summary_row(scene)

    def to_row(self, scene: Scene, row: int) -> ViewState:
        """Select a row, or scroll the open table to begin with a rank."""
        own = SUMMARY_STATE.of(scene.state)
        if own.table_open:
            return SUMMARY_STATE.put(scene.state, replace(own, first_rank=row))
        return _in_summary(scene, row)

    def records(self, scene: Scene) -> Iterator[Record]:
        """Yield the selected metric rank by rank."""
        return _records(scene)

    def metric(self, scene: Scene) -> str:
        """Return the selected metric, or that of the losses."""
        metrics, own = scene.findings.metrics, SUMMARY_STATE.of(scene.state)
        if own.section is Section.LOSSES:
            return "fix_first"
        return metrics[min(own.metric, len(metrics) - 1)].name if metrics else super().metric(scene)


SUMMARY: Final = SummaryPane()


def _sections(scene: Scene) -> dict[Section, int]:
    """Return the number of rows of every part of Summary."""
    from ccltui.tui.moves import loss_list
    from ccltui.tui.state.notes import notes

    found = scene.findings.metrics
    return {
        Section.LOSSES: len(loss_list.losses(scene)),
        Section.METRICS: len(found),
        Section.NOTES: len(notes(scene)) if found else 0,
    }


def _summary_row(scene: Scene) -> int:
    state, before = SUMMARY_STATE.of(scene.state), 0
    chosen = {
        Section.LOSSES: state.loss or 0,
        Section.METRICS: state.metric,
        Section.NOTES: state.note,
    }
    for section, size in _sections(scene).items():
        if section is state.section:
            return before + max(min(chosen[section], size - 1), 0)
        before += size
    return before


def _in_summary(scene: Scene, row: int) -> ViewState:
    state = SUMMARY_STATE.of(scene.state)
    for section, size in _sections(scene).items():
        if row < size:
            if section is Section.LOSSES:
                return SUMMARY_STATE.put(scene.state, replace(state, section=section, loss=row))
            if section is Section.METRICS:
                return SUMMARY_STATE.put(scene.state, replace(state, section=section, metric=row))
            return SUMMARY_STATE.put(scene.state, replace(state, section=section, note=row))
        row -= size
    return scene.state


def _definition(scene: Scene, width: int) -> tuple[Line, Line]:
    from ccltui.tui.moves import loss_list
    from ccltui.tui.state.summary_rows import chosen_metric, fallback, leading, rank_columns

    metric, own = chosen_metric(scene), SUMMARY_STATE.of(scene.state)
    if metric is None:
        return [], []
    if own.section is Section.LOSSES and loss_list.losses(scene):
        at = min(own.loss or 0, len(loss_list.losses(scene)) - 1)
        text = wrap(loss_list.losses(scene)[at]["sentence"], width - 2, most=1)
        return [(f" {text[0]}", Ink.TEXT)], [(" enter shows where; ! shows the next", Ink.DIM)]
    result = scene.findings.results.get(metric.name)
    text = wrap(f"{metric.title}: {metric.definition}", width - 2, most=2)
    above: Line = [(f" {text[0]}", Ink.TEXT)]
    if len(text) > 1 or result is None:
        return above, [(f" {line}", Ink.TEXT) for line in text[1:]]
    parts = [f"{key}: {value}" for key, value in result.basis.items()]
    labels = tuple(scene.findings.lanes)
    columns = rank_columns(result, labels)
    if leading(columns, metric.headline) is None and fallback(columns) is not None:
        parts = [f"(by rank): {fallback(columns)}", *parts]
    return above, [(f" {GAP.join(parts)}", Ink.DIM)]


def _records(scene: Scene) -> Iterator[Record]:
    """Yield the selected metric rank by rank."""
    from ccltui.tui.state.summary_rows import chosen_metric, rank_columns

    metric, labels = chosen_metric(scene), tuple(scene.findings.lanes)
    if metric is None:
        return
    result = scene.findings.results.get(metric.name)
    if result is None or result.value is None:
        return
    columns = rank_columns(result, labels)
    yield {"rank": None, "value": result.value, **dict.fromkeys(columns)}
    for label in labels if columns else ():
        cells = {name: column.get(label) for name, column in columns.items()}
        yield {"rank": label, "value": None, **cells}
