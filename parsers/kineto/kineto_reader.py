"""Read one trace file into the columns of a rank, with bounded memory.

Damage inside the file becomes notes, not exceptions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from ccltui.parsers.columns import MISSING, Device, RankTrace, SourceFile
from ccltui.parsers.errors import CancelledError, TraceError
from ccltui.parsers.kineto.event_list import Batch
from ccltui.parsers.kineto.json_text.lenient_json import lenient_json
from ccltui.parsers.kineto.rank_builder import Builder
from ccltui.parsers.kineto.read_notes import NoteLog
from ccltui.parsers.kineto.tables.process_groups import MAX_RANKS, groups_of_config
from ccltui.parsers.kineto.trace_document import Document, Member
from ccltui.parsers.system.heap_trim import keep_freed
from ccltui.parsers.text.compression import TextChunks

CHUNK_BYTES = 1 << 20
_REUSED_BYTES = 3 << 20  # a chunk and the buffers derived from it
_MAX_BASE_NS = 1 << 62
# Missing ranks of a world are listed one by one: a corrupt number must not fill the memory.
_MAX_RANK = MAX_RANKS


def read_kineto(
    path: Path,
    *,
    shown: str | None = None,
    chunk_bytes: int = CHUNK_BYTES,
    progress: Callable[[int], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> RankTrace:
    """Read the Chrome-trace JSON in ``path`` into columns.

    Truncated or corrupt content becomes a note; the events read before it are returned.

    Args:
        path: The file: plain text, gzip or zstd.
        shown: The path to use in messages; ``path`` if None.
        chunk_bytes: Size of the pieces of text that are decoded at a time.
        progress: Called with the number of bytes read from the file so far.
        cancelled: Polled once per chunk; reading stops when it returns True.

    Returns:
        The columns. ``rank`` is set from ``distributedInfo`` only, and is None without it.

    Raises:
        TraceError: The file cannot be read or holds no list of events.
        CancelledError: ``cancelled`` returned True.
    """
    keep_freed(_REUSED_BYTES)
    chunks = TextChunks(path, chunk_bytes, progress=progress)
    pieces = _until_cancelled(chunks, cancelled, path)
    return read_pieces(pieces, chunks, path, shown=shown)


def read_pieces(
    pieces: Iterable[bytes], chunks: TextChunks, path: Path, *, shown: str | None = None
) -> RankTrace:
    """Read columns, as :func:`read_kineto`, from text that the caller took from ``chunks``."""
    note_log = NoteLog()
    builder = Builder(note_log)
    members: dict[str, Any] = {}
    try:
        status = path.stat()
        document = Document(iter(pieces), note_log, builder.scanner)
        for part in document:
            if isinstance(part, Batch):
                builder.add(part)
            elif isinstance(part, Member):
                members[part.key] = _member_value(part, note_log)
    except OSError as error:
        raise TraceError(f"cannot be read ({error.strerror})", path=shown or path) from error
    if not document.found_events:
        raise TraceError(_no_events(note_log, chunks), path=shown or path)
    source = SourceFile(
        path=shown or str(path),
        real_path=str(path.resolve()),
        size_bytes=status.st_size,
        mtime_ns=status.st_mtime_ns,
        text_bytes=chunks.text_bytes,
        compression=chunks.compression,
    )
    truncated = document.truncated or any(note.code in _CUTS for note in chunks.notes)
    return _assemble(source, builder, members, note_log, chunks, truncated=truncated)


_CUTS = frozenset({"truncated_trace", "corrupt_gzip", "corrupt_zstd"})


def _assemble(
    source: SourceFile,
    builder: Builder,
    members: dict[str, Any],
    note_log: NoteLog,
    chunks: TextChunks,
    *,
    truncated: bool,
) -> RankTrace:
    """Build the trace from what is known only at the end of the file: base time, groups, joins."""
    information = _mapping(members.get("distributedInfo"))
    base_ns = _base(members.get("baseTimeNanoseconds"), note_log)
    devices = _devices(members)
    columns = builder.finish(base_ns, groups_of_config(information.get("pg_config")), devices)
    rank = _integer(information.get("rank"), _MAX_RANK)
    kept = f"; {builder.events_kept:,} events kept" if truncated else ""
    notes = [*chunks.notes, *note_log.notes]
    return RankTrace(
        source=source,
        rank=rank,
        rank_source="none" if rank is None else "distributedInfo",
        **columns._asdict(),
        devices=devices,
        world_size=_integer(information.get("world_size"), _MAX_RANK),
        backend=_word(information.get("backend")),
        nccl_version=_word(information.get("nccl_version")),
        host=_word(members.get("host_name")),
        base_ns=base_ns,
        counts=builder.counts(),
        notes=tuple(
            note.__class__(note.code, note.message + kept, note.offset, note.count)
            if note.code in _CUTS
            else note
            for note in notes
        ),
        truncated=truncated,
    )


def _until_cancelled(
    chunks: TextChunks, cancelled: Callable[[], bool] | None, path: Path
) -> Iterator[bytes]:
    for chunk in chunks:
        if cancelled is not None and cancelled():
            raise CancelledError("reading was stopped", path=path)
        yield chunk


def _member_value(member: Member, note_log: NoteLog) -> Any:
    try:
        return lenient_json(member.text)
    except (ValueError, RecursionError):
        note_log.add("malformed_member", f"{member.key} is not valid JSON", None)
        return None


def _no_events(note_log: NoteLog, chunks: TextChunks) -> str:
    if chunks.text_bytes == 0 and not chunks.notes:
        return "the file is empty"
    reasons = [note.message for note in (*chunks.notes, *note_log.notes)]
    return "no list of trace events found" + (f" ({reasons[0]})" if reasons else "")


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
            index=_or_missing(_integer(entry.get("id"), _MAX_RANK), index),
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
