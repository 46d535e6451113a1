"""Read arrays of flat objects from ``nsys stats --format json``, with numbers as text."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from ccltui.parsers.errors import TraceError

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
