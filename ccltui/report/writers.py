"""A report as bytes: one writer a format. UTF-8, lines end with a line feed everywhere."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping
from typing import Any, Final, Protocol

import orjson

from ccltui.report.envelope import Report, document, head, result_dict
from ccltui.report.layout import clean, table
from ccltui.report.rows import HEADER, Row, rows_of

_JSON_OPTIONS: Final = orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY
# orjson escapes C0; a terminal also acts on DEL and C1, which only occur inside strings.
_RAW_CONTROL = re.compile("[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


class Writer(Protocol):
    """One output format."""

    def __call__(self, report: Report) -> bytes:
        """The whole report in this format."""


def write_table(report: Report) -> bytes:
    """Aligned text: the rows of all results, a blank line between metrics."""
    blocks = [
        rows_of(entry.result, entry.headline, detail=report.detail) for entry in report.entries
    ]
    lines = table(
        HEADER,
        [row.cells for block in blocks for row in block],
        align=("left", "left", "right"),
    )
    return "\n".join(_spaced(lines, blocks)).encode() + b"\n"


def write_csv(report: Report) -> bytes:
    """Comma-separated rows under a header; an absent value is an empty cell."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(HEADER)
    for entry in report.entries:
        rows = rows_of(entry.result, entry.headline, detail=report.detail)
        writer.writerows(row.cells for row in rows)
    return text.getvalue().encode()


def write_json(report: Report) -> bytes:
    """One document, indented by 2."""
    return json_bytes(document(report), indent=True)


def write_jsonl(report: Report) -> bytes:
    """One line a result, each with the trace and selection it belongs to."""
    start = head(report)
    lines = (json_bytes({**start, **result_dict(entry.result)}) for entry in report.entries)
    return b"".join(lines)


WRITERS: Final[Mapping[str, Writer]] = {
    "table": write_table,
    "json": write_json,
    "jsonl": write_jsonl,
    "csv": write_csv,
}


def json_bytes(value: Any, *, indent: bool = False) -> bytes:
    """``value`` as JSON and a line feed; no byte of it acts on a terminal."""
    options = _JSON_OPTIONS | (orjson.OPT_INDENT_2 if indent else 0)
    try:
        data = orjson.dumps(value, option=options, default=str)
    except orjson.JSONEncodeError:  # a name from the trace that is not valid UTF-8
        data = orjson.dumps(_valid(value), option=options, default=str)
    text = _RAW_CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", data.decode())
    return text.encode() + b"\n"


def _valid(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Mapping):
        return {_valid(key): _valid(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_valid(item) for item in value]
    return value


def _spaced(lines: list[str], blocks: list[list[Row]]) -> list[str]:
    """The header, then the lines of each block after a blank line."""
    spaced = lines[:1]
    position = 1
    for block in blocks:
        spaced += ["", *lines[position : position + len(block)]]
        position += len(block)
    return spaced
