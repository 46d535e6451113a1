"""Reports in the formats of ``nsys stats``: column, csv and json, cell for cell alike."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from ccltui.report.layout import clean
from ccltui.report.nsys_cells import header, is_text, rows
from metrics.nsys_reports import Report

_ROWS_MEASURED: Final = 100
_WIDEST: Final = 100
_GAP: Final = "  "

Writer = Callable[[Sequence[Report], str], bytes]


def write_column(reports: Sequence[Report], unit: str) -> bytes:
    """Aligned text under a title and a ruler; cells beyond 100 characters end in "…"."""
    lines = [line for report in reports for line in _column_lines(report, unit)]
    return "".join(f"{line}\n" for line in lines).encode()


def write_csv(reports: Sequence[Report], unit: str) -> bytes:
    """A header and rows a report; a blank line ends each report."""
    return "".join(_csv_text(report, unit) + "\n" for report in reports).encode()


def write_json(reports: Sequence[Report], unit: str) -> bytes:
    """An array of objects; of several reports, an object of such arrays by name."""
    if len(reports) == 1:
        return (_json_array(reports[0], unit) + "\n").encode()
    members = (f"{_quoted(report.name)}: {_json_array(report, unit)}" for report in reports)
    return ("{\n" + ",\n".join(members) + "\n}\n").encode()


WRITERS: Final[Mapping[str, Writer]] = {
    "column": write_column,
    "csv": write_csv,
    "json": write_json,
}


def _column_lines(report: Report, unit: str) -> list[str]:
    headers = [header(column, unit) for column in report.columns]
    body = [[clean(cell) for cell in row] for row in rows(report, unit)]
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
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header(column, unit) for column in report.columns)
    writer.writerows([clean(cell) for cell in row] for row in rows(report, unit))
    return text.getvalue()


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
    return json.dumps(clean(text), ensure_ascii=False)
