"""Read the tables that `nsys stats` prints in columns, with the standard library alone.

Nodes of a cluster may have no other package. ccltui reads every format of `nsys stats`; this reads
the one that a run writes: a banner with the name of the report, a header, a line of dashes below
each column, and rows to the next blank line. Digits are grouped by the locale of the host.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Final

_BANNER: Final = re.compile(r"^\s*\*\* .*\((?P<report>\w+)(?::\S*)?\):\s*$")
_OLD_NAMES: Final = {"nvtxsum": "nvtx_sum", "osrtsum": "osrt_sum"}
_UNITS: Final = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}
_UNIT: Final = re.compile(r"\((\w+)\)$")


@dataclass(frozen=True, slots=True)
class Table:
    """One report. ``columns`` are the headers with units, ``rows`` the cells as printed."""

    report: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def place(self, name: str) -> int:
        """Return the index of a column by its name without unit. Raises KeyError without one."""
        for index, header in enumerate(self.columns):
            if header.partition(" (")[0] == name:
                return index
        raise KeyError(f"{self.report} has no column {name}")

    def times_ns(self, name: str) -> list[int]:
        """Return a column of times in ns. Raises KeyError, or ValueError where one is no time."""
        place = self.place(name)
        match = _UNIT.search(self.columns[place])
        unit = _UNITS[match[1]] if match is not None and match[1] in _UNITS else 0
        if not unit:
            raise ValueError(f"{self.columns[place]} of {self.report} is no time")
        # nsys prints whole nanoseconds, and decimals in every other unit.
        return [round(_number(row[place], whole=unit == 1) * unit) for row in self.rows]

    def shares(self, name: str) -> list[float]:
        """Return a column of percentages, which have decimals. Raises KeyError or ValueError."""
        place = self.place(name)
        return [float(_number(row[place], whole=False)) for row in self.rows]


def read_tables(path: Path) -> dict[str, Table]:
    """Return the tables of a text by report. Raises OSError where it cannot be read."""
    data = path.read_bytes()
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    lines = data.decode(encoding, "replace").splitlines()
    return {table.report: table for table in _tables(lines)}


def _tables(lines: Sequence[str]) -> Iterator[Table]:
    for number, line in enumerate(lines):
        banner = _BANNER.match(line)
        if banner is None:
            continue
        body = number + 1
        while body < len(lines) and not lines[body].strip():
            body += 1
        if body + 1 >= len(lines) or set(lines[body + 1].strip()) - {"-", " "}:
            continue
        spans = [match.span() for match in re.finditer("-+", lines[body + 1])]
        rows = []
        for row in lines[body + 2 :]:
            if not row.strip():
                break
            rows.append(_cells(row, spans))
        if spans:
            report = banner["report"]
            columns = _cells(lines[body], spans)
            yield Table(_OLD_NAMES.get(report, report), columns, tuple(rows))


def _cells(line: str, spans: Sequence[tuple[int, int]]) -> tuple[str, ...]:
    """Cells below the dashes of each column; the last has no end, as names may be longer."""
    *others, (last, _) = spans
    return (*(line[begin:end].strip() for begin, end in others), line[last:].strip())


def _number(text: str, *, whole: bool) -> Decimal:
    """The number of a cell; its last mark is the decimal one unless it is a whole number."""
    digits = re.sub(r"\D", "", text)
    if not digits:
        raise ValueError(f"{text!r} is no number")
    marks = re.split(r"\d+", text.strip().rstrip("…"))
    if whole or len([mark for mark in marks if mark]) == 0:
        return Decimal(digits)
    decimals = len(re.sub(r".*\D", "", text.strip().rstrip("…")))
    return Decimal(digits).scaleb(-decimals)
