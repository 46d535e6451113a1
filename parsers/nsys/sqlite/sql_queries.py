"""Build SQL for block-wise reading of tables, and convert the values that SQLite returns."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

import numpy as np

from ccltui.parsers.array_types import I64
from ccltui.parsers.columns import MISSING
from ccltui.parsers.nsys.sqlite.table_scans import Texts

RowFilter = tuple[str, Sequence[int]]
"""A column, and the values that rows must have in it."""


def numbered(values: Sequence[Any], texts: Texts | None) -> I64:
    """Return a column of SQLite values as int64; for a text column the numbers of its texts."""
    if texts is None:
        return np.array(values, np.int64)
    return np.array([MISSING if v is None else texts.add(_bytes(v)) for v in values], np.int64)


def _bytes(value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    if not isinstance(value, str):
        raise TypeError(value)
    return value.encode("utf-8", "surrogateescape")


def newest_after(last: int, newest: int) -> int:
    """Return ``newest``, the row id to continue after.

    Raises:
        sqlite3.DatabaseError: It is not above ``last``: a damaged file leads back to earlier rows.
    """
    if newest <= last:
        raise sqlite3.DatabaseError("its rows are out of order")
    return newest


def rows_after(only: RowFilter | None) -> str:
    """Return the condition for rows after a row id, restricted to those that ``only`` selects."""
    if only is None:
        return "rowid > ?"
    column, values = only
    return f"rowid > ? AND {quoted(column)} IN ({', '.join(map(str, values))})"


def select(columns: str, table: str, where: str) -> str:
    """Return a SELECT statement, without a condition if ``where`` is empty."""
    return f"SELECT {columns} FROM {quoted(table)}" + (f" WHERE {where}" if where else "")


def quoted(name: str) -> str:
    """Quote the name of a table or column."""
    return '"' + name.replace('"', '""') + '"'


def decoded(raw: bytes) -> str:
    """Decode a text that may not be UTF-8."""
    return raw.decode("utf-8", "replace")
