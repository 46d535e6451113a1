"""Read profiles that XLA writes as Chrome traces: one rank per TPU or GPU of a host.

XLA writes one process per device, with one row of steps, one of modules and one of operations.
Operations occupy a TPU. A GPU has a row of kernels and copies for each stream besides, which occupy
it: its operations are the same work by other names. Launches, sizes, groups and ranks are not
recorded.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple, Unpack

import msgspec
import numpy as np
from msgspec import structs

from ccltui.parsers.array_types import Bool
from ccltui.parsers.columns import Events, Group, RankTrace, Strings, Track
from ccltui.parsers.errors import TraceError
from ccltui.parsers.format import ReadOptions
from ccltui.parsers.kineto.kineto_reader import read_kineto

FORMAT: Final = "xla"
_DEVICE: Final = re.compile(
    r"(?:(?P<host>\S{1,200}) )?/device:(?P<kind>TPU|GPU):(?P<number>\d{1,6})\b[^ ]* ?(?P<row>.*)"
)
_STREAM: Final = re.compile(r"Stream #(\d{1,9})\b")
_OPERATIONS: Final = "XLA Ops"
_ASYNCHRONOUS: Final = "Async XLA Ops"
_STEPS: Final = "Steps"
_MODULES: Final = "XLA Modules"
_ASYNC_PAIR: Final = re.compile(r"[a-z-]+-(start|done)(?:[.\d]|$)")
"""Names of the operations that start an asynchronous operation and that wait for it."""


class _Device(NamedTuple):
    """A device; ``host`` is "" where its file is of one host."""

    kind: str
    host: str
    number: int


def _device_of(match: re.Match[str]) -> _Device:
    return _Device(match["kind"], match["host"] or "", int(match["number"]))


def read_xla(path: Path, **options: Unpack[ReadOptions]) -> tuple[RankTrace, ...]:
    """Read one trace per device, by device number; their ranks are None.

    Raises:
        TraceError: The file cannot be read or has no row of operations.
    """
    trace = read_kineto(path, **options)
    rows: dict[_Device, dict[str, list[int]]] = {}
    for number, track in enumerate(trace.tracks):
        match = _DEVICE.fullmatch(track.label)
        if match is not None:
            row = _STREAMS if _STREAM.match(match["row"]) else match["row"]
            rows.setdefault(_device_of(match), {}).setdefault(row, []).append(number)
    devices = sorted(
        device for device, of_device in rows.items() if _OF_WORK[device.kind] in of_device
    )
    if not devices:
        raise TraceError("no row of XLA operations on any TPU or GPU", path=trace.source.path)
    strings = Strings.of([*trace.strings, *_CATEGORIES])
    return tuple(
        _device(trace, strings, device, part=part, parts=len(devices), rows=rows[device])
        for part, device in enumerate(devices)
    )


_STREAMS: Final = "streams"
_OF_WORK: Final = {"TPU": _OPERATIONS, "GPU": _STREAMS}
"""The rows that occupy a device."""
_CATEGORIES: Final = (
    *("kernel", "user_annotation", "gpu_user_annotation", "cuda_sync"),
    *("gpu_memcpy", "gpu_memset"),
)


def _device(
    trace: RankTrace,
    strings: Strings,
    device: _Device,
    *,
    part: int,
    parts: int,
    rows: dict[str, list[int]],
) -> RankTrace:
    """Return the trace of one device: its work, steps, modules and waits."""
    kind, host, number = device
    every = trace.group("other")
    operations = np.isin(every.track, rows[_OF_WORK[kind]])
    is_tpu = kind == "TPU"
    asynchronous = np.isin(every.track, rows.get(_ASYNCHRONOUS, []) if is_tpu else [])
    markers = operations & _async_markers(
        trace, every, only="start|done" if asynchronous.any() else "start"
    )
    chosen: dict[Group, Bool] = {
        "gpu": (operations & ~markers) | asynchronous,
        "annotations": np.isin(every.track, rows.get(_STEPS, [])),
        "gpu_annotations": np.isin(every.track, rows.get(_MODULES, [])),
        "gpu_sync": markers,
    }
    category: dict[Group, str] = dict(zip(_GROUPS, _CATEGORIES, strict=False))
    events: dict[Group, Events] = {
        group: every.take(mask).with_columns(
            category=np.full(int(mask.sum()), strings.find(category[group]), np.int32),
        )
        for group, mask in chosen.items()
        if mask.any()
    }
    if not is_tpu and "gpu" in events:
        events["gpu"] = _with_copies(events["gpu"], strings)
    return structs.replace(
        trace,
        source=msgspec.structs.replace(
            trace.source,
            format=FORMAT,
            part=part,
            parts=parts,
            part_name=f"{host} {kind} {number}".lstrip() if parts > 1 else "",
        ),
        rank=None,
        rank_source="none",
        strings=strings,
        events=events,
        tracks=tuple(_track(track, device) for track in trace.tracks),
        backend="xla",
    )


_GROUPS: Final[tuple[Group, ...]] = ("gpu", "annotations", "gpu_annotations", "gpu_sync")


def _async_markers(trace: RankTrace, events: Events, *, only: str) -> Bool:
    """Return which operations only start an asynchronous operation or wait for its end."""
    names = np.zeros(len(trace.strings) + 1, np.bool_)
    for index, text in enumerate(trace.strings):
        match = _ASYNC_PAIR.match(text)
        names[index] = match is not None and match[1] in only.split("|")
    return names[events.name]


def _with_copies(gpu: Events, strings: Strings) -> Events:
    """Return the work of a GPU with the categories of its copies and fills, by their names."""
    category = gpu.category.copy()
    for start, name in (("Memcpy", "gpu_memcpy"), ("Memset", "gpu_memset")):
        of_kind = [index for index, text in enumerate(strings) if text.startswith(start)]
        category[np.isin(gpu.name, of_kind)] = strings.find(name)
    return gpu.with_columns(category=category)


def _track(track: Track, device: _Device) -> Track:
    match = _DEVICE.fullmatch(track.label)
    if match is None or _device_of(match) != device:
        return track
    stated = _STREAM.match(match["row"])
    stream = int(track.tid) if track.tid.isdecimal() and len(track.tid) < 9 else -1
    stream = stream if stated is None else int(stated[1])
    return Track("stream", track.pid, track.tid, device.number, stream, match["row"])
