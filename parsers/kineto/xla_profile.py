"""Profiles of TPUs as Chrome traces: each device of a host becomes a rank.

XLA writes a process for each device with a row of steps, one of modules and one of operations.
Operations are what occupies the device. Nothing states launches, sizes, groups or ranks.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from ccltui.parsers.array_types import Bool
from ccltui.parsers.columns import Events, Group, RankTrace, Strings, Track
from ccltui.parsers.errors import TraceError
from ccltui.parsers.kineto.kineto_reader import read_kineto

FORMAT: Final = "xla"
_DEVICE: Final = re.compile(r"/device:TPU:(\d{1,6})\b[^ ]* ?(.*)")
_OPERATIONS: Final = "XLA Ops"
_ASYNCHRONOUS: Final = "Async XLA Ops"
_STEPS: Final = "Steps"
_MODULES: Final = "XLA Modules"
_FRAME: Final = re.compile(r"[a-z-]+-(start|done)(?:[.\d]|$)")
"""What begins an operation that goes on beside others, and what waits for it."""


def read_xla(
    path: Path,
    *,
    shown: str | None = None,
    progress: Callable[[int], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> tuple[RankTrace, ...]:
    """One trace a device, in order of their numbers; ranks are not stated.

    Raises TraceError where the file cannot be read or has no row of operations.
    """
    trace = read_kineto(path, shown=shown, progress=progress, cancelled=cancelled)
    rows: dict[int, dict[str, list[int]]] = {}
    for number, track in enumerate(trace.tracks):
        match = _DEVICE.fullmatch(track.label)
        if match is not None:
            rows.setdefault(int(match[1]), {}).setdefault(match[2], []).append(number)
    devices = sorted(n for n, of_device in rows.items() if _OPERATIONS in of_device)
    if not devices:
        raise TraceError("no row of XLA operations on any TPU", path=shown or path)
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
    """The rank of one device: its operations, its steps, and what they wait for."""
    every = trace.group("other")
    operations = np.isin(every.track, rows[_OPERATIONS])
    beside = np.isin(every.track, rows.get(_ASYNCHRONOUS, []))
    frames = operations & _framing(trace, every, only="start|done" if beside.any() else "start")
    chosen: dict[Group, Bool] = {
        "gpu": (operations & ~frames) | beside,
        "annotations": np.isin(every.track, rows.get(_STEPS, [])),
        "gpu_annotations": np.isin(every.track, rows.get(_MODULES, [])),
        "gpu_sync": frames,
    }
    category: dict[Group, str] = dict(zip(_GROUPS, _CATEGORIES, strict=True))
    events: dict[Group, Events] = {
        group: dataclasses.replace(
            every.take(mask),
            category=np.full(int(mask.sum()), strings.find(category[group]), np.int32),
        )
        for group, mask in chosen.items()
        if mask.any()
    }
    return dataclasses.replace(
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


def _framing(trace: RankTrace, events: Events, *, only: str) -> Bool:
    """Operations that only begin another one, or wait for one that has a row of its own."""
    names = np.zeros(len(trace.strings) + 1, np.bool_)
    for index, text in enumerate(trace.strings):
        match = _FRAME.match(text)
        names[index] = match is not None and match[1] in only.split("|")
    return names[events.name]


def _track(track: Track, number: int) -> Track:
    match = _DEVICE.fullmatch(track.label)
    if match is None or int(match[1]) != number:
        return track
    stream = int(track.tid) if track.tid.isdecimal() and len(track.tid) < 9 else -1
    return Track("stream", track.pid, track.tid, number, stream, match[2])
