"""An nsys export as tables of integers and texts, read block by block and never written.

Real exports hold the whole environment of the profiled processes in two of their tables, so
nothing here reads a table that it was not asked for by name.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from parsers.columns import I64, MISSING
from parsers.errors import CancelledError, TraceError

BLOCK_ROWS = 1 << 16
_MAX_CELL_BYTES = 1 << 26
_STEPS_BETWEEN_LOOKS = 100_000
_IDS_A_QUERY = 500
_MAX_SMALL_ROWS = 1 << 20
_BEFORE_ROWS = -(1 << 63)


class Database:
    """One export, open for reading. ``tables``: name -> its columns, without views."""

    def __init__(self, path: Path, shown: str, cancelled: Callable[[], bool] | None = None) -> None:
        self._path = path
        self._shown = shown
        self._cancelled = cancelled
        with self.guarded():
            # immutable: no lock is taken and no journal is written beside the user's file.
            uri = f"file:{quote(os.fsencode(path.resolve()))}?mode=ro&immutable=1"
            self._connection = sqlite3.connect(uri, uri=True, timeout=0)
        try:
            with self.guarded():
                self._prepare()
                self.tables = self._described()
        except TraceError:
            self._connection.close()
            raise

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    def _prepare(self) -> None:
        # A file may hold views and functions of its own: nothing in it is to be run.
        self._connection.execute("PRAGMA trusted_schema = OFF")
        self._connection.execute("PRAGMA mmap_size = 0")  # a file that shrinks must not kill us
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_CELL_BYTES)
        self._connection.text_factory = _text
        self._connection.set_progress_handler(self._look, _STEPS_BETWEEN_LOOKS)

    def _look(self) -> int:
        return int(self._cancelled is not None and self._cancelled())

    def _described(self) -> dict[str, tuple[str, ...]]:
        query = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE 'CREATE TABLE%'"
        names = [str(row[0]) for row in self._connection.execute(query).fetchmany(2000)]
        return {
            name: tuple(
                str(row[1])
                for row in self._connection.execute(f"PRAGMA table_info({_quoted(name)})")
            )
            for name in names
        }

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Every failure of the database as one line about the file, or as a cancellation."""
        try:
            yield
        except (sqlite3.Error, sqlite3.Warning, MemoryError) as error:
            if self._look():
                raise CancelledError("reading was stopped", path=self._shown) from error
            why = " ".join(str(error).split())[:200] or "not enough memory"
            raise TraceError(
                f"cannot be read as an nsys export ({why})", path=self._shown
            ) from error
        except (ValueError, TypeError, OverflowError, AttributeError) as error:
            if isinstance(error, TraceError):
                raise
            raise TraceError("a column holds what nsys never writes", path=self._shown) from error

    def first_of(self, table: str, names: Sequence[str]) -> str | None:
        """The first of ``names`` that is a column of ``table``."""
        columns = self.tables.get(table, ())
        return next((name for name in names if name in columns), None)

    def last_row(self, table: str) -> int:
        """Highest row number: how many rows there are, at once, where none was deleted."""
        if table not in self.tables:
            return 0
        with self.guarded():
            query = f"SELECT max(rowid) FROM {_quoted(table)}"
            return int(self._connection.execute(query).fetchone()[0] or 0)

    def rows(
        self, table: str, columns: Sequence[str], where: str = "", arguments: Sequence[object] = ()
    ) -> list[tuple[Any, ...]]:
        """All rows of a small table, NULL for columns that it lacks; [] without the table."""
        if table not in self.tables:
            return []
        known = self.tables[table]
        listed = ", ".join(_quoted(name) if name in known else "NULL" for name in columns)
        with self.guarded():
            query = _query(listed, table, where)
            return self._connection.execute(query, arguments).fetchmany(_MAX_SMALL_ROWS)

    def numbers(
        self, table: str, columns: Sequence[str | None], where: str = ""
    ) -> Iterator[list[I64]]:
        """The rows of a table as int64 columns, at most BLOCK_ROWS rows at once.

        -1 where NULL, where the table has no such column, and for a column None. The database
        writes each column of a block as one text: a number costs a tenth of what it does as
        an object.
        """
        if table not in self.tables:
            return
        inner = ", ".join(
            f"{self._integer(table, name)} AS c{place}" for place, name in enumerate(columns)
        )
        outer = ", ".join(f"group_concat(c{place})" for place in range(len(columns)))
        condition = f"rowid > ? AND ({where})" if where else "rowid > ?"
        rows = f"{_query(f'{inner}, rowid AS r', table, condition)} ORDER BY rowid LIMIT ?"
        query = f"SELECT max(r), count(*), {outer} FROM ({rows})"
        last = _BEFORE_ROWS
        with self.guarded():
            while True:
                self._stop_if_asked()
                last, count, *texts = self._connection.execute(query, (last, BLOCK_ROWS)).fetchone()
                if not count:
                    return
                yield [np.fromstring(text, np.int64, count, sep=",") for text in texts]

    def blocks(
        self, table: str, integers: Sequence[str], texts: Sequence[str], where: str = ""
    ) -> Iterator[tuple[list[I64], list[tuple[str | None, ...]]]]:
        """As `numbers`, for a table of which texts are wanted too; those may be None."""
        if table not in self.tables:
            return
        known = self.tables[table]
        listed = [self._integer(table, name) for name in integers]
        listed += [_quoted(name) if name in known else "NULL" for name in texts]
        with self.guarded():
            cursor = self._connection.execute(_query(", ".join(listed), table, where))
            while rows := cursor.fetchmany(BLOCK_ROWS):
                self._stop_if_asked()
                columns = list(zip(*rows, strict=True))
                numbers = [np.array(column, np.int64) for column in columns[: len(integers)]]
                yield numbers, columns[len(integers) :]

    def _integer(self, table: str, column: str | None) -> str:
        if column is None or column not in self.tables[table]:
            return str(MISSING)
        return f"CAST(ifnull({_quoted(column)}, {MISSING}) AS INTEGER)"

    def _stop_if_asked(self) -> None:
        if self._look():
            raise CancelledError("reading was stopped", path=self._shown)

    def texts(self, ids: Sequence[int], table: str = "StringIds") -> dict[int, str]:
        """The texts of exactly these ids; ids without one are left out."""
        found: dict[int, str] = {}
        ordered = sorted(set(ids))
        for start in range(0, len(ordered), _IDS_A_QUERY):
            some = ordered[start : start + _IDS_A_QUERY]
            marks = ", ".join("?" * len(some))
            for row_id, text in self.rows(table, ("id", "value"), f"id IN ({marks})", some):
                if isinstance(text, str):
                    found[int(row_id)] = text
        return found


def _query(columns: str, table: str, where: str) -> str:
    return f"SELECT {columns} FROM {_quoted(table)}" + (f" WHERE {where}" if where else "")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")
