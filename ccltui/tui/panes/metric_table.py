"""Draw one metric in full: definition, basis, and its values rank by rank."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ccltui.draw import numbers
from ccltui.draw.palette import Ink
from ccltui.draw.planes import Planes
from ccltui.draw.table import Column, table
from ccltui.draw.text import wrap
from ccltui.tui.state.own.summary_state import SUMMARY_STATE
from ccltui.tui.state.scene import Scene, rank_name
from ccltui.tui.state.summary_rows import Number, RankColumns, leading, rank_columns

if TYPE_CHECKING:
    from ccltui.metrics.metric import Metric
    from ccltui.metrics.result import Result


def by_rank(scene: Scene, metric: Metric, height: int, width: int, *, full: bool = False) -> Planes:
    """Draw a metric by rank with as many columns as fit; ``full`` begins with its definition."""
    planes = Planes.blank(height, width, Ink.TEXT)
    result = scene.findings.results.get(metric.name)
    labels = tuple(scene.findings.lanes)
    y = _put_definition(planes, metric, result) if full else 0
    planes.put(y, 1, f"{metric.title}, by rank".ljust(width - 1), Ink.STRONG)
    columns = {} if result is None else rank_columns(result, labels)
    if not columns:
        planes.put(y + 1, 1, _no_columns(result)[: width - 1], Ink.DIM)
        return planes
    first = leading(columns, metric.headline)
    names = sorted(columns, key=lambda name: name != first)  # the headline's column first
    rows = [_rank_row(label, names, columns) for label in labels]
    layout = [Column("rank", widest=24), *(Column(name, "right", 28) for name in names)]
    lines = table(layout, rows, width - 2)
    planes.put(y + 1, 1, lines[0], Ink.DIM)
    room = max(height - y - 2, 1)
    start = min(SUMMARY_STATE.of(scene.state).first_rank, max(len(rows) - room, 0))
    shown = lines[1 + start : 1 + start + room]
    for index, line in enumerate(shown):
        planes.put(y + 2 + index, 1, line, Ink.TEXT)
    left = len(rows) - start - len(shown)
    if left > 0 and shown:
        text = "j goes on" if full else "enter opens all"
        planes.put(height - 1, 1, f"… {left + 1} more ranks: {text}".ljust(width), Ink.DIM)
    return planes


def _put_definition(planes: Planes, metric: Metric, result: Result | None) -> int:
    """Draw definition, needs and basis in full; return the row after them."""
    lines = wrap(f"{metric.title} ({metric.name}): {metric.definition}", planes.width - 2, most=4)
    needs = f"needs {'; '.join(metric.needs)}; --metric {metric.name} prints it"
    lines += wrap(needs, planes.width - 2, most=2)
    basis = {} if result is None else result.basis
    text = "; ".join(f"{key}: {value}" for key, value in basis.items())
    lines += wrap(text, planes.width - 2, most=4) if text else []
    for y, line in enumerate(lines):
        planes.put(y, 1, line, Ink.TEXT if y == 0 else Ink.DIM)
    return len(lines) + 1


def _no_columns(result: Result | None) -> str:
    if result is None:
        return "not computed yet"
    if result.status == "unavailable":
        return "absent: " + (result.reasons[0].message if result.reasons else "no reason given")
    return "one number for the whole job"


def _rank_row(label: str, names: Sequence[str], columns: RankColumns) -> list[str]:
    cells: list[Number] = [columns[name].get(label) for name in names]
    return [rank_name(label), *(numbers.quantity(cell) for cell in cells)]
