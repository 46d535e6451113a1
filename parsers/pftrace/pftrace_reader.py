"""Read one Perfetto trace into the columns of its ranks, with bounded memory.

PyTorch writes one rank into a file, `ccltui export` all ranks of a job with their columns
(`rank_columns`). Damage becomes notes, not exceptions.

PyTorch writes groups of slices: the begins of a group, then their ends in the same order. The
k-th end of a file is that of its k-th begin, and slices of one track may overlap, which a stack
would pair wrongly. Programs that use Perfetto's own library write in order of time, and an end is
that of the last open begin of its track.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Unpack

import numpy as np
import numpy.typing as npt
from msgspec import structs

from ccltui.parsers.array_types import I64, Bool
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
from ccltui.parsers.errors import TraceError, raise_if
from ccltui.parsers.format import ReadOptions
from ccltui.parsers.kineto.collective_rows import describes_collective, join_kernels
from ccltui.parsers.kineto.event_list import NoteLog
from ccltui.parsers.kineto.event_rows import STREAM_GROUPS, Part
from ccltui.parsers.kineto.kineto_reader import CUTS, SEVERAL_DEVICES, several_devices
from ccltui.parsers.kineto.kineto_reader import with_devices_joined as one_track_a_stream
from ccltui.parsers.kineto.rank_builder import Builder, group_of
from ccltui.parsers.kineto.ranks_in_file import has_several_devices
from ccltui.parsers.kineto.scanner.typed_event import DECODE_ERRORS, event_decoder
from ccltui.parsers.pftrace.packet_scan import MAX_TIME, Table, new_scan
from ccltui.parsers.pftrace.rank_columns import unpacked_ranks
from ccltui.parsers.pftrace.trace_state import MARKS, Detail, Queue, Thread, TraceState, members_of
from ccltui.parsers.text.compression import TextChunks

_UNMATCHED_END = ("unmatched_end", "end events without their begin are dropped")
_UNMATCHED_BEGIN = ("unmatched_begin", "begin events without an end are dropped")
_NEGATIVE = ("negative_duration", "events that end before they begin are dropped")


class SlicePairs:
    """Begins and ends that are not paired yet.

    Which of the two ways a file has is decided by its first end: PyTorch's has no flags of its
    sequence, which every packet of Perfetto's library has. A file that goes back in time on a track
    is PyTorch's whatever its flags.
    """

    def __init__(self, note_log: NoteLog) -> None:
        self._note_log = note_log
        self._begins: deque[Table] = deque()
        self._ends: deque[Table] = deque()
        self._is_plain: bool | None = None

    def add(self, begins: Table, ends: Table) -> Iterator[Table]:
        """Add what was scanned next; yield slices, with their duration, that are complete."""
        if len(begins["start_ns"]):
            self._begins.append(begins)
        if len(ends["time_ns"]):
            self._ends.append(ends)
            if self._is_plain is None:
                self._is_plain = bool(ends["is_plain"][0])
        if self._is_plain:
            yield from self._in_order()

    def finish(self) -> Iterator[Table]:
        """Yield the slices that are complete at the end of the file; note what is left."""
        if self._is_plain is False and self._goes_back():
            self._is_plain = True
        if self._is_plain is False and self._begins:
            yield self._nested()
            return
        yield from self._in_order()
        self._note(_UNMATCHED_BEGIN, sum(len(one["start_ns"]) for one in self._begins))
        self._note(_UNMATCHED_END, sum(len(one["time_ns"]) for one in self._ends))

    def _note(self, note: tuple[str, str], count: int) -> None:
        if count:
            self._note_log.add(*note, None, count)

    def _in_order(self) -> Iterator[Table]:
        """Yield the slices of the begins and ends that are first in both queues."""
        while self._begins and self._ends:
            begins, ends = self._begins[0], self._ends[0]
            count = min(len(begins["start_ns"]), len(ends["time_ns"]))
            _drop(self._begins, count)
            _drop(self._ends, count)
            yield self._joined(_cut(begins, 0, count), _cut(ends, 0, count))

    def _joined(self, begins: Table, ends: Table) -> Table:
        """Return slices with their durations, without those that cannot be."""
        duration = ends["time_ns"] - begins["start_ns"]
        other_track = begins["track"] != ends["track"]
        self._note(_UNMATCHED_END, int(other_track.sum()))
        negative = ~other_track & (duration < 0)
        self._note(_NEGATIVE, int(negative.sum()))
        found = {**begins, "dur_ns": duration}
        dropped = other_track | negative
        return found if not dropped.any() else {n: c[~dropped] for n, c in found.items()}

    def _goes_back(self) -> bool:
        """Whether the times of a track ever decrease, in the order of each of the two lists."""
        for tables, name in ((self._begins, "start_ns"), (self._ends, "time_ns")):
            track, time = (_column(tables, one) for one in ("track", name))
            order = np.argsort(track, kind="stable")
            same = np.diff(track[order]) == 0
            if (same & (np.diff(time[order]) < 0)).any():
                return True
        return False

    def _nested(self) -> Table:
        """Return the slices, each end being that of the last open begin of its track."""
        begins = {name: _column(self._begins, name) for name in self._begins[0]}
        ends = {name: _column(self._ends, name) for name in ("time_ns", "track", "number")}
        track = np.concatenate((begins["track"], ends["track"]))
        number = np.concatenate((begins["number"], ends["number"]))
        is_begin = np.arange(len(track)) < len(begins["track"])
        order = np.lexsort((number, track))
        level = np.cumsum(np.where(is_begin[order], 1, -1))
        depth = np.where(is_begin[order], level, level + 1)
        by_depth = order[np.lexsort((np.arange(len(order)), depth, track[order]))]
        depth_of = np.empty(len(order), np.int64)
        depth_of[order] = depth
        first, second = by_depth[:-1], by_depth[1:]
        pairs = (
            (track[first] == track[second])
            & (depth_of[first] == depth_of[second])
            & is_begin[first]
            & ~is_begin[second]
        )
        own, closing = first[pairs], second[pairs] - len(begins["track"])
        self._note(_UNMATCHED_BEGIN, len(begins["track"]) - len(own))
        self._note(_UNMATCHED_END, len(ends["track"]) - len(own))
        place = np.argsort(own, kind="stable")
        own, closing = own[place], closing[place]
        found = {name: column[own] for name, column in begins.items()}
        return self._joined(found, {name: column[closing] for name, column in ends.items()})


def _column(tables: deque[Table], name: str) -> npt.NDArray[np.int64]:
    return np.concatenate([one[name] for one in tables])


def _cut(table: Table, begin: int, end: int | None) -> Table:
    return {name: column[begin:end] for name, column in table.items()}


def _drop(tables: deque[Table], count: int) -> None:
    """Drop the first rows of the first table."""
    first = tables.popleft()
    if count < len(next(iter(first.values()))):
        tables.appendleft(_cut(first, count, None))


CHUNK_BYTES: Final = 1 << 20
_STAGES: Final = {
    "Kernel": "kernel",
    "Memcpy": "gpu_memcpy",
    "Memset": "gpu_memset",
    "Annotation": "gpu_user_annotation",
    "EventRecord": "graph_event_node",
    "HostNode": "graph_host_node",
}
"""Categories of JSON traces, by the names that PyTorch gives to stages of devices."""
_STREAM: Final = re.compile(r"\[(\d{1,9})\] (.*)")
"""The number of the stream begins the name of a queue, padded so that names sort."""
_USER: Final = ("ProfilerStep#", "nccl:", "gloo:", "## ", "Optimizer.", "enumerate(DataLoader)")
"""Beginnings of names of annotations, in files whose events of hosts have no category."""


def read_pftrace(
    path: Path, *, chunk_bytes: int = CHUNK_BYTES, **options: Unpack[ReadOptions]
) -> tuple[RankTrace, ...]:
    """Read the Perfetto trace in ``path``, plain or compressed, into one trace for each rank.

    It is decoded ``chunk_bytes`` at a time.

    Raises:
        TraceError: The file cannot be read or has no event.
        CancelledError: It was asked for.
    """
    shown = options.get("shown", str(path))
    chunks = TextChunks(path, chunk_bytes, progress=options.get("progress"))
    reader = _Reader()
    try:
        status = path.stat()
        for chunk in chunks:
            raise_if(options.get("cancelled"), path)
            if not reader.add(chunk):
                break
    except OSError as error:
        raise TraceError(f"cannot be read ({error.strerror})", path=shown) from error
    source = SourceFile(
        path=shown,
        real_path=str(path.resolve()),
        size_bytes=status.st_size,
        mtime_ns=status.st_mtime_ns,
        text_bytes=chunks.text_bytes,
        compression=chunks.compression,
        format="pftrace",
    )
    try:
        return reader.ranks(source, chunks.notes)
    except ValueError as error:
        raise TraceError(str(error), path=shown) from None


class _Reader:
    """Reader of the packets of a file."""

    def __init__(self) -> None:
        self._note_log = NoteLog()
        self._builder = Builder(self._note_log, is_json=False)
        self._state = TraceState(self._builder.rows.strings, self._note_log)
        self._pieces: dict[int, list[bytes]] = {}
        self._scan = new_scan(self._state, self._pieces)
        self._pairs = SlicePairs(self._note_log)
        self._rows = _Rows(self._builder, self._state)
        self._rest = b""

    def add(self, chunk: bytes) -> bool:
        """Read what is whole of the next bytes; return whether the file can be read on."""
        data = self._rest + chunk if self._rest else chunk
        self._rest = data[self._scan.scan(data) :]
        begins, ends, stages = self._scan.take()
        if not self._state.is_export:  # slices of an export repeat the columns
            for slices in self._pairs.add(begins, ends):
                self._rows.add(slices)
            self._rows.add(self._rows.with_launches(stages))
        return not self._scan.stopped

    def ranks(self, source: SourceFile, notes: Sequence[Note]) -> tuple[RankTrace, ...]:
        """Return the ranks. Raises ValueError where there is none."""
        scan = self._scan
        is_cut = bool(scan.stopped or self._rest)
        if scan.stopped:
            notes = [one for one in notes if one.offset is None or one.offset <= scan.offset]
            message = f"{scan.stopped}: what follows it is not read"
            self._note_log.add("corrupt_document", message, scan.offset)
        elif self._rest:
            message = "the file ends in the middle of a packet"
            self._note_log.add("truncated_trace", message, scan.offset)
        if self._pieces:
            return unpacked_ranks(self._pieces, source, (*notes, *self._note_log.notes))
        if self._state.is_export:
            raise ValueError(f"it ends before the columns of a rank, at byte {scan.offset:,}")
        for slices in self._pairs.finish():
            self._rows.add(slices)
        if not self._builder.events_kept:
            raise ValueError(self._nothing(source, notes))
        return (self._trace(source, notes, is_cut=is_cut),)

    def _nothing(self, source: SourceFile, notes: Sequence[Note]) -> str:
        if not source.text_bytes and not notes:
            return "the file is empty"
        found = [
            one.message if one.offset is None else f"{one.message}, at byte {one.offset:,}"
            for one in (*notes, *self._note_log.notes)
        ]
        return "a Perfetto trace without any event" + (f" ({found[0]})" if found else "")

    def _trace(self, source: SourceFile, notes: Sequence[Note], *, is_cut: bool) -> RankTrace:
        self._rows.finish()
        builder, samples = self._builder, self._state.samples
        names = np.fromiter((one[2] for one in samples), np.int32, len(samples))
        columns = builder.finish(0, (), texts=names)
        devices = has_several_devices(columns)
        columns = one_track_a_stream(columns)
        join_kernels(columns.events, columns.collective_args, columns.strings)
        truncated = is_cut or any(note.code in CUTS for note in notes)
        kept = f"; {builder.events_kept:,} events kept" if truncated else ""
        found = [*notes, *self._note_log.notes]
        found = [
            structs.replace(note, message=note.message + kept) if note.code in CUTS else note
            for note in found
        ]
        if devices:
            found.append(Note(SEVERAL_DEVICES, several_devices(devices)))
        readings = [(t, d, self._state.pool.text_of(n), v) for t, d, n, v in samples]
        return RankTrace(
            source=source,
            rank=None,
            rank_source="none",
            strings=columns.strings,
            events=columns.events,
            collective_args=columns.collective_args,
            tracks=columns.tracks,
            process_groups=columns.process_groups,
            counts=builder.counts(),
            notes=tuple(found),
            truncated=truncated,
            samples=_samples(readings, columns.strings, columns.events, columns.tracks),
        )


def _samples(
    readings: list[tuple[int, int, str, float]],
    strings: Strings,
    events: dict[Group, Events],
    tracks: tuple[Track, ...],
) -> Samples:
    """Return the readings of the device that the rank computes on, in order of time.

    A process sees all devices of its machine; that of the rank is the one with most of its events.
    """
    gpu = events.get("gpu")
    if gpu is not None and len(gpu) and readings:
        of_track = np.array([track.device for track in tracks], np.int64)
        used, counts = np.unique(of_track[gpu.track], return_counts=True)
        own = int(used[counts.argmax()])
        readings = [one for one in readings if one[1] in (own, MISSING)]
    readings = sorted(one for one in readings if not np.isnan(one[3]))
    return Samples(
        time_ns=np.array([one[0] for one in readings], np.int64),
        name=np.array([strings.find(one[2]) for one in readings], np.int32),
        value=np.array([one[3] for one in readings], np.float64),
    )


class _Rows:
    """Converter of scanned rows to parts of the columns of a rank."""

    def __init__(self, builder: Builder, state: TraceState) -> None:
        self._builder = builder
        self._rows = builder.rows
        self._state = state
        self._described: list[npt.NDArray[np.int64]] = []
        self._described_count = 0
        self._found: dict[tuple[str, int], tuple[int, ...]] = {}
        self._streams: set[int] = set()
        self._states_launches: bool | None = None
        self._places: dict[tuple[Group, int, int, int], int] = {}

    def add(self, rows: Table) -> None:
        """Add rows with durations to the columns of their groups."""
        rows = self._timed(rows)
        if not len(rows["start_ns"]):
            return
        category = self._category(rows)
        parts: dict[Group, list[Part]] = {}
        for code, places in _rows_by_value(category):
            words = self._state.pool.text_of(code)
            self._builder.count(words, len(places))
            group = group_of(words)
            some = {name: column[places] for name, column in rows.items()} | {
                "category": np.full(len(places), code, np.int64)
            }
            parts.setdefault(group, []).append(Part(self._columns(group, some), places))
        self._builder.add_parts(parts)

    def with_launches(self, stages: Table) -> Table:
        """Return events of devices with their launch: their id in files that state no other.

        The first event of a file decides: PyTorch writes kernels first, and later versions of it
        state the launch of each.
        """
        if self._states_launches is None and len(stages["number"]):
            self._states_launches = int(stages["correlation"][0]) >= 0
        return stages if self._states_launches else {**stages, "correlation": stages["number"]}

    def finish(self) -> None:
        """Hand over what is known of collectives; call it once, after all rows."""
        rows = np.concatenate([*self._described, np.empty((3, 0), np.int64)], axis=1)
        records = rows[2] if (rows[2] != MISSING).any() else np.empty(0, np.int64)
        self._rows.collectives.add_described(rows[0].astype(np.int32), rows[1].copy(), records)

    def _timed(self, rows: Table) -> Table:
        """Return the rows whose duration is possible."""
        is_possible = (rows["dur_ns"] >= 0) & (rows["dur_ns"] < MAX_TIME)
        return rows if is_possible.all() else {n: c[is_possible] for n, c in rows.items()}

    def _category(self, rows: Table) -> I64:
        """Return the text id of the category of each row."""
        code = np.array(rows["category"])
        for value in _distinct(code)[0].tolist():
            if value < 0:
                continue
            words = self._state.pool.text_of(value)
            if words in _STAGES:
                code[code == value] = self._state.pool.id_of(_STAGES[words])
        unknown = np.flatnonzero(code < 0)
        if len(unknown):
            on_stream = self._on_stream(rows["stream"][unknown] >= 0, rows["track"][unknown])
            key = (rows["name"][unknown] + 1) << 7 | rows["marks"][unknown] << 1 | on_stream
            track = rows["track"][unknown]
            for value, places in _rows_by_value(key):
                words = self._derived(value, int(track[places[0]]))
                code[unknown[places]] = self._state.pool.id_of(words)
        return code

    def _on_stream(self, states_one: Bool, track: I64) -> Bool:
        """Mask of the rows of streams; annotations there state none, but are on their tracks."""
        self._streams.update(_distinct(track[states_one])[0].tolist() if states_one.any() else ())
        if not self._streams:
            return states_one
        return np.asarray(states_one | np.isin(track, list(self._streams)))

    def _derived(self, key: int, track: int) -> str:
        """Return the category of rows without one, by their arguments and name.

        The first version that PyTorch wrote has no categories.
        """
        name, marks, on_stream = (key >> 7) - 1, key >> 1 & 63, key & 1
        words = self._state.pool.text_of(name) if name >= 0 else ""
        has = {mark for bit, mark in enumerate(MARKS) if marks >> bit & 1}
        if "cbid" in has:
            is_driver = words.startswith("cu") and not words.startswith("cuda")
            return "cuda_driver" if is_driver else "cuda_runtime"
        if "cuda_sync_kind" in has:
            return "cuda_sync"
        if "Python id" in has:
            return "python_function"
        if "grid" in has:
            return "kernel"
        if on_stream:
            copies = {"Memcpy": "gpu_memcpy", "Memset": "gpu_memset"}
            return copies.get(words[:6], "gpu_user_annotation")
        if "External id" in has:
            return "user_annotation" if words.startswith(_USER) else "cpu_op"
        used = self._state.used[track]
        return "overhead" if isinstance(used, Thread) and used.process == "Overhead" else ""

    def _columns(self, group: Group, rows: Table) -> Table:
        """Return the columns of rows of one group."""
        correlation = rows["correlation"]
        columns = {
            "start_ns": rows["start_ns"],
            "dur_ns": rows["dur_ns"],
            "name": rows["name"],
            "category": rows["category"],
            "track": self._tracks(group, rows),
            "correlation": np.where(correlation == 0, MISSING, correlation),
            "external_id": rows["external_id"],
            "bytes": rows["bytes"],
        }
        if group in ("gpu", "cpu_ops", "annotations"):
            columns |= self._from_details(group, rows)
        return columns

    def _tracks(self, group: Group, rows: Table) -> npt.NDArray[np.int64]:
        """Return the track of each row in the columns."""
        codes = np.zeros(len(rows["track"]), np.int64)
        for name in ("track", "device", "stream"):
            values, inverse = _distinct(rows[name])
            codes = codes * len(values) + inverse
        _, inverse = _distinct(codes)
        first = np.empty(int(inverse.max()) + 1, np.intp)
        first[inverse[::-1]] = np.arange(len(inverse))[::-1]
        found = []
        for place in first.tolist():
            track, device, stream = (int(rows[n][place]) for n in ("track", "device", "stream"))
            place_of = (group, track, device, stream)
            if place_of not in self._places:
                key = self._track_key(*place_of)
                self._places[place_of] = self._rows.tracks.setdefault(key, len(self._rows.tracks))
            found.append(self._places[place_of])
        return np.array(found, np.int64)[inverse]

    def _track_key(
        self, group: Group, track: int, device: int, stream: int
    ) -> tuple[str, int | str | None, int | str | None, None]:
        kind = "stream" if group in STREAM_GROUPS else "thread"
        labels, used = self._builder.labels, self._state.used[track]
        if isinstance(used, Queue):
            named = _STREAM.match(used.name)
            lane = used.number if named is None else int(named[1])
            if named is not None:
                labels[str(used.device), str(lane)] = named[2]
            return kind, used.device, lane if stream < 0 else stream, None
        if used.name:
            labels[str(used.pid), str(used.tid)] = used.name
        if used.process:
            labels[str(used.pid), ""] = used.process
        if group in STREAM_GROUPS and device >= 0:
            return kind, device, stream, None
        return kind, used.pid, stream if stream >= 0 and group in STREAM_GROUPS else used.tid, None

    def _from_details(self, group: Group, rows: Table) -> Table:
        """Return the columns that come from arguments which events share."""
        details, inverse = _distinct(rows["detail"])
        decoded = np.array([self._decoded(group, one) for one in details.tolist()], np.int64)
        names = ("args", *_EXTRA.get(group, ()))
        columns = {name: decoded[:, place][inverse] for place, name in enumerate(names)}
        return self._with_described(columns, rows)

    def _with_described(self, columns: Table, rows: Table) -> Table:
        """Give each described row a row of its own in the table of collectives."""
        places = np.flatnonzero(columns["args"] >= 0)
        description = columns["args"][places]
        record = rows["record_id"][places]
        numbers = (description, rows["seq"][places], np.where(record == 0, MISSING, record))
        self._described.append(np.array(numbers))
        columns["args"][places] = -2 - (self._described_count + np.arange(len(places)))
        self._described_count += len(places)
        return columns

    def _decoded(self, group: Group, number: int) -> tuple[int, ...]:
        """Return the description of a detail, -1 without one, and its values of other columns."""
        if number < 0:
            return (MISSING,) * (1 + len(_EXTRA.get(group, ())))
        found = self._found.get((group, number))
        if found is None:
            found = self._found[group, number] = self._decode(group, self._state.details[number])
        return found

    def _decode(self, group: Group, detail: Detail) -> tuple[int, ...]:
        arguments = {k: v for k, v in detail.arguments.items() if v is not None}
        members = members_of(arguments)
        try:
            event = event_decoder.decode(b'{"args":{%b}}' % members)
        except DECODE_ERRORS:
            return (MISSING,) * (1 + len(_EXTRA.get(group, ())))
        event.name = detail.name
        others: list[int] = []
        if group == "gpu":
            others = self._rows.launches.ids_of([event])
        elif group == "cpu_ops":
            others = [ids[0] for ids in self._rows.products.ids_of([event]).values()]
        description = MISSING
        if "Collective name" in arguments or "In msg nelems" in arguments:
            description = self._rows.collectives.describe(None, members)
        elif group != "gpu" and describes_collective(detail.name):
            description = self._rows.collectives.describe(detail.name, members)
        return (max(description, MISSING), *others)


_EXTRA: Final[dict[Group, tuple[str, ...]]] = {
    "gpu": ("launch",),
    "cpu_ops": ("shapes", "input_types", "input_values"),
}
"""Columns of a group beside ``args`` that come from details, in the order of `_Rows._decode`."""


def _distinct(values: npt.NDArray[np.int64]) -> tuple[I64, npt.NDArray[np.intp]]:
    """Return the distinct values, ascending, and the place of that of each row; some rows exist.

    Ids are small numbers, which a table finds in a tenth of the time of a sort.
    """
    low, high = int(values.min()), int(values.max())
    if low == high:
        return values[:1], np.zeros(len(values), np.intp)
    if high - low > 4 * len(values):
        return np.unique(values, return_inverse=True)
    used = np.zeros(high - low + 1, np.bool_)
    used[values - low] = True
    return np.flatnonzero(used) + low, (np.cumsum(used) - 1)[values - low]


def _rows_by_value(values: npt.NDArray[np.int64]) -> list[tuple[int, npt.NDArray[np.intp]]]:
    """Return each value, of a few, with its places, ascending."""
    found = np.unique(values).tolist() if len(values) else []
    if len(found) == 1:
        return [(found[0], np.arange(len(values)))]
    return [(value, np.flatnonzero(values == value)) for value in found]
