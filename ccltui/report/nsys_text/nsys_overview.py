"""Text of all nsys files below a folder: all-to-all studies, then every report."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct

from ccltui.metrics.nsys_reports import Report
from ccltui.metrics.nsys_reports.from_text import report_of_section
from ccltui.parsers.discovery.discover import discover
from ccltui.parsers.errors import TraceError
from ccltui.parsers.found_files import FoundFile
from ccltui.parsers.nsys import NSYS_TEXT, NSYS_TEXT_TRACE
from ccltui.parsers.nsys.text_reports.stats_text import read_stats_text
from ccltui.parsers.nsys.text_reports.typed_table import Section
from ccltui.parsers.numbers import counted
from ccltui.parsers.safe_text import safe_text
from ccltui.report.nsys_text.alltoall_study import DEFINITION, studies_of, write_column
from ccltui.report.nsys_text.nsys_writers import Units, cells, header, is_text
from ccltui.report.text_layout import table

Role = Literal["heading", "text", "problem"]

CUTOFF_PERCENT: Final = 1.0
_MOST_ROWS: Final = 200
"""Rows per report: a trace of a long capture is too long for a screen."""
_LARGEST_EXPORT_BYTES: Final = 300_000_000
_LEFT_OUT: Final = frozenset(
    {
        *("Avg", "Min", "StdDev", "CorrId", "GrdX", "GrdY", "GrdZ", "BlkX", "BlkY", "BlkZ"),
        *("Reg/Trd", "StcSMem", "DymSMem", "SrcMemKd", "DstMemKd", "Ctx", "GreenCtx", "PID"),
        *("TID", "Pid", "Tid", "RangeId", "ParentId", "RangeStack"),
    }
)
"""Columns that are omitted because a screen is too narrow."""


_UNITS: Final = Units("us", "us")


class OverviewLine(Struct, frozen=True):
    """One line of the overview; ``source`` is its file."""

    source: str
    text: str
    role: Role = "text"


def nsys_overview(path: str) -> tuple[OverviewLine, ...]:
    """Lines about all nsys files below ``path``. Raises TraceError if it cannot be opened."""
    return (*_studies(path), *_reports(path))


def _studies(path: str) -> Iterator[OverviewLine]:
    found = studies_of(path, largest_bytes=_LARGEST_EXPORT_BYTES)
    for node in found.nodes:
        source = safe_text(node.source)
        yield OverviewLine(source, f"Delays of all-to-all: {source}", "heading")
        yield OverviewLine(source, f"{DEFINITION}.")
        one = type(found)((node,))
        lines = write_column(one, CUTOFF_PERCENT).decode().splitlines()
        yield from (OverviewLine(source, line) for line in lines)
    for problem in found.problems:
        yield OverviewLine("", safe_text(problem), "problem")


def _reports(path: str) -> Iterator[OverviewLine]:
    for file in discover(path).files_of(NSYS_TEXT, NSYS_TEXT_TRACE):
        yield from _of_file(file)


def _of_file(file: FoundFile) -> Iterator[OverviewLine]:
    source = safe_text(file.path)
    try:
        stats = read_stats_text(Path(file.real_path), shown=file.path)
    except TraceError:  # reported with the studies, which read the same files
        return
    for note in stats.notes:
        yield OverviewLine(source, f"{source}: {safe_text(note.message)}", "problem")
    for section in stats.sections:
        yield from _of_section(source, section)


def _of_section(source: str, section: Section) -> Iterator[OverviewLine]:
    try:
        report = report_of_section(section)
    except TraceError as error:
        yield OverviewLine(source, f"{source}: {safe_text(str(error))}", "problem")
        return
    if not report.columns:
        absent = safe_text(f"{report.name} is absent: {report.absent}")
        yield OverviewLine(source, f"{source}: {absent}", "problem")
        return
    yield OverviewLine(source, f"{safe_text(report.title)}: {source}", "heading")
    for note in report.notes:
        yield OverviewLine(source, safe_text(note), "problem")
    yield from (OverviewLine(source, line) for line in _lines_of(report))
    if len(report) > _MOST_ROWS:
        rest = counted(len(report) - _MOST_ROWS, "row")
        yield OverviewLine(source, f" … {rest} more: ccltui stats prints them")
    yield OverviewLine(source, "")


def _lines_of(report: Report) -> list[str]:
    """The first rows of a report, names last, without empty columns."""
    columns = [one for one in report.columns if one.name not in _LEFT_OUT]
    printed = [(one, cells(one, _UNITS)[:_MOST_ROWS]) for one in columns]
    filled = sorted((pair for pair in printed if any(pair[1])), key=lambda pair: is_text(pair[0]))
    return table(
        [header(column, _UNITS) for column, _ in filled],
        list(zip(*(texts for _, texts in filled), strict=True)),
        align=["left" if is_text(column) else "right" for column, _ in filled],
    )
