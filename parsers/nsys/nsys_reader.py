"""Read one nsys export into columns: one :class:`RankTrace` per process and device."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from ccltui.parsers.columns import Note, SourceFile
from ccltui.parsers.errors import TraceError
from ccltui.parsers.nsys.assemble_ranks import CounterRows, Ranks, Tables, read_counters
from ccltui.parsers.nsys.capture_session import environment_of, mpi_ranks, session_of
from ccltui.parsers.nsys.nvtx import Ranges, read_ranges
from ccltui.parsers.nsys.sqlite import export_schema
from ccltui.parsers.nsys.sqlite.database import Database, damage_of
from ccltui.parsers.nsys.sqlite.table_rows import Scratch, TableRows, read_table
from ccltui.parsers.system.machine_limits import allowed_cpus

_MOST_THREADS = 4  # three or four tables of a file are large
_EVENTS = (
    export_schema.KERNELS,
    export_schema.COPIES,
    export_schema.FILLS,
    export_schema.SYNCHRONISATIONS,
    export_schema.GRAPHS,
    export_schema.API_CALLS,
    export_schema.NVTX,
    export_schema.OS_CALLS,
)


class _Meter(Struct):
    """Progress: rows read so far, reported as bytes of the file."""

    total_rows: int
    size_bytes: int
    report_progress: Callable[[int], None] | None
    done_rows: int = 0

    def add(self, count: int) -> None:
        self.done_rows += count
        if self.report_progress is not None:
            share = min(self.done_rows / max(self.total_rows, 1), 1.0)
            self.report_progress(int(share * self.size_bytes))


def read_nsys(
    path: Path,
    *,
    shown: str | None = None,
    progress: Callable[[int], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
    scratch: Sequence[Path] = (),
    report: Path | None = None,
) -> Ranks:
    """Read the ``.sqlite`` export in ``path``: one trace per process and device.

    A file without device work is one trace. Times are UTC where the file states its start.

    Args:
        path: The export.
        shown: The path to use in messages; ``path`` if None.
        progress: Called with the bytes read so far, estimated from rows.
        cancelled: Polled; reading stops when it returns True.
        scratch: Directories for the unnamed files that hold columns until they are accessed: the
            first that can be written, else the temporary directory.
        report: The report that ``path`` was exported from; it becomes the source of the traces.

    Raises:
        TraceError: The file is not an nsys export or cannot be read.
        CancelledError: ``cancelled`` returned True.
    """
    directory = next((one for one in scratch if os.access(one, os.W_OK)), None)
    try:
        size = path.stat().st_size
        source = _source_of(report or path, shown, size)
    except OSError as error:
        raise TraceError(f"cannot be read ({error.strerror})", path=shown or path) from error
    with _opened(path, source.path, cancelled) as database:
        _require_export(database, source.path)
        total = sum(database.last_row(table) for table in _EVENTS)
        try:
            with database.guarded():
                meter = _Meter(total, size, progress)
                check = _DamageCheck(path, cancelled)
                return Ranks(database, _read(database, meter, Scratch(directory), check), source)
        except OSError as error:
            why = f"no room for its columns in {directory or 'the temporary directory'}"
            raise TraceError(f"{why} ({error.strerror})", path=source.path) from error


def _source_of(path: Path, shown: str | None, text_bytes: int) -> SourceFile:
    status = path.stat()
    return SourceFile(
        path=shown or str(path),
        real_path=str(path.resolve()),
        size_bytes=status.st_size,
        mtime_ns=status.st_mtime_ns,
        text_bytes=text_bytes,
        format="nsys",
    )


@contextmanager
def _opened(path: Path, shown: str, cancelled: Callable[[], bool] | None) -> Iterator[Database]:
    database = Database(path, shown, cancelled)
    try:
        yield database
    finally:
        database.close()


def _require_export(database: Database, shown: str) -> None:
    known = {*_EVENTS, *export_schema.EXPORT, "ANALYSIS_DETAILS"}
    if export_schema.STRINGS not in database.tables or not known & database.tables.keys():
        raise TraceError("an SQLite file without the tables of an nsys export", path=shown)


class _DamageCheck(Struct, frozen=True):
    """The check of the pages of a file; it runs beside the threads that read the tables."""

    path: Path
    cancelled: Callable[[], bool] | None

    def notes(self) -> list[Note]:
        found = damage_of(self.path, self.cancelled)
        if found is None:
            return []
        message = f"pages of the database are damaged, rows may be missing or wrong: {found}"
        return [Note("damaged_database", message)]


def _read(database: Database, meter: _Meter, scratch: Scratch, check: _DamageCheck) -> Tables:
    """Read all tables, several at a time: pages are read without Python's lock."""
    sources = (
        *(export_schema.API_ROWS, export_schema.KERNEL_ROWS, export_schema.OS_ROWS),
        *(
            export_schema.COPY_ROWS,
            export_schema.FILL_ROWS,
            export_schema.SYNC_ROWS,
            export_schema.GRAPH_ROWS,
        ),
    )
    with ThreadPoolExecutor(max(2, min(allowed_cpus(), _MOST_THREADS))) as threads:
        damage = threads.submit(check.notes)
        of_ranges = threads.submit(read_ranges, database, scratch, meter.add)
        others = [threads.submit(read_table, database, s, scratch, meter.add) for s in sources]
        ranges = of_ranges.result()
        calls, kernels, os_calls, copies, fills, waits, graphs = (one.result() for one in others)
        counters = read_counters(database, scratch)
        damaged = damage.result()
    return Tables(
        kernels=kernels,
        copies=copies,
        fills=fills,
        waits=waits,
        graphs=graphs,
        counters=counters,
        calls=calls,
        ranges=ranges,
        os_calls=os_calls,
        session=session_of(database),
        environment=environment_of(database),
        mpi=mpi_ranks(database),
        notes=[*damaged, *_notes(database, [kernels, copies, fills], ranges, counters)],
    )


def _notes(
    database: Database, device_work: Sequence[TableRows], ranges: Ranges, counters: CounterRows
) -> list[Note]:
    notes = []
    for table, count in database.rows_missing().items():
        message = f"rows of {table} are missing: they were deleted, or the file is damaged"
        notes.append(Note("missing_rows", message, count=count))
    graphs = database.last_row(export_schema.GRAPHS)
    if graphs:
        message = (
            "CUDA graphs were recorded as wholes: each counts as one piece of computation, whatever"
            " kernels are in it; record with --cuda-graph-trace=node"
        )
        notes.append(Note("cuda_graphs", message, count=graphs))
    if counters.num_left_out:
        message = "readings of GPU metrics that nothing here uses are left out"
        notes.append(Note("gpu_metrics", message, count=counters.num_left_out))
    generic = (
        0
        if export_schema.GPU_METRICS in database.tables
        else database.last_row(export_schema.GENERIC)
    )
    if generic:
        message = (
            "generic events, among which nsys of 2021 and 2022 keeps GPU metrics, are not read: "
            "a newer nsys exports them to GPU_METRICS"
        )
        notes.append(Note("generic_events", message, count=generic))
    if ranges.rows.num_open:
        message = "ranges that never ended are dropped"
        notes.append(Note("open_ranges", message, count=ranges.rows.num_open))
    num_negative = sum(table.num_negative for table in device_work)
    if num_negative:
        message = "events that end before they begin are dropped"
        notes.append(Note("negative_duration", message, count=num_negative))
    for (text,) in database.rows(
        export_schema.DIAGNOSTICS, ("text",), "text LIKE 'Not all % collected.'"
    ):
        notes.append(Note("nsys_diagnostic", " ".join(str(text).split())[:200]))
    return list({note.message: note for note in notes}.values())
