"""The page of one metric: its definition, what its value rests on, and the tables behind it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from ccltui.draw.palette import Ink
from ccltui.draw.text import wrap
from ccltui.tui.panes.metrics import METRICS, Row
from ccltui.tui.panes.text_page import TextPage
from ccltui.tui.state.pane import Record
from ccltui.tui.state.pane_states import METRIC as NAME
from ccltui.tui.state.pane_states import METRICS as METRICS_NAME
from ccltui.tui.state.scene import Scene

if TYPE_CHECKING:
    from ccltui.metrics.metric import Metric

_TEXT: Final = 78
"""Cells of lines of text, which are easier to read than longer ones."""
_ALL: Final = 1000
"""Cells of lines of tables: all columns; the selected line is repeated in full."""


class PageLine(Struct, frozen=True):
    """One line."""

    text: str
    ink: Ink


class MetricPage(TextPage[PageLine]):
    """Definition and tables of the metric that is selected in Metrics, or advice on a remark."""

    name = NAME
    key = ""
    title = "Tables"
    short_title = "Tables"
    from_pane = METRICS_NAME
    opens_without_traces = False
    noun = "line"
    nothing = waiting = "no metric is selected"
    about = (
        "The metric that is selected in Metrics: its definition, what it needs and rests on, its "
        "numbers by rank, and the tables behind it, sorted by any of their columns. Of a remark, "
        "what to do."
    )

    def found_rows(self, scene: Scene) -> Sequence[PageLine] | None:
        """Return the lines about the selected row of Metrics."""
        row = METRICS.chosen(scene)
        return () if row is None else self.made_from("lines", _lines, row)

    def is_heading(self, row: PageLine) -> bool:
        """Return whether the line names a table."""
        return row.ink is Ink.STRONG

    def ink(self, row: PageLine) -> Ink:
        """Return the style of what a line says."""
        return row.ink

    def metric(self, scene: Scene) -> str:
        """Return the name of the metric."""
        return METRICS.metric(scene)

    def records(self, scene: Scene) -> Iterator[Record]:
        """Yield the metric for the job, then rank by rank."""
        from ccltui.tui.panes.metric_tables import rank_columns

        row = METRICS.chosen(scene)
        if row is None or row.result is None or row.result.value is None:
            return
        columns = rank_columns(row.result, row.labels)
        yield {"rank": None, "value": row.result.value, **dict.fromkeys(columns)}
        for label in row.labels if columns else ():
            cells = {name: column.get(label) for name, column in columns.items()}
            yield {"rank": label, "value": None, **cells}


METRIC: Final = MetricPage()


def _lines(row: Row) -> list[PageLine]:
    from ccltui.tui.panes.metric_tables import table_lines

    if row.metric is None:
        advice = row.advice or "No fix is known."
        return [*_wrapped(row.text, row.ink), PageLine("", Ink.TEXT), *_wrapped(advice, Ink.TEXT)]
    tables = table_lines(row.metric, row.result, row.labels, _ALL)
    return [*_definition(row, row.metric), *(PageLine(text, ink) for text, ink in tables)]


def _definition(row: Row, metric: Metric) -> list[PageLine]:
    """Return definition, needs, basis and remarks, and a blank line."""
    from ccltui.tui.state.notes import remarks_on

    lines = _wrapped(f"{metric.title} ({metric.name}): {metric.definition}", Ink.TEXT)
    needs = f"needs {'; '.join(metric.needs)}; --metric {metric.name} prints it"
    lines += _wrapped(needs, Ink.DIM)
    if row.result is not None:
        basis = "; ".join(f"{key}: {value}" for key, value in row.result.basis.items())
        lines += _wrapped(basis, Ink.DIM) if basis else []
        for note in remarks_on(row.result):
            lines += _wrapped(f"{note.text}. {note.advice}" if note.advice else note.text, note.ink)
    return [*lines, PageLine("", Ink.TEXT)]


def _wrapped(text: str, ink: Ink) -> list[PageLine]:
    return [PageLine(line, ink) for line in wrap(text, _TEXT, most=20)]
