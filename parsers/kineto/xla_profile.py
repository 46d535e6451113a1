"""Read TPU profiles that XLA writes as Chrome traces: one rank per device of a host.

XLA writes one process per device, with one row of steps, one of modules and one of operations.
Operations occupy the device. Launches, sizes, groups and ranks are not recorded.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, Unpack

import msgspec
import numpy as np
from msgspec import structs

from ccltui.parsers.array_types import Bool
from ccltui.parsers.columns import Events, Group, RankTrace, Strings, Track
from ccltui.parsers.errors import TraceError
from ccltui.parsers.format import ReadOptions
from ccltui.parsers.kineto.kineto_reader import read_kineto

FORMAT: Final = "xla"
_DEVICE: Final = re.compile(r"/device:TPU:(\d{1,6})\b[^ ]* ?(.*)")
_OPERATIONS: Final = "XLA Ops"
_ASYNCHRONOUS: Final = "Async XLA Ops"
_STEPS: Final = "Steps"
_MODULES: Final = "XLA Modules"
_ASYNC_PAIR: Final = re.compile(r"[a-z-]+-(start|done)(?:[.\d]|$)")
"""Names of the operations that start an asynchronous operation and that wait for it."""


def read_xla(path: Path, **options: Unpack[ReadOptions]) -> tuple[RankTrace, ...]:
    """Read one trace per device, by device number; their ranks are None.

    Raises:
        TraceError: The file cannot be read or has no row of operations.
    """
    trace = read_kineto(path, **options)
    rows: dict[int, dict[str, list[int]]] = {}
    for number, track in enumerate(trace.tracks):
        match = _DEVICE.fullmatch(track.label)
        if match is not None:
            rows.setdefault(int(match[1]), {}).setdefault(match[2], []).append(number)
    devices = sorted(n for n, of_device in rows.items() if _OPERATIONS in of_device)
    if not devices:
        raise TraceError("no row of XLA operations on any TPU", path=trace.source.path)
    strings = Strings.of([*trace.strings, *_CATEGORIES])
    return tuple(
        _device(trace, strings, number, part=part, parts=len(devices), rows=rows[number])
        for part, number in enumerate(devices)
    )


_CATEGORIES: Final = ("kernel", "user_annotation", "gpu_user_annotation", "cuda_sync")


def _device(
    trace: RankTrace,
    strings: Strings,
    number: int,
    *,
    part: int,
    parts: int,
    rows: dict[str, list[int]],
) -> RankTrace:
    """Return the trace of one device: its operations, steps, modules and waits."""
    every = trace.group("other")
    operations = np.isin(every.track, rows[_OPERATIONS])
    asynchronous = np.isin(every.track, rows.get(_ASYNCHRONOUS, []))
    markers = operations & _async_markers(
        trace, every, only="start|done" if asynchronous.any() else "start"
    )
    chosen: dict[Group, Bool] = {
        "gpu": (operations & ~markers) | asynchronous,
        "annotations": np.isin(every.track, rows.get(_STEPS, [])),
        "gpu_annotations": np.isin(every.track, rows.get(_MODULES, [])),
        "gpu_sync": markers,
    }
    category: dict[Group, str] = dict(zip(_GROUPS, _CATEGORIES, strict=True))
    events: dict[Group, Events] = {
        group: every.take(mask).with_columns(
            category=np.full(int(mask.sum()), strings.find(category[group]), np.int32),
        )
        for group, mask in chosen.items()
        if mask.any()
    }
    return structs.replace(
        trace,
        source=msgspec.structs.replace(
            trace.source,
            format=FORMAT,
            part=part,
            parts=parts,
            part_name=f"TPU {number}" if parts > 1 else "",
        ),
        rank=None,
        rank_source="none",
        strings=strings,
        events=events,
        tracks=tuple(_track(track, number) for track in trace.tracks),
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


def _track(track: Track, number: int) -> Track:
    match = _DEVICE.fullmatch(track.label)
    if match is None or int(match[1]) != number:
        return track
    stream = int(track.tid) if track.tid.isdecimal() and len(track.tid) < 9 else -1
    return Track("stream", track.pid, track.tid, number, stream, match[2])
