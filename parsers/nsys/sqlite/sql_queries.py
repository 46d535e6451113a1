"""Queries to SQLite, and what it gives, for tables whose rows are read block by block."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

import numpy as np

from ccltui.parsers.array_types import I64
from ccltui.parsers.columns import MISSING
from ccltui.parsers.nsys.sqlite.table_scans import Texts

Only = tuple[str, Sequence[int]]
"""A column, and the values that rows must have in it."""


def numbered(values: Sequence[Any], texts: Texts | None) -> I64:
    """A column that SQLite gave; the numbers of its texts where it is one of texts."""
    if texts is None:
        return np.array(values, np.int64)
    return np.array([MISSING if v is None else texts.add(_bytes(v)) for v in values], np.int64)


def _bytes(value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    if not isinstance(value, str):
        raise TypeError(value)
    return value.encode("utf-8", "surrogateescape")


def after_that(last: int, newest: int) -> int:
    """Number of the newest row; a damaged file may lead back to rows that were there already."""
    if newest <= last:
        raise sqlite3.DatabaseError("its rows are out of order")
    return newest


def rows_after(only: Only | None) -> str:
    """The condition of rows after one, of those that ``only`` chooses."""
    if only is None:
        return "rowid > ?"
    column, values = only
    return f"rowid > ? AND {quoted(column)} IN ({', '.join(map(str, values))})"


def select(columns: str, table: str, where: str) -> str:
    """A query; no condition where ``where`` is empty."""
    return f"SELECT {columns} FROM {quoted(table)}" + (f" WHERE {where}" if where else "")


def quoted(name: str) -> str:
    """A name of a table or column, whatever it holds."""
    return '"' + name.replace('"', '""') + '"'


def decoded(raw: bytes) -> str:
    """A text that may not be UTF-8."""
    return raw.decode("utf-8", "replace")
