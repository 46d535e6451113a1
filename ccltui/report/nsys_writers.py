"""Write reports in the formats of ``nsys stats``, with equal cells, to each of its outputs.

``csv:time=us:nohdr`` is csv in us without a header. Cells have nsys's digits by unit.

The first report takes the first format and the first output, the second the second ones, and so
on; the last of a shorter list is repeated. A further format or output without a report of its own
repeats the last report.
"""

from __future__ import annotations

import html
import json
import shlex
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field
from msgspec.structs import replace

from ccltui.metrics.nsys_reports.report import Report, ReportColumn
from ccltui.parsers.errors import GrammarError, TraceError
from ccltui.parsers.safe_text import safe_text
from ccltui.report.output import check_target, print_message, require_target, write_report
from ccltui.report.printable_json import printable_json
from ccltui.report.result_rows import csv_text

TIME_UNITS: Final[Mapping[str, str]] = {
    "ns": "ns",
    "nsec": "ns",
    "nanoseconds": "ns",
    "us": "us",
    "usec": "us",
    "microseconds": "us",
    "ms": "ms",
    "msec": "ms",
    "milliseconds": "ms",
    "s": "sec",
    "sec": "sec",
    "seconds": "sec",
}
"""Values of ``--timeunit``, and the unit in the header for each."""

_FACTOR: Final = {"us": 1e-3, "ms": 1e-6, "sec": 1e-9}
_DECIMALS: Final = {"us": 3, "ms": 4, "sec": 4}

SIZE_UNITS: Final[Mapping[str, tuple[int, int]]] = {
    "B": (1, 0),
    "KB": (10**3, 2),
    "KiB": (2**10, 2),
    "MB": (10**6, 3),
    "MiB": (2**20, 3),
    "GB": (10**9, 3),
    "GiB": (2**30, 3),
}
"""Units of sizes: bytes, and decimals in the cells."""


class Units(Struct, frozen=True):
    """Units of points in time, durations, sizes and throughputs, and whether headers name them."""

    point: str = "ns"
    duration: str = "ns"
    size: str = "MB"
    rate: str = "MB"
    in_header: bool = True

    def of_time(self, column: ReportColumn) -> str:
        """Return the unit of a column of times."""
        is_point = column.name == "End" or column.name.endswith("Start")
        return self.point if is_point else self.duration


def header(column: ReportColumn, chosen: Units) -> str:
    """Name of a column with its unit: ``Total Time (ns)``."""
    time = chosen.of_time(column)
    units = {
        "percent": "%",
        "time": time,
        "mean_time": time,
        "size": chosen.size,
        "rate": f"{chosen.rate}/s",
    }
    named = column.kind in units and chosen.in_header
    return f"{column.name} ({units[column.kind]})" if named else column.name


def is_text(column: ReportColumn) -> bool:
    """Whether the cells of a column are texts, which are aligned to the left."""
    return column.kind == "text"


def cells(column: ReportColumn, units: Units) -> list[str]:
    """Cells of a column as text; "" for unknown values."""
    if column.kind == "text":
        return list(column.values)
    values = np.asarray(column.values)
    texts = _numbers(column, values, units)
    if column.known is None:
        return texts
    return [text if known else "" for text, known in zip(texts, column.known, strict=True)]


def rows(report: Report, units: Units) -> list[tuple[str, ...]]:
    """All rows of a report."""
    return list(zip(*(cells(column, units) for column in report.columns), strict=True))


def _numbers(column: ReportColumn, values: npt.NDArray[np.generic], units: Units) -> list[str]:
    kind, unit = column.kind, units.of_time(column)
    if kind == "count" or (kind == "time" and unit == "ns"):
        return [str(value) for value in values.tolist()]
    if kind in ("time", "mean_time") and unit != "ns":
        # nsys rounds to a tenth of a ns, then multiplies: 107007.5 ns are 107.008 us in its
        # reports, but 187007.5 ns are 187.007 us.
        factor, decimals = _FACTOR[unit], _DECIMALS[unit]
        return [f"{value * factor:.{decimals}f}" for value in _tenths(values).tolist()]
    if kind in ("size", "rate"):
        divisor, decimals = SIZE_UNITS[units.size if kind == "size" else units.rate]
        if divisor == 1:
            return [str(value) for value in values.tolist()]
        return [f"{value / divisor:.{decimals}f}" for value in values.tolist()]
    return [f"{value:.1f}" for value in _tenths(values).tolist()]


def _tenths(values: npt.NDArray[np.generic]) -> npt.NDArray[np.float64]:
    """Round to one decimal, halves up, as SQLite does for nsys: 2.25 is 2.3."""
    tenths: npt.NDArray[np.float64] = np.floor(values.astype(np.float64) * 10 + 0.5) / 10
    return tenths


EXTENSIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "column": "txt",
        "table": "txt",
        "csv": "csv",
        "tsv": "tsv",
        "json": "json",
        "hdoc": "html",
        "htable": "html",
    }
)
"""The formats, and the extension of a file in each."""

_CATEGORIES: Final[Mapping[str, tuple[str, ...]]] = {
    "time": ("point", "duration"),
    "ts": ("point",),
    "dur": ("duration",),
    "bytes": ("size", "rate"),
    "mem": ("size",),
    "thru": ("rate",),
}
_IGNORED: Final = ("nofmt", "gid", "addr", "ratio")
"""Arguments without effect here: numbers are not grouped, and no column is of these categories."""


class Layout(Struct, frozen=True):
    """A format and its arguments.

    Attributes:
        name: One of EXTENSIONS.
        units: Units of the cells.
        has_header: Whether the header is written.
        lines_measured: Rows that determine the width of columns, 0 for all.
        widest: Widest column in characters, 0 for any width.
        widths: Widths of the first columns; None fits the content, 0 hides a column.
        escapes_tabs: Whether tabs in tsv are written as a backslash and a t.
        title: Title of an HTML document.
        css: Address of the style sheet of an HTML document.
    """

    name: str = "column"
    units: Units = field(default_factory=Units)
    has_header: bool = True
    lines_measured: int = 100
    widest: int = 100
    widths: tuple[int | None, ...] = ()
    escapes_tabs: bool = False
    title: str = "Nsight Systems Stats Output"
    css: str = ""


def parse_layout(text: str, time_unit: str = "ns") -> Layout:
    """Parse a format with its arguments, separated by colons.

    Args:
        text: The format.
        time_unit: Unit of times where no argument gives one.

    Raises:
        GrammarError: There is no such format or argument.
    """
    name, *arguments = text.strip().split(":")
    if name not in EXTENSIONS:
        raise GrammarError(f"unknown format {name[:40]!r}; formats: {', '.join(EXTENSIONS)}")
    layout = Layout(name, Units(time_unit, time_unit))
    for argument in arguments:
        layout = _with(layout, argument)
    return layout


def _with(layout: Layout, argument: str) -> Layout:
    name, equals, value = argument.partition("=")
    if equals and name in _CATEGORIES:
        return replace(layout, units=_with_unit(layout.units, name, value))
    simple: dict[str, Layout] = {
        "nohdr": replace(layout, has_header=False),
        "nohdrunit": replace(layout, units=replace(layout.units, in_header=False)),
        "noconv": replace(layout, units=replace(layout.units, size="B", rate="B")),
        "esc": replace(layout, escapes_tabs=True),
        ".": replace(layout, widths=(*layout.widths, None)),
    }
    if argument in simple:
        return simple[argument]
    if name in _IGNORED:
        return layout
    if argument.isascii() and argument.isdigit():
        return replace(layout, widths=(*layout.widths, _whole(argument)))
    if equals and name in _FIELDS:
        field_name, parse = _FIELDS[name]
        return replace(layout, **{field_name: parse(value)})
    raise GrammarError(f"{layout.name} has no argument {argument[:40]!r}")


def _with_unit(units: Units, category: str, unit: str) -> Units:
    fields = _CATEGORIES[category]
    known = SIZE_UNITS if "size" in fields or "rate" in fields else TIME_UNITS
    if unit not in known:
        raise GrammarError(f"{category}={unit[:20]}: units are {', '.join(known)}")
    shown = unit if known is SIZE_UNITS else TIME_UNITS[unit]
    return replace(units, **dict.fromkeys(fields, shown))


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 7):
        raise GrammarError(f"{text[:20]!r} is not a number of lines or characters")
    return int(text)


_FIELDS: Final[Mapping[str, tuple[str, Callable[[str], object]]]] = {
    "autolines": ("lines_measured", _whole),
    "colmax": ("widest", _whole),
    "title": ("title", str),
    "css": ("css", str),
}
"""Arguments with a value: the field of the layout, and how its value is parsed."""

_GAP: Final = "  "

Sources = Sequence[tuple[str, Sequence[Report]]]
"""Captures with their reports; the name of a single capture is ""."""


def write_reports(sources: Sources, layout: Layout) -> bytes:
    """Write reports in any format; several captures are written under their names.

    In json one report is an array of objects, several are an object of arrays by name, and several
    captures an object of these by capture.
    """
    if layout.name == "json":
        return _json(sources, layout)
    lines_of = _LINES[layout.name]
    # Every cell and title is safe text already; a tab between cells of tsv has to stay.
    return "".join(
        f"{line}\n"
        for source, reports in sources
        for report in reports
        for line in (*_banner(source, report), *lines_of(report, layout))
    ).encode()


def _json(sources: Sources, layout: Layout) -> bytes:
    if len(sources) == 1 and not sources[0][0]:
        return (_json_reports(sources[0][1], layout) + "\n").encode()
    members = (
        f"{_quoted(source)}: {_json_reports(reports, layout)}" for source, reports in sources
    )
    return ("{\n" + ",\n".join(members) + "\n}\n").encode()


def _json_reports(reports: Sequence[Report], layout: Layout) -> str:
    if len(reports) == 1:
        return _json_array(reports[0], layout)
    names = [report.name for report in reports]
    keys = [  # unique also for kernels by two names, or a text with two runs
        name if names.index(name) == at else f"{name} {names[: at + 1].count(name)}"
        for at, name in enumerate(names)
    ]
    members = (
        f"{_quoted(key)}: {_json_array(report, layout)}"
        for key, report in zip(keys, reports, strict=True)
    )
    return "{\n" + ",\n".join(members) + "\n}"


def _banner(source: str, report: Report) -> list[str]:
    """Line that nsys prints before a report of one of several files."""
    return [safe_text(f"Processing [{source}] with [{report.name}.py]... ")] if source else []


def _title(report: Report) -> str:
    return safe_text(f"{report.title} ({report.name})")


def _column_lines(report: Report, layout: Layout) -> list[str]:
    grid = _Grid(report, layout)
    lines = ["", f" ** {_title(report)}:", ""]
    if layout.has_header:
        lines.append(" " + _GAP.join(grid.headers()))
        lines.append(" " + _GAP.join("-" * width for width in grid.widths))
    return [*lines, *(" " + _GAP.join(row) for row in grid.rows()), ""]


def _table_lines(report: Report, layout: Layout) -> list[str]:
    grid = _Grid(report, layout)
    edge = "+" + "+".join("-" * (width + 2) for width in grid.widths) + "+"
    body = [f"| {' | '.join(row)} |" for row in grid.rows()]
    head = [f"| {' | '.join(grid.headers())} |", edge] if layout.has_header else []
    return ["", f" ** {_title(report)}:", "", edge, *head, *body, edge, ""]


class _Grid:
    """Cells of a report, cut or padded to the widths of their columns."""

    def __init__(self, report: Report, layout: Layout) -> None:
        wanted = [*layout.widths, *[None] * len(report.columns)][: len(report.columns)]
        shown = [place for place, width in enumerate(wanted) if width != 0]
        report = replace(report, columns=tuple(report.columns[place] for place in shown))
        self._headers = [safe_text(header(column, layout.units)) for column in report.columns]
        self._body = [[safe_text(cell) for cell in row] for row in rows(report, layout.units)]
        self._texts = [is_text(column) for column in report.columns]
        self.widths = [
            wanted[place] or self._fitting(index, layout) for index, place in enumerate(shown)
        ]

    def _fitting(self, index: int, layout: Layout) -> int:
        """Return the width of the header and of the first rows, at most the widest."""
        measured = self._body[: layout.lines_measured or None]
        cells = (row[index] for row in measured)
        width = max(len(text) for text in (self._headers[index], *cells))
        return min(width, layout.widest or width)

    def headers(self) -> list[str]:
        """Return the header, centred."""
        pairs = zip(self._headers, self.widths, strict=True)
        return [f"{_fit(name, width):^{width}}" for name, width in pairs]

    def rows(self) -> list[list[str]]:
        """Return the rows: texts to the left, numbers to the right."""
        return [
            [
                _fit(cell, width).ljust(width) if left else _fit(cell, width).rjust(width)
                for cell, width, left in zip(row, self.widths, self._texts, strict=True)
            ]
            for row in self._body
        ]


def _fit(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _csv_lines(report: Report, layout: Layout) -> list[str]:
    tree = [column.name == "NameTree" for column in report.columns]
    return csv_text(_rows(report, layout), trees=tree).split("\n")


def _rows(report: Report, layout: Layout) -> list[Sequence[str]]:
    head = [[header(column, layout.units) for column in report.columns]]
    return [*(head if layout.has_header else []), *rows(report, layout.units)]


def _tsv_lines(report: Report, layout: Layout) -> list[str]:
    tab = "\\t" if layout.escapes_tabs else " "
    lines = [
        "\t".join(safe_text(cell.replace("\t", tab)) for cell in row)
        for row in _rows(report, layout)
    ]
    return [*lines, ""]


def _html_table(report: Report, layout: Layout) -> list[str]:
    names = [header(column, layout.units) for column in report.columns]
    head = ["  <thead>", *_html_row("th", names), "  </thead>"] if layout.has_header else []
    body = [line for row in rows(report, layout.units) for line in _html_row("td", row)]
    return ["<table>", *head, "  <tbody>", *body, "  </tbody>", "</table>"]


def _html_row(tag: str, cells: Sequence[str]) -> list[str]:
    written = (f"      <{tag}>{html.escape(safe_text(cell))}</{tag}>" for cell in cells)
    return ["    <tr>", *written, "    </tr>"]


def _html_document(report: Report, layout: Layout) -> list[str]:
    style = [f'  <link rel="stylesheet" href="{html.escape(safe_text(layout.css))}">']
    return [
        "<!DOCTYPE html>",
        '<html lang="en">',
        "<head>",
        '  <meta charset="UTF-8">',
        f"  <title>{html.escape(safe_text(layout.title))}</title>",
        *(style if layout.css else []),
        "</head>",
        "<body>",
        f"<h1>{html.escape(_title(report))}</h1>",
        *_html_table(report, layout),
        "</body>",
        "</html>",
        "",
    ]


_LINES: Final[Mapping[str, Callable[[Report, Layout], list[str]]]] = {
    "column": _column_lines,
    "table": _table_lines,
    "csv": _csv_lines,
    "tsv": _tsv_lines,
    "hdoc": _html_document,
    "htable": lambda report, layout: [*_html_table(report, layout), ""],
}


def _json_array(report: Report, layout: Layout) -> str:
    keys = [_quoted(header(column, layout.units)) for column in report.columns]
    texts = [is_text(column) for column in report.columns]
    objects = (
        "  {\n"
        + ",\n".join(
            f"    {key}: {_value(cell, is_text=text)}"
            for key, cell, text in zip(keys, row, texts, strict=True)
        )
        + "\n  }"
        for row in rows(report, layout.units)
    )
    return "[\n" + ",\n".join(objects) + "\n]"


def _value(cell: str, *, is_text: bool) -> str:
    return _quoted(cell) if is_text else cell or '""'  # as nsys writes unknown numbers


def _quoted(text: str) -> str:
    return printable_json(json.dumps(text, ensure_ascii=False))


CONSOLE: Final = "-"
DEFAULT_BASE: Final = "."
_COMMAND: Final = "@"
_DEFAULT: Final = "."  # the default format of an output
_SUFFIXES: Final = tuple(sorted({f".{one}" for one in EXTENSIONS.values()}))
# Reversed: where two formats share an extension, the first of EXTENSIONS is its format.
_OF_SUFFIX: Final = {f".{EXTENSIONS[name]}": name for name in reversed(tuple(EXTENSIONS))}

T = TypeVar("T")


class Paired(Struct, frozen=True):
    """One report with its format and its output; ``label`` is its name with its arguments."""

    label: str
    report: Report
    layout: Layout
    output: str


def split_list(texts: Sequence[str]) -> list[str]:
    """Split comma-separated lists; a command keeps its commas."""
    return [
        part
        for text in texts
        for part in ([text] if text.startswith(_COMMAND) else text.split(","))
    ]


def are_paired(formats: Sequence[str], outputs: Sequence[str]) -> bool:
    """Whether each report has a format and an output of its own.

    One format to the console or to one named file writes all reports together.
    """
    return len(formats) > 1 or len(outputs) > 1 or any(map(_is_special, outputs))


def _is_special(output: str) -> bool:
    """Whether an output is a command or a base of names: all but a file and the console."""
    return output == DEFAULT_BASE or output.startswith(_COMMAND) or not _is_file(output)


def check_outputs(outputs: Sequence[str]) -> None:
    """Refuse outputs that cannot be written, before any work is done. Raises GrammarError."""
    for output in outputs:
        if output != DEFAULT_BASE and not output.startswith(_COMMAND):
            require_target(output if _is_file(output) else f"{output}_")


def _is_file(output: str) -> bool:
    # Files in /dev/shm are as any other; /dev/stdout may be one, and is no base of names.
    is_device = output.startswith("/dev/") and not output.startswith("/dev/shm/")
    return output == CONSOLE or is_device or output.endswith(_SUFFIXES)


def layout_for(format_text: str, output: str, time_unit: str) -> Layout:
    """Return the layout of a format; ``.`` is that of the output. Raises GrammarError.

    The format of an output is that of a file's extension, ``column`` on the console, else ``csv``.
    """
    if format_text != _DEFAULT:
        return parse_layout(format_text, time_unit)
    if output == CONSOLE:
        return parse_layout("column", time_unit)
    suffix = Path(output).suffix if _is_file(output) else ""
    return parse_layout(_OF_SUFFIX.get(suffix, "csv"), time_unit)


def pair(
    reports: Sequence[tuple[str, Report]],
    formats: Sequence[str],
    outputs: Sequence[str],
    time_unit: str,
) -> list[Paired]:
    """Pair reports, by label, with formats and outputs. Raises GrammarError."""
    count = max(len(reports), len(formats), len(outputs)) if reports else 0
    shown = _repeated(reports, count)
    targets = _repeated(outputs or [CONSOLE], count)
    named = [one for one in targets if _is_file(one) and one != CONSOLE]
    twice = next((one for one in named if named.count(one) > 1), None)
    if twice is not None:
        raise GrammarError(
            f"{twice} is one file for several reports: give a name without extension"
        )
    layouts = map(layout_for, _repeated(formats or [_DEFAULT], count), targets, [time_unit] * count)
    return [
        Paired(label, report, layout, target)
        for (label, report), layout, target in zip(shown, layouts, targets, strict=True)
    ]


def _repeated(items: Sequence[T], count: int) -> list[T]:
    return [*items, *[items[-1]] * (count - len(items))] if items else []


def target_of(one: Paired, source: Path) -> str:
    """Return the file of an output: ``<base>_<report and arguments>.<extension>``.

    The base of ``.`` is the path of the capture without its extension.
    """
    if _is_file(one.output):
        return one.output
    base = str(source.with_suffix("")) if one.output == DEFAULT_BASE else one.output
    label = one.label.replace(":", "_").replace("=", "_")
    return f"{base}_{label}.{EXTENSIONS[one.layout.name]}"


def write_pairs(pairs: Sequence[Paired], source: Path, *, overwrite: bool) -> bool:
    """Write each report that has rows to its output; return whether all could be written.

    Raises:
        TraceError: A command cannot be run.
        OSError: A file cannot be written.
    """
    complete = True
    for one in pairs:
        if not one.report.columns:
            continue
        data = write_reports([("", [one.report])], one.layout)
        if one.output.startswith(_COMMAND):
            complete &= _piped(data, one.output.removeprefix(_COMMAND))
            continue
        target = target_of(one, source)
        is_new = target != CONSOLE and not _is_file(one.output)
        problem = check_target(target)
        if problem is None and is_new and not overwrite and Path(target).exists():
            problem = f"{target} exists: --force-overwrite replaces it"
        if problem is not None:
            print_message(problem)
            complete = False
            continue
        write_report(data, target)
        if is_new:
            print_message(f"wrote {target}")
    return complete


def _piped(data: bytes, command: str) -> bool:
    """Run a command with a report as its input, without a shell; words are split as by one."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise TraceError(f"--output @{command[:60]}: {error}") from error
    if not words:
        raise TraceError("--output @: a command is missing")
    try:
        done = subprocess.run(words, input=data, check=False)
    except OSError as error:
        raise TraceError(f"--output @{words[0][:60]}: {error.strerror}") from error
    write_report(b"\n", None)  # nsys prints an empty line after the output of a command
    return done.returncode in (0, 1)  # 1: grep found nothing
