"""Find one event in an sqlite export or a printed trace of nsys, and return all of its fields."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import numpy as np

from ccltui.parsers.columns import Group
from ccltui.parsers.errors import TraceError
from ccltui.parsers.format import MAX_TEXT, EventRecord, Size3, SoughtEvent
from ccltui.parsers.nsys.sqlite import export_schema
from ccltui.parsers.nsys.stats_text import read_stats_text
from ccltui.parsers.nsys.text_trace import TRACE
from ccltui.parsers.window import SIZE_UNITS_BYTES

_SQLITE_MAGIC: Final = b"SQLite format 3\0"
_TABLES: Final[Mapping[Group, tuple[str, ...]]] = {
    "gpu": (
        export_schema.KERNELS,
        export_schema.COPIES,
        export_schema.FILLS,
        export_schema.GRAPHS,
    ),
    "gpu_sync": (export_schema.SYNCHRONISATIONS,),
    "runtime": (export_schema.API_CALLS,),
}
_SHOWN_ELSEWHERE: Final = frozenset(
    (
        *("start", "end", "correlationId", "gridX", "gridY", "gridZ", "blockX", "blockY"),
        *("blockZ", "registersPerThread", "staticSharedMemory", "dynamicSharedMemory"),
        *("Start", "Duration", "CorrId", "GrdX", "GrdY", "GrdZ", "BlkX", "BlkY", "BlkZ"),
        *("Reg/Trd", "StcSMem", "DymSMem", "Name", "Device", "Strm"),
        *("deviceId", "streamId", "demangledName", "shortName", "mangledName", "nameId"),
        *("globalPid", "globalTid", "tensorSizeMinusOneElements"),
    )
)


def read_nsys_record(path: Path, sought: SoughtEvent, *, shown: str) -> EventRecord:
    """Return the fields of an event of an sqlite export, or of the text of ``cuda_gpu_trace``.

    Raises:
        TraceError: the file cannot be read, is a report or tables that are read through an export,
            or does not contain the event.
    """
    try:
        with path.open("rb") as file:
            head = file.read(len(_SQLITE_MAGIC))
    except OSError as error:
        raise TraceError(f"cannot be read ({error.strerror})", path=shown) from error
    if head == _SQLITE_MAGIC:
        row = _row_of_export(path, sought, shown)
    elif path.suffix in (".nsys-rep", ".qdrep", ".qdstrm", ".parquet", ".arrow"):
        why = "single events are read from an sqlite export: nsys export --type sqlite writes one"
        raise TraceError(why, path=shown)
    else:
        row = _row_of_text(path, sought, shown)
    return EventRecord() if row is None else _record(row)


def _row_of_export(path: Path, sought: SoughtEvent, shown: str) -> Mapping[str, Any] | None:
    """Return the row of an event, None for a group whose rows hold no more than the columns do."""
    tables = _TABLES.get(sought.group)
    if tables is None:
        return None
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)) as base:
            base.row_factory = sqlite3.Row
            known = {name for (name,) in base.execute("SELECT name FROM sqlite_master")}
            for table in tables:
                if table in known:
                    found = _matching(base, table, sought)
                    if found is not None:
                        return found
    except sqlite3.Error as error:
        raise TraceError(f"cannot be read ({error})", path=shown) from error
    raise TraceError("the event is not found in it: it may have changed", path=shown)


def _matching(
    base: sqlite3.Connection, table: str, sought: SoughtEvent
) -> Mapping[str, Any] | None:
    # Tables of exports have no index, so that this reads the whole table whatever the condition.
    rows = base.execute(
        f"SELECT * FROM {table} WHERE start = ? AND end = ?",
        (sought.start_ns, sought.start_ns + sought.dur_ns),
    )
    for row in rows:
        found = dict(zip(row.keys(), row, strict=True))
        same = sought.correlation < 0 or found.get("correlationId") in (None, sought.correlation)
        device, stream = found.get("deviceId"), found.get("streamId")
        same &= sought.device < 0 or device in (None, sought.device)
        if same and (sought.stream < 0 or stream in (None, sought.stream)):
            return found
    return None


def _row_of_text(path: Path, sought: SoughtEvent, shown: str) -> Mapping[str, Any]:
    """Return the row of an event with whole numbers, sizes in bytes."""
    tables = [one for one in read_stats_text(path, shown=shown).tables if one.report == TRACE]
    if not tables:
        raise TraceError(f"has no {TRACE} any more", path=shown)
    section = tables[0]
    start, duration = section.number("Start"), section.number("Duration")
    same = start.known & duration.known
    same &= (start.ns() == sought.start_ns) & (duration.ns() == sought.dur_ns)
    for place in np.flatnonzero(same).tolist():
        row = _cells(section, place)
        if sought.correlation < 0 or row.get("CorrId") in (None, sought.correlation):
            return row
    raise TraceError("the event is not found in it: it may have changed", path=shown)


def _cells(section: Any, place: int) -> dict[str, Any]:
    from ccltui.parsers.nsys.typed_table import NumberColumn  # noqa: PLC0415

    row: dict[str, Any] = {}
    for column in section.columns:
        if not isinstance(column, NumberColumn):
            row[column.name] = column.cell(place)
        elif column.known[place]:
            scale = SIZE_UNITS_BYTES.get(column.unit.partition("/")[0], 1)
            value = float(column.floats()[place]) * scale
            row[column.name] = round(value) if scale > 1 or value.is_integer() else value
    return row


def _record(row: Mapping[str, Any]) -> EventRecord:
    static = _whole(row, "staticSharedMemory", "StcSMem")
    dynamic = _whole(row, "dynamicSharedMemory", "DymSMem")
    further = (
        (name, str(value)[:MAX_TEXT])
        for name, value in row.items()
        if name not in _SHOWN_ELSEWHERE and value not in (None, "")
    )
    return EventRecord(
        grid=_size3(row, ("gridX", "gridY", "gridZ"), ("GrdX", "GrdY", "GrdZ")),
        block=_size3(row, ("blockX", "blockY", "blockZ"), ("BlkX", "BlkY", "BlkZ")),
        registers=_whole(row, "registersPerThread", "Reg/Trd"),
        static_shared_bytes=static,
        dynamic_shared_bytes=dynamic,
        shared_bytes=None if static is None or dynamic is None else static + dynamic,
        further=tuple(further),
    )


def _whole(row: Mapping[str, Any], *names: str) -> int | None:
    return next((v for name in names if type(v := row.get(name)) is int and v >= 0), None)


def _size3(row: Mapping[str, Any], *names: tuple[str, str, str]) -> Size3 | None:
    for three in names:
        x, y, z = (_whole(row, name) for name in three)
        if x is not None and y is not None and z is not None:
            return x, y, z
    return None
