"""Tables from which the reports of ``nsys stats`` are computed: device work, calls, ranges.

Reports show more of a kernel (grid, registers, memory kinds) than metrics use, so these tables are
separate from the columns of a rank. Values that a source does not have are -1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, get_args

import numpy as np
from msgspec import Struct, field

from ccltui.parsers.array_types import I8, I32, I64
from ccltui.parsers.columns import MISSING

KERNEL, COPY, FILL = 0, 1, 2
"""Kinds of device work."""

PUSH_POP, START_END = 0, 1
"""Styles of ranges."""
STYLES: Final = ("PushPop", "StartEnd")

MEMORY_KINDS: Final = (
    *("Pageable", "Pinned", "Device", "Array", "Managed", "Device Static", "Managed Static"),
    "Unknown",
)

Part = Literal[
    "kernels",
    "memory",
    "places",
    "details",
    "api",
    "results",
    "os_calls",
    "ranges",
    "range_numbers",
]
"""Parts that can be read alone. places: process, correlation and device of device work; details:
its further columns; results: what API calls returned; range_numbers: row numbers of ranges.
Summaries of long captures need none of these."""
ALL_PARTS: Final[frozenset[Part]] = frozenset(get_args(Part))


class RawColumns(Struct, frozen=True):
    """Columns of one table to read as they are written.

    ``texts`` hold ids of strings and are read as those strings.
    """

    table: str
    values: tuple[str, ...]
    texts: tuple[str, ...] = ()
    only: str = ""  # SQL condition on the rows


class RawTable(Struct, frozen=True):
    """Rows of one table as they are written: None for NULL and for a column that it lacks."""

    columns: Mapping[str, Sequence[Any]]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))


class Work(Struct, frozen=True):
    """Kernels, copies and fills of all devices, sorted by start. ``name`` indexes the names.

    Times are int64 ns since the start of the session. ``details`` has the further columns of
    ``cuda_gpu_trace`` by name, int64, -1 where missing.
    """

    start_ns: I64
    end_ns: I64
    kind: I8
    name: I32
    process: I64
    correlation: I64
    device: I32
    details: Mapping[str, I64]

    def __len__(self) -> int:
        return len(self.start_ns)

    def detail(self, name: str) -> I64:
        """Return one of the further columns, all -1 where the source lacks it."""
        return self.details.get(name, np.full(len(self), MISSING, np.int64))


class Calls(Struct, frozen=True):
    """Calls of threads: CUDA API or OS runtime. ``thread`` is unique in the whole capture.

    ``result`` is the value that a call returned; None where the source records none.
    """

    start_ns: I64
    end_ns: I64
    name: I32
    thread: I64
    process: I64
    correlation: I64
    result: I64 | None = None

    def __len__(self) -> int:
        return len(self.start_ns)


class Ranges(Struct, frozen=True):
    """NVTX ranges or their equivalents. ``text`` and ``domain`` index the names.

    ``number`` is the place of a range in its table, from 1; None where it has none. ``end_thread``
    is the thread that ended a range, -1 where it is not recorded; None if no range crosses threads.
    ``domain_ns`` is when the domain of a range was created; None where that is not recorded.
    """

    start_ns: I64
    end_ns: I64
    style: I8
    text: I32
    domain: I32  # -1: the default domain
    thread: I64
    number: I64 | None = None
    end_thread: I64 | None = None
    domain_ns: I64 | None = None

    def __len__(self) -> int:
        return len(self.start_ns)


class ReportTables(Struct, frozen=True):
    """Input of the reports; a table is None where the capture has none of that kind.

    ``raw`` has the tables that only one family of reports reads, by what was asked for.
    """

    names: tuple[str, ...]
    work: Work | None = None
    api: Calls | None = None
    os_calls: Calls | None = None
    ranges: Ranges | None = None
    devices: Mapping[int, str] = field(default_factory=dict)
    raw: Mapping[RawColumns, RawTable] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


class Names:
    """Numbering of texts, from 0 in order of appearance."""

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}

    def of(self, text: str) -> int:
        """Return the number of a text."""
        return self._ids.setdefault(text, len(self._ids))

    def texts(self) -> tuple[str, ...]:
        """Return all texts by number."""
        return tuple(self._ids)
