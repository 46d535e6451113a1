"""Write reports in the formats of ``nsys stats``: column, csv and json, with equal cells."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from ccltui.metrics.nsys_reports import Report
from ccltui.parsers.safe_text import safe_text
from ccltui.report.csv_text import csv_text
from ccltui.report.nsys_cells import header, is_text, rows
from ccltui.report.printable_json import printable_json
from ccltui.report.text_layout import text_bytes

_ROWS_MEASURED: Final = 100
_WIDEST: Final = 100
_GAP: Final = "  "

Sources = Sequence[tuple[str, Sequence[Report]]]
"""Captures with their reports; the name of a single capture is ""."""
Writer = Callable[[Sources, str], bytes]


def write_column(sources: Sources, unit: str) -> bytes:
    """Aligned text under a title and a ruler; cells beyond 100 characters end in "…"."""
    return text_bytes(
        line
        for source, reports in sources
        for report in reports
        for line in (*_banner(source, report), *_column_lines(report, unit))
    )


def write_csv(sources: Sources, unit: str) -> bytes:
    """Header and rows of each report; a blank line ends each report."""
    texts = [
        "".join(f"{line}\n" for line in _banner(source, report)) + _csv_text(report, unit) + "\n"
        for source, reports in sources
        for report in reports
    ]
    return "".join(texts).encode()


def write_json(sources: Sources, unit: str) -> bytes:
    """One report: an array of objects. Several: an object of such arrays by name.

    Several captures: an object of these by capture.
    """
    if len(sources) == 1 and not sources[0][0]:
        return (_json_reports(sources[0][1], unit) + "\n").encode()
    members = (f"{_quoted(source)}: {_json_reports(reports, unit)}" for source, reports in sources)
    return ("{\n" + ",\n".join(members) + "\n}\n").encode()


def _json_reports(reports: Sequence[Report], unit: str) -> str:
    if len(reports) == 1:
        return _json_array(reports[0], unit)
    names = [report.name for report in reports]
    keys = [  # unique also for kernels by two names, or a text with two runs
        name if names.index(name) == at else f"{name} {names[: at + 1].count(name)}"
        for at, name in enumerate(names)
    ]
    members = (
        f"{_quoted(key)}: {_json_array(report, unit)}"
        for key, report in zip(keys, reports, strict=True)
    )
    return "{\n" + ",\n".join(members) + "\n}"


def _banner(source: str, report: Report) -> list[str]:
    """Line that nsys prints before a report of one of several files."""
    return [safe_text(f"Processing [{source}] with [{report.name}.py]... ")] if source else []


WRITERS: Final[Mapping[str, Writer]] = {
    "column": write_column,
    "csv": write_csv,
    "json": write_json,
}


def _column_lines(report: Report, unit: str) -> list[str]:
    headers = [safe_text(header(column, unit)) for column in report.columns]
    body = [[safe_text(cell) for cell in row] for row in rows(report, unit)]
    widths = [
        min(max([len(name), *(len(row[index]) for row in body[:_ROWS_MEASURED])]), _WIDEST)
        for index, name in enumerate(headers)
    ]
    texts = [is_text(column) for column in report.columns]
    lines = ["", f" ** {report.title} ({report.name}):", ""]
    lines.append(_line([f"{_fit(n, w):^{w}}" for n, w in zip(headers, widths, strict=True)]))
    lines.append(_line(["-" * width for width in widths]))
    for row in body:
        cells = zip(row, widths, texts, strict=True)
        lines.append(
            _line([_fit(c, w).ljust(w) if left else _fit(c, w).rjust(w) for c, w, left in cells])
        )
    return [*lines, ""]


def _line(cells: Sequence[str]) -> str:
    return " " + _GAP.join(cells)


def _fit(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _csv_text(report: Report, unit: str) -> str:
    return csv_text([[header(column, unit) for column in report.columns], *rows(report, unit)])


def _json_array(report: Report, unit: str) -> str:
    keys = [_quoted(header(column, unit)) for column in report.columns]
    texts = [is_text(column) for column in report.columns]
    objects = (
        "  {\n"
        + ",\n".join(
            f"    {key}: {_value(cell, is_text=text)}"
            for key, cell, text in zip(keys, row, texts, strict=True)
        )
        + "\n  }"
        for row in rows(report, unit)
    )
    return "[\n" + ",\n".join(objects) + "\n]"


def _value(cell: str, *, is_text: bool) -> str:
    return _quoted(cell) if is_text else cell or "null"


def _quoted(text: str) -> str:
    return printable_json(json.dumps(text, ensure_ascii=False))
