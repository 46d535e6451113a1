"""Read one nsys export into columns: one :class:`RankTrace` a process and device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from parsers.columns import MISSING, Note, RankTrace, SourceFile
from parsers.errors import TraceError
from parsers.nsys import schema
from parsers.nsys.assemble import Tables, assemble
from parsers.nsys.database import Database
from parsers.nsys.identity import environment_of, mpi_ranks, session_of
from parsers.nsys.nvtx import Ranges, read_ranges
from parsers.nsys.rows import GroupRows, Shared, named_by, read_source

NSYS_VERSION = 1
"""Raised whenever the same bytes would give other columns: stored columns become invalid."""

_EVENTS = (
    schema.KERNELS,
    schema.COPIES,
    schema.FILLS,
    schema.SYNCHRONISATIONS,
    schema.API_CALLS,
    schema.NVTX,
    schema.OS_CALLS,
)


@dataclass(slots=True)
class _Meter:
    """Rows read so far, told as bytes of the file."""

    total_rows: int
    size_bytes: int
    tell: Callable[[int], None] | None
    done_rows: int = 0

    def add(self, count: int) -> None:
        self.done_rows += count
        if self.tell is not None:
            share = min(self.done_rows / max(self.total_rows, 1), 1.0)
            self.tell(int(share * self.size_bytes))


def read_nsys(
    path: Path,
    *,
    shown: str | None = None,
    progress: Callable[[int], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> tuple[RankTrace, ...]:
    """Columns of the ``.sqlite`` export in ``path``, one trace a process and device.

    A file without device work is one trace. Times are UTC where the file states when it began.
    ``progress`` gets the bytes read so far, told from rows. Raises :class:`TraceError` where the
    file is no export of nsys or cannot be read, and :class:`CancelledError`.
    """
    try:
        status = path.stat()
    except OSError as error:
        raise TraceError(f"cannot be read ({error.strerror})", path=shown or path) from error
    source = SourceFile(
        path=shown or str(path),
        real_path=str(path.resolve()),
        size_bytes=status.st_size,
        mtime_ns=status.st_mtime_ns,
        text_bytes=status.st_size,
        format="nsys",
    )
    with _opened(path, source.path, cancelled) as database:
        _require_export(database, source.path)
        total = sum(database.last_row(table) for table in _EVENTS)
        with database.guarded():
            tables = _read(database, _Meter(total, status.st_size, progress))
            return assemble(database, tables, source)


@contextmanager
def _opened(path: Path, shown: str, cancelled: Callable[[], bool] | None) -> Iterator[Database]:
    database = Database(path, shown, cancelled)
    try:
        yield database
    finally:
        database.close()


def _require_export(database: Database, shown: str) -> None:
    known = {*_EVENTS, *schema.EXPORT, "ANALYSIS_DETAILS"}
    if schema.STRINGS not in database.tables or not known & database.tables.keys():
        raise TraceError("an SQLite file without the tables of an nsys export", path=shown)


def _read(database: Database, meter: _Meter) -> Tables:
    shared = Shared()
    device_work = _device_work(database, shared, meter)
    waits = GroupRows("correlation")
    for block in read_source(database, schema.SYNC_ROWS, shared):
        name = named_by(block.kind, shared, schema.sync_name)
        waits.append(
            block.start, block.end, name=name, track=block.track, correlation=block.correlation
        )
        meter.add(len(block.start))
    calls = GroupRows("correlation", "category")
    for block in read_source(database, schema.API_ROWS, shared):
        calls.append(
            block.start,
            block.end,
            name=block.name,
            track=block.track,
            correlation=block.correlation,
            category=named_by(block.kind, shared, schema.api_category),
        )
        meter.add(len(block.start))
    ranges = read_ranges(database, shared, meter.add)
    os_calls = GroupRows()
    for block in read_source(database, schema.OS_ROWS, shared):
        os_calls.append(block.start, block.end, name=block.name, track=block.track)
        meter.add(len(block.start))
    return Tables(
        shared=shared,
        device_work=device_work,
        waits=waits,
        calls=calls,
        ranges=ranges,
        os_calls=os_calls,
        session=session_of(database),
        environment=environment_of(database),
        mpi=mpi_ranks(database),
        notes=_notes(database, device_work, ranges),
    )


def _device_work(database: Database, shared: Shared, meter: _Meter) -> GroupRows:
    rows = GroupRows("correlation", "category", "bytes")
    for source, category in (
        (schema.KERNEL_ROWS, "kernel"),
        (schema.COPY_ROWS, "gpu_memcpy"),
        (schema.FILL_ROWS, "gpu_memset"),
    ):
        category_id = shared.names.of(("text", category))
        for block in read_source(database, source, shared):
            count = len(block.start)
            if source is schema.KERNEL_ROWS:
                name = block.name
            elif source is schema.COPY_ROWS:
                name = named_by(block.kind, shared, schema.copy_name)
            else:
                name = np.full(count, shared.names.of(("text", schema.FILL_NAME)), np.int32)
            rows.append(
                block.start,
                block.end,
                name=name,
                track=block.track,
                correlation=block.correlation,
                category=np.full(count, category_id, np.int32),
                bytes=block.bytes if source.bytes else np.full(count, MISSING, np.int64),
            )
            meter.add(count)
    return rows


def _notes(database: Database, device_work: GroupRows, ranges: Ranges) -> list[Note]:
    notes = []
    graphs = database.last_row(schema.GRAPHS)
    if graphs:
        message = (
            "CUDA graphs were recorded as wholes, the kernels in them are not in the file; "
            "record with --cuda-graph-trace=node"
        )
        notes.append(Note("cuda_graphs", message, count=graphs))
    samples = database.last_row(schema.GPU_METRICS)
    if samples:
        message = "samples of GPU metrics are in the file and are not read"
        notes.append(Note("gpu_metrics", message, count=samples))
    if ranges.rows.num_open:
        message = "ranges that never ended are dropped"
        notes.append(Note("open_ranges", message, count=ranges.rows.num_open))
    if device_work.num_negative:
        message = "events that end before they begin are dropped"
        notes.append(Note("negative_duration", message, count=device_work.num_negative))
    for (text,) in database.rows(schema.DIAGNOSTICS, ("text",), "text LIKE 'Not all % collected.'"):
        notes.append(Note("nsys_diagnostic", " ".join(str(text).split())[:200]))
    return list({note.message: note for note in notes}.values())
