"""Lines of the metrics in Overview: headings of categories, and a row for each metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ccltui.draw.palette import Ink
from ccltui.draw.planes import Planes
from ccltui.draw.spark import spark
from ccltui.draw.table import Column, table
from ccltui.draw.text import fit
from ccltui.metrics.result import Result, values_by_step
from ccltui.parsers import numbers
from ccltui.tui.panes.overview_page import MARK, Drawn, Page
from ccltui.tui.state.against.second_path import compared
from ccltui.tui.state.figures.metric_columns import BY_RANK, BY_STEP, listed_columns
from ccltui.tui.state.figures.metric_list import (
    HIDDEN,
    UNAVAILABLE,
    Item,
    items,
    unavailable_by_category,
)
from ccltui.tui.state.figures.metric_rows import (
    Number,
    extremes,
    fallback,
    leading,
    rank_columns,
    spread,
)
from ccltui.tui.state.own.overview_state import OVERVIEW_STATE, MetricOrder
from ccltui.tui.state.scene import Scene, rank_name

if TYPE_CHECKING:
    from ccltui.metrics.metric import Metric

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
