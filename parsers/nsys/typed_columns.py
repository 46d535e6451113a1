"""Convert the cells of a table to typed columns, by the name and unit of each column.

nsys groups digits by the locale of the shell that it ran in, so ``1.289`` is 1289 in a German file
and 1.289 elsewhere. The number of decimals that nsys prints in a column decides almost every case;
a column that stays ambiguous raises an error.

Hand-written because libraries (locale, babel) parse numbers of a given locale, and the files do
not name theirs. Columns without groups and with a decimal point, the usual case, are matched by
one regular expression: 0.32 of the time of the general parser for 200,000 cells (1.6 MB).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from ccltui.parsers.array_types import I64
from ccltui.parsers.errors import TraceError
from ccltui.parsers.nsys.typed_table import (
    AVERAGE_COLUMNS,
    CUT,
    EXACT,
    INTEGER_COLUMNS,
    MISSING,
    SIZE_COLUMNS,
    TEXT_COLUMNS,
    TIME_COLUMNS,
    UNKNOWN,
    Column,
    Format,
    NumberColumn,
    TextColumn,
    split_header,
)
from ccltui.parsers.window import COLUMN_UNITS_NS, INT64_MAX, SIZE_UNITS_BYTES

ELLIPSIS: Final = "…"
_DECIMAL_MARKS: Final = ".,"
_SEPARATORS: Final = frozenset(",.'\u2019\u202f\u00a0 ")
_MISSING: Final = frozenset({"", "-", "None"})
_NUMBER = re.compile(r"-?[0-9][0-9,.'\u2019\u202f\u00a0 ]*")
_WITH_UNIT = re.compile(r"(?P<number>-?[0-9].*?)\s*(?P<unit>%|[a-zA-Zµμ]{1,4})")
_MAX_DECIMALS = 12
_MOST_FRACTION: Final = 30  # digits of a number with a unit
_MOST_DIGITS: Final = 100  # of a number that is converted: Python refuses to convert thousands

Place = Callable[[int], tuple[int, int]]
"""Function from a row to line and column (from 1) of its cell."""


class Numbers(Struct, frozen=True):
    """Scaled integers of a column, the state of each cell, and the decimal mark."""

    mantissa: I64
    decimals: int
    state: npt.NDArray[np.uint8]
    decimal_mark: str = ""
    unit: str = ""  # of cells with units of their own, converted to this one


class _Marks(Struct, frozen=True):
    """One interpretation of a column: a decimal mark and a grouping mark; "" for none."""

    decimal: str
    group: str


def parse_numbers(
    cells: Sequence[str], *, decimals: Sequence[int] = (), place: Place, header: str
) -> Numbers | None:
    """Parse the numbers of a column.

    Args:
        cells: The texts of the column.
        decimals: Possible numbers of digits after the decimal mark, most likely first; empty if
            unknown.
        place: Line and column of a row, for errors.
        header: Header of the column, for errors.

    Returns:
        The numbers, None if some cell is no number.

    Raises:
        TraceError: Two interpretations of the column are possible; it has line and column.
    """
    plain = _parse_plain(cells, decimals)
    if plain is not None:
        return plain
    texts = [cell.strip() for cell in cells]
    states = [_state(text) for text in texts]
    shown = [text.removesuffix(ELLIPSIS).rstrip() for text in texts]
    present = [index for index, state in enumerate(states) if state != MISSING]
    if any(_WITH_UNIT.fullmatch(shown[index]) for index in present):
        return _with_units(shown, states)
    if not all(_NUMBER.fullmatch(shown[index]) for index in present):
        return None
    marks = _choose_marks(shown, states, decimals, place, header)
    return None if marks is None else _scaled(shown, states, marks, place, header)


def _parse_plain(cells: Sequence[str], decimals: Sequence[int]) -> Numbers | None:
    """Parse numbers without groups and with the expected decimals after a point, else None.

    The general parser gives the same result in three times the time; long traces need the speed.
    """
    if not cells:
        return None
    joined = "\n".join(cells) + "\n"
    for places in decimals:
        fraction = rf"\.[0-9]{{{places}}}" if places else ""
        if re.fullmatch(rf"(?:(?:-?[0-9]{{1,15}}{fraction})?\n)+", joined):
            digits = joined.replace(".", "").split("\n")[:-1]
            state = np.array([EXACT if text else MISSING for text in digits], np.uint8)
            mantissa = np.array([text or "0" for text in digits]).astype(np.int64)
            used = places if (state == EXACT).any() else 0
            return Numbers(mantissa, used, state, "." if used else "")
    return None


def looks_like_number(cell: str) -> bool:
    """Return whether a cell is empty or a number in some locale, also cut or with a unit."""
    text = cell.strip()
    shown = text.removesuffix(ELLIPSIS).rstrip()
    if text in _MISSING or _NUMBER.fullmatch(shown):
        return True
    match = _WITH_UNIT.fullmatch(shown)
    return match is not None and _NUMBER.fullmatch(match["number"].rstrip()) is not None


def _state(text: str) -> int:
    if text in _MISSING:
        return MISSING
    return CUT if text.endswith(ELLIPSIS) else EXACT


def _choose_marks(
    shown: Sequence[str],
    states: Sequence[int],
    decimals: Sequence[int],
    place: Place,
    header: str,
) -> _Marks | None:
    """Return the only interpretation that fits all cells; None where none does."""
    whole = [shown[index] for index, state in enumerate(states) if state == EXACT]
    cut = [shown[index] for index, state in enumerate(states) if state == CUT]
    used = "".join(sorted(frozenset("".join(whole + cut)) & _SEPARATORS))
    if not used:
        return _Marks("", "")
    readings = [marks for marks in _readings(used) if _fits(marks, whole, cut)]
    for expected in decimals:
        chosen = [marks for marks in readings if whole and _has_decimals(marks, whole, expected)]
        if len(chosen) == 1:
            return chosen[0]
    if len(readings) > 1 and not whole:
        return _Marks("", used)  # only cut cells: their values are unknown
    if len(readings) > 1:
        row = _first_ambiguous(shown, states)
        line, column = place(row)
        raise TraceError(
            f"{header}: {shown[row]!r} can be read as two different numbers, and no other cell "
            "of the column tells which sign is the decimal mark",
            line=line,
            column=column,
        )
    return readings[0] if readings else None


def _readings(used: str) -> list[_Marks]:
    decimal_marks = ["", *(mark for mark in used if mark in _DECIMAL_MARKS)]
    pairs = product(decimal_marks, ["", *used])
    return [
        _Marks(decimal, group)
        for decimal, group in pairs
        if decimal != group and {decimal, group} - {""} == set(used)
    ]


def _fits(marks: _Marks, whole: Sequence[str], cut: Sequence[str]) -> bool:
    """Return whether every cell fits these marks, with one style of groups in all of them."""
    integers = []
    for text in whole:
        integer, mark, fraction = _parts(text, marks)
        if mark and not fraction.isdigit():
            return False
        integers.append(integer)
    for text in cut:
        integer, mark, fraction = _parts(text, marks)
        if fraction and not fraction.isdigit():
            return False
        if mark:
            integers.append(integer)
        elif marks.group and not _begins_grouped(integer, marks.group):
            return False
    return any(
        all(_grouped(integer, marks.group, inner) for integer in integers) for inner in (3, 2)
    )


def _parts(text: str, marks: _Marks) -> tuple[str, str, str]:
    text = text.removeprefix("-")
    return text.partition(marks.decimal) if marks.decimal else (text, "", "")


def _grouped(integer: str, group: str, inner: int) -> bool:
    """Return whether digits form complete groups: the last of 3, those before of ``inner``."""
    if not group:
        return integer.isdigit()
    first, *rest = integer.split(group)
    if not (first.isdigit() and all(part.isdigit() for part in rest)):
        return False
    if not rest:
        return len(first) <= 3
    if first.startswith("0"):
        return False
    *middle, last = rest
    return len(first) <= inner and len(last) == 3 and all(len(part) == inner for part in middle)


def _begins_grouped(integer: str, group: str) -> bool:
    first, *rest = integer.split(group)
    return len(first) <= 3 and all(not part or (part.isdigit() and len(part) <= 3) for part in rest)


def _has_decimals(marks: _Marks, whole: Sequence[str], expected: int) -> bool:
    if not expected:
        return not marks.decimal
    return all(len(_parts(text, marks)[2]) == expected for text in whole)


def _first_ambiguous(shown: Sequence[str], states: Sequence[int]) -> int:
    return next(
        index
        for index, text in enumerate(shown)
        if states[index] != MISSING and frozenset(text) & _SEPARATORS
    )


def _scaled(
    shown: Sequence[str],
    states: Sequence[int],
    marks: _Marks,
    place: Place,
    header: str,
) -> Numbers:
    fractions = [
        len(_parts(text, marks)[2]) for text, state in zip(shown, states, strict=True) if state < 2
    ]
    places = min(max(fractions, default=0), _MAX_DECIMALS)
    mantissa = np.zeros(len(shown), np.int64)
    state = np.array(states, np.uint8)
    for row, text in enumerate(shown):
        if state[row] == MISSING:
            continue
        integer, mark, fraction = _parts(text, marks)
        if state[row] == CUT and not mark:
            state[row] = UNKNOWN
            continue
        digits = integer.replace(marks.group, "") if marks.group else integer
        value = _integer(digits + fraction[:places].ljust(places, "0"))
        if value > INT64_MAX:
            line, column = place(row)
            raise TraceError(f"{header}: {text[:40]} is too large", line=line, column=column)
        mantissa[row] = -value if text.startswith("-") else value
    return Numbers(mantissa, places, state, marks.decimal)


def _integer(digits: str) -> int:
    """Return the value of digits, above INT64_MAX where there are too many to convert."""
    digits = digits.lstrip("0")
    return int(digits or "0") if len(digits) <= _MOST_DIGITS else INT64_MAX + 1


def _with_units(shown: Sequence[str], states: Sequence[int]) -> Numbers | None:
    """Parse cells such as ``48.3%`` and ``383.682 μs``, as the graphical interface exports them."""
    pairs: list[tuple[str, str] | None] = []
    for text, state in zip(shown, states, strict=True):
        match = _WITH_UNIT.fullmatch(text)
        if state == MISSING:
            pairs.append(None)
        elif match is None or not _NUMBER.fullmatch(match["number"].rstrip()):
            return None
        else:
            pairs.append((match["number"].rstrip(), normal_unit(match["unit"])))
    units = {pair[1] for pair in pairs if pair}
    if units == {"%"}:
        return _to_common(pairs, states, {"%": 1}, "%")
    if units <= COLUMN_UNITS_NS.keys():
        return _to_common(pairs, states, COLUMN_UNITS_NS, "ns")
    if units <= SIZE_UNITS_BYTES.keys():
        return _to_common(pairs, states, SIZE_UNITS_BYTES, "B")
    return None


def _to_common(
    pairs: Sequence[tuple[str, str] | None],
    states: Sequence[int],
    sizes: Mapping[str, int],
    unit: str,
) -> Numbers | None:
    texts = [pair[0] for pair in pairs if pair]
    used = "".join(sorted(frozenset("".join(texts)) & _SEPARATORS))
    readings = [marks for marks in _readings(used) if _fits(marks, texts, [])]
    # With a mark in use it is a decimal mark if it can be: cells with units have decimals.
    readings = [marks for marks in readings if marks.decimal or not used] or readings
    if len(readings) != 1:
        return None
    mantissa, state = np.zeros(len(pairs), np.int64), np.array(states, np.uint8)
    for row, pair in enumerate(pairs):
        if pair is not None:
            integer, _, fraction = _parts(pair[0], readings[0])
            digits = integer.replace(readings[0].group, "") if readings[0].group else integer
            fraction = fraction[:_MOST_FRACTION]
            scaled = _integer(digits + fraction) * sizes[pair[1]] * 1000
            value = scaled // 10 ** len(fraction)
            if value > INT64_MAX:
                return None
            mantissa[row] = value
            if pair[0].startswith("-"):
                mantissa[row] *= -1
    return Numbers(mantissa, 3, state, readings[0].decimal, unit)


def normal_unit(written: str) -> str:
    """Return one spelling per unit: ``μs``, ``µs`` and ``usec`` are ``us``, ``MBps`` ``MB/s``."""
    unit = written.strip().replace("μ", "u").replace("µ", "u")
    unit = {
        "nsec": "ns",
        "nanoseconds": "ns",
        "usec": "us",
        "msec": "ms",
        "sec": "s",
        "seconds": "s",
        "KIB": "KiB",
    }.get(unit, unit)
    return unit.removesuffix("ps") + "/s" if unit in ("MBps", "KBps", "GBps") else unit


_NUMERIC = frozenset({*INTEGER_COLUMNS, *AVERAGE_COLUMNS, *TIME_COLUMNS, *SIZE_COLUMNS, "Time"})
_TEXT = frozenset(TEXT_COLUMNS)
_INTEGER = frozenset(INTEGER_COLUMNS)
_AVERAGE = frozenset(AVERAGE_COLUMNS)
_TIME = frozenset(TIME_COLUMNS)
_PLAIN_AVERAGES: Final = frozenset({"Avg GPU Ops", "Avg Range Lvl", "Avg Num Child"})
_MISSING_TEXT = frozenset({"", "-", "None"})


class Cells(Struct, frozen=True):
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
