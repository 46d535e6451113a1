"""Read one trace file into the columns of its ranks, with bounded memory.

Damage inside the file becomes notes, not exceptions.

Profilers write host events before device events, so the first megabytes hold no kernel. Of an
uncompressed file two pieces are read: its head, and the text around the first kernels.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final, Unpack

import msgspec
import numpy as np
from msgspec import Struct, structs

from ccltui.parsers.array_types import I32
from ccltui.parsers.columns import (
    MISSING,
    Device,
    Events,
    Group,
    Note,
    RankSource,
    RankTrace,
    SourceFile,
    Track,
)
from ccltui.parsers.errors import TraceError, raise_if
from ccltui.parsers.format import ReadOptions
from ccltui.parsers.kineto.collective_rows import join_kernels
from ccltui.parsers.kineto.event_list import Batch, Document, Member, NoteLog
from ccltui.parsers.kineto.process_groups import groups_of_config
from ccltui.parsers.kineto.rank_builder import Builder, Columns
from ccltui.parsers.kineto.ranks_in_file import (
    ONE_FILE_A_RANK,
    NotSeparableError,
    RankPart,
    has_several_devices,
    ranks_hosts,
    ranks_in,
)
from ccltui.parsers.kineto.scanner.typed_event import DECODE_ERRORS, event_decoder
from ccltui.parsers.machine_limits import keep_freed
from ccltui.parsers.merged_files import GUESSES, ranks_of_groups
from ccltui.parsers.safe_text import listed, printable
from ccltui.parsers.text.compression import TextChunks
from ccltui.parsers.text.json_text import TextBuffer, lenient_json, object_extent
from ccltui.parsers.window import MOST_RANKS


def with_checked_ranks(traces: Sequence[RankTrace]) -> tuple[RankTrace, ...]:
    """Return the ranks of one file with numbers that their process groups allow.

    A rank takes part in the collectives of its own groups only. Where a guess is not a member of
    them, the numbers are those that the groups leave, in order; where they leave none, unknown.
    """
    guessed = [trace.rank_source in GUESSES for trace in traces]
    if not any(guessed):
        return tuple(traces)
    members = [ranks_of_groups(trace) for trace in traces]
    if all(
        allowed is None or trace.rank in allowed
        for trace, allowed in zip(traces, members, strict=True)
    ):
        return tuple(traces)
    every = sorted({rank for allowed in members if allowed is not None for rank in allowed})
    fits = len(every) == len(traces) and all(
        allowed is None or rank in allowed for rank, allowed in zip(every, members, strict=True)
    )
    only = [next(iter(allowed)) for allowed in members if allowed is not None and len(allowed) == 1]
    if len(set(only)) == len(traces):
        return tuple(
            structs.replace(trace, rank=rank, rank_source="process groups")
            for trace, rank in zip(traces, only, strict=True)
        )
    return tuple(
        structs.replace(trace, rank=every[number])
        if fits
        else structs.replace(trace, rank=None, rank_source="none")
        for number, trace in enumerate(traces)
    )


def with_devices_joined(columns: Columns) -> Columns:
    """Return the columns with one track for each stream, whatever pid its rows have."""
    numbers: dict[Track, int] = {}
    renumbered = np.array(
        [numbers.setdefault(track, len(numbers)) for track in columns.tracks], np.int32
    )
    if len(numbers) == len(columns.tracks):
        return columns
    return _renumbered(columns, tuple(numbers), renumbered)


def split_ranks(columns: Columns, parts: Sequence[RankPart]) -> list[Columns]:
    """Return the columns of each part; ``columns`` loses its rows, so that they are held once.

    Rows of processes that belong to no part are left out.
    """
    owned = [_tracks_of(columns, part) for part in parts]
    events: list[dict[Group, Events]] = [{} for _ in parts]
    for group in list(columns.events):
        rows = columns.events.pop(group)
        for (_, renumbered), mine in zip(owned, events, strict=True):
            own = np.flatnonzero(renumbered[rows.track] != MISSING)
            if len(own):
                taken = rows.take(own)
                mine[group] = taken.with_columns(track=renumbered[taken.track])
    return [
        columns._replace(events=mine, tracks=tracks)
        for (tracks, _), mine in zip(owned, events, strict=True)
    ]


def _tracks_of(columns: Columns, part: RankPart) -> tuple[tuple[Track, ...], I32]:
    """Return the tracks of a part, and their numbers in it, -1 for tracks of others."""
    renumbered = np.full(len(columns.tracks), MISSING, np.int32)
    numbers: dict[Track, int] = {}
    for index, (track, pid) in enumerate(zip(columns.tracks, columns.processes, strict=True)):
        if (pid in part.hosts) if track.kind == "thread" else ((pid, track.device) in part.devices):
            renumbered[index] = numbers.setdefault(track, len(numbers))
    return tuple(numbers), renumbered


def _renumbered(columns: Columns, tracks: tuple[Track, ...], renumbered: I32) -> Columns:
    events = {
        group: rows.with_columns(track=renumbered[rows.track])
        for group, rows in columns.events.items()
    }
    return columns._replace(events=events, tracks=tracks)


CHUNK_BYTES = 1 << 20
SEVERAL_DEVICES = "several_devices"
"""Code of the note on one process that used several devices."""
_REUSED_BYTES = 3 << 20  # a chunk and the buffers derived from it
_MAX_BASE_NS = 1 << 62
_HEAD_BYTES = 1 << 16
_FIRST_KEY = b'"schemaVersion"'
# Missing ranks of a world are listed one by one: a corrupt number must not fill the memory.


def read_kineto(
    path: Path, *, chunk_bytes: int = CHUNK_BYTES, **options: Unpack[ReadOptions]
) -> RankTrace:
    """Read the Chrome-trace JSON in ``path`` into columns, all of it as one rank.

    Truncated or corrupt content becomes a note; the events read before it are returned.

    Args:
        path: The file: plain text, gzip or zstd.
        chunk_bytes: Size of the pieces of text that are decoded at a time.
        options: Those of every reader.

    Returns:
        The columns. ``rank`` is set from ``distributedInfo`` only, and is None without it.

    Raises:
        TraceError: The file cannot be read or holds no list of events.
        CancelledError: It was asked for.
    """
    chunks, pieces = _opened(path, chunk_bytes, options)
    return read_pieces(pieces, chunks, path, shown=options.get("shown"))


def read_ranks(
    path: Path, *, chunk_bytes: int = CHUNK_BYTES, **options: Unpack[ReadOptions]
) -> tuple[RankTrace, ...]:
    """Read ``path`` as :func:`read_kineto` does, into one trace for each rank.

    Raises:
        TraceError: As there; and where events of several ranks cannot be told apart.
        CancelledError: It was asked for.
    """
    shown = options.get("shown")
    chunks, pieces = _opened(path, chunk_bytes, options)
    read = _read(pieces, chunks, path, shown)
    if read.rest is not None:
        several = _further_documents(read, chunks, path, shown)
        if several:
            return several
    if (read.is_damaged or read.truncated) and _begins_twice(path):
        raise TraceError(_SEVERAL_WRITERS, path=shown or path)
    try:
        parts = ranks_in(read.columns, is_damaged=read.is_damaged)
    except NotSeparableError as error:
        raise TraceError(str(error), path=shown or path) from None
    if not parts:
        return (_whole(read),)
    read = structs.replace(read, notes=(*read.notes, *_unowned(read.columns, parts)))
    divided = split_ranks(read.columns, parts)
    return with_checked_ranks(
        [_rank_of_part(read, parts, number, columns) for number, columns in enumerate(divided)]
    )


def _further_documents(
    read: _Read, chunks: TextChunks, path: Path, shown: str | None
) -> tuple[RankTrace, ...]:
    """Return the ranks of whole documents one after the other; () where these are not ranks.

    Processes that append to one file, and `cat`, leave such files.
    """
    reads = [read]
    while (rest := reads[-1].rest) is not None and len(reads) < _MOST_DOCUMENTS:
        try:
            reads.append(_read(rest, chunks, path, shown))
        except TraceError:
            break  # no events
    ranks = [_integer(one.information.get("rank"), MOST_RANKS) for one in reads]
    unknown = not any(rank is not None for rank in ranks)
    owners = [ranks_hosts(one.columns) for one in reads] if unknown else ranks
    if len(reads) < 2 or not all(owners if unknown else [rank is not None for rank in ranks]):
        return ()
    if len(set(owners)) < len(reads):
        return ()
    found = []
    for number, one in enumerate(reads):
        source = msgspec.structs.replace(
            one.source, part=number, parts=len(reads), part_name=f"document {number + 1}"
        )
        last = number == len(reads) - 1
        notes = tuple(n for n in one.notes if last or n.code != "trailing_data")
        trace = _whole(structs.replace(one, source=source, notes=notes))
        if unknown:
            trace = structs.replace(trace, rank=number, rank_source="order of processes")
        found.append(trace)
    return with_checked_ranks(found)


_MOST_DOCUMENTS = 4096


def read_pieces(
    pieces: Iterable[bytes], chunks: TextChunks, path: Path, *, shown: str | None = None
) -> RankTrace:
    """Read columns, as :func:`read_kineto`, from text that the caller took from ``chunks``."""
    return _whole(_read(pieces, chunks, path, shown))


def _opened(
    path: Path, chunk_bytes: int, options: ReadOptions
) -> tuple[TextChunks, Iterator[bytes]]:
    keep_freed(_REUSED_BYTES)
    chunks = TextChunks(path, chunk_bytes, progress=options.get("progress"))
    return chunks, _until_cancelled(chunks, options.get("cancelled"), path)


class _Read(Struct):
    """What a file holds: columns of all of its rows, what it states, what was damaged."""

    source: SourceFile
    columns: Columns
    information: dict[str, Any]
    members: dict[str, Any]
    base_ns: int
    devices: tuple[Device, ...]
    counts: dict[str, int]
    notes: tuple[Note, ...]
    truncated: bool
    rest: TextBuffer | None

    @property
    def is_damaged(self) -> bool:
        return any(note.code in _DAMAGE for note in self.notes)


def _read(
    pieces: Iterable[bytes] | TextBuffer, chunks: TextChunks, path: Path, shown: str | None
) -> _Read:
    note_log = NoteLog()
    builder = Builder(note_log)
    members: dict[str, Any] = {}
    try:
        status = path.stat()
        text = pieces if isinstance(pieces, TextBuffer) else iter(pieces)
        document = Document(text, note_log, builder.scanner)
        for part in document:
            if isinstance(part, Batch):
                builder.add(part)
            elif isinstance(part, Member):
                members[part.key] = _member_value(part, note_log)
        builder.take_scanned()
    except OSError as error:
        raise TraceError(f"cannot be read ({error.strerror})", path=shown or path) from error
    if not document.found_events:
        raise TraceError(_no_events(note_log, chunks, path), path=shown or path)
    if builder.late_times and not builder.events_kept:
        raise TraceError(NANOSECONDS, path=shown or path)
    source = SourceFile(
        path=shown or str(path),
        real_path=str(path.resolve()),
        size_bytes=status.st_size,
        mtime_ns=status.st_mtime_ns,
        text_bytes=chunks.text_bytes,
        compression=chunks.compression,
    )
    truncated = document.truncated or any(note.code in CUTS for note in chunks.notes)
    information = _mapping(members.get("distributedInfo"))
    base_ns = _base(members.get("baseTimeNanoseconds"), note_log)
    devices = _devices(members)
    columns = builder.finish(base_ns, groups_of_config(information.get("pg_config")), devices)
    if members.get("displayTimeUnit") == "ns" and _are_nanoseconds(columns):
        raise TraceError(NANOSECONDS, path=shown or path)
    kept = f"; {builder.events_kept:,} events kept" if truncated else ""
    notes = tuple(
        msgspec.structs.replace(note, message=note.message + kept) if note.code in CUTS else note
        for note in (*chunks.notes, *note_log.notes)
    )
    return _Read(
        source,
        columns,
        information,
        members,
        base_ns,
        devices,
        builder.counts(),
        notes,
        truncated,
        document.rest,
    )


CUTS = frozenset({"truncated_trace", "corrupt_gzip", "corrupt_zstd"})
"""Codes of notes on files that end too early."""
_DAMAGE = frozenset({"malformed_event", "not_an_event", "corrupt_document"})
"""Notes of text that another process may have written over; a file that is cut has none."""


NANOSECONDS = (
    "its times look like nanoseconds, and a Chrome trace counts microseconds: divide ts and dur by "
    "1,000"
)
_LONG_KERNEL_NS = 100_000_000
"""Kernels take microseconds to milliseconds: a median above it is of times in nanoseconds."""


def _are_nanoseconds(columns: Columns) -> bool:
    """Whether kernels are so long that their times are no microseconds."""
    gpu = columns.events.get("gpu")
    return gpu is not None and len(gpu) > 1 and float(np.median(gpu.dur_ns)) > _LONG_KERNEL_NS


def _whole(read: _Read) -> RankTrace:
    """Return all rows of a file as one rank."""
    columns = with_devices_joined(read.columns)
    join_kernels(columns.events, columns.collective_args, columns.strings)
    rank = _integer(read.information.get("rank"), MOST_RANKS)
    numbers = has_several_devices(read.columns)
    notes = read.notes
    if numbers:
        notes = (*notes, Note(SEVERAL_DEVICES, several_devices(numbers)))
    source: RankSource = "none" if rank is None else "distributedInfo"
    trace = _trace(read, columns, read.source)
    return structs.replace(trace, rank=rank, rank_source=source, notes=notes)


def several_devices(numbers: Sequence[int]) -> str:
    """Return the note on one process that used these devices."""
    names = listed([str(number) for number in numbers])
    return (
        f"one process used devices {names}: it is one rank, busy while any of them is, and times "
        "of kernels add up over them"
    )


def _unowned(columns: Columns, parts: Sequence[RankPart]) -> tuple[Note, ...]:
    """Return a note on operators and calls of processes that are no rank; () without any."""
    owned = {pid for part in parts for pid in part.hosts}
    lost: Counter[str] = Counter()
    for group in ("cpu_ops", "runtime", "annotations"):
        events = columns.events.get(group)
        if events is None:
            continue
        for track, number in enumerate(np.bincount(events.track).tolist()):
            if number and columns.tracks[track].pid not in owned:
                lost[columns.tracks[track].pid] += number
    if not lost:
        return ()
    names = listed([printable(pid) for pid in lost])
    message = f"events of processes that are no rank ({names}) are left out"
    return (Note("no_rank", message, count=lost.total()),)


def _rank_of_part(
    read: _Read, parts: Sequence[RankPart], number: int, columns: Columns
) -> RankTrace:
    """Return one of several ranks in a file."""
    part = parts[number]
    join_kernels(columns.events, columns.collective_args, columns.strings)
    source = msgspec.structs.replace(
        read.source, part=number, parts=len(parts), part_name=part.name
    )
    used = {device for _, device in part.devices}
    devices = tuple(device for device in read.devices if device.index in used)
    return structs.replace(
        _trace(read, columns, source),
        rank=part.rank,
        rank_source=part.rank_source,
        devices=tuple({device.index: device for device in devices}.values()),
        counts=_counts(columns),
    )


def _counts(columns: Columns) -> dict[str, int]:
    """Return the number of complete events by "X:category" of one of several ranks."""
    counts: Counter[str] = Counter()
    for events in columns.events.values():
        ids, numbers = np.unique(events.category, return_counts=True)
        for category, number in zip(ids.tolist(), numbers.tolist(), strict=True):
            counts[f"X:{columns.strings[category] if category >= 0 else ''}"] += number
    return dict(counts)


def _trace(read: _Read, columns: Columns, source: SourceFile) -> RankTrace:
    """Return columns with what the file states about all of its ranks."""
    return RankTrace(
        source=source,
        rank=None,
        rank_source="none",
        strings=columns.strings,
        events=columns.events,
        collective_args=columns.collective_args,
        tracks=columns.tracks,
        process_groups=columns.process_groups,
        devices=read.devices,
        world_size=_integer(read.information.get("world_size"), MOST_RANKS),
        backend=_word(read.information.get("backend")),
        nccl_version=_word(read.information.get("nccl_version")),
        host=_word(read.members.get("host_name")),
        base_ns=read.base_ns,
        counts=read.counts,
        notes=read.notes,
        truncated=read.truncated,
    )


def _until_cancelled(
    chunks: TextChunks, cancelled: Callable[[], bool] | None, path: Path
) -> Iterator[bytes]:
    for chunk in chunks:
        raise_if(cancelled, path)
        yield chunk


def _member_value(member: Member, note_log: NoteLog) -> Any:
    try:
        return lenient_json(member.text)
    except (ValueError, RecursionError):
        note_log.add("malformed_member", f"{member.key} is not valid JSON", None)
        return None


def _no_events(note_log: NoteLog, chunks: TextChunks, path: Path) -> str:
    if chunks.text_bytes == 0 and not chunks.notes:
        return "the file is empty"
    if _begins_twice(path):
        return _SEVERAL_WRITERS
    reasons = [note.message for note in (*chunks.notes, *note_log.notes)]
    return "no list of trace events found" + (f" ({reasons[0]})" if reasons else "")


def _begins_twice(path: Path) -> bool:
    """Whether the first key of a trace is more than once in the head of a file."""
    return next(iter(TextChunks(path, _HEAD_BYTES)), b"").count(_FIRST_KEY) > 1


_SEVERAL_WRITERS = (
    f"several ranks wrote into this file, which begins more than once: {ONE_FILE_A_RANK}"
)


def _base(value: object, note_log: NoteLog) -> int:
    base = _integer(value, _MAX_BASE_NS)
    if base is None and value is not None:
        note_log.add("bad_base", "baseTimeNanoseconds is not usable and was taken as 0", None)
    return base or 0


def _devices(members: dict[str, Any]) -> tuple[Device, ...]:
    """Return the devices of ``deviceProperties``, or of ``computeProperties``, its older name."""
    table = members.get("deviceProperties") or members.get("computeProperties")
    if not isinstance(table, list):
        return ()
    return tuple(
        Device(
            index=_or_missing(_integer(entry.get("id"), MOST_RANKS), index),
            name=_word(entry.get("name")),
            total_memory_bytes=_or_missing(_integer(entry.get("totalGlobalMem"), 1 << 62)),
            num_sms=_or_missing(_integer(entry.get("numSms"), 1 << 31)),
        )
        for index, entry in enumerate(table)
        if isinstance(entry, dict) and entry
    )


def _or_missing(value: int | None, default: int = MISSING) -> int:
    return default if value is None else value


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _integer(value: object, below: int) -> int | None:
    if isinstance(value, str) and value.isdecimal() and len(value) < 20:
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < below:
        return value
    return None


def _word(value: object) -> str:
    return str(value) if isinstance(value, str | int | float) else ""


PIECE_BYTES: Final = 2 << 20
_PROBE_BYTES: Final = 64 << 10
_PREFACE_BYTES: Final = 64 << 10
"""Size of the first piece. The members before the list of events are parsed one by one, and each
step copies the rest of its piece, so that piece is kept small."""
_KERNEL: Final = re.compile(rb'"cat"\s*:\s*"[Kk]ernel"')
_EVENT_BORDER: Final = re.compile(rb"\}\s*,\s*(?=\{)")
_BASE: Final = re.compile(rb'"baseTimeNanoseconds"\s*:\s*[0-9]+')
_BASE_FROM_END: Final = 4096
_MARGIN_BYTES: Final = 4096  # read before a kernel's category, to include the start of its event
_TRIES: Final = 200  # borders tested; ``}, {`` inside an event counts as one


def read_preview(path: Path, *, shown: str, piece_bytes: int = PIECE_BYTES) -> RankTrace | None:
    """Read columns of the beginning of a file.

    Returns:
        The columns, with the share of the file that was read in ``read_share``; None where the
        pieces hold no events or are the whole file.

    Raises:
        OSError: The file cannot be read.
    """
    size = path.stat().st_size
    chunks = TextChunks(path, piece_bytes)
    head = next(iter(chunks), b"")
    if chunks.compression == "none":
        pieces = _plain_pieces(path, head, size)
        used = sum(map(len, pieces))
    else:
        pieces, used = (head,), chunks.raw_bytes
    if used >= size:
        return None
    try:
        trace = read_pieces(pieces, chunks, path, shown=shown)
    except TraceError:
        return None
    # Notes are dropped: the text ends here because reading stopped. Reading the whole file
    # reports any real damage.
    return structs.replace(trace, read_share=used / size, truncated=False, notes=())


def _plain_pieces(path: Path, head: bytes, size: int) -> tuple[bytes, ...]:
    """Return the head up to the end of an event, a piece with kernels, and the base time.

    The base time is a member at the end of the file; the last piece also closes the document.
    """
    border = _last_event_end(head)
    if border is None or len(head) == size:
        return (head,)
    pieces = [head[: min(border, _PREFACE_BYTES)], head[_PREFACE_BYTES:border]]
    with path.open("rb", buffering=0) as file:
        if _KERNEL.search(head) is None:
            pieces += _kernel_piece(file, len(head), size)
        base = _BASE.search(_at(file, max(size - _BASE_FROM_END, 0), _BASE_FROM_END))
    pieces.append(b"]," + base[0] + b"}" if base else b"]}")
    return tuple(pieces)


def _kernel_piece(file: BinaryIO, start: int, size: int) -> list[bytes]:
    """Return a comma and whole events from about the first kernel; nothing without kernels."""
    kernels = _first_kernel(file, start, size)
    if kernels is None:
        return []
    text = _at(file, max(kernels - _MARGIN_BYTES, start), start)
    first, last = _first_event(text), _last_event_end(text)
    return [] if first is None or last is None or first >= last else [b",", text[first:last]]


def _first_kernel(file: BinaryIO, start: int, size: int) -> int | None:
    """Return about where the first kernel after ``start`` is, None if none is found.

    Probes at doubling distances find a kernel; bisection finds where the kernels before it begin.
    In files that repeat host and device parts these are the kernels of the first part.
    """
    before, step = start, _PROBE_BYTES
    while not _KERNEL.search(_at(file, before + step, _PROBE_BYTES)):
        before, step = before + step, 2 * step
        if before + step >= size:
            return None
    behind = before + step
    while behind - before > _PROBE_BYTES:
        middle = (before + behind) // 2
        if _KERNEL.search(_at(file, middle, _PROBE_BYTES)):
            behind = middle
        else:
            before = middle
    found = _KERNEL.search(_at(file, behind - _PROBE_BYTES, 2 * _PROBE_BYTES))
    return None if found is None else behind - _PROBE_BYTES + found.start()


def _first_event(text: bytes) -> int | None:
    """Return where the first whole event after a border begins."""
    borders = itertools.islice(_EVENT_BORDER.finditer(text), _TRIES)
    return next((found.end() for found in borders if _is_whole_event(text, found.end())), None)


def _last_event_end(text: bytes) -> int | None:
    """Return the end of an event that another whole event follows, near the end of the text."""
    borders = list(_EVENT_BORDER.finditer(text, max(len(text) - _PROBE_BYTES, 0)))[
        : -_TRIES - 1 : -1
    ]
    return next(
        (found.start() + 1 for found in borders if _is_whole_event(text, found.end())), None
    )


def _is_whole_event(text: bytes, start: int) -> bool:
    """Return whether a whole event begins at ``start``; objects nested in one have no phase."""
    end = object_extent(text, start).end
    try:
        return end is not None and event_decoder.decode(text[start:end]).ph is not None
    except DECODE_ERRORS:
        return False


def _at(file: BinaryIO, offset: int, count: int) -> bytes:
    file.seek(offset)
    return file.read(count)
