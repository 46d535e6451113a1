"""Draw one metric in full: definition, basis, its values by rank and the tables behind it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ccltui.draw.palette import Ink
from ccltui.draw.planes import Planes
from ccltui.draw.table import Column, table
from ccltui.draw.text import wrap
from ccltui.parsers import numbers
from ccltui.tui.state.figures.detail_tables import DetailTable, detail_tables
from ccltui.tui.state.figures.metric_rows import Number, RankColumns, leading, rank_columns
from ccltui.tui.state.notes import remarks_on
from ccltui.tui.state.own.overview_state import OVERVIEW_STATE
from ccltui.tui.state.scene import Scene, rank_name

if TYPE_CHECKING:
    from ccltui.metrics.metric import Metric
    from ccltui.metrics.result import Result

_LEAST_ROWS = 4
_NUMBER = frozenset("0123456789.,-%")
Written = tuple[str, Ink]


def by_rank(scene: Scene, metric: Metric, height: int, width: int, *, full: bool = False) -> Planes:
    """Draw the tables of a metric, by rank first; ``full`` begins with its definition."""
    planes = Planes.blank(height, width, Ink.TEXT)
    head = _definition(scene, metric, width)[: max(height - _LEAST_ROWS, 0)] if full else []
    body = body_lines(scene, metric, width)
    room = max(height - len(head), 1)
    first = OVERVIEW_STATE.of(scene.state).first_row if full else 0
    first = min(first, max(len(body) - room, 0))
    shown = body[first : first + room]
    for y, (text, ink) in enumerate((*head, *shown)):
        planes.put(y, 1, text[: width - 1], ink)
    left = len(body) - first - len(shown)
    if left > 0 and shown:
        text = "j goes on" if full else "enter opens all"
        planes.put(height - 1, 1, f"… {left + 1} more lines: {text}".ljust(width), Ink.DIM)
    return planes


def body_lines(scene: Scene, metric: Metric, width: int) -> list[Written]:
    """Return the lines of all tables of a metric; their number does not depend on the width."""
    result = scene.findings.results.get(metric.name)
    labels = tuple(scene.findings.lanes)
    columns = {} if result is None else rank_columns(result, labels)
    lines: list[Written] = []
    if columns:
        lines.append((f"{metric.title}, by rank", Ink.STRONG))
        names = sorted(columns, key=lambda name: name != leading(columns, metric.headline))
        rows = [_rank_row(label, names, columns) for label in labels]
        layout = [Column("rank", widest=24), *(Column(name, "right", 28) for name in names)]
        lines += _inked(table(layout, rows, width - 2))
    tables = [] if result is None or result.value is None else detail_tables(result, labels)
    for one in tables:
        lines += [("", Ink.TEXT)] if lines else []
        lines += _lines_of(metric, one, width)
    return lines or [(f"{metric.title}: {_no_table(result)}", Ink.DIM)]


def _lines_of(metric: Metric, one: DetailTable, width: int) -> list[Written]:
    layout = [
        Column(name, "right" if _is_numeric(one, at) else "left", 40)
        for at, name in enumerate(one.columns)
    ]
    lines: list[Written] = [(f"{metric.title}, {one.name}", Ink.STRONG)]
    lines += _inked(table(layout, one.rows, width - 2))
    if one.left_out:
        more = numbers.counted(one.left_out, "more row")
        lines.append((f"… {more}: --metric {metric.name} --detail prints all", Ink.DIM))
    return lines


def _is_numeric(one: DetailTable, at: int) -> bool:
    return all(set(row[at]) <= _NUMBER for row in one.rows)


def _inked(lines: Sequence[str]) -> list[Written]:
    return [(line, Ink.TEXT if number else Ink.DIM) for number, line in enumerate(lines)]


def _definition(scene: Scene, metric: Metric, width: int) -> list[Written]:
    """Return definition, needs, basis and remarks, and a blank line."""
    result = scene.findings.results.get(metric.name)
    text = f"{metric.title} ({metric.name}): {metric.definition}"
    lines: list[Written] = [(line, Ink.TEXT) for line in wrap(text, width - 2, most=6)]
    needs = f"needs {'; '.join(metric.needs)}; --metric {metric.name} prints it"
    lines += [(line, Ink.DIM) for line in wrap(needs, width - 2, most=2)]
    basis = {} if result is None else result.basis
    text = "; ".join(f"{key}: {value}" for key, value in basis.items())
    lines += [(line, Ink.DIM) for line in wrap(text, width - 2, most=4)] if text else []
    for note in remarks_on(result) if result is not None else ():
        text = f"{note.text}. {note.advice}" if note.advice else note.text
        lines += [(line, note.ink) for line in wrap(text, width - 2, most=3, indent="  ")]
    return [*lines, ("", Ink.TEXT)]


def _no_table(result: Result | None) -> str:
    if result is None:
        return "not computed yet"
    if result.status == "unavailable":
        return "absent: " + (result.reasons[0].message if result.reasons else "no reason given")
    return "one number for the whole job"


def _rank_row(label: str, names: Sequence[str], columns: RankColumns) -> list[str]:
    cells: list[Number] = [columns[name].get(label) for name in names]
    return [rank_name(label), *(numbers.quantity(cell) for cell in cells)]
