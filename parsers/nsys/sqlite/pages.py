"""Rows of a table from the pages of its file, in the columns that were asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from ccltui.parsers.array_types import I64
from ccltui.parsers.columns import MISSING
from ccltui.parsers.nsys.sqlite.sql_queries import Only
from ccltui.parsers.nsys.sqlite.table_scans import Scan


class Pages:
    """A scan whose blocks have the columns that were asked for; afterwards, how far it came."""

    def __init__(
        self,
        scan: Scan,
        names: Sequence[str],
        columns: Sequence[str | None],
        only: Only | None,
        *,
        room: int,
        look: Callable[[], None],
    ) -> None:
        """Blocks have at most ``room`` rows; ``look`` raises where reading is to stop."""
        self._scan = scan
        self._names = names
        self._columns = columns
        self._only = only
        self._room = room
        self._look = look

    @property
    def complete(self) -> bool:
        """Whether every row was given."""
        return self._scan.complete

    @property
    def last_row(self) -> int | None:
        """Number of the last row that was given, None before the first."""
        return self._scan.last_row

    def __iter__(self) -> Iterator[list[I64]]:
        while True:
            self._look()
            found = dict(zip(self._names, self._scan.take(self._room), strict=True))
            if not len(next(iter(found.values()))):
                return
            if self._only is not None:
                column, values = self._only
                rows = np.logical_or.reduce([found[column] == value for value in values])
                if not rows.all():
                    found = {name: values[rows] for name, values in found.items()}
            absent = np.full(len(next(iter(found.values()))), MISSING, np.int64)
            yield [absent if name is None else found.get(name, absent) for name in self._columns]
