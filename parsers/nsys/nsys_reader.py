"""Read one nsys export into columns: one :class:`RankTrace` per process and device.

Tables are divided into ranks, with final ids of names and tracks. GPU metrics that nsys sampled at
a fixed rate go with them: active SMs, memory and link traffic. A capture has about sixty counters
per device at ten thousand samples per second; only those that match a pattern are read, under the
names that the chip gives them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Final, Unpack, overload

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ccltui.parsers.array_types import I32, I64
from ccltui.parsers.columns import (
    MISSING,
    Events,
    Group,
    Note,
    RankTrace,
    Samples,
    SourceFile,
    Strings,
    Track,
)
from ccltui.parsers.errors import TraceError
from ccltui.parsers.format import ReadOptions
from ccltui.parsers.machine_limits import allowed_cpus
from ccltui.parsers.nsys.capture_session import (
    Communicators,
    Identity,
    Part,
    RankArgs,
    RankTables,
    Session,
    devices_of,
    environment_of,
    gpu_of,
    identities,
    mpi_ranks,
    part_names,
    session_of,
)
from ccltui.parsers.nsys.nvtx import FileNames, Ranges, read_ranges
from ccltui.parsers.nsys.spilled_events import Segment, SpilledEvents
from ccltui.parsers.nsys.sqlite import export_schema
from ccltui.parsers.nsys.sqlite.database import Database, damage_of
from ccltui.parsers.nsys.sqlite.export_schema import GPU_COUNTERS, GPU_METRICS
from ccltui.parsers.nsys.sqlite.table_rows import (
    MAX_TIME_NS,
    Owner,
    Pairs,
    Scratch,
    Spill,
    TableRows,
    TrackKey,
    read_table,
)
from ccltui.parsers.nsys.sqlite.table_scans import new_numbers

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


def read_nsys(path: Path, *, report: Path | None = None, **options: Unpack[ReadOptions]) -> Ranks:
    """Read the ``.sqlite`` export in ``path``: one trace per process and device.

    A file without device work is one trace. Times are UTC where the file states its start.

    Args:
        path: The export.
        report: The report that ``path`` was exported from; it becomes the source of the traces.
        options: Of every reader. Bytes read are estimated from rows. The first directory that can
            be written has the unnamed files that hold columns until they are accessed.

    Raises:
        TraceError: The file is not an nsys export or cannot be read.
        CancelledError: It was asked for.
    """
    scratch, cancelled = options.get("scratch", ()), options.get("cancelled")
    directory = next((one for one in scratch if os.access(one, os.W_OK)), None)
    try:
        size = path.stat().st_size
        source = _source_of(report or path, options.get("shown"), size)
    except OSError as error:
        shown = options.get("shown", path)
        raise TraceError(f"cannot be read ({error.strerror})", path=shown) from error
    with closing(Database(path, source.path, cancelled)) as database:
        _require_export(database, source.path)
        total = sum(database.last_row(table) for table in _EVENTS)
        try:
            with database.guarded():
                meter = _Meter(total, size, options.get("progress"))
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


_CATEGORIES = (
    *("kernel", "gpu_memcpy", "gpu_memset", "cuda_sync", "cuda_runtime", "cuda_driver"),
    *("cuda_graph", "nvtx", "osrt"),
)


class Tables(Struct):
    """All tables of a file, before they are divided into ranks."""

    kernels: TableRows
    copies: TableRows
    fills: TableRows
    waits: TableRows
    graphs: TableRows
    calls: TableRows
    ranges: Ranges
    os_calls: TableRows
    counters: CounterRows
    session: Session
    environment: Mapping[str, int]
    mpi: Mapping[int, int]
    notes: list[Note]

    def all(self) -> list[TableRows]:
        """Return every table of events."""
        streams = [self.kernels, self.copies, self.fills, self.waits, self.graphs]
        return [*streams, self.calls, self.ranges.rows, self.os_calls]


class Ranks(Sequence[RankTrace]):
    """Ranks of a file in order of (process, device); each is built on access.

    Columns are on disk and are read on each access.
    """

    def __init__(self, database: Database, tables: Tables, source: SourceFile) -> None:
        self._tables = tables
        self._source = source
        every = tables.all()
        named = [table for table in every if table is not tables.ranges.rows]
        self._names = FileNames.of(database, named, tables.ranges)
        self._parts, self._part_of_owner = _parts(tables)
        self._communicators = Communicators.of(tables.ranges, self._names, self._parts)
        members = self._communicators.members
        self._known = identities(self._parts, members, tables.environment, tables.mpi)
        self._devices = [devices_of(database, part) for part in self._parts]
        self._gpus = [gpu_of(database, part) for part in self._parts]
        further = (*_CATEGORIES, *self._communicators.texts(), *tables.counters.names)
        self._strings: Strings = self._names.finish(every, further)

    def __len__(self) -> int:
        return len(self._parts)

    @overload
    def __getitem__(self, index: int) -> RankTrace: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[RankTrace]: ...
    def __getitem__(self, index: int | slice) -> RankTrace | Sequence[RankTrace]:
        """Build one rank. Raises OSError where its columns cannot be read back."""
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        return self._rank(range(len(self))[index])

    @property
    def num_events(self) -> int:
        """Number of events of the file, including those of no rank."""
        return sum(sum(table.spill.owners().values()) for table in self._tables.all())

    def _rank(self, index: int) -> RankTrace:
        part, parts = self._parts[index], len(self._parts)
        identity = self._known[part]
        streams = self._streams_of(index)
        threads = _threads_of(part)
        tables = self._tables
        args = RankArgs.of(
            self._communicators,
            RankTables(tables.ranges.rows, tables.calls, tables.kernels, threads, streams),
        )
        devices = self._devices[index]
        sms = devices[0].num_sms if devices else MISSING
        tracks, events = self._events(streams, threads, args, sms)
        name = part_names(self._parts)[index] if parts > 1 else ""
        return RankTrace(
            source=msgspec.structs.replace(self._source, part=index, parts=parts, part_name=name),
            rank=identity.rank,
            rank_source=identity.source,
            strings=self._strings,
            events=events,
            collective_args=self._communicators.finish(args.table, self._known),
            tracks=tuple(_track(key) for key in tracks),
            process_groups=self._communicators.groups(self._known),
            devices=devices,
            world_size=identity.world_size,
            backend="nccl" if self._communicators.members or args.table else "",
            host=tables.session.host,
            base_ns=tables.session.start_ns or 0,
            counts={group: len(rows) for group, rows in events.items()},
            notes=_notes_of(tables, identity, parts),
            truncated=any(note.code == "damaged_database" for note in tables.notes),
            samples=self._samples(self._gpus[index]),
        )

    def _samples(self, gpu: int) -> Samples:
        counters = self._tables.counters
        ids = np.array([self._names.ids[name] for name in counters.names], np.int32)
        return counters.of_gpu(gpu, ids, self._tables.session.start_ns or 0)

    def _streams_of(self, index: int) -> set[Owner] | None:
        """Return the owners of a rank's streams; None (all) where nothing ran on a device."""
        if self._parts[index].device == MISSING:
            return None
        return {owner for owner, home in self._part_of_owner.items() if home == index}

    def _events(
        self, streams: set[Owner] | None, threads: set[Owner] | None, args: RankArgs, sms: int
    ) -> tuple[list[TrackKey], dict[Group, Events]]:
        """Return the tracks of a rank and its events by group."""
        tables, base_ns = self._tables, self._tables.session.start_ns or 0
        tracks: dict[TrackKey, int] = {}
        operators = self._names.is_operator()
        chosen = operators[tables.ranges.rows.column("name", threads)]

        def segment(
            table: TableRows,
            owners: set[Owner] | None,
            *categories: str,
            rows: npt.NDArray[np.bool_] | None = None,
            args: I32 | None = None,
        ) -> Segment:
            numbers = _numbers(table, owners, tracks)
            ids = [self._names.ids[category] for category in categories]
            return Segment(table, owners, numbers, (ids[0], ids[-1]), rows, args)

        ranges = tables.ranges.rows
        groups: dict[Group, list[Segment]] = {
            "gpu": [
                segment(tables.kernels, streams, "kernel", args=args.kernels),
                segment(tables.copies, streams, "gpu_memcpy"),
                segment(tables.fills, streams, "gpu_memset"),
                segment(tables.graphs, streams, "cuda_graph"),  # recorded as wholes
            ],
            "gpu_sync": [segment(tables.waits, streams, "cuda_sync")],
            "runtime": [segment(tables.calls, threads, "cuda_runtime", "cuda_driver")],
            "annotations": [segment(ranges, threads, "nvtx", rows=~chosen, args=args.ranges)],
            "cpu_ops": [segment(ranges, threads, "nvtx", rows=chosen, args=args.ranges)],
            "other": [segment(tables.os_calls, threads, "osrt")],
        }
        events: dict[Group, Events] = {
            group: SpilledEvents(segments, base_ns, sms)
            for group, segments in groups.items()
            if any(one.count for one in segments)
        }
        return list(tracks), events


def _numbers(table: TableRows, owners: set[Owner] | None, tracks: dict[TrackKey, int]) -> I32:
    """Add tracks of ``owners`` to ``tracks``; return the new number of each table track, or -1."""
    own = [
        tracks.setdefault(key, len(tracks)) if owners is None or _owner(key) in owners else MISSING
        for key in table.tracks
    ]
    return np.array(own, np.int32)


def _owner(key: TrackKey) -> Owner:
    kind, process, device, _ = key
    return (process, device if kind == "stream" else MISSING)


def _notes_of(tables: Tables, identity: Identity, num_parts: int) -> tuple[Note, ...]:
    notes = list(tables.notes)
    if tables.session.start_ns is None:
        message = "the file does not state when it began: its times count from its own zero"
        notes.append(Note("no_session_start", message))
    if identity.source == "environment" and num_parts > 1:
        message = "the rank is a guess: the node's number and the order of its devices"
        notes.append(Note("rank_guessed", message))
    return tuple(notes)


def _parts(tables: Tables) -> tuple[list[Part], dict[Owner, int]]:
    """Return the parts of a file, and the index of the part of each owner of streams.

    A process has one part per device on which it runs kernels. Devices that it only copies to
    belong to its first part: contexts record such work on devices of other processes.
    """
    copied = tables.copies.owned().keys() | tables.fills.owned().keys()
    copied |= tables.graphs.owned().keys()
    found = set(tables.kernels.owned())
    for process in {process for process, _ in copied} - {process for process, _ in found}:
        if process != MISSING or not found:
            found.add(min(key for key in copied if key[0] == process))
    parts = [Part(*key) for key in sorted(found)] or [Part(MISSING, MISSING)]
    index_of = {(part.process, part.device): index for index, part in enumerate(parts)}
    first: dict[int, int] = {}
    for index, part in enumerate(parts):
        first.setdefault(part.process, index)
    owners = {*found, *copied, *tables.waits.owned()}
    home = {key: index_of.get(key, first.get(key[0], MISSING)) for key in owners}
    return parts, home


def _threads_of(part: Part) -> set[Owner] | None:
    """Return the owners of a rank's threads; None (all) where the file names no processes."""
    if MISSING in (part.device, part.process):
        return None
    return {
        (part.process, MISSING),
        (MISSING, MISSING),
    }  # rows without a process belong to the only one


def _track(key: TrackKey) -> Track:
    kind, process, device, stream = key
    if kind == "stream":
        return Track("stream", str(device), str(stream), device, stream)
    return Track("thread", str(process), str(device))


_SELECTED_COUNTERS: Final = re.compile(
    r"SMs? (?:Active|Issue)\b|Tensor Active\b|(?:GR|GPU) Active\b"
    r"|DRAM (?:Read|Write)\b|PCIe [RT]X\b|NVLink\b"
)
_GPU: Final = 0xFF  # mask of ``typeId``: the machine's number of the device


class CounterRows(Struct):
    """Samples of a file: ``gpus`` and ``names`` by number; ``num_left_out`` samples are skipped."""

    spill: Spill
    gpus: list[int]
    names: list[str]
    num_left_out: int = 0

    def of_gpu(self, gpu: int, ids: I32, base_ns: int) -> Samples:
        """Return the samples of one device by time; ``ids``: string ids of ``names``."""
        owners = [number for number, known in enumerate(self.gpus) if known == gpu]
        time = self.spill.column("time", owners)
        order = np.argsort(time, kind="stable")
        value = self.spill.column("value", owners)[order]
        name = ids[self.spill.column("name", owners)[order]]
        return Samples(time[order] + base_ns, name, _unsigned(value))


def read_counters(database: Database, scratch: Scratch) -> CounterRows:
    """Read all samples of the selected counters."""
    known = {
        (kind, metric): " ".join(name.split())
        for kind, metric, name in database.rows(GPU_COUNTERS, ("typeId", "metricId", "metricName"))
        if isinstance(kind, int) and isinstance(metric, int) and isinstance(name, str)
    }
    names = sorted({name for name in known.values() if _SELECTED_COUNTERS.match(name)})
    spill = Spill(scratch, {"time": np.int64, "name": np.int32, "value": np.int64})
    wanted = tuple(sorted({key[1] for key, name in known.items() if name in names}))
    found = CounterRows(spill, [], names, database.last_row(GPU_METRICS))
    if not wanted:
        return found
    gpus, kinds, metrics, pairs = new_numbers(), new_numbers(), new_numbers(), Pairs()
    columns = ("timestamp", "typeId", "metricId", "value")
    for time, kind, metric, value in database.numbers(
        GPU_METRICS, columns, only=("metricId", wanted)
    ):
        counter = pairs.of(kinds.of(kind), metrics.of(metric))
        of_pair = [
            known.get((kinds.values().tolist()[a], metrics.values().tolist()[b]), "")
            for a, b in pairs.values()
        ]
        place = np.array([names.index(n) if n in names else -1 for n in of_pair], np.int32)[counter]
        rows = (place >= 0) & (np.abs(time) < MAX_TIME_NS)
        owner = gpus.of(kind & _GPU)
        spill.append(owner[rows], {"time": time[rows], "name": place[rows], "value": value[rows]})
        found.num_left_out -= int(rows.sum())
    found.gpus = gpus.values().tolist()
    return found


def _unsigned(values: I64) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Convert samples, unsigned 32-bit numbers that some releases of nsys write as signed."""
    return np.where(values < 0, values + (1 << 32), values).astype(np.float64)
