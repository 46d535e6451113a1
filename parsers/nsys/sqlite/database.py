"""An nsys export as tables of integers and texts, read block by block and never written.

Real exports hold the whole environment of the profiled processes in two of their tables, so
nothing here reads a table that it was not asked for by name.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from ccltui.parsers.array_types import I64
from ccltui.parsers.columns import MISSING
from ccltui.parsers.errors import CancelledError, TraceError
from ccltui.parsers.nsys.sqlite.journal_files import unfinished
from ccltui.parsers.nsys.sqlite.pages import Pages
from ccltui.parsers.nsys.sqlite.sql_queries import (
    Only,
    after_that,
    decoded,
    numbered,
    quoted,
    rows_after,
    select,
)
from ccltui.parsers.nsys.sqlite.table_scans import Texts, new_scan

BLOCK_ROWS = 1 << 17
_MAX_CELL_BYTES = 1 << 26
_STEPS_BETWEEN_LOOKS = 100_000
_IDS_A_QUERY = 500
_MAX_SMALL_ROWS = 1 << 20
_BEFORE_ROWS = -(1 << 63)


def _require_finished(path: Path, shown: str) -> None:
    try:
        problem = unfinished(str(path))
    except OSError as error:
        why = f"what is beside it cannot be read ({error.strerror})"
        raise TraceError(why, path=shown) from error
    if problem is not None:
        raise TraceError(problem, path=shown)


class Database:
    """One export, open for reading. ``tables``: name -> its columns, without views."""

    def __init__(self, path: Path, shown: str, cancelled: Callable[[], bool] | None = None) -> None:
        self._path = path
        self._shown = shown
        self._cancelled = cancelled
        _require_finished(path, shown)
        with self.guarded():
            # immutable: no lock is taken and no journal is written beside the user's file.
            uri = f"file:{quote(os.fsencode(path.resolve()))}?mode=ro&immutable=1"
            # Tables may be read in several threads, one at a time.
            self._connection = sqlite3.connect(uri, uri=True, timeout=0, check_same_thread=False)
        self._lock = threading.Lock()
        self._descriptor = -1
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            with self.guarded():
                self._prepare()
                self.tables = self._described()
        except TraceError:
            self.close()
            raise
        except OSError as error:
            self.close()
            raise TraceError(f"cannot be read ({error.strerror})", path=shown) from error

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _prepare(self) -> None:
        # A file may hold views and functions of its own: nothing in it is to be run.
        self._connection.execute("PRAGMA trusted_schema = OFF")
        self._connection.execute("PRAGMA mmap_size = 0")  # a file that shrinks must not kill us
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_CELL_BYTES)
        self._connection.text_factory = decoded
        self._connection.set_progress_handler(self._look, _STEPS_BETWEEN_LOOKS)

    def _look(self) -> int:
        return int(self._cancelled is not None and self._cancelled())

    def _described(self) -> dict[str, tuple[str, ...]]:
        query = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE 'CREATE TABLE%'"
        names = [str(row[0]) for row in self._connection.execute(query).fetchmany(2000)]
        return {
            name: tuple(
                str(row[1])
                for row in self._connection.execute(f"PRAGMA table_info({quoted(name)})")
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
        except UnicodeDecodeError as error:  # Python cannot even make an error of SQLite's words
            raise TraceError(
                "cannot be read as an nsys export (names in it are not UTF-8)", path=self._shown
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
            query = f"SELECT max(rowid) FROM {quoted(table)}"
            return int(self._connection.execute(query).fetchone()[0] or 0)

    def rows(
        self, table: str, columns: Sequence[str], where: str = "", arguments: Sequence[object] = ()
    ) -> list[tuple[Any, ...]]:
        """All rows of a small table, NULL for columns that it lacks; [] without the table."""
        if table not in self.tables:
            return []
        known = self.tables[table]
        listed = ", ".join(quoted(name) if name in known else "NULL" for name in columns)
        with self.guarded():
            query = select(listed, table, where)
            return self._connection.execute(query, arguments).fetchmany(_MAX_SMALL_ROWS)

    def numbers(
        self,
        table: str,
        columns: Sequence[str | None],
        texts: Mapping[str, Texts] | None = None,
        only: Only | None = None,
    ) -> Iterator[list[I64]]:
        """The rows of a table as int64 columns, block by block.

        -1 where NULL, where the table has no such column, and for a column None. Of the columns
        in ``texts``, which holds what was found, the numbers of the texts are given. ``only``: a
        column and the values that rows must have in it; a table without the column has no other.
        Rows come from the pages of the file where that can be, else, or from where it cannot,
        from SQLite.
        """
        if table not in self.tables:
            return
        texts = texts or {}
        if only is not None and only[0] not in self.tables[table]:
            only = None
        last = _BEFORE_ROWS
        with self.guarded():
            scan = self._scan(table, columns, texts, only)
            if scan is not None:
                yield from scan
                if scan.complete:
                    return
                last = _BEFORE_ROWS if scan.last_row is None else scan.last_row
            read = self._texts_after if texts else self._numbers_after
            yield from read(table, columns, texts, only, last)

    def _scan(
        self,
        table: str,
        columns: Sequence[str | None],
        texts: Mapping[str, Texts],
        only: Only | None,
    ) -> Pages | None:
        """A scan of the table's pages, None where the table is not of the plain kind."""
        names = {name for name in columns if name is not None and name in self.tables[table]}
        names |= {only[0]} if only else set()
        with self._lock:
            known = self._connection.execute(f"PRAGMA table_xinfo({quoted(table)})").fetchall()
            query = "SELECT rootpage, sql FROM sqlite_master WHERE type = 'table' AND name = ?"
            root, created = self._connection.execute(query, (table,)).fetchone()
        plain = not any(
            hidden or (name in names and (default is not None or key))
            for _, name, _, _, default, key, hidden in known
        )
        if not plain or "WITHOUT" in created.upper() or not names:
            return None
        places = sorted((row[0], row[1]) for row in known if row[1] in names)
        scan = new_scan(
            self._descriptor,
            root,
            [place for place, _ in places],
            [texts.get(name) for _, name in places],
        )
        if scan is None:
            return None
        found = [name for _, name in places]
        return Pages(scan, found, columns, only, room=BLOCK_ROWS, look=self._stop_if_asked)

    def _numbers_after(
        self,
        table: str,
        columns: Sequence[str | None],
        _texts: Mapping[str, Texts],
        only: Only | None,
        last: int,
    ) -> Iterator[list[I64]]:
        """Rows after ``last``. SQLite writes each column of a block as one text.

        A number costs a tenth of what it does as an object.
        """
        inner = ", ".join(
            f"{self._integer(table, name)} AS c{place}" for place, name in enumerate(columns)
        )
        outer = ", ".join(f"group_concat(c{place})" for place in range(len(columns)))
        rows = f"{select(f'{inner}, rowid AS r', table, rows_after(only))} ORDER BY rowid LIMIT ?"
        query = f"SELECT max(r), count(*), {outer} FROM ({rows})"
        while True:
            self._stop_if_asked()
            with self._lock:
                found = self._connection.execute(query, (last, BLOCK_ROWS)).fetchone()
            newest, count, *written = found
            if not count:
                return
            last = after_that(last, newest)
            yield [np.fromstring(text, np.int64, count, sep=",") for text in written]

    def _texts_after(
        self,
        table: str,
        columns: Sequence[str | None],
        texts: Mapping[str, Texts],
        only: Only | None,
        last: int,
    ) -> Iterator[list[I64]]:
        """As `_numbers_after`, for a table of which texts are wanted too."""
        texts = {name: texts[name] for name in texts if name in self.tables[table]}
        listed = ", ".join(
            quoted(name) if name in texts else self._integer(table, name)
            for name in columns
            if name is not None
        )
        query = f"{select(f'rowid, {listed}', table, rows_after(only))} ORDER BY rowid LIMIT ?"
        while True:
            self._stop_if_asked()
            with self._lock:
                rows = self._connection.execute(query, (last, BLOCK_ROWS)).fetchall()
            if not rows:
                return
            last = after_that(last, max(row[0] for row in rows))
            found = iter(zip(*(row[1:] for row in rows), strict=True))
            yield [
                np.full(len(rows), MISSING, np.int64)
                if name is None
                else numbered(next(found), texts.get(name))
                for name in columns
            ]

    def _integer(self, table: str, column: str | None) -> str:
        if column is None or column not in self.tables[table]:
            return str(MISSING)
        return f"CAST(ifnull({quoted(column)}, {MISSING}) AS INTEGER)"

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
