"""Open an nsys export read-only and read its tables block by block as integers and texts.

Exports hold the whole environment of the profiled processes in two of their tables, so a table
is read only where its name is given.

Files are read without locks and without SQLite's recovery, which would write beside them. A file
with a write-ahead log or journal that belongs to its content is rejected: its pages alone are an
older state, or half of a change.

SQLite files have no checksums. A damaged pointer, count or length makes tables lose or repeat rows,
which SQLite's own check finds; a damaged number in a row looks like any other number, and nothing
finds it.
"""

from __future__ import annotations

import os
import re
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import numpy as np

from ccltui.parsers.array_types import I64
from ccltui.parsers.columns import MISSING
from ccltui.parsers.errors import CancelledError, TraceError, raise_if
from ccltui.parsers.nsys.sqlite.table_scans import (
    Pages,
    RowFilter,
    Texts,
    decoded,
    new_scan,
    newest_after,
    numbered,
    quoted,
    rows_after,
    select,
)

_JOURNAL_MAGIC: Final = bytes.fromhex("d9d505f920a163d7")
_LOG_MAGIC: Final = (bytes.fromhex("377f0682"), bytes.fromhex("377f0683"))
_LOG_HEADER_BYTES: Final = 32
_FRAME_HEADER_BYTES: Final = 24
_SALTS: Final = slice(16, 24)
_FRAME_SALTS: Final = slice(8, 16)


def unfinished(path: str) -> str | None:
    """Return why the pages of an SQLite file are not its whole content, and what to do.

    Returns:
        The message, or None if the pages are complete. Empty side files, and journals whose
        header SQLite has overwritten, are ignored.

    Raises:
        OSError: A side file cannot be read.
    """
    real_path = os.path.realpath(path)
    if _has_frames(_head(real_path + "-wal")):
        return (
            "rows of it may be in the -wal file beside it alone: merge them with "
            "`sqlite3 FILE 'PRAGMA wal_checkpoint(TRUNCATE)'`"
        )
    if _head(real_path + "-journal").startswith(_JOURNAL_MAGIC):
        return (
            "a change of it was broken off, as the -journal file beside it says: undo it with "
            "`sqlite3 FILE 'PRAGMA integrity_check'`"
        )
    return None


def _head(path: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            return file.read(_LOG_HEADER_BYTES + _FRAME_HEADER_BYTES)
    except FileNotFoundError:
        return b""


def _has_frames(log: bytes) -> bool:
    """Return whether a log has a frame of its current generation; SQLite ignores older ones."""
    frame = log[_LOG_HEADER_BYTES:]
    is_log = log.startswith(_LOG_MAGIC) and len(frame) == _FRAME_HEADER_BYTES
    return is_log and frame[_FRAME_SALTS] == log[_SALTS]


_MAX_FINDINGS: Final = 3
_MAX_CHARS: Final = 160
_TREE: Final = re.compile(r"\bTree (\d{1,10})\b")  # SQLite 3.42 or later: the root of a table


def read_only_uri(path: Path) -> str:
    """Return how SQLite opens a file of the user: without a lock, or a journal beside it."""
    return f"file:{quote(os.fsencode(path.resolve()))}?mode=ro&immutable=1"


def damage_of(path: Path, cancelled: Callable[[], bool] | None = None) -> str | None:
    """Return what is damaged in a database, None where SQLite finds nothing.

    Every page is read once, on a connection of its own and without Python's lock: 5 ms of CPU time
    for each MB, beside the threads that read the tables.

    Args:
        path: The database.
        cancelled: Polled; the check stops when it returns True.

    Raises:
        CancelledError: ``cancelled`` returned True.
    """
    try:
        with closing(sqlite3.connect(read_only_uri(path), uri=True, timeout=0)) as connection:
            connection.execute("PRAGMA trusted_schema = OFF")
            # These are expressions of the file, which could take any time.
            connection.execute("PRAGMA ignore_check_constraints = ON")
            connection.execute("PRAGMA mmap_size = 0")
            if cancelled is not None:
                connection.set_progress_handler(lambda: int(cancelled()), STEPS_BETWEEN_CHECKS)
            found = connection.execute(f"PRAGMA quick_check({_MAX_FINDINGS})").fetchall()
            lines = [str(row[0]) for row in found if row[0] != "ok"]
            return _described(lines, connection) if lines else None
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise_if(cancelled, path)
        return _one_line(str(error))


def _described(lines: list[str], connection: sqlite3.Connection) -> str:
    first = _one_line(lines[0].removeprefix("*** in database main ***"))
    tables = [table for line in lines if (table := _table_of(line, connection)) is not None]
    where = f" (table {', '.join(dict.fromkeys(tables))})" if tables else ""
    return first + where


def _table_of(line: str, connection: sqlite3.Connection) -> str | None:
    root = _TREE.search(line)
    if root is None:
        return None
    query = "SELECT tbl_name FROM sqlite_master WHERE rootpage = ?"
    row = connection.execute(query, (int(root[1]),)).fetchone()
    return None if row is None else _one_line(str(row[0]))


def _one_line(text: str) -> str:
    return " ".join(text.split())[:_MAX_CHARS]


BLOCK_ROWS = 1 << 17
MAX_CELL_BYTES: Final = 1 << 26
"""A longer cell is none of a profiler's, and SQLite would take the memory for it."""
STEPS_BETWEEN_CHECKS: Final = 100_000
"""Steps of SQLite's machine, about a millisecond, between two looks at whether to cancel."""
_IDS_A_QUERY = 500
_MAX_SMALL_ROWS = 1 << 20
_BEFORE_FIRST_ROW = -(1 << 63)


def require_finished(path: Path, shown: str) -> None:
    """Raise TraceError where a program still writes the database, or ended while it did."""
    try:
        problem = unfinished(str(path))
    except OSError as error:
        why = f"what is beside it cannot be read ({error.strerror})"
        raise TraceError(why, path=shown) from error
    if problem is not None:
        raise TraceError(problem, path=shown)


class Database:
    """One export, open for reading. ``tables``: columns by table name, without views."""

    def __init__(self, path: Path, shown: str, cancelled: Callable[[], bool] | None = None) -> None:
        self._path = path
        self._shown = shown
        self._cancelled = cancelled
        require_finished(path, shown)
        with self.guarded():
            self._connection = sqlite3.connect(
                read_only_uri(path),
                uri=True,
                timeout=0,
                check_same_thread=False,  # tables may be read in several threads, one at a time
            )
        self._lock = threading.Lock()
        self._rows_read: dict[str, int] = {}
        self._descriptor = -1
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            with self.guarded():
                self._prepare()
                self.tables = self._table_columns()
        except TraceError:
            self.close()
            raise
        except OSError as error:
            self.close()
            raise TraceError(f"cannot be read ({error.strerror})", path=shown) from error

    def close(self) -> None:
        """Close the file."""
        self._connection.close()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _prepare(self) -> None:
        # A file may define views and functions: none of them may run.
        self._connection.execute("PRAGMA trusted_schema = OFF")
        self._connection.execute("PRAGMA mmap_size = 0")  # else a file that shrinks raises SIGBUS
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_CELL_BYTES)
        self._connection.text_factory = decoded
        self._connection.set_progress_handler(self._is_cancelled, STEPS_BETWEEN_CHECKS)

    def _is_cancelled(self) -> int:
        return int(self._cancelled is not None and self._cancelled())

    def _table_columns(self) -> dict[str, tuple[str, ...]]:
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
        """Convert every failure of the database to a TraceError or a CancelledError."""
        try:
            yield
        except (sqlite3.Error, sqlite3.Warning, MemoryError) as error:
            if self._is_cancelled():
                raise CancelledError("reading was stopped", path=self._shown) from error
            why = " ".join(str(error).split())[:200] or "not enough memory"
            raise TraceError(
                f"cannot be read as an nsys export ({why})", path=self._shown
            ) from error
        except UnicodeDecodeError as error:  # from SQLite's error message
            raise TraceError(
                "cannot be read as an nsys export (names in it are not UTF-8)", path=self._shown
            ) from error
        except (ValueError, TypeError, OverflowError, AttributeError) as error:
            if isinstance(error, TraceError):
                raise
            raise TraceError("a column holds what nsys never writes", path=self._shown) from error

    def first_of(self, table: str, names: Sequence[str]) -> str | None:
        """Return the first of ``names`` that is a column of ``table``, None if none is."""
        columns = self.tables.get(table, ())
        return next((name for name in names if name in columns), None)

    def last_row(self, table: str) -> int:
        """Return the highest row id: the number of rows if none was deleted, without a scan."""
        if table not in self.tables:
            return 0
        with self.guarded():
            query = f"SELECT max(rowid) FROM {quoted(table)}"
            return int(self._connection.execute(query).fetchone()[0] or 0)

    def rows(
        self, table: str, columns: Sequence[str], where: str = "", arguments: Sequence[object] = ()
    ) -> list[tuple[Any, ...]]:
        """Return all rows of a small table, None for columns it lacks; [] without the table."""
        if table not in self.tables:
            return []
        known = self.tables[table]
        listed = ", ".join(quoted(name) if name in known else "NULL" for name in columns)
        with self.guarded():
            query = select(listed, table, where)
            return self._connection.execute(query, arguments).fetchmany(_MAX_SMALL_ROWS)

    def every_row(
        self, table: str, columns: Sequence[str], where: str = ""
    ) -> list[tuple[Any, ...]]:
        """Return all rows in order of their row ids, as `rows` does, without a limit.

        ``rowid`` may be one of the columns.
        """
        if table not in self.tables:
            return []
        known = {*self.tables[table], "rowid"}
        listed = ", ".join(quoted(name) if name in known else "NULL" for name in columns)
        with self.guarded():
            query = select(listed, table, f"{where or '1'} ORDER BY rowid")
            return self._connection.execute(query).fetchall()

    def numbers(
        self,
        table: str,
        columns: Sequence[str | None],
        texts: Mapping[str, Texts] | None = None,
        only: RowFilter | None = None,
    ) -> Iterator[list[I64]]:
        """Yield the rows of a table as int64 columns, block by block.

        Rows are read from the pages of the file as far as that is supported, and from SQLite
        after that.

        Args:
            table: Name of the table; without it there are no blocks.
            columns: Names of the columns. Values are -1 for NULL, for a column that the table
                lacks, and for None.
            texts: Numberings of text columns, by column, filled while reading; these columns hold
                numbers of texts.
            only: A column, and the values that rows must have in it; ignored if the table lacks
                the column.
        """
        if table not in self.tables:
            return
        texts = texts or {}
        if only is not None and only[0] not in self.tables[table]:
            only = None
        num_rows = 0
        for block in self._blocks(table, columns, texts, only):
            num_rows += len(block[0])
            yield block
        if only is None:
            self._rows_read[table] = num_rows

    def _blocks(
        self,
        table: str,
        columns: Sequence[str | None],
        texts: Mapping[str, Texts],
        only: RowFilter | None,
    ) -> Iterator[list[I64]]:
        last = _BEFORE_FIRST_ROW
        with self.guarded():
            scan = self._scan(table, columns, texts, only)
            if scan is not None:
                yield from scan
                if scan.complete:
                    return
                last = _BEFORE_FIRST_ROW if scan.last_row is None else scan.last_row
            read = self._texts_after if texts else self._numbers_after
            yield from read(table, columns, texts, only, last)

    def rows_missing(self) -> dict[str, int]:
        """Return how many rows the tables that `numbers` read to the end lack, by table.

        nsys numbers the rows of a table from 1 without gaps, so that the last number is how many
        it wrote. Tables without missing rows are left out. Tables are in the order of their names:
        threads read them in any.
        """
        gaps = {
            table: self.last_row(table) - self._rows_read[table]
            for table in sorted(self._rows_read)
        }
        return {table: gap for table, gap in gaps.items() if gap > 0}

    def _scan(
        self,
        table: str,
        columns: Sequence[str | None],
        texts: Mapping[str, Texts],
        only: RowFilter | None,
    ) -> Pages | None:
        """Return a scan of the table's pages, None for tables that it does not support.

        These are tables WITHOUT ROWID, or with a hidden column, or where a wanted column has a
        default or is a key.
        """
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
        return Pages(
            scan, found, columns, only, room=BLOCK_ROWS, check_cancelled=self._raise_if_cancelled
        )

    def _numbers_after(
        self,
        table: str,
        columns: Sequence[str | None],
        _texts: Mapping[str, Texts],
        only: RowFilter | None,
        last: int,
    ) -> Iterator[list[I64]]:
        """Yield rows after ``last``; SQLite returns each column of a block as one text.

        A number in a text costs a tenth of one that is returned as an object.
        """
        inner = ", ".join(
            f"{self._integer(table, name)} AS c{place}" for place, name in enumerate(columns)
        )
        outer = ", ".join(f"group_concat(c{place})" for place in range(len(columns)))
        rows = f"{select(f'{inner}, rowid AS r', table, rows_after(only))} ORDER BY rowid LIMIT ?"
        query = f"SELECT max(r), count(*), {outer} FROM ({rows})"
        while True:
            self._raise_if_cancelled()
            with self._lock:
                found = self._connection.execute(query, (last, BLOCK_ROWS)).fetchone()
            newest, count, *written = found
            if not count:
                return
            last = newest_after(last, newest)
            yield [np.fromstring(text, np.int64, count, sep=",") for text in written]

    def _texts_after(
        self,
        table: str,
        columns: Sequence[str | None],
        texts: Mapping[str, Texts],
        only: RowFilter | None,
        last: int,
    ) -> Iterator[list[I64]]:
        """Yield rows after ``last`` where texts are wanted too, one object per value."""
        texts = {name: texts[name] for name in texts if name in self.tables[table]}
        listed = ", ".join(
            quoted(name) if name in texts else self._integer(table, name)
            for name in columns
            if name is not None
        )
        query = f"{select(f'rowid, {listed}', table, rows_after(only))} ORDER BY rowid LIMIT ?"
        while True:
            self._raise_if_cancelled()
            with self._lock:
                rows = self._connection.execute(query, (last, BLOCK_ROWS)).fetchall()
            if not rows:
                return
            last = newest_after(last, max(row[0] for row in rows))
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

    def _raise_if_cancelled(self) -> None:
        if self._is_cancelled():
            raise CancelledError("reading was stopped", path=self._shown)

    def texts(self, ids: Sequence[int], table: str = "StringIds") -> dict[int, str]:
        """Return the texts of ``ids``, without ids that have none."""
        found: dict[int, str] = {}
        ordered = sorted(set(ids))
        for start in range(0, len(ordered), _IDS_A_QUERY):
            some = ordered[start : start + _IDS_A_QUERY]
            marks = ", ".join("?" * len(some))
            for row_id, text in self.rows(table, ("id", "value"), f"id IN ({marks})", some):
                if isinstance(text, str):
                    found[int(row_id)] = text
        return found
