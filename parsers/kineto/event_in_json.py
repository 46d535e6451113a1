"""Find one event in the text of a Chrome trace, and return all of its fields.

An event is found by the digits of its time, which few events of a file share; the object around
them is decoded and compared. The text is read once, from the beginning up to the event.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from ccltui.parsers.errors import TraceError
from ccltui.parsers.format import MAX_TEXT, EventRecord, Size3, SoughtEvent
from ccltui.parsers.text.compression import TextChunks
from ccltui.parsers.text.json_text import nanoseconds

_CHUNK_BYTES: Final = 4 << 20
_REACH_BYTES: Final = 256 << 10
"""Longest event on either side of its time."""
_MOST_OBJECTS: Final = 64
"""Objects before a time that are tried as the event around it: those of its arguments."""
_KEY: Final = re.compile(rb'"ts"\s*:\s*"?$')
_KEY_BYTES: Final = 64

_SEPARATE: Final = frozenset({"grid", "block", "registers per thread", "shared memory"}) | {
    "est. achieved occupancy %",
    "Input Dims",
    "Input Types",
    "Input type",
    "Concrete Inputs",
    "Call stack",
    *("Collective name", "In msg nelems", "Out msg nelems", "dtype", "Group size", "Seq"),
    *("Process Group Ranks", "Process Group Name"),
    *("device", "stream", "correlation", "bytes", "blocks per SM"),  # they are columns
}


def read_json_record(path: Path, sought: SoughtEvent, *, shown: str) -> EventRecord:
    """Return the fields of an event of a Chrome trace.

    Raises:
        TraceError: the file cannot be read, or the event is not in it.
    """
    try:
        for event in _at_time(path, sought.start_ns):
            if _is_same(event, sought):
                return _record(event)
    except OSError as error:
        raise TraceError(f"cannot be read ({error.strerror})", path=shown) from error
    raise TraceError("the event is not found in it: it may have changed", path=shown)


def _at_time(path: Path, start_ns: int) -> Iterator[dict[str, Any]]:
    """Yield the objects of a file whose time has the whole microseconds of ``start_ns``."""
    digits = str(start_ns // 1000).encode()
    held = b""
    done = 0  # bytes of ``held`` whose times were all looked at
    for chunk in TextChunks(path, _CHUNK_BYTES):
        held += chunk
        yield from _objects(held, digits, done, len(held) - _REACH_BYTES)
        done = max(len(held) - _REACH_BYTES, 0)
        cut = max(done - _REACH_BYTES, 0)
        held, done = held[cut:], done - cut
    yield from _objects(held, digits, done, len(held))


def _objects(text: bytes, digits: bytes, begin: int, end: int) -> Iterator[dict[str, Any]]:
    """Yield the objects around the times with these digits from ``begin`` to before ``end``."""
    at = text.find(digits, begin)
    while 0 <= at < end:
        if _KEY.search(text[max(at - _KEY_BYTES, 0) : at]):
            found = _object_around(text, at)
            if found is not None:
                yield found
        at = text.find(digits, at + 1)


def _object_around(text: bytes, at: int) -> dict[str, Any] | None:
    """Decode the innermost object around a place, None where there is none within reach."""
    last = text[at : at + _REACH_BYTES].decode("utf-8", "replace")
    brace, first = at, max(at - _REACH_BYTES, 0)
    for _ in range(_MOST_OBJECTS):
        brace = text.rfind(b"{", first, brace)
        if brace < 0:
            return None
        before = text[brace:at].decode("utf-8", "replace")
        try:
            found, end = _DECODER.raw_decode(before + last)
        except (ValueError, RecursionError):
            continue
        if end > len(before) and isinstance(found, dict):
            return found
    return None


_DECODER: Final = json.JSONDecoder(parse_float=str, strict=False)
"""Numbers with a decimal point stay text, so that times stay exact."""


def _is_same(event: Mapping[str, Any], sought: SoughtEvent) -> bool:
    if event.get("name") != sought.name or nanoseconds(event.get("ts")) != sought.start_ns:
        return False
    if event.get("ph") not in ("X", "B"):
        return False
    if "dur" in event and nanoseconds(event["dur"]) != sought.dur_ns:
        return False
    stated = _args(event).get("correlation")
    return sought.correlation < 0 or stated is None or stated == sought.correlation


def _args(event: Mapping[str, Any]) -> Mapping[str, Any]:
    args = event.get("args")
    return args if isinstance(args, dict) else {}


def _record(event: Mapping[str, Any]) -> EventRecord:
    args = _args(event)
    stack = args.get("Call stack")
    return EventRecord(
        grid=_size3(args.get("grid")),
        block=_size3(args.get("block")),
        registers=_whole(args.get("registers per thread")),
        shared_bytes=_whole(args.get("shared memory")),
        occupancy_pct=_share(args.get("est. achieved occupancy %")),
        input_shapes=_text(args.get("Input Dims", "")),
        input_types=_text(args.get("Input type", args.get("Input Types", ""))),
        inputs=_text(args.get("Concrete Inputs", "")),
        call_stack=tuple(stack.split(";")) if isinstance(stack, str) and stack else (),
        further=tuple(
            (name[:MAX_TEXT], _text(value)) for name, value in args.items() if name not in _SEPARATE
        ),
    )


def _size3(value: object) -> Size3 | None:
    if not isinstance(value, list) or len(value) != 3:
        return None
    x, y, z = (_whole(one) for one in value)
    return None if x is None or y is None or z is None else (x, y, z)


def _whole(value: object) -> int | None:
    return value if type(value) is int and value >= 0 else None


def _share(value: object) -> float | None:
    """Return a percentage; PyTorch writes 0 where it has no estimate."""
    try:
        found = float(value) if isinstance(value, int | str) else 0.0
    except (ValueError, OverflowError):
        return None
    return found if 0 < found <= 100 else None


def _text(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text[:MAX_TEXT]
