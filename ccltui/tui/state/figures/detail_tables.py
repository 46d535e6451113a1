"""Tables behind the value of a metric: every part of its details that has rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from ccltui.parsers import numbers

if TYPE_CHECKING:
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
