"""Read nsys exports in Parquet or Arrow files with the optional pyarrow.

They have the same tables and columns as an export to SQLite, so they are converted to a temporary
one: only the tables that are read, and only the texts that rows refer to.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import numpy as np

from ccltui.parsers.errors import CancelledError, TraceError
from ccltui.parsers.nsys.annotations.nvtx_payloads import SCHEMAS
from ccltui.parsers.nsys.assemble_ranks import Ranks
from ccltui.parsers.nsys.nsys_reader import read_nsys
from ccltui.parsers.nsys.report_export import scratch_directory
from ccltui.parsers.nsys.sqlite import export_schema
from ccltui.parsers.store.store_entry import EXPORT_NAME

_TABLES: Final = (
    *(
        export_schema.KERNELS,
        export_schema.COPIES,
        export_schema.FILLS,
        export_schema.SYNCHRONISATIONS,
        export_schema.API_CALLS,
    ),
    *(
        export_schema.GRAPHS,
        export_schema.NVTX,
        export_schema.OS_CALLS,
        export_schema.GPU_METRICS,
        export_schema.GPU_COUNTERS,
    ),
    *(
        export_schema.SESSION,
        export_schema.SYSTEM,
        export_schema.GPUS,
        export_schema.CUDA_DEVICES,
        export_schema.DIAGNOSTICS,
    ),
    *(SCHEMAS, export_schema.CAPTURE, *export_schema.EXPORT),
)
_STRING_COLUMNS: Final = frozenset(
    {"nameId", "demangledName", "shortName", "mangledName", "textId", "jsonTextId"}
)
_ABSENT: Final = (
    "tables of an nsys export that need pyarrow: install ccltui[arrow], or run "
    "`nsys export -t sqlite` on the report"
)


def sqlite_of(
    path: Path, target: Path, *, shown: str, cancelled: Callable[[], bool] | None = None
) -> Path:
    """Convert the export that ``path`` belongs to into the SQLite file ``target``; return it.

    Raises:
        TraceError: pyarrow is absent or cannot read the tables.
        CancelledError: ``cancelled`` returned True.
    """
    try:
        import pyarrow as pa  # noqa: PLC0415
    except ImportError:
        raise TraceError(_ABSENT, path=shown) from None
    try:
        with closing(sqlite3.connect(target)) as database, database:
            _Copy(database, cancelled).all(path)
    except (pa.ArrowException, OSError, sqlite3.Error, ValueError, TypeError) as error:
        why = " ".join(str(error).split())[:200]
        raise TraceError(f"tables of an nsys export that cannot be read: {why}", path=shown) from (
            error
        )
    return target


def read_tables(
    path: Path,
    *,
    shown: str,
    scratch: Sequence[Path] = (),
    progress: Callable[[int], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Ranks:
    """Read the columns of the export that ``path`` belongs to.

    Args:
        path: A file of the export: an ``.arrows`` file, or one table of a folder of tables.
        shown: Its path in messages.
        scratch: Directories for the converted file; the first usable one is taken.
        progress: Called with the bytes read so far.
        cancelled: Polled; reading stops when it returns True.

    Raises:
        TraceError: pyarrow is absent or cannot read the tables.
        CancelledError: ``cancelled`` returned True.
    """
    with scratch_directory(scratch) as directory:
        made = sqlite_of(path, directory / EXPORT_NAME, shown=shown, cancelled=cancelled)
        return read_nsys(
            made,
            shown=shown,
            progress=progress,
            cancelled=cancelled,
            scratch=directory.parent,
            report=path,
        )


class _Copy:
    """Copy of tables to SQLite; strings are copied last, only those whose ids occurred."""

    def __init__(self, database: sqlite3.Connection, cancelled: Callable[[], bool] | None) -> None:
        self._database = database
        self._cancelled = cancelled
        self._strings: set[int] = set()

    def all(self, path: Path) -> None:
        """Copy every table that is read."""
        for name, batches in _tables(path, set(_TABLES)):
            self._table(name, batches)
        for _, batches in _tables(path, {export_schema.STRINGS}):
            self._table(export_schema.STRINGS, batches)

    def _table(self, name: str, batches: Iterator[Any]) -> None:
        made = False
        for batch in batches:
            if self._cancelled is not None and self._cancelled():
                raise CancelledError("reading was stopped")
            names = batch.schema.names
            columns = [_values(column) for column in batch.columns]
            if not made:
                listed = ", ".join('"' + one.replace('"', '""') + '"' for one in names)
                self._database.execute(f'CREATE TABLE IF NOT EXISTS "{name}" ({listed})')
                made = True
            for one, values in zip(names, columns, strict=True):
                if one in _STRING_COLUMNS:
                    self._strings.update(value for value in values if value is not None)
            marks = ", ".join("?" * len(names))
            rows = self._chosen(name, dict(zip(names, columns, strict=True)))
            self._database.executemany(f'INSERT INTO "{name}" VALUES ({marks})', rows)

    def _chosen(self, name: str, columns: dict[str, list[Any]]) -> Iterator[tuple[Any, ...]]:
        """Return the rows of a table; of strings and environment only those that are read."""
        rows = zip(*columns.values(), strict=True)
        if name == export_schema.STRINGS:
            ids = columns["id"]
            return (row for row, one in zip(rows, ids, strict=True) if one in self._strings)
        if name == export_schema.SYSTEM:
            names = columns.get("name", [])
            return (row for row, one in zip(rows, names, strict=True) if one == "Hostname")
        if name == export_schema.CAPTURE:
            prefixes = tuple(f"{key}=" for key in export_schema.ENVIRONMENT_KEYS)
            values = columns.get("value", [])
            return (r for r, v in zip(rows, values, strict=True) if str(v).startswith(prefixes))
        return iter(rows)


def _values(column: Any) -> list[Any]:
    """Return Python values; ids are unsigned in Arrow and signed in SQLite."""
    import pyarrow as pa  # noqa: PLC0415

    if pa.types.is_uint64(column.type) and not column.null_count:
        found: list[Any] = column.to_numpy(zero_copy_only=False).view(np.int64).tolist()
        return found
    values: list[Any] = column.to_pylist()
    if pa.types.is_uint64(column.type):
        return [v if v is None or v < 1 << 63 else v - (1 << 64) for v in values]
    return values


def _tables(path: Path, wanted: set[str]) -> Iterator[tuple[str, Iterator[Any]]]:
    """Yield the tables of an export: name and record batches."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    if path.name.endswith(".arrows"):
        yield from _of_one_file(path, wanted)
        return
    for name in sorted(wanted):
        file = path.with_name(name + path.suffix)
        if not file.is_file():
            continue
        if path.suffix == ".parquet":
            with pq.ParquetFile(file) as parquet:
                yield name, parquet.iter_batches(1 << 16)
        else:
            with pa.OSFile(str(file)) as source:
                yield name, iter(_reader(source, file))


def _reader(source: Any, file: Path) -> Any:
    import pyarrow as pa  # noqa: PLC0415

    with file.open("rb") as head:
        is_file = head.read(6) == b"ARROW1"
    if not is_file:
        return pa.ipc.open_stream(source)
    reader = pa.ipc.open_file(source)
    return (reader.get_batch(index) for index in range(reader.num_record_batches))


def _of_one_file(path: Path, wanted: set[str]) -> Iterator[tuple[str, Iterator[Any]]]:
    """Yield the tables of a file of concatenated streams; metadata name the table of each."""
    import pyarrow as pa  # noqa: PLC0415

    with pa.OSFile(str(path)) as source:
        while source.tell() < source.size():
            reader = pa.ipc.open_stream(source)
            name = (reader.schema.metadata or {}).get(b"table_name", b"").decode()
            if name in wanted:
                yield name, iter(reader)
            for _ in reader:
                pass
