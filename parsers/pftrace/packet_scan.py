"""Scan packets of a Perfetto trace into rows of events.

The compiled scanner (`_packet_scanner.pyx`) gives the same rows as the one here, which serves where
it is not built or not in use (``CCLTUI_ACCEL=0``), and is the reference.

A slice is two packets, so that the scan gives begins and ends on their own: `slice_pairs` joins
them. Events of devices have their duration.
"""

from __future__ import annotations

import importlib
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from ccltui.parsers.columns import MISSING
from ccltui.parsers.kineto.collective_rows import input_kind
from ccltui.parsers.machine_limits import wants_compiled_code
from ccltui.parsers.pftrace.trace_state import (
    DESCRIPTIONS,
    FIXED32,
    FIXED64,
    INPUTS,
    LENGTH,
    MARKS,
    NO_SPAN,
    NUMBERS,
    VARINT,
    Sequence,
    Span,
    TraceState,
    WireError,
    fields,
    signed,
    text,
    varint,
)

ROW: Final = (
    *("start_ns", "dur_ns", "correlation", "external_id", "bytes", "device", "stream", "seq"),
    *("record_id", "name", "category", "track", "detail", "marks", "number"),
)
"""Columns of rows, int64 [n] each: the first nine as numbers, then ids; -1 where absent.

``number`` is the place of the begin of a slice among begins and ends, or the id of the event of a
device.
"""
END: Final = ("time_ns", "track", "is_plain", "number")
"""Columns of the ends of slices; ``is_plain``: its packet has no flags of its sequence.

``number`` counts begins and ends in the order of the file.
"""
Table = dict[str, npt.NDArray[np.int64]]

PIECES: Final = 1777
"""Field of a packet with a piece of the columns of a rank: see `rank_columns`.

The first packet of an export has it without a piece.
"""
MAX_PACKET_BYTES: Final = 64 << 20
MAX_TIME: Final = 1 << 62
"""Later times, in nanoseconds, are of the year 2116 and damaged."""
MALFORMED: Final = ("malformed_packet", "packets that are not in the wire format are left out")
BAD_TIME: Final = ("bad_time", "events without a readable time are dropped")
TOO_LONG: Final = "a packet of more than 64 MiB"
FOREIGN: Final = "bytes that are no packet"
_TYPE_BEGIN, _TYPE_END = 1, 2

_PACKET, _TIMESTAMP, _SEQUENCE, _EVENT, _INTERNED, _FLAGS = 1, 8, 10, 11, 12, 13
_COUNTER, _STAGE, _TRACK = 52, 53, 60
_PLACE: Final = {
    "correlation": 2,
    "External id": 3,
    "bytes": 4,
    "device": 5,
    "stream": 6,
    "Seq": 7,
    "Record function id": 8,
    "stream id": 6,
    "device id": 5,
}
assert set(_PLACE) == set(NUMBERS)
_NAME, _CATEGORY, _TRACK_PLACE, _DETAIL, _MARKS, _NUMBER = 9, 10, 11, 12, 13, 14
IS_DESCRIBED: Final = frozenset(DESCRIPTIONS[:2])
_DESCRIBES: Final = frozenset(DESCRIPTIONS)
_KINDS_WITH_INPUT: Final = ((1, 2, 3, 4), (1, 2, 3, 4), (2, 4))
"""Kinds of operators, as `input_kind` returns them, whose first, second and third input is read."""


class Scan(Protocol):
    """Interface of both scanners.

    Attributes:
        stopped: Why the scan cannot go on, "" where it can.
        offset: Byte of the trace up to which packets were read.
    """

    stopped: str
    offset: int

    def scan(self, data: bytes) -> int:
        """Read the whole packets at the beginning of ``data``; return their bytes."""

    def take(self) -> tuple[Table, Table, Table]:
        """Return begins, ends and events of devices since the last call."""


def compiled() -> bool:
    """Return whether the scanner was built, from the source as it is now."""
    return _module() is not None


_VERSION: Final = 2
"""That of ``_packet_scanner.pyx``."""


def _module() -> Any:
    try:
        found = importlib.import_module("ccltui.parsers.pftrace._packet_scanner")
    except ImportError:
        return None
    return found if getattr(found, "VERSION", 0) == _VERSION else None


def new_scan(state: TraceState, pieces: dict[int, list[bytes]]) -> Scan:
    """Return the scanner in use; pieces of columns are added to ``pieces`` by rank."""
    module = _module() if wants_compiled_code() else None
    if module is None:
        return PacketScan(state, pieces)
    found: Scan = module.PacketScanner(state, pieces)
    return found


class Packet:
    """The fields of a packet that are read."""

    __slots__ = (
        *("counter", "event", "flags", "interned", "piece", "sequence", "stage", "time", "track"),
    )

    def __init__(self, data: bytes, span: Span) -> None:
        """Find the fields. Raises WireError."""
        self.time = self.flags = MISSING
        self.sequence = 0
        self.event = self.interned = self.counter = self.stage = self.track = NO_SPAN
        self.piece = NO_SPAN
        for number, kind, value, inner in fields(data, *span):
            if kind == VARINT:
                if number == _TIMESTAMP:
                    self.time = value
                elif number == _SEQUENCE:
                    self.sequence = value
                elif number == _FLAGS:
                    self.flags = value
            elif kind == LENGTH:
                if number == _EVENT:
                    self.event = inner
                elif number == _INTERNED:
                    self.interned = inner
                elif number == _TRACK:
                    self.track = inner
                elif number == _STAGE:
                    self.stage = inner
                elif number == _COUNTER:
                    self.counter = inner
                elif number == PIECES:
                    self.piece = inner


def read_others(
    state: TraceState, pieces: dict[int, list[bytes]], packet: Packet, data: bytes
) -> Sequence:
    """Read what a packet has besides events, and return the tables of its sequence.

    Raises WireError.
    """
    sequence = state.sequence(packet.sequence, max(packet.flags, 0))
    if packet.interned is not NO_SPAN:
        state.intern(sequence, data, packet.interned)
    if packet.track is not NO_SPAN:
        state.describe_track(data, packet.track)
    if packet.counter is not NO_SPAN and 0 <= packet.time < MAX_TIME:
        state.count(sequence, packet.time, data, packet.counter)
    if packet.piece is not NO_SPAN:
        state.is_export = True
        rank, piece = 0, NO_SPAN
        for number, kind, value, inner in fields(data, *packet.piece):
            if number == 1 and kind == VARINT:
                rank = value
            elif number == 2 and kind == LENGTH:
                piece = inner
        if piece is not NO_SPAN:
            pieces.setdefault(rank, []).append(data[piece[0] : piece[1]])
    return sequence


def packet_end(data: bytes, at: int) -> tuple[bool, Span] | None:
    """Return whether the field at a place of the trace is a packet, and its content.

    None where the data ends before it does. Raises WireError where it is no field.
    """
    end = len(data)
    try:
        tag, place = varint(data, at, end)
        if tag & 7 == LENGTH:
            size, place = varint(data, place, end)
        elif tag & 7 == VARINT:
            size, place = 0, varint(data, place, end)[1]
        elif tag & 7 in (FIXED64, FIXED32):
            size = 8 if tag & 7 == FIXED64 else 4
        else:
            raise WireError(FOREIGN, at)
    except WireError:
        if end - at >= 2 * 10 or data[at] & 7 not in (LENGTH, VARINT, FIXED64, FIXED32):
            raise WireError(FOREIGN, at) from None
        return None
    if not 0 < tag >> 3 < 1 << 29:
        raise WireError(FOREIGN, at)
    if size > MAX_PACKET_BYTES:
        raise WireError(TOO_LONG, at)
    if size > end - place:
        return None
    return tag == _PACKET << 3 | LENGTH, (place, place + size)


class PacketScan:
    """The general scanner."""

    def __init__(self, state: TraceState, pieces: dict[int, list[bytes]]) -> None:
        self._state = state
        self._pieces = pieces
        self._begins: list[list[int]] = []
        self._ends: list[tuple[int, int, int, int]] = []
        self._stages: list[list[int]] = []
        self._known: dict[tuple[int, int, bytes], int] = {}
        self._kinds: dict[int, int] = {}
        self._number = 0
        self.stopped = ""
        self.offset = 0

    def scan(self, data: bytes) -> int:
        """Read the whole packets at the beginning of ``data``; return their bytes."""
        at = 0
        while at < len(data):
            try:
                found = packet_end(data, at)
            except WireError as error:
                self.stopped = str(error)
                break
            if found is None:
                break
            is_packet, span = found
            if is_packet:
                self._packet(data, span, self.offset + at)
            at = span[1]
        self.offset += at
        return at

    def take(self) -> tuple[Table, Table, Table]:
        """Return begins, ends and events of devices since the last call."""
        found = (
            table(ROW, self._begins),
            table(END, self._ends),
            table(ROW, self._stages),
        )
        self._begins, self._ends, self._stages = [], [], []
        return found

    def _packet(self, data: bytes, span: Span, offset: int) -> None:
        try:
            packet = Packet(data, span)
            sequence = read_others(self._state, self._pieces, packet, data)
            if packet.event is NO_SPAN and packet.stage is NO_SPAN:
                return
            if not 0 <= packet.time < MAX_TIME:
                self._state.note_log.add(*BAD_TIME, offset)
            elif packet.event is not NO_SPAN:
                self._event(sequence, packet, data)
            else:
                self._stage(sequence, packet, data)
        except WireError:
            self._state.note_log.add(*MALFORMED, offset)

    def _event(self, sequence: Sequence, packet: Packet, data: bytes) -> None:
        kind = track = 0
        row = [MISSING] * len(ROW)
        annotations: list[Span] = []
        for number, wire, value, inner in fields(data, *packet.event):
            if wire == VARINT:
                if number == 9:
                    kind = value
                elif number == 11:
                    track = value
                elif number == 10:
                    row[_NAME] = sequence.names.get(value, MISSING)
                elif number == 3 and row[_CATEGORY] < 0:
                    row[_CATEGORY] = sequence.categories.get(value, MISSING)
            elif wire == LENGTH:
                if number == 4:
                    annotations.append(inner)
                elif number == 23:
                    row[_NAME] = self._state.id_of(data[inner[0] : inner[1]])
                elif number == 22 and row[_CATEGORY] < 0:
                    row[_CATEGORY] = self._state.id_of(data[inner[0] : inner[1]])
        if kind == _TYPE_END:
            place = self._state.track_of(track)
            self._ends.append((packet.time, place, int(packet.flags < 0), self._number))
            self._number += 1
        elif kind == _TYPE_BEGIN:
            row[0] = packet.time
            row[_MARKS] = 0
            self._annotations(sequence, row, annotations, data)
            row[_TRACK_PLACE] = self._state.track_of(track)
            row[_NUMBER] = self._number
            self._number += 1
            self._begins.append(row)

    def _annotations(
        self, sequence: Sequence, row: list[int], spans: list[Span], data: bytes
    ) -> None:
        """Read arguments: numbers into columns, the text of others into a detail."""
        kept: list[tuple[int, bytes]] = []
        uses_tables = is_described = False
        for span in spans:
            key, number, interned = _named(sequence, data, span)
            if key in _PLACE:
                row[_PLACE[key]] = number
            if key in MARKS:
                row[_MARKS] |= 1 << MARKS.index(key)
            if key in _DESCRIBES or key in INPUTS:
                is_described |= key in IS_DESCRIBED
                uses_tables |= interned
                place = INPUTS.index(key) if key in INPUTS else MISSING
                kept.append((place, _field(4, data, span)))
        wanted = 0 if is_described else self._kind(row[_NAME])
        message = b"".join(
            part for place, part in kept if place < 0 or wanted in _KINDS_WITH_INPUT[place]
        )
        if message:
            name = row[_NAME] if wanted else MISSING
            generation = sequence.generation if uses_tables else 0
            row[_DETAIL] = self._detail(sequence, name, generation, message, is_stage=False)

    def _kind(self, name: int) -> int:
        found = self._kinds.get(name)
        if found is None:
            words = self._state.pool.text_of(name) if name >= 0 else ""
            found = self._kinds[name] = input_kind(words)
        return found

    def _detail(
        self, sequence: Sequence, name: int, generation: int, message: bytes, *, is_stage: bool
    ) -> int:
        key = (-2 if is_stage else name, generation, message)
        found = self._known.get(key)
        if found is None:
            found = self._state.describe(sequence, name, message, is_stage=is_stage)
            self._known[key] = found
        return found

    def _stage(self, sequence: Sequence, packet: Packet, data: bytes) -> None:
        row = [MISSING] * len(ROW)
        row[0], row[1], row[_MARKS] = packet.time, 0, 0
        numbers = dict[int, int]()
        label = MISSING
        message = b""
        for number, wire, value, inner in fields(data, *packet.stage):
            if wire == VARINT:
                numbers[number] = value
                if number == 20:
                    label = sequence.names.get(value, MISSING)
            elif wire == LENGTH and number == 6:
                key, digits, _ = _named(sequence, data, inner, extra=True)
                if key in _PLACE:
                    row[_PLACE[key]] = digits
                elif key in _DESCRIBES:
                    message += _field(6, data, inner)
            elif wire == LENGTH and number == 17:
                label = self._state.id_of(data[inner[0] : inner[1]])
            elif wire == LENGTH and number == 21:
                message += _field(21, data, inner)
        row[1] = signed(numbers.get(2, 0))
        row[5] = device = signed(numbers.get(11, 0))
        row[_NUMBER] = signed(numbers[1]) if 1 in numbers else MISSING
        row[_CATEGORY] = self._state.pool.id_of(sequence.specifications.get(numbers.get(14, 0), ""))
        kernel = sequence.kernels.get(numbers[19], MISSING) if 19 in numbers else MISSING
        row[_NAME] = label if label >= 0 else kernel if kernel >= 0 else row[_CATEGORY]
        row[_TRACK_PLACE] = self._state.queue_of(sequence, device, numbers.get(13, 0))
        if message:
            row[_DETAIL] = self._detail(sequence, MISSING, 0, message, is_stage=True)
        self._stages.append(row)


def table(names: tuple[str, ...], rows: Any) -> Table:
    """Return rows, or their bytes, as columns; one whose rows are equal takes no memory."""
    data = rows if isinstance(rows, bytes) else np.array(rows, np.int64).tobytes()
    columns = np.frombuffer(data, np.int64).reshape(-1, len(names)).T
    return {
        name: np.broadcast_to(column[:1], len(column))
        if len(column) and (column == column[0]).all()
        else np.ascontiguousarray(column)
        for name, column in zip(names, columns, strict=True)
    }


def _field(number: int, data: bytes, span: Span) -> bytes:
    """Return a field with a length, as a message has it."""
    size = span[1] - span[0]
    return _varint(number << 3 | LENGTH) + _varint(size) + data[span[0] : span[1]]


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def _named(
    sequence: Sequence, data: bytes, span: Span, *, extra: bool = False
) -> tuple[str, int, bool]:
    """Return the name of an argument, its value as a whole number, and whether either is interned.

    The value is -1 where it is none.
    """
    key, found, interned = "", MISSING, False
    for number, wire, value, inner in fields(data, *span):
        if wire == LENGTH:
            if number == (1 if extra else 10):
                key = text(data, inner)
            elif number == (2 if extra else 6):
                found = _digits(data[inner[0] : inner[1]])
        elif wire == VARINT and not extra:
            if number == 1:
                key, interned = sequence.annotation_names.get(value, ""), True
            elif number in (3, 4):
                found = signed(value)
            elif number == 17:
                interned = True
    return key, found, interned


def _digits(words: bytes) -> int:
    return int(words) if words.isdigit() and len(words) < 19 else MISSING
