"""Read a memory snapshot: sizes by device, peaks from its events, and who holds the memory.

`torch.cuda.memory._dump_snapshot` writes segments (what the allocator took from the device), their
blocks, and a ring of the last events of each device. A pickle is never loaded. Of events, which may
be millions, only sums are kept: each is read as a row of four values (`pickle_rows.py`).
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from ccltui.parsers.errors import TraceError
from ccltui.parsers.safe_text import printable
from ccltui.parsers.text.pickle_rows import Take
from ccltui.parsers.text.plain_pickle import read_plain_pickle

MOST_BYTES: Final = 1 << 30
"""Twelve million events, which take a minute; nothing is kept of them but sums."""
_CHUNK: Final = 1 << 22
_MOST_STACKS: Final = 5
_MOST_OOMS: Final = 16
NO_STACK: Final = "no stack recorded"
"""The place of blocks whose allocation was recorded without one."""
_LARGEST: Final = 1 << 50
"""A size in bytes beyond it is none of a device."""
_RESERVED, _ALLOCATED = 0, 1
_ACTIONS: Final = {
    "segment_alloc": (_RESERVED, 1),
    "segment_map": (_RESERVED, 1),
    "segment_free": (_RESERVED, -1),
    "segment_unmap": (_RESERVED, -1),
    "alloc": (_ALLOCATED, 1),
    "free_completed": (_ALLOCATED, -1),
}
"""What an event changes, and its sign."""
_OF_LIBRARY: Final = ("/torch/", "/site-packages/", "/dist-packages/", "<")
"""In the names of files of frames that are not the user's."""


class OutOfMemory(Struct, frozen=True):
    """An allocation that failed: what was asked for, and what was free on the device, in bytes.

    ``time_us`` since 1970 tells events apart, None where it is not recorded.
    """

    asked: int
    device_free: int | None
    time_us: int | None


class LiveStack(Struct, frozen=True):
    """Memory in use that was allocated at one place."""

    place: str
    size_bytes: int
    blocks: int


class _Tally:
    """Sums over the events of one device, in the order of time."""

    def __init__(self) -> None:
        self.count = 0
        self.ooms: deque[OutOfMemory] = deque(maxlen=_MOST_OOMS)
        self._change = [0, 0]  # of reserved and of allocated memory since the first event
        self._peak = [0, 0]

    def take(self, row: tuple[Any, ...]) -> None:
        """Add an event: its action, size, free memory of the device and time."""
        action, size, device_free, time_us = row
        self.count += 1
        if not isinstance(action, str):
            return
        known = _ACTIONS.get(action)
        if known is not None:
            what, sign = known
            change = self._change[what] + sign * (_in_range(size) or 0)
            self._change[what] = change
            self._peak[what] = max(self._peak[what], change)
        elif action == "oom":
            asked = _in_range(size) or 0
            self.ooms.append(OutOfMemory(asked, _in_range(device_free), _in_range(time_us)))

    def peak(self, what: int, last: int) -> int | None:
        """Return the largest size since the first event, from the size after the last one."""
        if not self.count:
            return None
        return max(last, last - self._change[what] + self._peak[what])


class _Events:
    """The lists of events of a snapshot, of which sums are kept."""

    key: Final = "device_traces"
    fields: Final = ("action", "size", "device_free", "time_us")

    def __init__(self) -> None:
        self._tallies: dict[int, tuple[list[Any], _Tally]] = {}  # by id of the list, kept beside

    def begin(self, target: list[Any]) -> Take:
        """Return what takes the events of a list; those that are in it are taken first."""
        _, tally = self._tallies.setdefault(id(target), (target, _Tally()))
        for event in _dictionaries(target):
            tally.take(tuple(event.get(field) for field in self.fields))
        target.clear()
        return tally.take

    def of(self, trace: Any) -> _Tally | None:
        """Return the sums over a list of events, None where it is none."""
        if not isinstance(trace, list):
            return None
        self.begin(trace)
        return self._tallies[id(trace)][1]


class DeviceMemory(Struct, frozen=True):
    """What a process holds on one device, in bytes.

    ``reserved`` is taken from the device, ``allocated`` of it is in use, ``inactive`` is free for
    reuse, at most ``largest_inactive`` at once. Peaks are those since the oldest recorded event,
    None where none is recorded: the ring holds the last events only.
    """

    device: int
    reserved: int
    allocated: int
    inactive: int
    largest_inactive: int
    peak_reserved: int | None
    peak_allocated: int | None
    events: int
    ooms: tuple[OutOfMemory, ...]
    stacks: tuple[LiveStack, ...]


def read_memory_snapshot(path: Path, *, shown: str) -> tuple[DeviceMemory, ...]:
    """Return what a snapshot states of each device.

    Raises:
        TraceError: It cannot be read, is too large, cut off, or no snapshot.
    """
    try:
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise TraceError(
                f"a memory snapshot of {size >> 20:,} MiB; {MOST_BYTES >> 20} are the most that is "
                "read: record fewer events (max_entries)", path=shown,
            )  # fmt: skip
        events = _Events()
        with path.open("rb") as file:
            read = read_plain_pickle(file.read(_CHUNK), shown=shown, more=file.read, rows=events)
    except OSError as error:
        raise TraceError(f"cannot be read: {error.strerror or error}", path=shown) from error
    if read.cut:
        note = read.notes[0]
        raise TraceError(f"{note.message}: its sizes would be too small", path=shown,
                         offset=note.offset)  # fmt: skip
    value = read.value
    segments = value.get("segments") if isinstance(value, Mapping) else value
    if not isinstance(segments, list) or (segments and not _dictionaries(segments)):
        raise TraceError("no memory snapshot: no list of segments", path=shown)
    traces = value.get("device_traces") if isinstance(value, Mapping) else None
    found = [events.of(one) for one in traces] if isinstance(traces, list) else []
    return tuple(_devices(_dictionaries(segments), found))


def _devices(
    segments: Sequence[Mapping[Any, Any]], traces: Sequence[_Tally | None]
) -> Iterator[DeviceMemory]:
    by_device: dict[int, list[Mapping[Any, Any]]] = defaultdict(list)
    for segment in segments:
        by_device[_size(segment, "device") or 0].append(segment)
    events = {index: one for index, one in enumerate(traces) if one is not None and one.count}
    for device in sorted(set(by_device) | set(events)):
        yield _device(device, by_device.get(device, []), events.get(device) or _Tally())


def _device(device: int, segments: Sequence[Mapping[Any, Any]], events: _Tally) -> DeviceMemory:
    reserved = sum(_size(one, "total_size") or 0 for one in segments)
    allocated = sum(_size(one, "allocated_size") or 0 for one in segments)
    active = sum(_size(one, "active_size") or _size(one, "allocated_size") or 0 for one in segments)
    # Events state what was asked for, before it was rounded up.
    asked = sum(
        _size(one, "allocated_size" if "requested_size" not in one else "requested_size") or 0
        for one in segments
    )
    blocks = [
        block
        for segment in segments
        for block in _dictionaries(segment.get("blocks") if segment.get("blocks") else [])
    ]
    free = [_size(one, "size") or 0 for one in blocks if one.get("state") == "inactive"]
    return DeviceMemory(
        device=device,
        reserved=reserved,
        allocated=allocated,
        inactive=max(reserved - active, 0),
        largest_inactive=max(free, default=0),
        peak_reserved=events.peak(_RESERVED, reserved),
        peak_allocated=events.peak(_ALLOCATED, asked),
        events=events.count,
        ooms=tuple(events.ooms),
        stacks=tuple(_stacks(blocks)),
    )


def _stacks(blocks: Sequence[Mapping[Any, Any]]) -> list[LiveStack]:
    held: dict[str, list[int]] = defaultdict(list)
    places: dict[int, str] = {}  # by id: blocks of one place share their stack
    for block in blocks:
        if block.get("state") == "active_allocated":
            key = id(block.get("frames", block))
            if key not in places:
                places[key] = _place(_frames(block))
            held[places[key]].append(_size(block, "requested_size") or _size(block, "size") or 0)
    stacks = [LiveStack(place, sum(sizes), len(sizes)) for place, sizes in held.items()]
    return sorted(stacks, key=lambda one: (-one.size_bytes, one.place))[:_MOST_STACKS]


def _frames(block: Mapping[Any, Any]) -> list[Mapping[Any, Any]]:
    """Return the stack of an allocation; up to PyTorch 2.0 it is in the history of the block."""
    history = block.get("history")
    if "frames" not in block and isinstance(history, list) and _dictionaries(history[:1]):
        return _dictionaries(history[0].get("frames") or [])
    return _dictionaries(block.get("frames") or [])


def _place(frames: Sequence[Mapping[Any, Any]]) -> str:
    """Return the innermost frame of the user's code, else the innermost that is known."""
    named = [one for one in frames if isinstance(one.get("filename"), str)]
    own = [one for one in named if not any(part in one["filename"] for part in _OF_LIBRARY)]
    own = [one for one in own if one["filename"].endswith(".py")] or own
    if not named:
        return NO_STACK
    first = (own or named)[0]
    name = first.get("name")
    text = f"{name if isinstance(name, str) else '?'} "
    text += f"({first['filename'].rpartition('/')[2]}:{_size(first, 'line') or 0})"
    return printable(text[:160])


def _dictionaries(found: Any) -> list[Mapping[Any, Any]]:
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _size(one: Mapping[Any, Any], key: str) -> int | None:
    return _in_range(one.get(key))


def _in_range(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value <= _LARGEST else None
