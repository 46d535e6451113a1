"""Look into an SQLite file: names of its tables, and single values.

Imported only where a file begins as a database does: few directories hold one.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from typing import Final
from urllib.parse import quote

from ccltui.parsers.errors import TraceError
from ccltui.parsers.names import printable

_UNREADABLE: Final = (sqlite3.Error, sqlite3.Warning, MemoryError, AttributeError)


def table_names(path: str) -> frozenset[str]:
    """Return the names of tables and views. Raises TraceError where the file is damaged."""
    try:
        with closing(_connection(path)) as connection:
            connection.text_factory = bytes
            query = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') LIMIT 2000"
            rows = connection.execute(query)
            return frozenset(row[0].decode("utf-8", "replace") for row in rows)
    except UnicodeDecodeError as error:  # sqlite3 fails to decode its own error message
        why = "an SQLite file that cannot be read: names in it are not UTF-8"
        raise TraceError(why) from error
    except _UNREADABLE as error:
        why = f"an SQLite file that cannot be read: {printable(str(error)[:200])}"
        raise TraceError(why) from error


def first_integer(path: str, table: str, column: str) -> int | None:
    """Return an integer of the first row of a table, None where there is none."""
    try:
        with closing(_connection(path)) as connection:
            row = connection.execute(f'SELECT "{column}" FROM "{table}" LIMIT 1').fetchone()
    except (*_UNREADABLE, UnicodeDecodeError):
        return None
    return row[0] if row is not None and isinstance(row[0], int) else None


def _connection(path: str) -> sqlite3.Connection:
    # immutable: no lock, and no journal is written next to the user's file.
    uri = f"file:{quote(os.fsencode(path))}?mode=ro&immutable=1"
    return sqlite3.connect(uri, uri=True, timeout=0)
