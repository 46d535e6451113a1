"""Write reports in the formats of ``nsys stats``, with equal cells."""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from ccltui.metrics.nsys_reports import Report
from ccltui.parsers.safe_text import safe_text
from ccltui.report.csv_text import csv_text
from ccltui.report.nsys_text.nsys_cells import header, is_text, rows
from ccltui.report.nsys_text.nsys_layouts import Layout, parse_layout
from ccltui.report.printable_json import printable_json

_GAP: Final = "  "

Sources = Sequence[tuple[str, Sequence[Report]]]
"""Captures with their reports; the name of a single capture is ""."""


def write_reports(sources: Sources, layout: Layout) -> bytes:
    """Write reports in any format; several captures are written under their names."""
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


def write_column(sources: Sources, unit: str) -> bytes:
    """Aligned text under a title and a ruler; cells beyond 100 characters end in "…"."""
    return write_reports(sources, parse_layout("column", unit))


def write_csv(sources: Sources, unit: str) -> bytes:
    """Header and rows of each report; a blank line ends each report."""
    return write_reports(sources, parse_layout("csv", unit))


def write_json(sources: Sources, unit: str) -> bytes:
    """One report: an array of objects. Several: an object of such arrays by name.

    Several captures: an object of these by capture.
    """
    return write_reports(sources, parse_layout("json", unit))


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
