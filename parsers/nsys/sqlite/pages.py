"""Read rows of an SQLite table from the pages of its file, in the columns asked for.

Hand-written, with ``_btree.pyx``, because SQLite returns each value as a Python object. The same
columns of kernels, copies, calls and OS calls take 7.9 times the CPU time through the sqlite3
module in an export of 2.2 MB, and 16 times in one of 55 MB; through ``group_concat`` in
`database`, the fallback, 6.2 and 8.1 times. Pages are also read without Python's lock, several
tables at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from ccltui.parsers.array_types import I64
from ccltui.parsers.columns import MISSING
from ccltui.parsers.nsys.sqlite.sql_queries import RowFilter
from ccltui.parsers.nsys.sqlite.table_scans import Scan


class Pages:
    """Iterator over blocks of rows from a scan, with the columns that were asked for."""

    def __init__(
        self,
        scan: Scan,
        names: Sequence[str],
        columns: Sequence[str | None],
        only: RowFilter | None,
        *,
        room: int,
        check_cancelled: Callable[[], None],
    ) -> None:
        """Wrap a scan.

        Args:
            scan: The scan of the table.
            names: Names of the scan's columns.
            columns: Columns of the blocks; None, or a name that is not scanned, gives -1.
            only: A column, and the values that rows must have in it.
            room: Most rows of a block.
            check_cancelled: Called before each block; raises to stop reading.
        """
        self._scan = scan
        self._names = names
        self._columns = columns
        self._only = only
        self._room = room
        self._check_cancelled = check_cancelled

    @property
    def complete(self) -> bool:
        """Whether every row of the table was returned."""
        return self._scan.complete

    @property
    def last_row(self) -> int | None:
        """Row id of the last row that was returned, None before the first."""
        return self._scan.last_row

    def __iter__(self) -> Iterator[list[I64]]:
        while True:
            self._check_cancelled()
            found = dict(zip(self._names, self._scan.take(self._room), strict=True))
            if not len(next(iter(found.values()))):
                return
            if self._only is not None:
                column, values = self._only
                rows = np.logical_or.reduce([found[column] == value for value in values])
                if not rows.any():
                    continue
                if not rows.all():
                    found = {name: values[rows] for name, values in found.items()}
            absent = np.full(len(next(iter(found.values()))), MISSING, np.int64)
            yield [absent if name is None else found.get(name, absent) for name in self._columns]
