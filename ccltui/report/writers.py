"""Write a report as bytes, one writer per format. UTF-8, lines end with a line feed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, Protocol

import orjson

from ccltui.parsers.safe_text import safe_text
from ccltui.report.csv_text import csv_text
from ccltui.report.json_document import Report, document, head, result_dict
from ccltui.report.printable_json import printable_json
from ccltui.report.result_rows import HEADER, Row, rows_of
from ccltui.report.text_layout import table, text_bytes

_INT64_MIN: Final = -(1 << 63)
_UINT64_MAX: Final = (1 << 64) - 1
_JSON_OPTIONS: Final = orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY
_SURROGATES = re.compile("[\ud800-\udfff]")


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
    return text_bytes(_spaced(lines, blocks))


def write_csv(report: Report) -> bytes:
    """Comma-separated rows under a header; an absent value is an empty cell."""
    blocks = (
        rows_of(entry.result, entry.headline, detail=report.detail) for entry in report.entries
    )
    return csv_text([HEADER, *(row.cells for block in blocks for row in block)]).encode()


def write_json(report: Report) -> bytes:
    """One document, indented by 2."""
    return json_bytes(document(report), indent=True)


def write_jsonl(report: Report) -> bytes:
    """One JSON line per result, each with its trace and selection."""
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
    """Encode ``value`` as JSON and a line feed, safe to print; strings parse to themselves.

    Only lone surrogates, which are not Unicode text, are escaped in the string itself.
    """
    options = _JSON_OPTIONS | (orjson.OPT_INDENT_2 if indent else 0)
    try:
        data = orjson.dumps(value, option=options, default=str)
    except orjson.JSONEncodeError:  # a name that is not valid UTF-8, an integer beyond 64 bits
        data = orjson.dumps(_valid(value), option=options, default=str)
    return printable_json(data.decode()).encode() + b"\n"


def _valid(value: Any) -> Any:
    if isinstance(value, str):
        return _SURROGATES.sub(lambda match: safe_text(match[0]), value)
    if isinstance(value, int) and not _INT64_MIN <= value <= _UINT64_MAX:
        return orjson.Fragment(str(value).encode())
    if isinstance(value, Mapping):
        return {_valid_key(key): _valid(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_valid(item) for item in value]
    return value


def _valid_key(key: Any) -> Any:
    return str(key) if isinstance(key, int) and not isinstance(key, bool) else _valid(key)


def _spaced(lines: list[str], blocks: list[list[Row]]) -> list[str]:
    """The header, then the lines of each block after a blank line."""
    spaced = lines[:1]
    position = 1
    for block in blocks:
        spaced += ["", *lines[position : position + len(block)]]
        position += len(block)
    return spaced
