"""Find the sections of ``nsys stats`` text: banners and tables between other output."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from functools import partial

from ccltui.parsers.columns import Note
from ccltui.parsers.errors import TraceError
from ccltui.parsers.nsys.text_reports.banners import Heading, read_absence, read_banner, read_title
from ccltui.parsers.nsys.text_reports.cell_layout import (
    assign,
    data_spans,
    drawn_spans,
    header_tokens,
    is_ruler,
    ruler_spans,
    slice_row,
    split_row,
)
from ccltui.parsers.nsys.text_reports.flat_json import read_array
from ccltui.parsers.nsys.text_reports.locale_numbers import looks_like_number
from ccltui.parsers.nsys.text_reports.report_names import (
    is_header,
    report_of_columns,
    report_of_file,
    report_title,
    split_header,
)
from ccltui.parsers.nsys.text_reports.typed_columns import Cells, is_numeric_header, typed_columns
from ccltui.parsers.nsys.text_reports.typed_table import Column, Format, NameSource, Section

_BORDER = re.compile(r"^\s*\+-+(?:\+-+)+\+\s*$")
_DELIMITERS: tuple[tuple[str, Format], ...] = ((",", "csv"), ("\t", "tsv"), (";", "csv"))
_NO_TABLE = "the text holds no table of this report"


class SectionReader:
    """Parser of the lines of a file into sections, in one pass."""

    def __init__(self, lines: list[tuple[int, str]], path: str, unit: str) -> None:
        self._lines = lines
        self._path = path
        self._unit = unit
        self._at = 0
        self._heading: Heading | None = None
        self._used = False
        self._found: list[Section] = []
        self.notes: list[Note] = []

    def sections(self) -> tuple[Section, ...]:
        """Return all sections. Raises TraceError with line and column."""
        while self._at < len(self._lines):
            number, text = self._lines[self._at]
            if not text.strip() or not (self._read_around(number, text) or self._read_table()):
                self._at += 1
        self._close()
        return tuple(self._found)

    def _read_around(self, number: int, text: str) -> bool:
        """Read a banner, title or reason for a missing table, and move past it."""
        banner = read_banner(text, number)
        if banner is not None:
            self._open(banner[0])
            self._lines[self._at] = (number, banner[1])  # the rest of the line, often a header
            return True
        heading = None if self._used else self._heading
        titled = read_title(text, heading, number)
        if titled is not None:
            if heading is not None and heading.name_source == "title":
                titled = read_title(text, None, number) or titled
                self._close()
            self._heading, self._used = titled, False
            self._at += 1
            return True
        absent = read_absence(text, heading, number)
        if absent is None:
            return False
        if heading is not None and absent.report != heading.report:
            self._close()
        self._heading, self._used = absent, False
        self._close()
        self._at += 1
        return True

    def _open(self, heading: Heading) -> None:
        self._close()
        self._heading, self._used = heading, False

    def _close(self) -> None:
        """Add an absent section for a heading without a table."""
        heading = self._heading
        if heading is not None and not self._used and (heading.report or heading.absent):
            absent = heading.absent or _NO_TABLE
            self._found.append(_section(heading, "none", heading.line, absent=absent))
        self._heading, self._used = None, True

    def _read_table(self) -> bool:
        number, text = self._lines[self._at]
        for read in (self._ruled, self._drawn, self._delimited, self._json, self._unruled):
            cells = read(number, text)
            if cells is not None:
                self._finish(cells)
                return True
        return False

    def _finish(self, cells: Cells) -> None:
        heading = None if self._used else self._heading
        unit = (heading.unit if heading else "") or self._unit
        columns = typed_columns(cells, unit=unit)
        known = heading or _unnamed(cells, self._path)
        self._found.append(_section(known, cells.format, cells.line, columns))
        self._used = True

    def _ruled(self, number: int, text: str) -> Cells | None:
        if self._at + 1 >= len(self._lines) or not is_ruler(self._lines[self._at + 1][1]):
            return None
        spans = ruler_spans(self._lines[self._at + 1][1])
        headers = [token for token, _ in header_tokens(text)]
        if len(headers) != len(spans):
            return None
        self._at += 2

        def split(row: str) -> list[str] | None:
            return slice_row(row, spans) or split_row(row, len(spans))

        return self._collect("column", headers, number, split)

    def _unruled(self, number: int, text: str) -> Cells | None:
        tokens = header_tokens(text)
        if not is_header([token for token, _ in tokens]):
            return None
        start = self._at + 1
        end = start
        while end < len(self._lines) and not self._ends_table(self._lines[end][1]):
            end += 1
        rows = [row for _, row in self._lines[start:end]]
        runs = data_spans(rows)
        numeric = [all(looks_like_number(row[slice(*run)]) for row in rows) for run in runs]

        def may_match(run: int, header: int) -> bool:
            return numeric[run] or not is_numeric_header(tokens[header][0])

        chosen = assign(runs, [span for _, span in tokens], may_match)
        if chosen is None:
            raise TraceError("the rows below do not fit under their header", line=number)
        place = dict(zip(chosen, runs, strict=True))
        self._at = start

        def split(row: str) -> list[str]:
            return [
                row[slice(*place[index])].strip() if index in place else ""
                for index in range(len(tokens))
            ]

        return self._collect("column", [token for token, _ in tokens], number, split)

    def _drawn(self, number: int, text: str) -> Cells | None:
        lines = self._lines[self._at : self._at + 3]
        if len(lines) < 3 or not all(_BORDER.match(lines[index][1]) for index in (0, 2)):
            return None
        spans = drawn_spans(text)
        headers = [lines[1][1][slice(*span)].strip() for span in spans]
        if not is_header(headers):
            return None
        self._at += 3

        def split(row: str) -> list[str] | None:
            return [row[slice(*span)].strip() for span in spans] if "|" in row[:5] else None

        cells = self._collect("table", headers, lines[1][0], split)
        if self._at < len(self._lines) and _BORDER.match(self._lines[self._at][1]):
            self._at += 1
        return cells

    def _delimited(self, number: int, text: str) -> Cells | None:
        for delimiter, table_format in _DELIMITERS:
            if delimiter not in text:
                continue
            headers = _fields(text, delimiter)
            if is_header(headers):
                self._at += 1
                split = partial(_fields, delimiter=delimiter)
                return self._collect(table_format, headers, number, split)
        return None

    def _json(self, number: int, text: str) -> Cells | None:
        if not (text.strip() == "[" or text.lstrip().startswith(("[{", "[ {"))):
            return None
        found = read_array([line for _, line in self._lines[self._at :]])
        if found is None:
            return None
        headers, rows, num_lines = found
        if not is_header(headers):
            return None
        self._at += num_lines
        lines = (number,) * len(rows)
        return Cells("json", headers, rows, lines, ("",) * len(rows), number)

    def _collect(
        self,
        table_format: Format,
        headers: list[str],
        number: int,
        split: Callable[[str], list[str] | None],
    ) -> Cells:
        """Read rows from the current position to the end of the table, and move there."""
        rows, lines, raw = [], [], []
        while self._at < len(self._lines):
            line, text = self._lines[self._at]
            if self._ends_table(text):
                break
            cells = split(text)
            if cells is None or len(cells) != len(headers):
                if not self._may_end_here(text):
                    raise TraceError(
                        f"this row does not fit the {len(headers)} columns of the table that "
                        f"begins in line {number}",
                        line=line,
                        column=1,
                    )
                break
            rows.append(tuple(cells))
            lines.append(line)
            raw.append(text)
            self._at += 1
        return Cells(table_format, tuple(headers), tuple(rows), tuple(lines), tuple(raw), number)

    def _ends_table(self, text: str) -> bool:
        return (
            not text.strip()
            or _BORDER.match(text) is not None
            or read_banner(text, 0) is not None
            or read_title(text, None, 0) is not None
            or text.lstrip().startswith(("SKIPPED: ", "ERROR: ", "Generated:", "```"))
        )

    def _may_end_here(self, text: str) -> bool:
        """Return whether a line that fits no column is other output or the last of a cut file."""
        if self._at == len(self._lines) - 1:
            self.notes.append(Note("truncated_text", "the last row is cut off and left out"))
            return True
        return not re.match(r"^[\s|\"]*-?[0-9]", text)


def _fields(line: str, delimiter: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error:
        return []


def _unnamed(cells: Cells, path: str) -> Heading:
    """Return the heading of a table without banner or title, from the file name or columns."""
    named = report_of_file(path)
    source: NameSource = "file name"
    if not named:
        named = report_of_columns([split_header(header)[0] for header in cells.headers])
        source = "columns" if named else "none"
    return Heading(cells.line, named, "", source)


def _section(
    heading: Heading,
    table_format: Format,
    line: int,
    columns: tuple[Column, ...] = (),
    *,
    absent: str | None = None,
) -> Section:
    return Section(
        heading.report,
        heading.written_report,
        heading.name_source,
        heading.title or report_title(heading.report),
        table_format,
        line,
        columns,
        heading.provenance,
        absent,
    )
