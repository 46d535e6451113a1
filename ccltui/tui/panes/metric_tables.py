"""Tables of the result of a metric: its numbers by rank, then the other parts of its details."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from ccltui.draw.palette import Ink
from ccltui.draw.text import Column, table
from ccltui.parsers import numbers
from ccltui.tui.state.scene import rank_name

if TYPE_CHECKING:
    from ccltui.draw.planes import Planes
    from ccltui.metrics.metric import Metric
    from ccltui.metrics.result import Result

_PER_STEP = "per_step"
_BESIDE = frozenset({"n", "std", "component", "min", "max"})

Number = float | int | None
RankColumns = dict[str, dict[str, Number]]
"""Column name -> rank label -> value."""


def rank_columns(result: Result, labels: Sequence[str]) -> RankColumns:
    """Return all parts of the details with a value for each rank, the headline's own first."""
    columns: RankColumns = {}
    for key, part in result.details.items():
        by_rank = isinstance(part, Mapping) and part and set(part) <= set(labels)
        if by_rank and _PER_STEP not in key:  # steps may be numbered like ranks
            _add(columns, key, part)
    return columns


def _add(columns: RankColumns, key: str, by_rank: Mapping[str, Any]) -> None:
    for label, value in by_rank.items():
        if isinstance(value, Mapping):
            for inner, number in value.items():
                if _is_number(number) and not inner.isdigit():  # skip values step by step
                    name = inner if key == "per_rank" else f"{key} {inner}"
                    columns.setdefault(name, {})[label] = number
        elif _is_number(value):
            columns.setdefault(key, {})[label] = value


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def leading(columns: RankColumns, headline: str) -> str | None:
    """Return the column with the headline by rank, None when there is none."""
    if headline in columns:
        return headline
    words = headline.split("_")
    return next((name for name in columns if name in words), None)


def fallback(columns: RankColumns) -> str | None:
    """Return the first column by rank of something other than the headline."""
    return next((name for name in columns if name.split()[-1] not in _BESIDE), None)


class ByRank(Struct, frozen=True):
    """Numbers of the ranks beside the value of a metric.

    Attributes:
        name: what they are in the details.
        values: the number of each rank.
        is_own: whether they are the value rank by rank, not another number.
        is_of_value: whether the value may also be a mean of them.
        low: the smallest, None where they are no range around the value, as the next ones.
        high: the largest.
        spread: largest less smallest over the absolute mean.
        low_rank: name of the rank of the smallest.
        high_rank: name of the rank of the largest.
    """

    name: str
    values: Mapping[str, Number]
    is_own: bool
    is_of_value: bool
    low: float | None = None
    high: float | None = None
    spread: float | None = None
    low_rank: str | None = None
    high_rank: str | None = None

    @property
    def low_text(self) -> str:
        """The smallest and its rank."""
        return f"{numbers.quantity(self.low)} {self.low_rank}" if self.low_rank else ""

    @property
    def high_text(self) -> str:
        """The largest and its rank."""
        return f"{numbers.quantity(self.high)} {self.high_rank}" if self.high_rank else ""


def by_rank(result: Result, headline: str, labels: Sequence[str]) -> ByRank | None:
    """Return the headline by rank, else another number by rank, None where there is none."""
    columns = rank_columns(result, labels)
    own = leading(columns, headline)
    name = own or fallback(columns)
    if name is None:
        return None
    values = columns[name]
    known = {label: value for label, value in values.items() if value is not None}
    if own is None or not known:
        return ByRank(name, values, is_own=own is not None, is_of_value=own is not None)
    least, most = min(known, key=known.__getitem__), max(known, key=known.__getitem__)
    low, high = known[least], known[most]
    if result.value is not None and not low <= result.value <= high:
        return ByRank(name, values, is_own=True, is_of_value=False)
    mean = abs(sum(known.values()) / len(known))
    spread = (high - low) / mean if mean else None
    ranks = rank_name(least), rank_name(most)
    return ByRank(name, values, True, True, low, high, spread, *ranks)


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


_NUMBER = frozenset("0123456789.,-%")
Written = tuple[str, Ink]


def paint_beside(
    metric: Metric, result: Result | None, labels: Sequence[str], height: int, width: int
) -> Planes:
    """Draw the tables of a metric as far as there is room."""
    from ccltui.draw.planes import Planes

    planes = Planes.blank(height, width, Ink.TEXT)
    lines = table_lines(metric, result, labels, width)
    for y, (text, ink) in enumerate(lines[:height]):
        planes.put(y, 1, text[: width - 1], ink)
    left = len(lines) - height
    if left > 0:
        text = f"… {left + 1} more lines: enter opens all"
        planes.put(height - 1, 1, text.ljust(width), Ink.DIM)
    return planes


def table_lines(
    metric: Metric, result: Result | None, labels: Sequence[str], width: int
) -> list[Written]:
    """Return the lines of all tables of a metric in at most so many cells."""
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


def _no_table(result: Result | None) -> str:
    if result is None:
        return "not computed yet"
    if result.status == "unavailable":
        return "absent: " + (result.reasons[0].message if result.reasons else "no reason given")
    return "one number for the whole job"


def _rank_row(label: str, names: Sequence[str], columns: RankColumns) -> list[str]:
    cells: list[Number] = [columns[name].get(label) for name in names]
    return [rank_name(label), *(numbers.quantity(cell) for cell in cells)]
