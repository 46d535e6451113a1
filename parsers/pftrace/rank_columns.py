"""Columns of a rank inside a Perfetto trace: `ccltui export` writes them beside the slices.

Slices are on the corrected clock and have no launches, sizes or groups. The columns are what was
measured, so that an export that is read again gives the same metrics.

A rank is a line of JSON with its facts and the layout of its columns, then the columns, narrowed
to the bytes that their values need. It is cut into packets: field 1777 of a packet, which lies in
the range that Perfetto leaves to extensions, has the number of the rank (1) and a piece (2).
Programs that do not know the field ignore it.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct, structs

from ccltui.parsers.columns import (
    GROUPS,
    MISSING,
    UNTIMED,
    CollectiveArgs,
    Device,
    Events,
    Group,
    Note,
    ProcessGroup,
    RankSource,
    RankTrace,
    Samples,
    SourceFile,
    Strings,
    Track,
)
from ccltui.parsers.store.stored_columns import narrow, widen

LAYOUT: Final = 1
"""Raised with whatever earlier readers would misunderstand."""
_MAX_ROWS: Final = 1 << 31
_DTYPES: Final = frozenset(("int8", "int32", "int64", "uint64", "float32", "float64", "uint8"))
_NARROW: Final = frozenset(("uint8", "uint16", "uint32", "int64"))
_DAMAGED: Final = "the columns of a rank in it are damaged"


class ColumnLayout(Struct, frozen=True, array_like=True):
    """One column, of which numbers of the type ``stored`` are in the file, ``base`` less.

    ``size`` is their number of bytes. A column of one value has one row there; of a column that
    ascends there are differences, and ``first`` is its first row (None of others).
    """

    name: str
    dtype: str
    rows: int
    stored: str
    base: int
    first: int | None
    size: int


class RankFacts(Struct, frozen=True):
    """What is known of a rank besides its columns; `RankTrace` describes most fields."""

    layout: int
    profiler: str  # `SourceFile.format` of the file that the rank was read from
    rank: int | None
    rank_source: RankSource
    tracks: tuple[Track, ...]
    process_groups: tuple[ProcessGroup, ...]
    devices: tuple[Device, ...]
    world_size: int | None
    backend: str
    nccl_version: str
    host: str
    base_ns: int
    counts: dict[str, int]
    notes: tuple[Note, ...]
    truncated: bool
    read_share: float
    columns: tuple[ColumnLayout, ...]
    checksum: int


def packed_rank(trace: RankTrace) -> tuple[bytes, Iterator[bytes]]:
    """Return the line of a rank and its columns, one after the other."""
    arrays = list(_arrays(trace))
    layouts, checksum = [], 0
    for name, column in arrays:
        layout, data = _packed(name, column)
        layouts.append(layout)
        checksum = zlib.crc32(data, checksum)
    facts = RankFacts(
        layout=LAYOUT,
        profiler=trace.source.format,
        columns=tuple(layouts),
        checksum=checksum,
        **{name: getattr(trace, name) for name in _FACTS},
    )
    return msgspec.json.encode(facts) + b"\n", (_packed(*one)[1] for one in arrays)


_FACTS: Final = (
    *("rank", "rank_source", "tracks", "process_groups", "devices", "world_size", "backend"),
    *("nccl_version", "host", "base_ns", "counts", "notes", "truncated", "read_share"),
)


def _arrays(trace: RankTrace) -> Iterator[tuple[str, npt.NDArray[Any]]]:
    yield "strings/blob", trace.strings.blob
    yield "strings/offsets", trace.strings.offsets
    for group, events in sorted(trace.events.items()):
        if len(events):
            for name, _ in (*Events.COLUMNS, *Events.SPARSE):
                column = getattr(events, name)
                if len(column):
                    yield f"{group}/{name}", column
    for table, rows in (("args", trace.collective_args), ("samples", trace.samples)):
        for name, _ in type(rows).COLUMNS:
            yield f"{table}/{name}", getattr(rows, name)


def _packed(name: str, column: npt.NDArray[Any]) -> tuple[ColumnLayout, bytes]:
    """Return a column in few bytes: one row where all are equal, differences of ascending rows."""
    rows, base = len(column), 0
    first: int | None = None
    if rows and (column == column[0]).all():
        column, stored = column[:1], column[:1]
    elif rows and column.dtype.kind == "i":
        stored = column
        if name.endswith(_ASCENDING):
            first, stored = int(column[0]), np.diff(column, prepend=column[:1])
        stored, base = narrow(stored)
    else:
        stored = column
    data = np.ascontiguousarray(stored).tobytes()
    dtype, kept = column.dtype.name, stored.dtype.name
    return ColumnLayout(name, dtype, rows, kept, base, first, len(data)), data


_ASCENDING: Final = ("/start_ns", "/offsets", "/time_ns")


def unpacked_ranks(
    pieces: Mapping[int, list[bytes]], source: SourceFile, notes: Sequence[Note]
) -> tuple[RankTrace, ...]:
    """Return the ranks of the pieces of a file; a damaged rank becomes a note on the others.

    ``pieces`` loses what is read, so that it is held once.

    Raises:
        ValueError: No rank can be read.
    """
    remaining = dict(pieces)
    found: list[RankTrace] = []
    problems: list[str] = []
    for number in sorted(pieces):
        data = b"".join(remaining.pop(number))
        pieces[number].clear()
        try:
            part = structs.replace(source, part=number, parts=len(pieces))
            found.append(_unpacked(data, part))
        except ValueError as error:
            problems.append(str(error))
    if not found:
        raise ValueError(problems[0])
    if problems:
        lost = Note("malformed_packet", f"{problems[0]}: it is left out", count=len(problems))
        notes = (*notes, lost)
    return tuple(structs.replace(trace, notes=(*trace.notes, *notes)) for trace in found)


def _unpacked(data: bytes, source: SourceFile) -> RankTrace:
    """Return a rank. Raises ValueError where its columns are damaged or of a later layout."""
    line, _, rest = data.partition(b"\n")
    try:
        layout = msgspec.json.decode(line, type=_Layout).layout
        if layout > LAYOUT:
            raise ValueError(f"columns of layout {layout} in it, which a later ccltui wrote")
        facts = msgspec.json.decode(line, type=RankFacts)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise ValueError(_DAMAGED) from None
    if sum(one.size for one in facts.columns) != len(rest) or zlib.crc32(rest) != facts.checksum:
        raise ValueError(_DAMAGED)
    columns: dict[str, npt.NDArray[Any]] = {}
    at = 0
    for one in facts.columns:
        columns[one.name] = _column(one, rest[at : at + one.size])
        at += one.size
    return _trace(facts, columns, source)


class _Layout(Struct):
    layout: int = 0


def _column(layout: ColumnLayout, data: bytes) -> npt.NDArray[Any]:
    """Return the rows of a column. Raises ValueError."""
    if layout.dtype not in _DTYPES or layout.stored not in (_NARROW | {layout.dtype}):
        raise ValueError(_DAMAGED)
    stored = np.frombuffer(data, layout.stored)
    if not 0 <= layout.rows < _MAX_ROWS or len(stored) not in (layout.rows, 1):
        raise ValueError(_DAMAGED)
    if len(stored) < layout.rows:
        return np.broadcast_to(stored.astype(layout.dtype), (layout.rows,))
    if layout.stored == layout.dtype and not layout.base and layout.first is None:
        return stored
    column = np.empty(layout.rows, layout.dtype)
    try:
        widen(stored, layout.base, column)
        if layout.first is not None:
            np.cumsum(column, out=column)
            column += layout.first
    except (OverflowError, TypeError):
        raise ValueError(_DAMAGED) from None
    return column


def _trace(facts: RankFacts, columns: dict[str, npt.NDArray[Any]], source: SourceFile) -> RankTrace:
    names = [name for name, _ in Events.COLUMNS]
    events: dict[Group, Events] = {}
    for group in (*GROUPS, UNTIMED):
        if f"{group}/start_ns" in columns:
            rows = len(columns[f"{group}/start_ns"])
            some = {name: columns.get(f"{group}/{name}") for name, _ in Events.SPARSE}
            required = {name: _typed(columns, f"{group}/{name}", Events, rows) for name in names}
            events[group] = Events(**required, **{n: c for n, c in some.items() if c is not None})
    strings = Strings(
        columns.get("strings/blob", np.empty(0, np.uint8)),
        columns.get("strings/offsets", np.zeros(1, np.int64)),
    )
    args = CollectiveArgs(**_table(columns, "args", CollectiveArgs))
    samples = Samples(**_table(columns, "samples", Samples))
    trace = RankTrace(
        source=structs.replace(source, format=facts.profiler, container="pftrace"),
        strings=strings,
        events=events,
        collective_args=args,
        samples=samples,
        **{name: getattr(facts, name) for name in _FACTS},
    )
    _require_consistent(trace)
    return trace


def _table(columns: dict[str, npt.NDArray[Any]], table: str, kind: Any) -> dict[str, Any]:
    first = columns.get(f"{table}/{kind.COLUMNS[0][0]}", ())
    return {name: _typed(columns, f"{table}/{name}", kind, len(first)) for name, _ in kind.COLUMNS}


def _typed(
    columns: dict[str, npt.NDArray[Any]], name: str, kind: Any, rows: int
) -> npt.NDArray[Any]:
    """Return a column of the type that its table declares; -1 where the file has none."""
    dtype = dict(kind.COLUMNS)[name.partition("/")[2]]
    column = columns.get(name)
    if column is None:
        return np.full(rows, MISSING).astype(dtype)
    if column.dtype != dtype or len(column) != rows:
        raise ValueError(_DAMAGED)
    return column


def _require_consistent(trace: RankTrace) -> None:
    """Raise ValueError where an id refers to nothing, or rows are not in order."""
    offsets, texts, arguments = trace.strings.offsets, len(trace.strings), trace.collective_args
    fits = len(offsets) > 0 and offsets.dtype == np.int64 and trace.strings.blob.dtype == np.uint8
    fits = fits and int(offsets[0]) == 0 and int(offsets[-1]) == len(trace.strings.blob)
    fits = fits and bool((np.diff(offsets) >= 0).all())
    for events in trace.events.values():
        fits = fits and bool((np.diff(events.start_ns) >= 0).all())
        fits = fits and bool((events.dur_ns >= 0).all())
        fits = fits and int(events.start_ns.max(initial=0)) < _LAST_NS
        fits = fits and int(events.dur_ns.max(initial=0)) < _LAST_NS
        for name in ("name", "category"):
            fits = fits and _is_within(getattr(events, name), texts)
        for name, dtype in Events.SPARSE:
            column = getattr(events, name)
            fits = fits and len(column) in (0, len(events)) and column.dtype == dtype
            fits = fits and (dtype is not np.int32 or _is_within(column, texts))
        fits = fits and _is_within(events.track, len(trace.tracks), least=0)
        fits = fits and _is_within(events.args, len(arguments))
    for name in ("op", "dtype", "in_split", "out_split"):
        fits = fits and _is_within(getattr(arguments, name), texts)
    fits = fits and _is_within(arguments.group, len(trace.process_groups))
    fits = fits and _is_within(trace.samples.name, texts)
    if not fits:
        raise ValueError(_DAMAGED)


_LAST_NS: Final = 1 << 62


def _is_within(ids: npt.NDArray[Any], count: int, least: int = MISSING) -> bool:
    return bool(int(ids.min(initial=0)) >= least and int(ids.max(initial=-1)) < count)
