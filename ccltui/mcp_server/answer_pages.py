"""Bounded answers: rows up to a number of bytes, and the place at which to continue."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from ccltui.parsers.errors import GrammarError
from ccltui.report.printable_json import json_bytes

MAX_BYTES: Final = 16_384
"""Size of an answer. Some 5,000 tokens: several such answers fit beside a conversation."""
MAX_TEXT: Final = 400
"""Characters of one text; names of templated kernels have thousands."""
MAX_LISTED: Final = 16
"""Elements of a list in a row; the metric has the longer ones as rows of their own."""


def paged(
    head: dict[str, Any],
    columns: Sequence[str],
    count: int,
    row: Callable[[int], Sequence[Any]],
    *,
    cursor: int,
    limit: int | None = None,
) -> dict[str, Any]:
    """Return ``head`` with rows from ``cursor`` on, as many as fit, at least one.

    Args:
        head: members before the rows.
        columns: names of the cells of a row.
        count: number of rows.
        row: cells of the row at an index.
        cursor: index of the first row.
        limit: largest number of rows.

    Returns:
        ``columns``, ``rows``, ``num_rows`` (of all pages) and ``next_cursor``, None at the end.

    Raises:
        GrammarError: the cursor is negative or beyond the rows.
    """
    if not 0 <= cursor <= count:
        raise GrammarError(f"cursor {cursor}: there are {count} rows")
    end = count if limit is None else min(count, cursor + max(1, limit))
    rows: list[list[Any]] = []
    size = len(json_bytes(head))
    while cursor < end:
        cells = [clipped(cell) for cell in row(cursor)]
        size += len(json_bytes(cells))
        if rows and size > MAX_BYTES:
            break
        rows.append(cells)
        cursor += 1
    return {
        **head,
        "columns": list(columns),
        "rows": rows,
        "num_rows": count,
        "next_cursor": cursor if cursor < count else None,
    }


def clipped(value: Any) -> Any:
    """Return a value whose texts and lists are cut, with how much is left out."""
    if isinstance(value, str):
        more = len(value) - MAX_TEXT
        return value if more <= 0 else f"{value[:MAX_TEXT]}… ({more} more characters)"
    if isinstance(value, dict):
        return {key: clipped(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return clipped_list([clipped(item) for item in value])
    return value


def clipped_list(items: Sequence[Any]) -> list[Any]:
    """Return the first items; where there are more, the last states how many."""
    more = len(items) - MAX_LISTED
    return list(items) if more <= 0 else [*items[:MAX_LISTED], f"… {more} more"]
