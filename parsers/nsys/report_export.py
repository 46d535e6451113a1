"""Turn what is no SQLite export into one: reports of nsys, and exports in Parquet or Arrow.

Reports (``.nsys-rep``, ``.qdrep``) are exported with nsys, the only program that reads them.
Parquet and Arrow files, read with the optional pyarrow, have the same tables and columns as an
export to SQLite, so they are converted to a temporary one: only the tables that are read, and only
the texts that rows refer to.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final, Unpack

import numpy as np

from ccltui.parsers.columns import RankTrace
from ccltui.parsers.errors import TraceError, raise_if
from ccltui.parsers.format import ReadOptions
from ccltui.parsers.nsys.nsys_reader import Ranks, read_nsys
from ccltui.parsers.nsys.nvtx import SCHEMAS
from ccltui.parsers.nsys.sqlite import export_schema
from ccltui.parsers.safe_text import printable
from ccltui.parsers.scratch_folder import scratch_folder
from ccltui.parsers.store.store_entry import EXPORT_NAME, SCRATCH_PREFIX

EXECUTABLE_VARIABLE: Final = "CCLTUI_NSYS"
_POLL_S: Final = 0.1
_MAX_OUTPUT_CHARS: Final = 300
_MANUAL_EXPORT: Final = "`nsys export -t sqlite` where it is, and open the .sqlite file"

_ENDING_WITH_PARENT: Final = (
    'exec 3<&0; ( ( read line <&3; kill -9 0 ) >/dev/null 2>&1 & ); exec "$@" 3<&- </dev/null'
)
"""Shell script that becomes the command, and kills its group when standard input is closed.

That happens when this process ends, however it ends: an export may write gigabytes for minutes.
"""


def nsys_executable() -> str | None:
    """Return the path of nsys: that of CCLTUI_NSYS, else of PATH; None without either.

    Where CCLTUI_NSYS names no program, PATH is not searched.
    """
    stated = os.environ.get(EXECUTABLE_VARIABLE)
    return shutil.which(stated or "nsys", path=_absolute_path())


def _absolute_path() -> str | None:
    """Return PATH without relative entries, which could start a program beside the traces."""
    stated = os.environ.get("PATH")
    if stated is None:
        return None
    return os.pathsep.join(entry for entry in stated.split(os.pathsep) if Path(entry).is_absolute())


def read_report(path: Path, **options: Unpack[ReadOptions]) -> Sequence[RankTrace]:
    """Export a report with nsys and read its columns.

    The first half of the progress is the export, estimated from the size of its output.

    Raises:
        TraceError: nsys is absent or failed; the message has the output of nsys.
        CancelledError: It was asked for.
    """
    shown, progress = options.get("shown", str(path)), options.get("progress")
    try:
        status = path.stat()
    except OSError as error:
        raise TraceError(f"cannot be read ({error.strerror})", path=shown) from error
    half, size = status.st_size // 2, 0

    def exporting(written: int) -> None:
        if progress is not None:
            progress(min(written, half))

    def reading(done: int) -> None:
        if progress is not None:
            progress(half + (status.st_size - half) * done // max(size, 1))

    def export(target: Path) -> None:
        nonlocal size
        size = export_report(path, target, **first_half).stat().st_size

    first_half: ReadOptions = {**options, "progress": exporting}
    second_half: ReadOptions = {**options, "progress": reading}
    ranks = read_made_export(path, export, **second_half)
    if not ranks.num_events:
        raise TraceError(f"nsys exported no event of it; run {_MANUAL_EXPORT}", path=shown)
    return ranks


def export_report(path: Path, target: Path, **options: Unpack[ReadOptions]) -> Path:
    """Export the report ``path`` with nsys to the SQLite file ``target``; return ``target``.

    The progress is that of the bytes written so far.

    Raises:
        TraceError: nsys is absent or failed; the message has the output of nsys.
        CancelledError: It was asked for; nsys was stopped.
    """
    shown = options.get("shown", str(path))
    executable = nsys_executable()
    if executable is None:
        raise TraceError(_no_nsys_message(), path=shown)
    # Absolute paths, since nsys could parse a relative one as an option.
    command = [executable, "export", "-t", "sqlite", "-q", "true", "-f", "true"]
    command += ["-o", str(target.absolute()), str(path.resolve())]
    with tempfile.TemporaryFile() as output_file:
        try:
            process = subprocess.Popen(
                ["/bin/sh", "-c", _ENDING_WITH_PARENT, "sh", *command],
                stdin=subprocess.PIPE,
                stdout=output_file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            why = f"{executable} cannot be started ({error.strerror}); run {_MANUAL_EXPORT}"
            raise TraceError(why, path=shown) from error
        status = _wait_for_exit(process, target, {**options, "shown": shown})
        output_file.seek(0)
        output = " ".join(output_file.read(1 << 16).decode("utf-8", "replace").split())
    if status != 0 or not target.is_file():
        raise TraceError(_failure_message(status, output), path=shown)
    return target


def _wait_for_exit(process: subprocess.Popen[bytes], target: Path, options: ReadOptions) -> int:
    """Wait for nsys and return its exit status; kill it on cancellation and on any exception."""
    progress = options.get("progress")
    try:
        while (status := process.poll()) is None:
            raise_if(options.get("cancelled"), options.get("shown"))
            if progress is not None:
                with contextlib.suppress(OSError):
                    progress(target.stat().st_size)
            time.sleep(_POLL_S)
    finally:
        _end(process)
    return status


def _end(process: subprocess.Popen[bytes]) -> None:
    """End nsys and all that it started, also what still runs after it has ended itself."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if process.stdin is not None:
        process.stdin.close()  # ends the process that watches it


def _no_nsys_message() -> str:
    stated = os.environ.get(EXECUTABLE_VARIABLE)
    if stated:
        return (
            f"a report that only nsys reads, and {printable(stated)} is no program; "
            f"run {_MANUAL_EXPORT}"
        )
    return (
        f"a report that only nsys reads, and there is none on PATH: give one with --nsys, or run "
        f"{_MANUAL_EXPORT}"
    )


def _failure_message(status: int, output: str) -> str:
    shown_output = printable(output[:_MAX_OUTPUT_CHARS]) if output else "nothing"
    return (
        f"nsys could not export it (exit status {status}) with this output: {shown_output}; a "
        "report needs an nsys at least as new as the one that recorded it"
    )


def read_made_export(
    path: Path, make: Callable[[Path], object], **options: Unpack[ReadOptions]
) -> Ranks:
    """Read the export that ``make`` writes to the path that it is given, as the file ``path``.

    Errors are those of `read_nsys`; the export is removed once it is read.
    """
    with _scratch_directory(options.get("scratch", ())) as directory:
        export = directory / EXPORT_NAME
        make(export)
        options["scratch"] = (directory.parent,)
        return read_nsys(export, report=path, **options)


Table = tuple[Sequence[str], Sequence[tuple[int | None, ...]]]
"""Names of the columns, all of them integers, and rows."""


def write_export(
    target: Path,
    tables: Mapping[str, Table],
    strings: Mapping[str, int],
    devices: Mapping[int, str],
) -> None:
    """Write an export: tables with rows, texts by their ids, and names of devices by number."""
    named = {
        export_schema.STRINGS: ('"id" INTEGER, "value" TEXT', [(i, s) for s, i in strings.items()]),
        export_schema.GPUS: ('"id" INTEGER, "name" TEXT', list(devices.items())),
    }
    numbers = {
        name: (", ".join(f'"{column}" INTEGER' for column in columns), rows)
        for name, (columns, rows) in tables.items()
    }
    with closing(sqlite3.connect(target)) as connection, connection:
        for name, (declared, rows) in (named | numbers).items():
            connection.execute(f"CREATE TABLE {name} ({declared})")
            marks = ", ".join("?" * (declared.count(",") + 1))
            connection.executemany(f"INSERT INTO {name} VALUES ({marks})", rows)


@contextlib.contextmanager
def _scratch_directory(wanted: Sequence[Path]) -> Iterator[Path]:
    """Create a folder in the first writable one of the ``wanted`` directories, else in TMPDIR."""
    with contextlib.ExitStack() as stack:
        for directory in wanted:
            with contextlib.suppress(OSError):
                directory.mkdir(parents=True, exist_ok=True, mode=0o700)
                made = stack.enter_context(scratch_folder(SCRATCH_PREFIX, directory))
                break
        else:
            made = stack.enter_context(scratch_folder())
        yield made


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


def sqlite_of(path: Path, target: Path, **options: Unpack[ReadOptions]) -> Path:
    """Convert the export that ``path`` belongs to into the SQLite file ``target``; return it.

    Raises:
        TraceError: pyarrow is absent or cannot read the tables.
        CancelledError: It was asked for.
    """
    shown = options.get("shown", str(path))
    try:
        import pyarrow as pa  # noqa: PLC0415
    except ImportError:
        raise TraceError(_ABSENT, path=shown) from None
    try:
        with closing(sqlite3.connect(target)) as database, database:
            _Copy(database, options.get("cancelled")).all(path)
    except (pa.ArrowException, OSError, sqlite3.Error, ValueError, TypeError) as error:
        why = " ".join(str(error).split())[:200]
        raise TraceError(f"tables of an nsys export that cannot be read: {why}", path=shown) from (
            error
        )
    return target


def read_tables(path: Path, **options: Unpack[ReadOptions]) -> Ranks:
    """Read the columns of the export that ``path``, one of its files, belongs to.

    Raises:
        TraceError: pyarrow is absent or cannot read the tables.
        CancelledError: It was asked for.
    """
    return read_made_export(path, lambda target: sqlite_of(path, target, **options), **options)


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
            raise_if(self._cancelled)
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
