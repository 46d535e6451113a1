"""Convert the cells of a table to typed columns, by the name and unit of each column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from ccltui.parsers.errors import TraceError
from ccltui.parsers.nsys.text_reports.locale_numbers import (
    ELLIPSIS,
    Numbers,
    Place,
    normal_unit,
    parse_numbers,
)
from ccltui.parsers.nsys.text_reports.report_names import (
    AVERAGE_COLUMNS,
    INTEGER_COLUMNS,
    SIZE_COLUMNS,
    TEXT_COLUMNS,
    TIME_COLUMNS,
    split_header,
)
from ccltui.parsers.nsys.text_reports.typed_table import Column, Format, NumberColumn, TextColumn
from ccltui.parsers.units import COLUMN_UNITS_NS, SIZE_UNITS_BYTES

_NUMERIC = frozenset({*INTEGER_COLUMNS, *AVERAGE_COLUMNS, *TIME_COLUMNS, *SIZE_COLUMNS, "Time"})
_TEXT = frozenset(TEXT_COLUMNS)
_INTEGER = frozenset(INTEGER_COLUMNS)
_AVERAGE = frozenset(AVERAGE_COLUMNS)
_TIME = frozenset(TIME_COLUMNS)
_PLAIN_AVERAGES: Final = frozenset({"Avg GPU Ops", "Avg Range Lvl", "Avg Num Child"})
_MISSING_TEXT = frozenset({"", "-", "None"})


@dataclass(frozen=True, slots=True)
class Cells:
    """Texts of a table before conversion; every row has as many cells as the header."""

    format: Format
    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    lines: tuple[int, ...]
    raw: tuple[str, ...]
    """The line of each row in the file, to locate cells in errors."""
    line: int


def typed_columns(cells: Cells, *, unit: str = "") -> tuple[Column, ...]:
    """Return the columns of a table. ``unit`` is that of times whose header has none.

    Raises:
        TraceError: A cell is no number, or a column is ambiguous; it has line and column.
    """
    named = [_name_and_unit(header) for header in cells.headers]
    shared = _shared_unit(named) or unit
    columns: list[Column] = []
    for index, (name, own_unit) in enumerate(named):
        inherited = shared if not own_unit and (name in _TIME or name == "Total") else own_unit
        columns.append(_column(cells, index, name, inherited))
    return tuple(columns)


def expected_decimals(name: str, unit: str) -> tuple[int, ...]:
    """Return the possible numbers of decimals in a column, most likely first; () if unknown."""
    if name in _INTEGER or unit == "B":
        return (0,)
    if unit == "%" or name in _PLAIN_AVERAGES:
        return (1,)
    if unit == "ns":
        return (1,) if name in _AVERAGE else (0,)
    if unit == "us" or unit.removesuffix("/s") in SIZE_UNITS_BYTES:
        return (3,)
    if unit in ("ms", "s"):
        return (4, 6)
    return ()


def is_numeric_header(header: str) -> bool:
    """Return whether a column of this header holds numbers, whatever its cells are."""
    return split_header(header)[0] in _NUMERIC


def _name_and_unit(header: str) -> tuple[str, str]:
    name, unit = split_header(header)
    return name, normal_unit(unit)


def _shared_unit(named: Sequence[tuple[str, str]]) -> str:
    """Return the unit of time that the headers share, "" if several or none.

    In nsys 2020 only the header of Total Time has it.
    """
    units = {unit for name, unit in named if name in _TIME and unit in COLUMN_UNITS_NS}
    return units.pop() if len(units) == 1 else ""


def _column(cells: Cells, index: int, name: str, unit: str) -> Column:
    texts = [row[index] for row in cells.rows]
    header = cells.headers[index]
    if name in _TEXT:
        return _texts(name, header, texts)

    def place(row: int) -> tuple[int, int]:
        return cells.lines[row], max(cells.raw[row].find(texts[row].strip()), 0) + 1

    numbers = parse_numbers(
        texts, decimals=expected_decimals(name, unit), place=place, header=header
    )
    if numbers is None:
        if name in _NUMERIC:
            raise _not_a_number_error(header, texts, place)
        return _texts(name, header, texts)
    column = NumberColumn(
        name,
        header,
        numbers.unit or unit,
        numbers.mantissa,
        numbers.decimals,
        numbers.state,
    )
    return replace(column, loses=_precision_note(column, cells.format, numbers))


def _texts(name: str, header: str, texts: Sequence[str]) -> TextColumn:
    stripped = ["" if text.strip() in _MISSING_TEXT else text.strip() for text in texts]
    cut = np.array([text.endswith(ELLIPSIS) for text in stripped], np.bool_)
    return TextColumn(name, header, tuple(text.removesuffix(ELLIPSIS) for text in stripped), cut)


def _precision_note(column: NumberColumn, table_format: Format, numbers: Numbers) -> str:
    if numbers.unit:
        return "every cell is rounded to its own unit" if numbers.unit != "%" else ""
    if column.unit in ("ms", "s"):
        return f"nsys prints {column.decimals} decimals of {column.unit}"
    comma = numbers.decimal_mark == ","
    if comma and table_format in ("column", "table") and column.unit in ("ns", "%"):
        return "under a locale with a decimal comma nsys prints every fraction as 0"
    return ""


def _not_a_number_error(header: str, texts: Sequence[str], place: Place) -> TraceError:
    for row, text in enumerate(texts):
        try:
            alone = parse_numbers([text], place=place, header=header, decimals=(0, 1, 3, 4))
        except TraceError:
            continue
        if alone is None:
            line, column = place(row)
            return TraceError(f"{header}: {text[:40]!r} is no number", line=line, column=column)
    line, column = place(0)
    return TraceError(
        f"{header}: its numbers are written in several ways", line=line, column=column
    )
