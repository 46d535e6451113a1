"""Lines of the metrics in Overview: a row for each, or one in full with its tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from ccltui.draw.bars import spark
from ccltui.draw.palette import Ink
from ccltui.draw.planes import Planes
from ccltui.draw.table import Column, table
from ccltui.draw.text import fit, wrap
from ccltui.metrics.result import Result, values_by_step
from ccltui.parsers import numbers
from ccltui.tui.panes.overview_page import MARK, Drawn, Page
from ccltui.tui.state.metric_list import (
    BY_RANK,
    BY_STEP,
    HIDDEN,
    UNAVAILABLE,
    Item,
    Number,
    RankColumns,
    extremes,
    fallback,
    items,
    leading,
    listed_columns,
    rank_columns,
    spread,
    unavailable_by_category,
)
from ccltui.tui.state.notes import remarks_on
from ccltui.tui.state.pane_states import OVERVIEW_STATE, MetricOrder
from ccltui.tui.state.scene import Scene, rank_name
from ccltui.tui.state.second_path import compared

if TYPE_CHECKING:
    from ccltui.metrics.metric import Metric
    from ccltui.metrics.result import Result


MOST_ROWS: Final = 200
"""Most rows of one table on the screen; ``--detail`` prints all."""


class DetailTable(Struct, frozen=True):
    """One part of the details: its key, headings, rows of text, and number of rows left out."""

    name: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left_out: int = 0


def detail_tables(result: Result, labels: Sequence[str]) -> list[DetailTable]:
    """Return the tables of a result but for those by rank, in the order of its details.

    Args:
        result: the result.
        labels: labels of the ranks; a part with a row for each of them is left out.
    """
    known = set(labels)
    found = []
    for key, part in result.details.items():
        if isinstance(part, Mapping):
            if part and not set(part) <= known:
                found.append(_of_mapping(key, part))
        elif isinstance(part, list | tuple) and part:
            found.append(_of_list(key, part))
    return [table for table in found if table.rows]


def _of_mapping(name: str, part: Mapping[Any, Any]) -> DetailTable:
    rows = {str(key): row for key, row in part.items() if isinstance(row, Mapping)}
    if not rows:
        cells = [(str(key), _cell(value)) for key, value in part.items()]
        return _table(name, (name, "value"), cells)
    columns = _columns(rows.values())
    cells_of = [(key, *(_cell(row.get(one)) for one in columns)) for key, row in rows.items()]
    return _table(name, (name, *columns), cells_of)


def _of_list(name: str, part: Sequence[Any]) -> DetailTable:
    rows = [row for row in part if isinstance(row, Mapping)]
    if not rows:
        cells = [(str(number), _cell(value)) for number, value in enumerate(part, 1)]
        return _table(name, ("#", name), cells)
    columns = _columns(rows)
    return _table(name, columns, [tuple(_cell(row.get(one)) for one in columns) for row in rows])


def _table(name: str, columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> DetailTable:
    return DetailTable(name, columns, tuple(rows[:MOST_ROWS]), max(len(rows) - MOST_ROWS, 0))


def _columns(rows: Iterable[Mapping[Any, Any]]) -> tuple[str, ...]:
    """Return the keys that have a plain value in some row, in the order in which they come."""
    found: dict[str, None] = {}
    for row in rows:
        for key, value in row.items():
            if not isinstance(value, Mapping | list | tuple):
                found.setdefault(str(key))
    return tuple(found)


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None or isinstance(value, int | float):
        return numbers.quantity(value)
    if isinstance(value, list | tuple):
        return ", ".join(_cell(one) for one in value[:8]) + (", …" if len(value) > 8 else "")
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_cell(one)}" for key, one in list(value.items())[:4])
    return str(value)


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


_SPARK = 16
_TREND = 14
_TITLE = 22
_WIDEST = 32  # most characters of a label, with its indent
_COLUMNS = {
    "value": Column("value", "right"),
    "unit": Column("unit", widest=12),
    "B": Column("B", "right"),
    "B - A": Column("B - A", "right"),
    "change": Column("change", widest=8),
    BY_RANK: Column("by rank, from 0", widest=_SPARK + 2),
    "min": Column("min", "right"),
    "max": Column("max", "right"),
    "spread": Column("spread", "right"),
    BY_STEP: Column("by step, from 0", widest=_TREND + 1),
}


def add_metrics(page: Page, scene: Scene, first_row: int, chosen: int | None) -> None:
    """Add the list of metrics, whose rows are numbered from ``first_row`` on."""
    listed = items(scene)
    if not listed:
        pattern = OVERVIEW_STATE.of(scene.state).pattern
        if pattern:
            page.text(f"no metric matches /{pattern}/: / changes the filter", Ink.DIM)
        return
    cells = [_cells(scene, item) for item in listed]
    names = listed_columns(scene)
    columns = [Column("metrics", widest=_WIDEST), *(_COLUMNS[name] for name in names)]
    rows = [(title, *(found.get(name, "") for name in names)) for title, found, _ in cells]
    lines = table(columns, rows, page.width - 2)
    at = 3 + min(max(len(title) for title, _, _ in cells), _WIDEST)
    heading = _column_titles(scene, lines[0])
    page.add(lambda planes, y: planes.put(y, 1, heading, Ink.DIM))
    for number, (item, (_, _, absent)) in enumerate(zip(listed, cells, strict=True)):
        on = number == chosen
        if item.metric is None:
            line = _heading(scene, item)
            ink = Ink.DIM if item.key in (UNAVAILABLE, HIDDEN) else Ink.STRONG
            page.row(first_row + number, line, ink, on=on, most=2)
        else:
            known = item.metric.name in scene.findings.results
            ink = Ink.DIM if absent or not known else Ink.TEXT
            page.add(_drawn(lines[1 + number], absent, at, ink, on=on), first_row + number)


def _column_titles(scene: Scene, line: str) -> str:
    """Return the headings with the order of the list, and the filter, after the first."""
    own = OVERVIEW_STATE.of(scene.state)
    line = _marked(line, own.order, reverse=own.reverse)
    if not own.pattern:
        return line
    title = f"metrics /{own.pattern}/ "
    return title + line[len(title) :] if not line[len("metrics") : len(title)].strip() else title


def _marked(line: str, order: MetricOrder, *, reverse: bool) -> str:
    """Put the mark of the order before the heading of its column."""
    if order is MetricOrder.GROUP:
        return line
    title = "metrics" if order is MetricOrder.NAME else order.value
    at = f" {line} ".find(f" {title} ")
    mark = "▴" if reverse else "▼"
    if at < 0:  # a narrow screen leaves the column out
        return f"{line}   by {title} {mark}"
    return f"{mark}{line}" if at == 0 else f"{line[: at - 1]}{mark}{line[at:]}"


def _heading(scene: Scene, item: Item) -> str:
    if item.key == HIDDEN:
        what = "metric is" if item.count == 1 else "metrics are"
        return f"{item.count} {what} hidden: enter lists all"
    if item.key != UNAVAILABLE:
        sign = "▸" if item.category in OVERVIEW_STATE.of(scene.state).folded else "▾"
        return f"{sign} {item.category} ({item.count})"
    shown = OVERVIEW_STATE.of(scene.state).lists_unavailable
    parts = ", ".join(f"{name} {count}" for name, count in unavailable_by_category(scene))
    what = "are" if item.count > 1 else "is"
    key = "hides them" if shown else "shows why"
    return f"{item.count} of {len(scene.findings.metrics)} {what} unavailable: {parts}; u {key}"


def _drawn(line: str, absent: str, at: int, ink: Ink, *, on: bool) -> Drawn:
    def draw(planes: Planes, y: int) -> None:
        shown = Ink.LABEL_ON if on else ink
        planes.put(y, 0, MARK if on else " ", shown)
        planes.put(y, 1, line.ljust(planes.width - 1) if on else line, shown)
        if absent:
            planes.put(y, at, fit(absent, planes.width - at), shown)

    return draw


def _cells(scene: Scene, item: Item) -> tuple[str, dict[str, str], str]:
    """Return title and cells by column, and why the metric is absent, "" where it has a value."""
    metric = item.metric
    if metric is None:
        return "", {}, ""
    title = f"  {metric.title}".ljust(_TITLE)
    result = scene.findings.results.get(metric.name)
    if result is None:
        return title, {"value": "…"}, ""
    if result.status == "unavailable":
        reason = result.reasons[0].message if result.reasons else "no reason given"
        return title, {}, f"--  absent: {reason}"
    sign = " !" if result.status == "partial" else ""
    cells = {
        "value": numbers.quantity(result.value) + sign,
        "unit": metric.unit,
        BY_STEP: spark(values_by_step(result, metric.headline), _TREND),
        **_ranks(scene, metric, result),
        **_of_b(scene, metric.name),
    }
    return title, cells, ""


def _of_b(scene: Scene, name: str) -> dict[str, str]:
    """Return the value of the second path, the difference, and whether it is beyond the noise."""
    found = compared(scene)
    if found is None:
        return {}
    row = found.metrics.get(name)
    if row is None or row.b is None:
        return {"B": "--" if found.document is not None else "…"}
    delta = "" if row.delta is None else numbers.signed_quantity(row.delta)
    return {"B": numbers.quantity(row.b), "B - A": delta, "change": row.verdict}


def _ranks(scene: Scene, metric: Metric, result: Result) -> dict[str, str]:
    """Return sparkline, minimum, maximum and spread; of another number a sparkline in brackets."""
    labels = tuple(scene.findings.lanes)
    columns = rank_columns(result, labels)
    own = leading(columns, metric.headline)
    if own is None:
        other = fallback(columns)
        return {} if other is None else {BY_RANK: f"({_picture(columns[other], labels)})"}
    column = columns[own]
    ends, wide = extremes(column), spread(column)
    if ends is None:
        return {BY_RANK: _picture(column, labels)}
    (_, low), (_, high) = ends
    if result.value is not None and not low <= result.value <= high:
        # The value is no mean of these numbers, so they are no range around it.
        return {BY_RANK: f"({_picture(column, labels)})"}
    least, most = (f"{numbers.quantity(value)} {rank_name(label)}" for label, value in ends)
    share = "" if wide is None else f"{numbers.percent_cell(wide)}"
    return {BY_RANK: _picture(column, labels), "min": least, "max": most, "spread": share}


def _picture(column: Mapping[str, Number], labels: Sequence[str]) -> str:
    return spark([column.get(label) for label in labels], _SPARK)
