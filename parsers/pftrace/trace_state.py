"""What packets of a Perfetto trace refer to: interned texts, tracks, counters, arguments of events.

Packets with these are few. They are read here for both scanners of events (`packet_scan`).

Source: perfetto/trace/trace_packet.proto, and the writer of PyTorch
(torch/csrc/profiler/cupti/monitor_pftrace.cpp), which states kernels and names of their arguments
in fields 1000 and 1001 of interned data.

Written by hand: nothing generated from a schema is needed for the few messages that are read, and
each error has the byte at which it is.

Source: https://protobuf.dev/programming-guides/encoding.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from ccltui.parsers.columns import MISSING
from ccltui.parsers.kineto.event_list import NoteLog
from ccltui.parsers.kineto.scanner.typed_event import StringPool

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
"""Wire types. Groups (3 and 4) have not been written since 2008 and are malformed here."""
MOST_VARINT_BYTES: Final = 10
_U64: Final = (1 << 64) - 1
_MAX_FIELD: Final = 1 << 29

Span = tuple[int, int]
"""Begin and end of bytes of a field with a length."""
Field = tuple[int, int, int, Span]
"""Number, wire type, number as unsigned 64 bits (0 of a field with a length), span."""
NO_SPAN: Final[Span] = (0, 0)


class WireError(ValueError):
    """Bytes that are no message; ``offset`` is where in the data."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.offset = offset


def varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Return a varint as unsigned 64 bits, and the byte after it. Raises WireError."""
    value = shift = 0
    for place in range(at, min(end, at + MOST_VARINT_BYTES)):
        byte = data[place]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _U64, place + 1
        shift += 7
    raise WireError("a number without an end", at)


def fields(data: bytes, begin: int = 0, end: int | None = None) -> Iterator[Field]:
    """Yield the fields of a message. Raises WireError where the bytes are none."""
    at, end = begin, len(data) if end is None else end
    while at < end:
        first = at
        tag, at = varint(data, at, end)
        number, kind = tag >> 3, tag & 7
        if not 0 < number < _MAX_FIELD:
            raise WireError("a field without a number", first)
        if kind == VARINT:
            value, at = varint(data, at, end)
            yield number, kind, value, NO_SPAN
        elif kind == LENGTH:
            size, at = varint(data, at, end)
            if size > end - at:
                raise WireError("a field is longer than its message", first)
            yield number, kind, 0, (at, at + size)
            at += size
        elif kind in (FIXED64, FIXED32):
            size = 8 if kind == FIXED64 else 4
            if size > end - at:
                raise WireError("a field is longer than its message", first)
            yield number, kind, int.from_bytes(data[at : at + size], "little"), NO_SPAN
            at += size
        else:
            raise WireError("a wire type that is not in use", first)


def signed(value: int) -> int:
    """Return unsigned 64 bits as the signed number that they stand for."""
    return value - (1 << 64) if value >= 1 << 63 else value


def double(value: int) -> float:
    """Return the floating-point number of 64 bits."""
    found: float = struct.unpack("<d", value.to_bytes(8, "little"))[0]
    return found


def text(data: bytes, span: Span) -> str:
    """Return a text; bytes that are not UTF-8 are replaced."""
    return data[span[0] : span[1]].decode("utf-8", "replace")


STATE_CLEARED: Final = 1  # of the flags of a packet
_CATEGORY, _EVENT_NAME, _ANNOTATION_NAME, _ANNOTATION_VALUE = 1, 2, 3, 29
_SPECIFICATION, _COUNTERS, _KERNEL = 24, 47, 1000
_DEEPEST: Final = 32
"""Levels of lists in an argument: PyTorch writes three (tensors, shapes, sizes)."""

NUMBERS: Final = (
    *("correlation", "External id", "bytes", "device", "stream", "Seq", "Record function id"),
    *("stream id", "device id"),
)
"""Arguments that are whole numbers and differ from event to event: they have columns."""
INPUTS: Final = ("Input Dims", "Input type", "Concrete Inputs")
"""Arguments of operators that are read where the name of the operator asks for them."""
DESCRIPTIONS: Final = (
    *("Collective name", "In msg nelems"),  # with one of these the inputs are not read
    *("Out msg nelems", "dtype", "Process Group Name", "Process Group ID", "Group size"),
    *("Process Group Description", "Process Group Ranks", "In split size", "Out split size"),
    *("Comms Id", "Src Rank", "Dst Rank", "Is asynchronized op", "Global rank start"),
    *("Global rank stride", "grid", "blocks per SM", "est. achieved occupancy %"),
)
"""Arguments that many events share: each combination of them is decoded once."""
MARKS: Final = ("cbid", "cuda_sync_kind", "Python id", "grid", "External id")
"""Arguments that show the category of an event where the file states none, in order of bits."""
_NUMERIC: Final = frozenset(
    (
        *("In msg nelems", "Out msg nelems", "Group size", "Src Rank", "Dst Rank"),
        *("Global rank start", "Global rank stride"),
    )
)
_TRUTHS: Final = {"true": True, "false": False}

COPIES_OF_CLOCK: Final = "Cycles (Current Kernel)"
"""A counter with a reading for each kernel: its duration times the median clock, no measurement."""


class TrackDescriptor(Struct):
    """A track that events name by its id; ``pid`` and ``tid`` are None where it states none."""

    name: str = ""
    parent: int = 0
    pid: int | None = None
    tid: int | None = None
    is_process: bool = False


class Thread(Struct, frozen=True):
    """Track of slices; ``process`` is the name of its process."""

    pid: int | None
    tid: int
    name: str = ""
    process: str = ""


class Queue(Struct, frozen=True):
    """Track of the events of a device: a queue of it, "[07] stream 7" where it has a name."""

    device: int
    number: int
    name: str


class Sequence(Struct):
    """Tables of one sequence of packets, by interned id.

    ``generation`` differs between tables: the same ids may stand for other texts in the next.
    """

    generation: int
    categories: dict[int, int] = field(default_factory=dict)
    names: dict[int, int] = field(default_factory=dict)
    annotation_names: dict[int, str] = field(default_factory=dict)
    annotation_values: dict[int, str] = field(default_factory=dict)
    specifications: dict[int, str] = field(default_factory=dict)
    kernels: dict[int, int] = field(default_factory=dict)
    counters: dict[int, tuple[int, dict[int, int]]] = field(default_factory=dict)


class Detail(Struct):
    """Arguments that events share, by their names in JSON traces; ``name`` is that of the event."""

    name: str
    arguments: dict[str, Any]


class TraceState:
    """Everything of a trace but its events.

    Attributes:
        tracks: Descriptor of each track that is known, by id.
        used: Tracks that events name, as they were described when the first event did.
        details: Arguments of events, by the number that their rows have.
        samples: Time, device, name and value of the readings of counters.
        is_export: Whether `ccltui export` wrote the file.
    """

    def __init__(self, pool: StringPool, note_log: NoteLog) -> None:
        self.pool = pool
        self.note_log = note_log
        self.tracks: dict[int, TrackDescriptor] = {}
        self.used: list[Thread | Queue] = []
        self._places: dict[tuple[str, int, int], int] = {}
        self.details: list[Detail] = []
        self.samples: list[tuple[int, int, int, float]] = []
        self.processes: dict[int, str] = {}
        self.is_export = False
        self._sequences: dict[int, Sequence] = {}
        self._generations = 0

    def sequence(self, number: int, flags: int = 0) -> Sequence:
        """Return the tables of a sequence, empty ones where its packet clears them."""
        found = self._sequences.get(number)
        if found is None or flags & STATE_CLEARED:
            self._generations += 1
            found = self._sequences[number] = Sequence(self._generations)
        return found

    def track_of(self, key: int) -> int:
        """Return the place in ``used`` of a track that an event names."""
        found = self._places.get(("slice", key, 0))
        return self._use(("slice", key, 0), self._thread_of(key)) if found is None else found

    def queue_of(self, sequence: Sequence, device: int, queue: int) -> int:
        """Return the place in ``used`` of the track of a queue of a device."""
        key = ("stage", device, queue)
        found = self._places.get(key)
        if found is not None:
            return found
        return self._use(key, Queue(device, queue, sequence.specifications.get(queue, "")))

    def _use(self, key: tuple[str, int, int], track: Thread | Queue) -> int:
        self._places[key] = len(self.used)
        self.used.append(track)
        return self._places[key]

    def _thread_of(self, key: int) -> Thread:
        found = self.tracks.get(key)
        if found is None:
            return Thread(None, key)
        above = self.tracks.get(found.parent)
        pid = found.pid if found.pid is not None or above is None else above.pid
        name = "" if found.is_process else found.name
        process = "" if pid is None else self.processes.get(pid, "")
        return Thread(pid, key if found.tid is None else found.tid, name, process)

    def id_of(self, data: bytes) -> int:
        """Return the id of a text."""
        return self.pool.id_of(data.decode("utf-8", "replace"))

    def intern(self, sequence: Sequence, data: bytes, span: Span) -> None:
        """Add interned data to the tables. Raises WireError."""
        for number, kind, _, inner in fields(data, *span):
            if kind != LENGTH:
                continue
            if number in _TEXT_FIELD:
                self._intern_text(sequence, number, data, inner)
            elif number == _COUNTERS:
                self._intern_counters(sequence, data, inner)

    def _intern_text(self, sequence: Sequence, number: int, data: bytes, span: Span) -> None:
        key, words = 0, ""
        for inner, kind, value, place in fields(data, *span):
            if inner == 1 and kind == VARINT:
                key = value
            elif inner in _TEXT_FIELD[number] and kind == LENGTH:
                words = text(data, place)
        if number == _EVENT_NAME:
            sequence.names[key] = self.pool.id_of(words)
        elif number == _CATEGORY:
            sequence.categories[key] = self.pool.id_of(words)
        elif number == _KERNEL:
            sequence.kernels[key] = self.pool.id_of(words)
        elif number == _ANNOTATION_NAME:
            sequence.annotation_names[key] = words
        elif number == _ANNOTATION_VALUE:
            sequence.annotation_values[key] = words
        else:
            sequence.specifications[key] = words

    def _intern_counters(self, sequence: Sequence, data: bytes, span: Span) -> None:
        key, device, names = 0, MISSING, {}
        for number, kind, value, inner in fields(data, *span):
            if number == 1 and kind == VARINT:
                key = value
            elif number == 3 and kind == VARINT:
                device = signed(value)
            elif number == 2 and kind == LENGTH:
                names = self._counter_names(data, inner)
        sequence.counters[key] = (device, names)

    def _counter_names(self, data: bytes, span: Span) -> dict[int, int]:
        names = {}
        for number, kind, _, inner in fields(data, *span):
            if number == 1 and kind == LENGTH:
                key, words = 0, ""
                for part, part_kind, value, place in fields(data, *inner):
                    if part == 1 and part_kind == VARINT:
                        key = value
                    elif part == 2 and part_kind == LENGTH:
                        words = text(data, place)
                names[key] = self.pool.id_of(words)
        return names

    def describe_track(self, data: bytes, span: Span) -> None:
        """Add the description of a track. Raises WireError."""
        key, found = 0, TrackDescriptor()
        for number, kind, value, inner in fields(data, *span):
            if kind == VARINT and number == 1:
                key = value
            elif kind == VARINT and number == 5:
                found.parent = value
            elif kind == LENGTH and number == 2:
                found.name = text(data, inner)
            elif kind == LENGTH and number == 3:
                found.is_process = True
                found.pid, _, found.name = _identity(data, inner, 6, found.name)
            elif kind == LENGTH and number == 4:
                found.pid, found.tid, found.name = _identity(data, inner, 5, found.name)
        self.tracks[key] = found
        if found.is_process and found.pid is not None:
            self.processes[found.pid] = found.name

    def count(self, sequence: Sequence, time_ns: int, data: bytes, span: Span) -> None:
        """Add the readings of a counter event. Raises WireError."""
        device, names = MISSING, dict[int, int]()
        readings: list[tuple[int, float]] = []
        for number, kind, value, inner in fields(data, *span):
            if number == 4 and kind == VARINT:
                device, names = sequence.counters.get(value, (device, names))
            elif number == 3 and kind == VARINT:
                device = signed(value)
            elif number == 1 and kind == LENGTH:
                names = self._counter_names(data, inner)
            elif number == 2 and kind == LENGTH:
                readings.append(_reading(data, inner))
        for counter, stated in readings:
            name = names.get(counter, MISSING)
            if name >= 0 and self.pool.text_of(name) != COPIES_OF_CLOCK:
                self.samples.append((time_ns, device, name, stated))

    def describe(self, sequence: Sequence, name: int, message: bytes, *, is_stage: bool) -> int:
        """Decode arguments that events share, and return their number.

        Args:
            sequence: Tables of the interned ids.
            name: Text id of the name of the event, -1 without one.
            message: The fields of these arguments, as the event has them.
            is_stage: Whether it is the event of a device.
        """
        words = self.pool.text_of(name) if name >= 0 else ""
        arguments = _stage(message) if is_stage else self._annotations(sequence, message)
        self.details.append(Detail(words, arguments))
        return len(self.details) - 1

    def _annotations(self, sequence: Sequence, message: bytes) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for number, kind, _, span in fields(message):
            if number == 4 and kind == LENGTH:
                key, value = _annotation(sequence, message, span, _DEEPEST)
                found[key] = value
        return found


_TEXT_FIELD: Final = dict.fromkeys(
    (_CATEGORY, _EVENT_NAME, _ANNOTATION_NAME, _ANNOTATION_VALUE, _SPECIFICATION), (2,)
) | {_KERNEL: (2, 3)}
"""Fields with the text of each message of interned data; kernels have a demangled name too."""


def _identity(
    data: bytes, span: Span, name_field: int, name: str
) -> tuple[int | None, int | None, str]:
    """Return pid, tid and name of a process or a thread."""
    pid = tid = None
    for number, kind, value, inner in fields(data, *span):
        if number == 1 and kind == VARINT:
            pid = signed(value)
        elif number == 2 and kind == VARINT:
            tid = signed(value)
        elif number == name_field and kind == LENGTH:
            name = text(data, inner)
    return pid, tid, name


def _reading(data: bytes, span: Span) -> tuple[int, float]:
    counter, found = MISSING, float("nan")
    for number, _, value, _ in fields(data, *span):
        if number == 1:
            counter = value
        elif number == 2:
            found = float(signed(value))
        elif number == 3:
            found = double(value)
    return counter, found


def _annotation(sequence: Sequence, data: bytes, span: Span, levels: int) -> tuple[str, Any]:
    """Return name and value of an argument, None for a value that is nested too deep."""
    key = ""
    found: Any = None
    items: list[Any] = []
    is_list = False
    for number, kind, value, inner in fields(data, *span):
        if kind == LENGTH and number == 10:
            key = text(data, inner)
        elif kind == VARINT and number == 1:
            key = sequence.annotation_names.get(value, "")
        elif kind == VARINT and number == 2:
            found = bool(value)
        elif kind == VARINT and number in (3, 4):
            found = value if number == 3 else signed(value)
        elif number == 5 and kind != LENGTH:
            found = double(value)
        elif kind == LENGTH and number == 6:
            found = text(data, inner)
        elif kind == VARINT and number == 17:
            found = sequence.annotation_values.get(value)
        elif kind == LENGTH and number == 12:
            is_list = True
            if levels:
                items.append(_annotation(sequence, data, inner, levels - 1)[1])
    return key, items if is_list else found


def _stage(message: bytes) -> dict[str, Any]:
    """Return the arguments of an event of a device; all values but the grid are texts there."""
    found: dict[str, Any] = {}
    for number, kind, _, span in fields(message):
        if kind != LENGTH:
            continue
        if number == 21:
            for inner, inner_kind, _, place in fields(message, *span):
                if inner == 1 and inner_kind == LENGTH:
                    sizes = {one: value for one, _, value, _ in fields(message, *place)}
                    found["grid"] = [sizes.get(axis, 0) for axis in (1, 2, 3)]
        elif number == 6:
            key = value = ""
            for inner, inner_kind, _, place in fields(message, *span):
                if inner_kind == LENGTH and inner == 1:
                    key = text(message, place)
                elif inner_kind == LENGTH and inner == 2:
                    value = text(message, place)
            found[key] = _typed(key, value)
    return found


def _typed(key: str, value: str) -> Any:
    """Return a value as JSON traces have it."""
    if key in _NUMERIC and value.isascii() and value.isdecimal() and len(value) < 19:
        return int(value)
    return _TRUTHS.get(value, value) if key == "Is asynchronized op" else value


def members_of(arguments: dict[str, Any]) -> bytes:
    """Return arguments as the members of a JSON object, without its braces."""
    return msgspec.json.format(msgspec.json.encode(arguments), indent=0)[1:-1]
