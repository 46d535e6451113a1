"""Decode the wire format of protocol buffers: fields of a message, one by one.

Written by hand: nothing generated from a schema is needed for the few messages that are read, and
each error has the byte at which it is.

Source: https://protobuf.dev/programming-guides/encoding.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

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
