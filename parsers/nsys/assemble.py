"""The tables of a file become its ranks: names and tracks get their final ids, calls their args."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from parsers.columns import (
    I32,
    I64,
    MISSING,
    Bool,
    Events,
    Group,
    Note,
    RankTrace,
    SourceFile,
    Track,
)
from parsers.nsys.communicators import Communicators
from parsers.nsys.database import Database
from parsers.nsys.file_names import FileNames
from parsers.nsys.identity import Identity, Part, Session, devices_of, identities, part_names
from parsers.nsys.nvtx import Ranges
from parsers.nsys.rows import Columns, GroupRows, Shared, TrackKey


@dataclass(slots=True)
class Tables:
    """Everything that was read of a file, before it is divided into ranks."""

    shared: Shared
    device_work: GroupRows
    waits: GroupRows
    calls: GroupRows
    ranges: Ranges
    os_calls: GroupRows
    session: Session
    environment: Mapping[str, int]
    mpi: Mapping[int, int]
    notes: list[Note]


def assemble(database: Database, tables: Tables, source: SourceFile) -> tuple[RankTrace, ...]:
    """One trace a part, in order of (process, device)."""
    names = FileNames.of(database, tables.shared.names.keys(), tables.ranges)
    tracks = tables.shared.tracks.keys()
    columns = {
        "gpu": tables.device_work.take_all(),
        "gpu_sync": tables.waits.take_all(),
        "runtime": tables.calls.take_all(),
        "nvtx": tables.ranges.rows.take_all(),
        "other": tables.os_calls.take_all(),
    }
    parts, home = _parts(columns["gpu"], tracks, names)
    nccl = Communicators.of(columns, names, tracks, parts)
    known = identities(parts, nccl.members, tables.environment, tables.mpi)
    strings, ids = names.finish(nccl.table.texts())
    args, groups = nccl.finish(ids, known)
    base_ns = tables.session.start_ns or 0
    of_parts = [_tracks_of(part, home == index, tracks) for index, part in enumerate(parts)]
    divided = _divided(columns, names, of_parts, base_ns)
    traces = []
    for index, (part, name) in enumerate(zip(parts, part_names(parts), strict=True)):
        identity, events = known[part], divided[index]
        traces.append(
            RankTrace(
                source=msgspec.structs.replace(
                    source, part=index, parts=len(parts), part_name=name if len(parts) > 1 else ""
                ),
                rank=identity.rank,
                rank_source=identity.source,
                strings=strings,
                events=events,
                collective_args=args,
                tracks=tuple(_track(tracks[i]) for i in np.flatnonzero(of_parts[index]).tolist()),
                process_groups=groups,
                devices=devices_of(database, part),
                world_size=identity.world_size,
                backend="nccl" if nccl.members or len(args) else "",
                host=tables.session.host,
                base_ns=base_ns,
                counts={group: len(rows) for group, rows in events.items()},
                notes=_notes_of(tables, identity, len(parts)),
            )
        )
    return tuple(traces)


def _notes_of(tables: Tables, identity: Identity, num_parts: int) -> tuple[Note, ...]:
    notes = list(tables.notes)
    if tables.session.start_ns is None:
        message = "the file does not state when it began: its times count from its own zero"
        notes.append(Note("no_session_start", message))
    if identity.source == "environment" and num_parts > 1:
        message = "the rank is a guess: the node's number and the order of its devices"
        notes.append(Note("rank_guessed", message))
    return tuple(notes)


def _parts(gpu: Columns, tracks: Sequence[TrackKey], names: FileNames) -> tuple[list[Part], I64]:
    """The parts of a file, and for each track the part whose own it is (-1: the process's).

    A process has a part for each device on which it runs kernels. Devices that it only copies
    to belong to its first part: contexts leave such traces on devices that are not its own.
    """
    is_kernel = np.array([text == "kernel" for text in names.texts] + [False])
    kernels, copies = Counter[tuple[int, int]](), Counter[tuple[int, int]]()
    for counter, mask in (
        (kernels, is_kernel[gpu["category"]]),
        (copies, ~is_kernel[gpu["category"]]),
    ):
        for track, count in enumerate(np.bincount(gpu["track"][mask], minlength=len(tracks))):
            if count:
                counter[tracks[track][1:3]] += int(count)
    with_kernels = {process for process, _ in kernels}
    found = set(kernels)
    for process in {process for process, _ in copies} - with_kernels:
        found.add(min(key for key in copies if key[0] == process))
    parts = [Part(*key) for key in sorted(found)] or [Part(MISSING, MISSING)]
    index_of = {(part.process, part.device): index for index, part in enumerate(parts)}
    first: dict[int, int] = {}
    for index, part in enumerate(parts):
        first.setdefault(part.process, index)
    home = np.full(len(tracks), MISSING, np.int64)
    for track, (kind, process, device, _) in enumerate(tracks):
        if kind == "stream":
            home[track] = index_of.get((process, device), first.get(process, MISSING))
    return parts, home


def _tracks_of(part: Part, own: Bool, tracks: Sequence[TrackKey]) -> Bool:
    """Which tracks a part has: its streams and its process's threads; all without a device."""
    if part.device == MISSING:
        return np.ones(len(tracks), np.bool_)
    owners = (part.process, MISSING)  # a file that names no process has one
    threads = [
        kind == "thread" and (process in owners or part.process == MISSING)
        for kind, process, _, _ in tracks
    ]
    return own | np.array(threads, np.bool_)


_CATEGORY: Final[dict[Group, str]] = {
    "gpu": "kernel",
    "gpu_sync": "cuda_sync",
    "runtime": "cuda_runtime",
    "annotations": "nvtx",
    "cpu_ops": "nvtx",
    "other": "osrt",
}


def _divided(
    columns: dict[str, Columns], names: FileNames, of_parts: Sequence[Bool], base_ns: int
) -> list[dict[Group, Events]]:
    """The events of each part by group. ``columns`` are given up one by one: they are large."""
    events: list[dict[Group, Events]] = [{} for _ in of_parts]
    numbers = [np.cumsum(mine, dtype=np.int32) - 1 for mine in of_parts]
    operators = names.is_operator()[columns["nvtx"]["name"]]
    tables: tuple[tuple[str, Group, Bool | None], ...] = (
        ("gpu", "gpu", None),
        ("gpu_sync", "gpu_sync", None),
        ("runtime", "runtime", None),
        ("nvtx", "annotations", ~operators),
        ("nvtx", "cpu_ops", operators),
        ("other", "other", None),
    )
    for table, group, only in tables:
        rows = dict(columns[table]) if group == "annotations" else columns.pop(table)
        masks = [mine[rows["track"]] & (True if only is None else only) for mine in of_parts]
        found: list[Columns] = [{} for _ in of_parts]
        for name in list(rows):
            column = rows.pop(name)
            for index, mask in enumerate(masks):
                found[index][name] = _final(name, column[mask], names, numbers[index], base_ns)
        for index, chosen in enumerate(found):
            if len(chosen["start_ns"]):
                events[index][group] = _events(chosen, names.ids[_CATEGORY[group]])
    return events


def _final(
    name: str, column: npt.NDArray[Any], names: FileNames, number: I32, base_ns: int
) -> npt.NDArray[Any]:
    if name == "start_ns":
        column += base_ns
    elif name == "track":
        return np.asarray(number[column])
    elif name in ("name", "category"):
        return names.final(column)
    return column


def _events(found: Columns, category: int) -> Events:
    count = len(found["start_ns"])
    absent = {"category": category}
    columns: Columns = {
        name: found[name] if name in found else _constant(absent.get(name, MISSING), count, dtype)
        for name, dtype in Events.COLUMNS
    }
    return Events(**columns)


def _constant(value: int, count: int, dtype: type) -> npt.NDArray[Any]:
    """A column of one value, which takes no memory; nobody writes to columns."""
    return np.broadcast_to(np.array(value, dtype), count)


def _track(key: TrackKey) -> Track:
    kind, process, device, stream = key
    if kind == "stream":
        return Track("stream", str(device), str(stream), device, stream)
    return Track("thread", str(process), str(device))
