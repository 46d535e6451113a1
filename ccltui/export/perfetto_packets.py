"""Encode packets of Perfetto's protobuf trace format.

Written by hand: slices are encoded as rows of equal length in numpy, at 18 to 30 times the rate of
the message classes of the `perfetto` package (`bench/export_rate.py`). A varint may be longer than
its value needs, so every field has a fixed place. Tests read the result with that package.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from ccltui.parsers.array_types import I32, I64
from ccltui.parsers.pftrace.packet_scan import PIECES

Bytes = npt.NDArray[np.uint8]

SLICE_BEGIN: Final = 1
SLICE_END: Final = 2
INSTANT: Final = 3
COUNTER: Final = 4

_VARINT, _FIXED64, _LENGTH = 0, 1, 2

# Fields by message, from perfetto_trace.proto.
_PACKET: Final = 1
_TIMESTAMP, _SEQUENCE, _TRACK_EVENT, _INTERNED, _FLAGS, _DESCRIPTOR = 8, 10, 11, 12, 13, 60
_CLEARED, _NEEDS_STATE = 1, 2
_EVENT_TYPE, _EVENT_NAME_ID, _EVENT_TRACK, _EVENT_NAME = 9, 10, 11, 23
_EVENT_ANNOTATION, _EVENT_COUNTER, _EVENT_FLOW = 4, 30, 47
_ANNOTATION_INT, _ANNOTATION_DOUBLE, _ANNOTATION_TEXT, _ANNOTATION_NAME = 4, 5, 6, 10
_CATEGORIES, _NAMES = 1, 2
_TRACK_ID, _TRACK_NAME, _TRACK_PROCESS, _TRACK_PARENT, _TRACK_COUNTER = 1, 2, 3, 5, 8
_TRACK_ORDERING, _TRACK_RANK, _EXPLICIT = 11, 12, 3
_PROCESS_ID, _PROCESS_NAME = 1, 6
_COUNTER_UNIT_NAME = 6

# A begin and an end in fields of fixed length; zeros are filled in for each slice.
_BEGIN: Final = (
    b"\x0a\x20\x40" + bytes(8) + b"\x50" + bytes(3) + b"\x68\x02"  # time, sequence, flags
    b"\x5a\x0f\x48\x01\x58" + bytes(5) + b"\x50" + bytes(4) + b"\x18\x00"  # track, name, category
)
_END: Final = (
    b"\x0a\x20\x40" + bytes(10) + b"\x50" + bytes(3) + b"\x68\x02\x5a\x0d\x48\x02\x58" + bytes(10)
)
ROW_BYTES: Final = len(_BEGIN)
assert len(_END) == ROW_BYTES

MAX_TIME_NS: Final = 1 << 56
"""Times of slices are below this: eight bytes of seven bits."""


def slices(
    start_ns: I64,
    end_ns: I64,
    name: I32,
    category: int,
    *,
    track: int,
    sequence: int,
    order: tuple[I64, I64],
) -> Bytes:
    """Encode n slices of one track.

    Args:
        start_ns: int64 [n], 0 to `MAX_TIME_NS`.
        end_ns: int64 [n], the same.
        name: interned names, int32 [n], above 0.
        category: interned category, 1 to 127.
        track: id of the track, below 2**35.
        sequence: id of the sequence that interned the names, below 2**21.
        order: places of begins and ends, from `slice_nesting.places`.
    """
    rows = np.empty((2 * len(start_ns), ROW_BYTES), np.uint8)
    begin = np.tile(np.frombuffer(_BEGIN, np.uint8), (len(start_ns), 1))
    _fill(begin, 3, 8, start_ns)
    _fill(begin, 12, 3, sequence)
    _fill(begin, 22, 5, track)
    _fill(begin, 28, 4, name)
    begin[:, 33] = category
    rows[order[0]] = begin
    end = np.tile(np.frombuffer(_END, np.uint8), (len(start_ns), 1))
    _fill(end, 3, 10, end_ns)
    _fill(end, 14, 3, sequence)
    _fill(end, 24, 10, track)
    rows[order[1]] = end
    return rows


def _fill(rows: Bytes, at: int, width: int, value: I64 | I32 | int) -> None:
    """Write varints of exactly ``width`` bytes into columns of ``rows``."""
    for place in range(width):
        more = 0x80 if place < width - 1 else 0
        rows[:, at + place] = ((value >> min(7 * place, 63)) & 0x7F) | more


def interned(
    sequence: int, names: Mapping[int, str], categories: Mapping[int, str] | None = None
) -> bytes:
    """Encode the packet that begins a sequence and states the texts of its ids."""
    texts = [(_CATEGORIES, id_, text) for id_, text in (categories or {}).items()]
    texts += [(_NAMES, id_, text) for id_, text in names.items()]
    data = b"".join(_message(kind, _number(1, id_) + _text(2, text)) for kind, id_, text in texts)
    state = _number(_SEQUENCE, sequence) + _number(_FLAGS, _CLEARED | _NEEDS_STATE)
    return _message(_PACKET, state + _message(_INTERNED, data))


def process(track: int, number: int, name: str) -> bytes:
    """Encode a track for a process, to which tracks with it as parent belong."""
    stated = _number(_PROCESS_ID, number) + _text(_PROCESS_NAME, name)
    ordered = _number(_TRACK_ORDERING, _EXPLICIT)
    return _descriptor(_number(_TRACK_ID, track) + _message(_TRACK_PROCESS, stated) + ordered)


def track(id_: int, name: str, parent: int, rank: int = 0, *, counter_unit: str = "") -> bytes:
    """Encode a track below ``parent`` (0: at the top); a lower ``rank`` is shown first."""
    stated = _number(_TRACK_ID, id_) + _text(_TRACK_NAME, name) + _number(_TRACK_RANK, rank)
    if parent:
        stated += _number(_TRACK_PARENT, parent)
    if counter_unit:
        stated += _message(_TRACK_COUNTER, _text(_COUNTER_UNIT_NAME, counter_unit))
    return _descriptor(stated)


def export_mark() -> bytes:
    """Encode the first packet of an export, by which ccltui recognises it."""
    return _message(_PACKET, _varint(PIECES << 3 | _LENGTH) + _varint(0))


def columns_piece(rank: int, piece: bytes) -> bytes:
    """Encode a piece of the columns of a rank, which Perfetto ignores and ccltui reads back."""
    stated = _number(1, rank) + _message(2, piece)
    return _message(_PACKET, _varint(PIECES << 3 | _LENGTH) + _varint(len(stated)) + stated)


def event(
    time_ns: int,
    kind: int,
    track_id: int,
    sequence: int,
    *,
    name: str = "",
    annotations: Mapping[str, int | float | str | None] | None = None,
    flow: int | None = None,
    counter: int | None = None,
) -> bytes:
    """Encode one event with its annotations; those that are None are left out."""
    stated = _number(_EVENT_TYPE, kind) + _number(_EVENT_TRACK, track_id)
    if name:
        stated += _text(_EVENT_NAME, name)
    if counter is not None:
        stated += _number(_EVENT_COUNTER, counter)
    if flow is not None:
        stated += _TAGS[_EVENT_FLOW << 3 | _FIXED64] + flow.to_bytes(8, "little")
    stated += b"".join(
        [_annotated(key, value) for key, value in (annotations or {}).items() if value is not None]
    )
    around = _number(_TIMESTAMP, time_ns) + _number(_SEQUENCE, sequence)
    return _message(_PACKET, around + _message(_TRACK_EVENT, stated))


@lru_cache(maxsize=1 << 16, typed=True)
def _annotated(key: str, value: int | float | str) -> bytes:
    return _message(_EVENT_ANNOTATION, _text(_ANNOTATION_NAME, key) + _annotation(value))


def _annotation(value: int | float | str) -> bytes:
    if isinstance(value, str):
        return _text(_ANNOTATION_TEXT, value)
    if isinstance(value, int):
        return _number(_ANNOTATION_INT, value)
    return _varint(_ANNOTATION_DOUBLE << 3 | _FIXED64) + struct.pack("<d", value)


def _descriptor(stated: bytes) -> bytes:
    return _message(_PACKET, _message(_DESCRIPTOR, stated))


def _message(field: int, data: bytes) -> bytes:
    return _TAGS[field << 3 | _LENGTH] + _varint(len(data)) + data


def _text(field: int, text: str) -> bytes:
    return _message(field, text.encode("utf-8", "replace"))


def _number(field: int, value: int) -> bytes:
    return _TAGS[field << 3 | _VARINT] + _varint(value & (1 << 64) - 1)


def _varint(value: int) -> bytes:
    if value < 0x80:
        return _SMALL[value]
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


_SMALL: Final = [bytes([value]) for value in range(0x80)]
_TAGS: Final = [_varint(value) for value in range((_DESCRIPTOR + 1) << 3)]
