"""Write Perfetto traces as PyTorch writes them, from the JSON of the same recording.

Made from PyTorch's writer (torch/csrc/profiler/cupti/monitor_pftrace.cpp and
torch/profiler/_cupti/monitor_trace.py), in both of its layouts, without the code of the export.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any, Literal

Layout = Literal["slices", "stages"]
"""Of the version in which kernels are slices, or of that in which they are stages of a device."""

HOST = ("cpu_op", "user_annotation", "python_function")
STAGES = {"kernel": 1, "gpu_memcpy": 2, "gpu_memset": 3, "gpu_user_annotation": 4}
NAMES_OF_STAGES = ("Kernel", "Memcpy", "Memset", "Annotation")
LANES_FROM = 100
COUNTERS_ID = 5


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def field(number: int, value: int | float | str | bytes) -> bytes:
    """Encode one field: a whole number, a double, a text or a message."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | 1) + struct.pack("<d", value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def packet(*parts: bytes) -> bytes:
    return field(1, b"".join(parts))


def annotation(key: str, value: Any) -> bytes:
    """Encode an argument, its value as `_value` does."""
    return field(4, field(10, key) + _value(value))


def _value(value: Any) -> bytes:
    if isinstance(value, bool):
        return field(2, int(value))
    if isinstance(value, int):
        return field(4, value)
    if isinstance(value, float):
        return field(5, value)
    if isinstance(value, list):
        return b"".join(field(12, _value(item)) for item in value)
    return field(6, "null" if value is None else str(value))


def begin(time: int, track: int, name: int, *parts: bytes, flags: bool = True) -> bytes:
    stated = field(9, 1) + field(11, track) + field(10, name) + b"".join(parts)
    state = field(13, 2) if flags else b""
    return packet(field(8, time), field(10, 1), state, field(11, stated))


def end(time: int, track: int, *, flags: bool = False) -> bytes:
    state = field(13, 2) if flags else b""
    return packet(field(8, time), field(10, 1), state, field(11, field(9, 2) + field(11, track)))


def process_track(track: int, pid: int, name: str) -> bytes:
    return packet(field(60, field(1, track) + field(3, field(1, pid) + field(6, name))))


def thread_track(track: int, parent: int, pid: int, tid: int, name: str) -> bytes:
    thread = field(1, pid) + field(2, tid) + field(5, name)
    return packet(field(60, field(1, track) + field(5, parent) + field(4, thread)))


def interned(*parts: bytes) -> bytes:
    return packet(field(10, 1), field(13, 1), field(12, b"".join(parts)))


def text(kind: int, key: int, words: str) -> bytes:
    """Encode an interned text: 1 for a category, 2 for a name, 24 for a stage or a queue."""
    return field(kind, field(1, key) + field(2, words))


def counters(specs: Sequence[str], gpu: int) -> bytes:
    inner = b"".join(field(1, field(1, n) + field(2, name)) for n, name in enumerate(specs))
    return field(47, field(1, COUNTERS_ID) + field(3, gpu) + field(2, inner))


def reading(time: int, counter: int, value: float) -> bytes:
    stated = field(4, COUNTERS_ID) + field(2, field(1, counter) + field(3, float(value)))
    return packet(field(8, time), field(10, 1), field(13, 2), field(52, stated))


class PytorchFile:
    """A file in one of PyTorch's layouts.

    ``samples`` are readings of counters: (time in ns, name, value).
    """

    def __init__(
        self,
        document: dict[str, Any],
        layout: Layout = "stages",
        samples: Iterable[tuple[int, str, float]] = (),
    ) -> None:
        self._base = int(document.get("baseTimeNanoseconds", 0))
        self._layout = layout
        self._samples = list(samples)
        self._events = [e for e in document["traceEvents"] if e.get("ph") == "X"]
        self._labels = {
            (e["pid"], "" if e["name"] == "process_name" else e["tid"]): e["args"]["name"]
            for e in document["traceEvents"]
            if e.get("ph") == "M" and e["name"] in ("process_name", "thread_name")
        }
        self._tracks: dict[tuple[Any, Any], int] = {}
        self._described: list[bytes] = []
        self._names: dict[str, int] = {}
        self._categories: dict[str, int] = {}

    @staticmethod
    def categories() -> tuple[str, ...]:
        """Categories of events that are written."""
        return (*HOST, "cuda_runtime", "cuda_driver", "cuda_sync", *STAGES)

    def encoded(self) -> bytes:
        groups = [self._group(HOST), self._group(("cuda_runtime",)), self._group(("cuda_driver",))]
        if self._layout == "slices":
            groups += [self._group((one,)) for one in STAGES]
        groups.append(self._group(("cuda_sync",)))
        stages = self._stages() if self._layout == "stages" else []
        readings = [
            reading(time, self._counter_names().index(name), value)
            for time, name, value in self._samples
        ]
        return b"".join([*self._described, self._tables(), *groups, *stages, *readings])

    def _tables(self) -> bytes:
        found = [text(2, key, name) for name, key in self._names.items()]
        if self._layout == "stages":
            found += [text(1, key, name) for name, key in self._categories.items()]
            found += [text(24, key, name) for key, name in enumerate(NAMES_OF_STAGES, 1)]
            lanes = sorted({stream for _, stream in self._lanes()})
            found += [
                text(24, LANES_FROM + place, f"[{stream:02d}] stream {stream}")
                for place, stream in enumerate(lanes)
            ]
        if self._samples:
            found.append(counters(self._counter_names(), gpu=self._lanes()[0][0]))
        return interned(*found)

    def _counter_names(self) -> list[str]:
        return list(dict.fromkeys(name for _, name, _ in self._samples))

    def _lanes(self) -> list[tuple[int, int]]:
        return [(e["pid"], e["tid"]) for e in self._events if e.get("cat") in STAGES]

    def _name(self, name: str) -> int:
        return self._names.setdefault(name, len(self._names) + 1)

    def _track(self, pid: Any, tid: Any) -> int:
        numbers = self._tracks
        if (pid, None) not in numbers:
            numbers[pid, None] = len(numbers) + 1
            name = self._labels.get((pid, ""), str(pid))
            self._described.append(process_track(numbers[pid, None], pid, name))
        if (pid, tid) not in numbers:
            numbers[pid, tid] = len(numbers) + 1
            name = self._labels.get((pid, tid), str(tid))
            self._described.append(
                thread_track(numbers[pid, tid], numbers[pid, None], pid, tid, name)
            )
        return numbers[pid, tid]

    def _group(self, categories: Sequence[str]) -> bytes:
        """Encode all begins of a group, then all of its ends in the same order."""
        events = [e for e in self._events if e.get("cat") in categories]
        begins, ends = [], []
        for one in events:
            track = self._track(one["pid"], one["tid"])
            parts = [annotation(key, value) for key, value in one.get("args", {}).items()]
            if self._layout == "stages" and one["cat"] != "cuda_sync":
                key = self._categories.setdefault(one["cat"], len(self._categories) + 1)
                parts.insert(0, field(3, key))
            start, duration = times(self._base, one)
            begins.append(begin(start, track, self._name(one["name"]), *parts))
            ends.append(end(start + duration, track))
        return b"".join((*begins, *ends))

    def _stages(self) -> list[bytes]:
        events = [e for e in self._events if e.get("cat") in STAGES]
        lanes = sorted({stream for _, stream in self._lanes()})
        return [self._stage(number, one, lanes) for number, one in enumerate(events, 1)]

    def _stage(self, number: int, event: dict[str, Any], lanes: list[int]) -> bytes:
        arguments = dict(event.get("args", {}))
        start, duration = times(self._base, event)
        stated = field(1, number) + field(2, duration) + field(11, event["pid"])
        stated += field(13, LANES_FROM + lanes.index(event["tid"]))
        stated += field(14, STAGES[event["cat"]]) + field(5, 1)
        stated += field(20, self._name(event["name"]))
        if "grid" in arguments:
            grid = [field(axis, size) for axis, size in enumerate(arguments.pop("grid"), 1)]
            stated += field(21, field(1, b"".join(grid)) + field(3, field(1, 1) + field(4, 96)))
        for key, new in (("device", "device id"), ("stream", "stream id")):
            if key in arguments:
                arguments[new] = arguments.pop(key)
        for key, value in arguments.items():
            words = value if isinstance(value, str) else json.dumps(value)
            stated += field(6, field(1, key) + field(2, words))
        state = (field(8, start), field(10, 1), field(13, 2))
        return packet(*state, field(53, stated))


def times(base: int, event: dict[str, Any]) -> tuple[int, int]:
    """Return start and duration in ns, exact to the decimals of the JSON."""
    return base + int(Decimal(str(event["ts"])) * 1000), int(Decimal(str(event["dur"])) * 1000)
