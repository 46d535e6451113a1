"""Nsight Systems: its sqlite exports, its reports and the text of ``nsys stats``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ccltui.parsers.errors import TraceError
from ccltui.parsers.format import Format, Match, Priority, RankInfo, Rule, binary_suffix, imported
from ccltui.parsers.nsys.sqlite.export_schema import KERNELS, SESSION

if TYPE_CHECKING:
    from ccltui.parsers.text.file_sample import FileSample


PARQUET: Final = b"PAR1"
RECIPES: Final = ("Name,Time,Total Time,Instances,Avg,", "Text,Count,Mean,Std,")
"""First columns of the csv of the `nsys recipe` reports ``cuda_gpu_kern_sum`` and ``nccl_sum``."""
TABLE_MAGIC: Final = (PARQUET, b"ARROW1", b"\xff\xff\xff\xff")
"""First bytes of Parquet files, Arrow files and Arrow streams."""

_NSYS_TABLES = frozenset(
    {"META_DATA_EXPORT", "EXPORT_META_DATA", "NVTX_EVENTS", "ANALYSIS_DETAILS"}
)
_STANDS_FOR_ALL = ("StringIds.parquet", "StringIds.arrow")
# Patterns are compiled when a text has one of the words that any match of theirs contains: the card
# of a job has none, and they take 4 ms, of 250 that a command takes to print a metric. Finding none
# of the words takes a hundredth of the time of a search.
_NSYS_COLUMNS = r"(Time|Start|Duration|Total|Total Time|Projected Start)( \(.+\))?"
_NSYS_BANNER = r"""(?mx)^[ \t]*(?:[$>][ ])?(?:
        Processing\ \[[^\]\n]+\]\ with\ \[
      | Exporting\ \[[^\]\n]+\.py\b
      | \[\d+/\d+\]\ Executing\ '\w+'\ stats\ report
      | \*\*\ .{1,200}\(\w+\):
      | Generating\ SQLite\ file\ .
      | NOTICE:\ Existing\ SQLite\ export\ found
      | Generating\ \w[\w ]*\ Statistics\.\.\.
      | \w[\w ]*\ Statistics\ \((?:nanoseconds|KiB)\)
      | ERROR:\ Report\ '[^'\n]*'\ could\ not\ be\ found
      | SKIPPED:\ \S.*\ (?:does\ not\ contain|could\ not\ be\ found)
    )"""
_BANNER_WORDS = (
    *("Processing [", "Exporting [", "] Executing '", "** ", "Generating ", "NOTICE: Existing "),
    *("Statistics (", "ERROR: Report '", "SKIPPED: "),
)
_HEADER_WORDS = ("Total", "Duration", "Style", "API Dur", "DevId", "Row#")
_UNIT = r"(?: ?\([^)\n]{1,12}\))?"
_GAP = r'"?(?:[ \t]{2,}|[ ]*[|,;\t][ ]*)"?'
# Header lines of the reports: console columns, drawn tables, csv, tsv.
_NSYS_HEADER = (
    r'(?m)^[ \t|"]*(?:'
    + "|".join(
        _GAP.join(columns)
        for columns in (
            (
                rf"Time{_UNIT}",
                rf"Total(?: Time)?{_UNIT}",
                r"(?:Instances|Num Calls|Calls|Count|Op)",
            ),
            (rf"Time{_UNIT}", rf"Total(?: Time)?{_UNIT}", r"Operations"),
            (rf"Total{_UNIT}", r"(?:Count|Operations)", rf"(?:Avg|Average){_UNIT}"),
            (rf"Start{_UNIT}", rf"Duration{_UNIT}", r"(?:CorrId|Name)"),
            (rf"Start{_UNIT}", rf"End{_UNIT}", rf"Duration{_UNIT}"),
            (rf"Duration{_UNIT}", rf"Start{_UNIT}", r"(?:Src Kind|Memory Kind|PID)"),
            (r"Row#", rf"(?:In-Use|Duration){_UNIT}", rf"(?:Duration|Start){_UNIT}"),
            (r"Range", r"Style", rf"Total Proj Time{_UNIT}"),
            (r"Name", rf"Projected Start{_UNIT}", rf"Projected Duration{_UNIT}"),
            (r"NVTX Range", r"Style", r"PID"),
            (rf"API Start{_UNIT}", rf"API Dur{_UNIT}", rf"Queue Start{_UNIT}"),
            (r"PID", r"TID", r"DevId"),
        )
    )
    + ")"
)

# The header of cuda_gpu_trace, with the device of each row.
_TRACE_HEADER = (
    r'(?m)^[ \t|"]*'
    + _GAP.join((rf"Start{_UNIT}", rf"Duration{_UNIT}", r"(?:CorrId|GrdX)"))
    + r"[^\n]*\bDevice\b[^\n]*\bName\b"
)
_TRACE_KEYS = ("Start", "Duration", "Device", "Name", "Strm")
_TRACE_WORDS = ("Start", "Duration", "Device", "Name")
_BANNER_BEFORE_HEADER = r"\.\.\. (?=[ \t|\"]*Start)"


def has_kernels(path: str) -> bool | None:
    """Return whether an export holds kernels, None where it cannot be read."""
    from ccltui.parsers.text.file_sample import first_integer, table_names  # noqa: PLC0415

    try:
        return KERNELS in table_names(path) and first_integer(path, KERNELS, "start") is not None
    except TraceError:
        return None


def sqlite_export(sample: FileSample) -> Match | None:
    """Match an SQLite file by its table names; nothing else is read.

    The problem of an export is that a part of it is in a side file. Raises OSError.
    """
    if not sample.is_sqlite or sample.head.compression != "none":
        return None
    from ccltui.parsers.nsys.sqlite.database import unfinished  # noqa: PLC0415

    problem = unfinished(sample.path)
    try:
        names = sample.tables
    except TraceError:
        return None
    kernels = any(name.startswith("CUPTI_ACTIVITY_KIND_") for name in names)
    if "StringIds" not in names or not (kernels or names & _NSYS_TABLES):
        return None
    start_ns = sample.first_integer(SESSION, "utcEpochNs") if SESSION in names else None
    return Match(problem, RankInfo(first_us=None if start_ns is None else start_ns // 1000))


def tables_export(sample: FileSample) -> Match | None:
    """Match the file that stands for an export in tables: its strings, or all in one stream."""
    if not sample.data.startswith(TABLE_MAGIC):
        return None
    is_export = sample.name in _STANDS_FOR_ALL or sample.name.endswith(".arrows")
    return Match() if is_export else None


def recipe_table(sample: FileSample) -> Match | None:
    """Match a summary of `nsys recipe` in Parquet."""
    is_summary = sample.name in ("all_stats.parquet", "rank_stats.parquet")
    return Match() if is_summary and sample.data.startswith(PARQUET) else None


def json_report(sample: FileSample) -> Match | None:
    """Match a report of `nsys stats` in JSON, a list of rows."""
    document = sample.json
    if document is None or not document.is_list:
        return None
    columns = [key for key in document.shape.keys if re.fullmatch(_NSYS_COLUMNS, key)]
    return Match() if len(columns) >= 2 else None


def printed_report(sample: FileSample) -> Match | None:
    """Match output of `nsys stats` or `nsys recipe` by banners and header lines."""
    text = sample.plain
    if text is None:
        return None
    known = text.startswith(RECIPES) or any(
        any(word in text for word in words) and re.search(pattern, text)
        for words, pattern in ((_BANNER_WORDS, _NSYS_BANNER), (_HEADER_WORDS, _NSYS_HEADER))
    )
    return Match() if known else None


def printed_trace(sample: FileSample) -> Match | None:
    """Match a printed ``cuda_gpu_trace`` with the device of each row."""
    text = sample.plain
    if text is None or not all(word in text for word in _TRACE_WORDS):
        return None
    # The first line of a command that nsys piped into may follow the banner on its line.
    lines = re.sub(_BANNER_BEFORE_HEADER, "\n", text)
    return Match() if re.search(_TRACE_HEADER, lines) else None


def json_trace(sample: FileSample) -> Match | None:
    """Match a ``cuda_gpu_trace`` in JSON."""
    document = sample.json
    if document is None or not document.is_list:
        return None
    keys = {key.partition(" (")[0] for key in document.shape.keys}
    return Match() if keys.issuperset(_TRACE_KEYS) else None


NSYS_VERSION: Final = 6
"""Raised whenever the same bytes would give other columns: stored columns become invalid."""

_ONLY_NSYS = "an nsys report, which only nsys reads: run `nsys export -t sqlite` on it"


NSYS_SQLITE: Final = Format(
    kind="nsys_sqlite",
    description="an sqlite export of an nsys report",
    sniff=(Rule(Priority.BINARY, sqlite_export),),
    source="nsys",
    profiler="nsys",
    read=imported("ccltui.parsers.nsys.nsys_reader", "read_nsys"),
    read_record=imported("ccltui.parsers.nsys.event_in_export", "read_nsys_record"),
    version=NSYS_VERSION,
    family="nsys",
    several_ranks=True,
    rank_in_name=True,
    reads_damaged=True,  # left out, the ranks of an incomplete export would be missing silently
    step_marks="nvtx",
    unfinished=imported("ccltui.parsers.nsys.sqlite.database", "unfinished"),
    has_kernels=has_kernels,
    memory_form="export",
    reports="rows",
    card_name="nsys",
)
NSYS_TABLES: Final = Format(
    kind="nsys_tables",
    description="Parquet or Arrow tables of an export; one file opens all of them",
    sniff=(Rule(Priority.BINARY, tables_export),),
    source="nsys",
    profiler="nsys",
    read=imported("ccltui.parsers.nsys.report_export", "read_tables"),
    version=NSYS_VERSION,
    family="nsys",
    several_ranks=True,
    reads_damaged=True,
    step_marks="nvtx",
    reports="rows",
    to_sqlite=imported("ccltui.parsers.nsys.report_export", "sqlite_of"),
)
NSYS_REPORT: Final = Format(
    kind="nsys_report",
    description="a report (.nsys-rep, .qdrep), which nsys itself exports first",
    sniff=(binary_suffix(".nsys-rep", ".qdrep", ".qdstrm", problem=_ONLY_NSYS),),
    source="nsys",
    profiler="nsys",
    read=imported("ccltui.parsers.nsys.report_export", "read_report"),
    version=NSYS_VERSION,
    family="nsys",
    several_ranks=True,
    rank_in_name=True,
    reads_damaged=True,  # its problem, that nsys must export it, is solved by the reader
    step_marks="nvtx",
    exported_as="nsys_sqlite",
    reports="rows",
    to_sqlite=imported("ccltui.parsers.nsys.report_export", "export_report"),
    card_name="nsys",
)
NSYS_TEXT: Final = Format(
    kind="nsys_text",
    description="output of nsys stats in any of its formats",
    sniff=(
        Rule(Priority.BINARY, recipe_table),
        Rule(Priority.JSON_CONTENT, json_report),
        Rule(Priority.TEXT_BANNER, printed_report),
    ),
    profiler="nsys",
    reports="text",
    has_own_metrics=True,
    read_by_line=True,
)
NSYS_TEXT_TRACE: Final = Format(
    kind="nsys_text_trace",
    description="output of nsys stats with a cuda_gpu_trace: device work with its times",
    sniff=(
        Rule(Priority.JSON_CONTENT, json_trace),
        Rule(Priority.TEXT_BANNER, printed_trace),
    ),
    source="nsys",
    profiler="nsys",
    read=imported("ccltui.parsers.nsys.text_trace", "read_text_trace"),
    version=NSYS_VERSION,
    family="nsys",
    several_ranks=True,
    rank_in_name=True,
    reports="text",
    has_own_metrics=True,
    read_by_line=True,
)
