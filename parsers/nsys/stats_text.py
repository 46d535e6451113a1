"""Read the text of ``nsys stats``, of any version and format, as typed tables.

A file may have several reports, each after a banner, between progress bars, notices and the output
of the profiled program. Other text gives no section.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from ccltui.parsers.columns import Note
from ccltui.parsers.errors import NotFoundError, TraceError
from ccltui.parsers.nsys import PARQUET, RECIPES
from ccltui.parsers.nsys.typed_columns import (
    Cells,
    is_numeric_header,
    looks_like_number,
    typed_columns,
)
from ccltui.parsers.nsys.typed_table import (
    NO_PROVENANCE,
    Column,
    Format,
    NameSource,
    Provenance,
    Section,
    StatsText,
    is_header,
    report_name,
    report_of_columns,
    report_of_file,
    report_of_statistics,
    report_title,
    split_header,
)
from ccltui.parsers.safe_text import printable
from ccltui.parsers.text.compression import TextChunks
from ccltui.parsers.text.line_prefixes import plain_text
from ccltui.parsers.window import Window

_PROCESSING = re.compile(
    r"^\s*(?:[$>] )?Processing \[(?P<db>[^\]]*)\] with \[(?P<script>[^\]]+)\]"
    r"(?:\((?P<args>[^)]*)\))?(?: to \[(?P<file>[^\]]*)\])?"
    r"(?: to process \[@(?P<command>.*?)\])?\.\.\.[ ]?(?P<rest>.*)$"
)
_EXPORTING = re.compile(
    r"^\s*Exporting \[(?P<script>\S+\.py)(?P<args>[^\]]*?) (?P<db>[^\]]+)\](?: to [^.]+)?\.\.\."
    r"[ ]?(?P<rest>.*)$"
)
_EXECUTING = re.compile(
    r"^\s*\[\d+/\d+\] Executing '(?P<report>[\w.-]+)' stats report(?P<rest>.*)$"
)
_TITLE = re.compile(r"^\s*\*\* (?P<title>.{1,200}) \((?P<report>[\w.-]+)\):\s*$")
_STATISTICS = re.compile(r"^\s*(?P<title>[A-Z][\w /-]+) Statistics(?: \((?P<unit>\w+)\))?:?\s*$")
_ABSENT = re.compile(r"^\s*(?P<what>SKIPPED|ERROR): (?P<why>.+?)\s*$")
_UNKNOWN_REPORT = re.compile(r"Report '(?P<report>[^']+)' could not be found")
_SKIPPED_PATH = re.compile(r"^(?P<db>.+?) (?P<why>does not contain .+)$")
_WRITTEN = re.compile(r"^\s*PROCESSED\b")
_VERSION = re.compile(
    r"(?:nsight-systems|NsightSystems(?:-cli)?)[-/](?P<version>20\d\d\.\d+(?:\.\d+)*)",
    re.IGNORECASE,
)
_PROGRESS = re.compile(r"\[[=\s]*\d+%[=\s]*\]|^(?:Processing|Exporting) \d+ events")
_DEPRECATED = re.compile(r"^DEPRECATED - Use \S+ instead$")


class Heading(Struct, frozen=True):
    """Facts about the next table, from the lines before its header."""

    line: int
    report: str = ""
    written_report: str = ""
    name_source: NameSource = "none"
    title: str = ""
    unit: str = ""  # of a 2019 title, for columns that name none
    provenance: Provenance = NO_PROVENANCE
    absent: str | None = None


def is_progress(text: str) -> bool:
    """Return whether a piece of a line is a progress bar; a line may have hundreds."""
    return _PROGRESS.search(text) is not None


def read_banner(text: str, line: int) -> tuple[Heading, str] | None:
    """Return the heading of a banner and the rest of its line; None for any other line."""
    match = _PROCESSING.match(text) or _EXPORTING.match(text)
    if match is not None:
        return _of_script(match.groupdict(), line)
    match = _EXECUTING.match(text)
    if match is None:
        return None
    written = match["report"]
    return Heading(line, report_name(written), written, "banner"), match["rest"]


def read_title(text: str, heading: Heading | None, line: int) -> Heading | None:
    """Return the heading that a title line starts or completes; None for any other line."""
    match = _TITLE.match(text)
    if match is not None:
        base = heading or Heading(line)
        title = "" if _DEPRECATED.match(match["title"]) else match["title"]
        report = report_name(match["report"])
        return replace(
            base, report=report, written_report=match["report"], name_source="title", title=title
        )
    match = _STATISTICS.match(text)
    if match is None:
        return None
    unit = match["unit"] or ""
    report = report_of_statistics(match["title"], unit)
    if not report:
        return None
    base = heading if heading and heading.report in ("", report) else Heading(line)
    title = f"{match['title']} Statistics"
    unit = {"nanoseconds": "ns"}.get(unit, unit)
    return replace(base, report=report, name_source="title", title=title, unit=unit)


def read_absence(text: str, heading: Heading | None, line: int) -> Heading | None:
    """Return the heading of a report without a table, with nsys's reason; None for other lines."""
    match = _ABSENT.match(text)
    if match is None:
        if heading is not None and _WRITTEN.match(text):
            return replace(heading, absent="nsys wrote this report to a file of its own")
        return None
    why = match["why"]
    unknown = _UNKNOWN_REPORT.search(why)
    if unknown is not None:
        base = Heading(line, report_name(unknown["report"]), unknown["report"], "banner")
        return replace(base, absent=f"nsys knew no report {unknown['report']}")
    if match["what"] == "ERROR" and heading is None:
        return None  # errors of other programs
    skipped = _SKIPPED_PATH.match(why)
    reason = f"the capture {skipped['why']}" if skipped else why
    return replace(heading or Heading(line), absent=reason)


def _of_script(fields: dict[str, str | None], line: int) -> tuple[Heading, str]:
    script = fields["script"] or ""
    name = script.rpartition("/")[2]
    provenance = _provenance(fields, script)
    heading = Heading(
        line, report_name(name), name.removesuffix(".py"), "banner", "", "", provenance
    )
    if fields.get("file"):
        heading = replace(heading, absent="nsys wrote this report to a file of its own")
    return heading, fields["rest"] or ""


def _provenance(fields: dict[str, str | None], script: str) -> Provenance:
    version = _VERSION.search(script)
    arguments = tuple(filter(None, (fields.get("args") or "").strip(" ()").split(":")))
    keys = dict(part.partition("=")[::2] for part in arguments if "=" in part)
    return Provenance(
        database=fields["db"] or "",
        nsys_version=version["version"] if version else "",
        arguments=arguments,
        window=_window(keys),
        nvtx=keys.get("nvtx", ""),
        command=fields.get("command") or "",
    )


def _window(keys: dict[str, str]) -> Window | None:
    try:
        start, end = (int(keys[key]) if key in keys else None for key in ("start", "end"))
    except ValueError:
        return None
    return None if start is None and end is None else Window(start, end)


Span = tuple[int, int]
"""First column, column after the last."""

_RULER = re.compile(r"^\s{0,4}-+(?:  -+){2,}\s*$")
_TOKENS = re.compile(r"\S+(?: \S+)*")
_MIN_GAP = 2


def is_ruler(line: str) -> bool:
    """Return whether a line is the ruler below a header: a run of dashes per column."""
    return _RULER.match(line) is not None


def header_tokens(line: str) -> list[tuple[str, Span]]:
    """Return the names in a header line, separated by two or more blanks, and their spans."""
    return [(match[0], match.span()) for match in _TOKENS.finditer(line)]


def ruler_spans(ruler: str) -> list[Span]:
    """Return the spans of the columns: the runs of dashes."""
    return [match.span() for match in re.finditer("-+", ruler)]


def slice_row(line: str, spans: Sequence[Span]) -> list[str] | None:
    """Return the cells of a row, None for a line with text between two columns: it is no row."""
    gaps = [line[left[1] : right[0]] for left, right in pairwise(spans)]
    if any(not gap.isspace() for gap in gaps if gap) or line[: spans[0][0]].strip():
        return None
    cells = [line[start:end].strip() for start, end in spans[:-1]]
    return [*cells, line[spans[-1][0] :].strip()]


def split_row(line: str, count: int) -> list[str] | None:
    """Return the cells of a row whose blanks were changed, as by a copy from a page.

    None where the cells, parted by two or more blanks, are not ``count`` many.
    """
    cells = [token for token, _ in header_tokens(line.strip())]
    return cells if len(cells) == count else None


def data_spans(rows: Sequence[str]) -> list[Span]:
    """Return spans that some row fills, separated by two or more characters blank in all rows."""
    filled = _filled(rows)
    columns = np.flatnonzero(filled)
    if not len(columns):
        return []
    breaks = np.flatnonzero(np.diff(columns) > _MIN_GAP)
    starts = columns[np.concatenate([[0], breaks + 1])].tolist()
    ends = (columns[np.concatenate([breaks, [-1]])] + 1).tolist()
    return list(zip(starts, ends, strict=True))


def assign(
    runs: Sequence[Span], headers: Sequence[Span], may_match: Callable[[int, int], bool]
) -> list[int] | None:
    """Assign headers to runs of filled characters, in order, with the smallest sum of distances.

    Overlapping spans have no distance, and more overlap is better.

    Args:
        runs: Spans of the filled characters of the rows.
        headers: Spans of the headers.
        may_match: Whether the content of a run (index) is possible under a header (index).

    Returns:
        The index of the header of each run, None if no assignment is possible.
    """
    count, total = len(runs), len(headers)
    if count > total:
        return None
    cost = np.full((count + 1, total + 1), np.inf)
    cost[0] = 0.0
    for i in range(1, count + 1):
        for j in range(i, total + 1):
            here = np.inf
            if may_match(i - 1, j - 1):
                here = cost[i - 1, j - 1] + _distance(runs[i - 1], headers[j - 1])
            cost[i, j] = min(cost[i, j - 1], here)
    if not np.isfinite(cost[count, total]):
        return None
    chosen: list[int] = []
    j = total
    for i in range(count, 0, -1):
        while cost[i, j - 1] == cost[i, j]:
            j -= 1
        j -= 1
        chosen.append(j)
    return chosen[::-1]


def drawn_spans(border: str) -> list[Span]:
    """Return the spans of the cells between the plus signs of ``+---+---+``."""
    marks = [match.start() for match in re.finditer(r"\+", border)]
    return [(left + 1, right) for left, right in pairwise(marks)]


def _filled(rows: Sequence[str]) -> npt.NDArray[np.bool_]:
    filled = np.zeros(max((len(row) for row in rows), default=0), np.bool_)
    for row in rows:
        codes = np.frombuffer(row.encode("utf-32-le"), np.uint32)
        filled[: len(codes)] |= codes != ord(" ")
    return filled


def _distance(run: Span, header: Span) -> float:
    overlap = min(run[1], header[1]) - max(run[0], header[0])
    if overlap < 0:
        return float(-overlap)
    return -overlap / 1000.0


_MEMBER = re.compile(r'^\s*"(?P<key>[^"]+)":\s*(?P<value>.*?),?\s*$')

Array = tuple[tuple[str, ...], tuple[tuple[str, ...], ...], int]
"""Headers, rows of texts, and how many lines the array takes."""


def read_array(lines: Sequence[str]) -> Array | None:
    """Read the array that begins in the first of ``lines``; None if its elements are no objects.

    nsys does not escape quotes inside names: text that is not valid JSON is read line by line.
    """
    text = "\n".join(lines)
    decoder = json.JSONDecoder(parse_float=str, parse_int=str)
    begin = len(text) - len(text.lstrip())
    try:
        value, end = decoder.raw_decode(text, begin)
    except (ValueError, RecursionError):
        return _by_lines(lines)
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        return None
    return _table(value, text.count("\n", 0, end) + 1)


def _by_lines(lines: Sequence[str]) -> Array | None:
    objects: list[dict[str, str]] = []
    current: dict[str, str] | None = None
    for number, line in enumerate(lines, 1):
        mark = line.strip()
        member = _MEMBER.match(line)
        if mark == "{":
            current = {}
        elif mark in ("}", "},") and current is not None:
            objects.append(current)
            current = None
        elif mark == "]":
            return _table(objects, number)
        elif member is not None and current is not None:
            current[member["key"]] = _text(member["value"])
        elif number > 1:
            return _table(objects, number - 1)
    return _table(objects, len(lines))


def _text(value: str) -> str:
    if value.startswith('"') and value.endswith('"') and len(value) > 1:
        return value[1:-1]
    return "" if value == "null" else value


def _table(objects: Sequence[dict[str, Any]], num_lines: int) -> Array | None:
    headers = tuple(dict.fromkeys(key for item in objects for key in item))
    if not headers:
        return None
    rows = []
    for item in objects:
        cells = [item.get(header) for header in headers]
        if any(isinstance(cell, list | dict) for cell in cells):
            raise TraceError("a report's cell is no text and no number")
        rows.append(tuple("" if cell is None else str(cell) for cell in cells))
    return headers, tuple(rows), num_lines


_BORDER = re.compile(r"^\s*\+-+(?:\+-+)+\+\s*$")
_OMISSION = re.compile(r"\s*(?:\.{3,}|\N{HORIZONTAL ELLIPSIS})\s*")
"""A line in a printed table, as in an issue or a README, that stands for rows left out by hand."""
_DELIMITERS: tuple[tuple[str, Format], ...] = ((",", "csv"), ("\t", "tsv"), (";", "csv"))
_OFTEN_EMPTY = "Green Context ID"
"""Blank for most programs: where blanks were changed, rows have a cell less."""
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
        empty = headers.index(_OFTEN_EMPTY) if _OFTEN_EMPTY in headers else None

        def split(row: str) -> list[str] | None:
            cells = slice_row(row, spans) or split_row(row, len(spans))
            if cells is None and empty is not None:
                cells = split_row(row, len(spans) - 1)
                cells = None if cells is None else [*cells[:empty], "", *cells[empty:]]
            return cells

        return self._collect("column", headers, number, split)

    def _unruled(self, number: int, text: str) -> Cells | None:
        tokens = header_tokens(text)
        if not is_header([token for token, _ in tokens]):
            return None
        start = self._at + 1
        end = start
        while end < len(self._lines) and not self._ends_table(self._lines[end][1]):
            end += 1
        rows = [row for _, row in self._lines[start:end] if not _OMISSION.fullmatch(row)]
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
            if _OMISSION.fullmatch(text):
                self.notes.append(Note("truncated_text", f"line {line} leaves rows out"))
                self._at += 1
                continue
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


_NAMES: Final[Mapping[str, str]] = {
    **{"Time": "Time (%)", "Total Time": "Total Time (ns)", "Sum": "Total Time (ns)"},
    **{"Avg": "Avg (ns)", "Mean": "Avg (ns)", "Med": "Med (ns)", "Median": "Med (ns)"},
    **{"StdDev": "StdDev (ns)", "Std": "StdDev (ns)"},
    **{name: f"{name} (ns)" for name in ("Q1", "Q3", "Min", "Max")},
}
_FIRST: Final = ("Name", "Text")
_NO_PYARROW: Final = (
    "a table of nsys recipe that needs pyarrow: install ccltui[arrow], or run the recipe with --csv"
)


def with_units(text: str) -> str:
    """Rename the columns of a recipe's csv to those of `nsys stats`, with units.

    Other texts are returned unchanged.
    """
    if not text.startswith(RECIPES):
        return text
    header, end, rest = text.partition("\n")
    return ",".join(_NAMES.get(name, name) for name in header.rstrip("\r").split(",")) + end + rest


def text_of_parquet(data: bytes, shown: str) -> str:
    """Convert a recipe's Parquet file to csv.

    Raises:
        TraceError: pyarrow is absent, or the file is not the table of a known recipe.
    """
    try:
        import pyarrow as pa  # noqa: PLC0415
        import pyarrow.parquet as pq  # noqa: PLC0415
    except ImportError:
        raise TraceError(_NO_PYARROW, path=Path(shown)) from None
    try:
        table = pq.read_table(io.BytesIO(data))
        columns: dict[str, Sequence[Any]] = table.to_pydict()
    except (pa.ArrowException, OSError, ValueError, TypeError) as error:
        why = " ".join(str(error).split())[:200]
        raise TraceError(f"a Parquet file that cannot be read: {why}", path=Path(shown)) from error
    # pandas writes its index, here the names of the rows, after the other columns.
    names = sorted(columns, key=lambda name: name not in _FIRST)
    target = io.StringIO()
    writer = csv.writer(target, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(zip(*(columns[name] for name in names), strict=True))
    text = target.getvalue()
    if not text.startswith(RECIPES):
        raise TraceError("a Parquet file of no recipe that is known here", path=Path(shown))
    return text


_LIMIT_MB: Final = 256


def read_stats_text(path: Path, *, shown: str | None = None, unit: str = "") -> StatsText:
    """Read every report in a text file (UTF-8 or UTF-16, plain, gzip or zstd) or recipe Parquet.

    Args:
        path: The file.
        shown: Its path in messages; its name if None.
        unit: Unit of times whose header has none.

    Raises:
        TraceError: A table cannot be read; it has path, line and column. Or the text is longer
            than the limit.
        NotFoundError: There is no such file.
    """
    name = shown or path.name
    chunks = TextChunks(path)
    try:
        data = _whole(chunks, name)
    except FileNotFoundError:
        raise NotFoundError("no such file", path=name) from None
    except OSError as error:
        raise TraceError(error.strerror or str(error), path=name) from None
    if data.startswith(PARQUET):
        return parse_stats_text(text_of_parquet(data, name), path=name, unit=unit)
    text, notes = _decode(data)
    return parse_stats_text(text, path=name, unit=unit, notes=(*chunks.notes, *notes))


def _whole(chunks: TextChunks, name: str) -> bytes:
    """Return the whole text; TraceError beyond the limit, as tables take ten times its memory."""
    stated = os.environ.get("CCLTUI_TEXT_LIMIT_MB", "")
    limit = int(stated) if stated.isdecimal() and len(stated) < 10 else _LIMIT_MB
    parts = []
    for part in chunks:
        if chunks.text_bytes > limit * 1_000_000:
            message = f"its text is longer than {limit:,} MB; CCLTUI_TEXT_LIMIT_MB sets the limit"
            raise TraceError(message, path=name)
        parts.append(part)
    return b"".join(parts)


def parse_stats_text(
    text: str, *, path: str = "", unit: str = "", notes: tuple[Note, ...] = ()
) -> StatsText:
    """Parse every report in a text. Raises TraceError with line and column."""
    try:
        reader = SectionReader(_lines(with_units(plain_text(text))), path, unit)
        return StatsText(path, reader.sections(), (*notes, *reader.notes))
    except TraceError as error:
        raise TraceError(
            printable(error.message), path=path or None, line=error.line, column=error.column
        ) from None


def _decode(data: bytes) -> tuple[str, list[Note]]:
    for mark, encoding in ((b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16")):
        if data.startswith(mark):
            return data.decode(encoding, "replace"), []
    try:
        return data.decode("utf-8-sig"), []
    except UnicodeDecodeError as error:
        note = Note("bad_text", "some bytes are no UTF-8; they are shown as �", error.start)
        return data.decode("utf-8-sig", "replace"), [note]


def _lines(text: str) -> list[tuple[int, str]]:
    """Return numbered lines; a line with carriage returns gives its pieces but progress bars."""
    lines: list[tuple[int, str]] = []
    for number, line in enumerate(text.split("\n"), 1):
        pieces = line.rstrip("\r").split("\r")
        if len(pieces) == 1:
            lines.append((number, pieces[0]))
        else:
            lines += [(number, part) for part in pieces if part.strip() and not is_progress(part)]
    return lines
