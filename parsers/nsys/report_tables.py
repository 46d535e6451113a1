"""Tables from which the reports of ``nsys stats`` are computed: device work, calls, ranges.

Reports show more of a kernel (grid, registers, memory kinds) than metrics use, so these tables are
separate from the columns of a rank. Values that a source does not have are -1. Of an export only
the columns are read that are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, get_args

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from ccltui.parsers.array_types import I8, I32, I64
from ccltui.parsers.columns import MISSING
from ccltui.parsers.errors import NotFoundError
from ccltui.parsers.nsys.sqlite import export_schema
from ccltui.parsers.nsys.sqlite.database import Database, damage_of
from ccltui.parsers.nsys.sqlite.table_rows import process_of
from ccltui.parsers.nsys.sqlite.table_scans import Texts, new_texts

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


_STYLE_OF: Final = {59: PUSH_POP, 60: START_END, 70: PUSH_POP, 71: START_END}
_RowFilter = tuple[str, tuple[int, ...]] | None
_DETAILS: Final = (
    *("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z"),
    *("registers", "static_memory", "dynamic_memory"),
    *("bytes", "source_kind", "target_kind", "context", "green_context", "stream"),
)
_PLACES: Final = ("globalPid", "correlationId", "deviceId")
_COMMON_DETAILS: Final[Mapping[str, str]] = {
    "context": "contextId",
    "green_context": "greenContextId",
    "stream": "streamId",
}
_KERNEL_DETAILS: Final[Mapping[str, str]] = {
    **_COMMON_DETAILS,
    "grid_x": "gridX",
    "grid_y": "gridY",
    "grid_z": "gridZ",
    "block_x": "blockX",
    "block_y": "blockY",
    "block_z": "blockZ",
    "registers": "registersPerThread",
    "static_memory": "staticSharedMemory",
    "dynamic_memory": "dynamicSharedMemory",
}
_COPY_DETAILS: Final[Mapping[str, str]] = {
    **_COMMON_DETAILS,
    "bytes": "bytes",
    "source_kind": "srcKind",
    "target_kind": "dstKind",
}
_FILL_DETAILS: Final[Mapping[str, str]] = {
    **_COMMON_DETAILS,
    "bytes": "bytes",
    "source_kind": "memKind",
}


def read_report_tables(
    path: Path,
    *,
    shown: str | None = None,
    kernel_name: str = "demangledName",
    parts: frozenset[Part] = ALL_PARTS,
    raw: Sequence[RawColumns] = (),
) -> ReportTables:
    """Read the tables of an nsys export (SQLite), opened read-only and immutable.

    Strings are resolved only for rows that are read.

    Args:
        path: The export.
        shown: Its path in messages.
        kernel_name: Column that names kernels: demangledName, shortName or mangledName.
        parts: Parts to read; the others are None, as in a capture without them.
        raw: Further tables to read as they are written; absent ones are left out.

    Raises:
        TraceError: The file cannot be read.
        NotFoundError: There is no such file.
    """
    if not path.exists():
        raise NotFoundError("no such file", path=shown or str(path))
    with closing(Database(path, shown or path.name)) as database:
        tables = _Reader(database, kernel_name, parts, raw).tables()
        damage = damage_of(path)
    if damage is None:
        return tables
    note = f"pages of the database are damaged, rows may be missing or wrong: {damage}"
    return replace(tables, notes=(note, *tables.notes))


class _Reader:
    def __init__(
        self,
        database: Database,
        kernel_name: str,
        parts: frozenset[Part],
        raw: Sequence[RawColumns],
    ) -> None:
        self._database = database
        self._kernel_name = kernel_name
        self._parts = parts
        self._wanted = raw
        self._names = Names()
        self._notes: list[str] = []

    def tables(self) -> ReportTables:
        """Read all tables. Raises TraceError."""
        parts = self._parts
        work = self._work()
        ranges = self._ranges() if "ranges" in parts else None
        api = self._calls(export_schema.API_ROWS) if "api" in parts else None
        os_calls = self._calls(export_schema.OS_ROWS) if "os_calls" in parts else None
        devices = self._devices(work)
        return ReportTables(
            self._names.texts(),
            work,
            api,
            os_calls,
            ranges,
            devices,
            {one: self._raw(one) for one in self._wanted if self._has(one.table)},
            tuple(self._notes),
        )

    def _has(self, table: str) -> bool:
        return table in self._database.tables

    def _raw(self, wanted: RawColumns) -> RawTable:
        """Return the rows of one table, with texts in place of ids of strings.

        The thread and the process of rows come with them, where the table has them.
        """
        owners = {"globalTid", "globalPid"} & set(self._database.tables[wanted.table])
        names = (*wanted.values, *wanted.texts, *sorted(owners - set(wanted.values)))
        rows = self._database.every_row(wanted.table, names, wanted.only)
        columns: dict[str, Sequence[object]] = dict(
            zip(names, zip(*rows, strict=True) if rows else ((),) * len(names), strict=True)
        )
        for name in wanted.texts:
            ids = columns[name]
            texts = self._database.texts([one for one in set(ids) if isinstance(one, int)])
            columns[name] = [texts.get(one) if isinstance(one, int) else None for one in ids]
        return RawTable(columns)

    def _columns(
        self, table: str, names: tuple[str | None, ...], only: _RowFilter = None
    ) -> list[I64] | None:
        """Return whole columns of a table, -1 for NULL; None without the table."""
        if table not in self._database.tables:
            return None
        blocks = list(self._database.numbers(table, names, only=only))
        if not blocks:
            return [np.empty(0, np.int64) for _ in names]
        return [np.concatenate([block[index] for block in blocks]) for index in range(len(names))]

    def _named(self, ids: I64) -> I32:
        """Return interned names of string ids; the name of an id without text is its number."""
        texts = self._database.texts(np.unique(ids).tolist())
        return self._each(ids, lambda one: texts.get(one, f"[{one}]"))

    def _work(self) -> Work | None:
        kernels = [self._kernels()] if "kernels" in self._parts else []
        memory = [self._copies(), self._fills()] if "memory" in self._parts else []
        parts = [part for part in (*kernels, *memory) if part]
        if not parts:
            return None
        order = np.argsort(np.concatenate([part.start_ns for part in parts]), kind="stable")
        columns = {
            name: np.concatenate([getattr(part, name) for part in parts])[order]
            for name in ("start_ns", "end_ns", "kind", "name", "process", "correlation", "device")
        }
        known = [name for name in _DETAILS if any(name in part.details for part in parts)]
        details = {
            name: np.concatenate([part.detail(name) for part in parts])[order] for name in known
        }
        return Work(**columns, details=details)

    def _kernels(self) -> Work | None:
        table = export_schema.KERNELS
        column = self._database.first_of(table, (self._kernel_name, "demangledName", "shortName"))
        return self._rows_of(table, KERNEL, column, _KERNEL_DETAILS, self._named)

    def _copies(self) -> Work | None:
        name_of = partial(self._each, name_of=export_schema.copy_name)
        return self._rows_of(export_schema.COPIES, COPY, "copyKind", _COPY_DETAILS, name_of)

    def _fills(self) -> Work | None:
        name_of = partial(self._each, name_of=lambda _: export_schema.FILL_NAME)
        return self._rows_of(export_schema.FILLS, FILL, None, _FILL_DETAILS, name_of)

    def _each(self, values: I64, name_of: Callable[[int], str]) -> I32:
        found, inverse = np.unique(values, return_inverse=True)
        ids = [self._names.of(name_of(value)) for value in found.tolist()]
        return np.array(ids, np.int32)[inverse]

    def _rows_of(
        self,
        table: str,
        kind: int,
        named_by: str | None,
        details: Mapping[str, str],
        names_of: Callable[[I64], I32],
    ) -> Work | None:
        """Return the rows of one table, named by what ``names_of`` makes of a column."""
        details = details if "details" in self._parts else {}
        placed = "places" in self._parts
        wanted = ("start", "end", named_by, *(_PLACES if placed else ()), *details.values())
        columns = self._columns(table, wanted)
        if columns is None:
            return None
        start, end, named, *rest = columns
        absent = np.full(len(start), MISSING, np.int64)
        process, correlation, device = rest[: len(_PLACES)] if placed else [absent] * len(_PLACES)
        further = rest[len(_PLACES) :] if placed else rest
        return Work(
            start,
            end,
            np.full(len(start), kind, np.int8),
            names_of(named),
            process_of(process),
            correlation,
            device.astype(np.int32),
            dict(zip(details, further, strict=True)),
        )

    def _calls(self, source: export_schema.Source) -> Calls | None:
        names = ("start", "end", "nameId", "globalTid", "correlationId")
        further = ("returnValue",) if "results" in self._parts else ()
        columns = self._columns(source.table, (*names, *further), source.only)
        if columns is None:
            return None
        start, end, name, thread, correlation, *result = columns
        named = self._named(name)
        return Calls(start, end, named, thread, process_of(thread), correlation, *result)

    def _ranges(self) -> Ranges | None:
        table = export_schema.NVTX
        if table not in self._database.tables:
            return None
        texts = new_texts()
        wanted = (
            *("start", "end", "eventType", "textId", "globalTid", "domainId", "text"),
            "endGlobalTid",
        )
        only = ("eventType", tuple(_STYLE_OF))
        blocks = list(self._database.numbers(table, wanted, {"text": texts}, only))
        if not blocks:
            return None
        start, end, kind, text_id, thread, domain, text, end_thread = (
            np.concatenate([block[index] for block in blocks]) for index in range(len(wanted))
        )
        end = np.where(end == MISSING, self._last_of_ranges(), end)
        domains, domain_ns = self._range_domains(thread, domain)
        return Ranges(
            start,
            end,
            np.where((kind == 59) | (kind == 70), PUSH_POP, START_END).astype(np.int8),
            self._range_texts(texts, text, text_id),
            domains,
            thread,
            self._range_numbers() if "range_numbers" in self._parts else None,
            end_thread,
            domain_ns,
        )

    def _range_numbers(self) -> I64:
        kinds = ", ".join(map(str, _STYLE_OF))
        rows = self._database.every_row(export_schema.NVTX, ("rowid",), f"eventType IN ({kinds})")
        return np.array([row[0] for row in rows], np.int64)

    def _last_of_ranges(self) -> int:
        """Return the end of ranges that were never closed: the last time in the table of ranges."""
        latest = (
            self._database.rows(
                export_schema.NVTX,
                (column,),
                f'typeof("{column}") = \'integer\' ORDER BY "{column}" DESC LIMIT 1',
            )
            for column in ("start", "end")
        )
        return max((row[0] for rows in latest for row in rows), default=0)

    def _range_texts(self, texts: Texts, text: I64, text_ids: I64) -> I32:
        """Return the names of ranges: the text in the row, else the string that it refers to."""
        used = set(text.tolist())  # pages number the texts of rows that are no ranges as well
        own = [
            self._names.of(raw.decode("utf-8", "replace")) if number in used else 0
            for number, (raw, _) in enumerate(texts.values())
        ]
        by_id = self._database.texts([one for one in np.unique(text_ids).tolist() if one >= 0])
        strings = self._each(text_ids, lambda number: by_id.get(number, ""))
        return np.where(text == MISSING, strings, np.array([*own, 0], np.int32)[text])

    def _range_domains(self, thread: I64, domain: I64) -> tuple[I32, I64]:
        """Return the domain of each range by name, and when it was created.

        Domains are numbered per process; 0 is the default one.
        """
        columns = ("globalTid", "domainId", "text", "textId", "start")
        created = self._database.rows(
            export_schema.NVTX, columns, f"eventType = {export_schema.DOMAIN_CREATED}"
        )
        by_id = self._database.texts(
            [row[3] for row in created if row[2] is None and isinstance(row[3], int)]
        )
        domains = {
            ((tid >> 24) & 0xFFFFFF, number): (
                by_id.get(text_id, "") if t is None else str(t),
                start if isinstance(start, int) else 0,
            )
            for tid, number, t, text_id, start in created
            if isinstance(tid, int) and isinstance(number, int)
        }
        pairs = zip(process_of(thread).tolist(), domain.tolist(), strict=True)
        found = [domains.get(pair, ("", 0)) if pair[1] > 0 else ("", 0) for pair in pairs]
        ids = [self._names.of(name) if name else MISSING for name, _ in found]
        return np.array(ids, np.int32), np.array([start for _, start in found], np.int64)

    def _devices(self, work: Work | None) -> Mapping[int, str]:
        column = self._database.first_of(export_schema.GPUS, ("id", "deviceId"))
        rows = self._database.rows(export_schema.GPUS, (column, "name")) if column else []
        devices = {
            number: str(name)
            for number, name in rows
            if isinstance(number, int) and name is not None
        }
        used = set() if work is None else set(np.unique(work.device).tolist()) - {MISSING}
        if used - devices.keys():
            self._notes.append("the export names no GPUs: devices are shown by number")
        return devices
