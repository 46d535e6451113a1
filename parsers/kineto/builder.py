"""Batches of events become columns, group by group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from parsers.columns import (
    GROUPS,
    I32,
    MISSING,
    CollectiveArgs,
    Events,
    Group,
    ProcessGroup,
    Strings,
    Track,
)
from parsers.kineto.collectives import CollectiveRows, join_kernels
from parsers.kineto.document import Batch, Notebook
from parsers.kineto.event import Event, Scalar
from parsers.kineto.ids import StringPool, in_order
from parsers.kineto.times import nanoseconds

_GROUP_OF_CATEGORY: dict[str, Group] = {
    "kernel": "gpu",
    "gpu_memcpy": "gpu",
    "gpu_memset": "gpu",
    "memcpy": "gpu",
    "memset": "gpu",
    "gpu_user_annotation": "gpu_annotations",
    "cuda_sync": "gpu_sync",
    "cuda_runtime": "runtime",
    "cuda_driver": "runtime",
    "hip_runtime": "runtime",
    "hip_driver": "runtime",
    "runtime": "runtime",
    "driver": "runtime",
    "cpu_op": "cpu_ops",
    "operator": "cpu_ops",
    "user_annotation": "annotations",
    "python_function": "python",
}
_WITH_ARGS = frozenset[Group]({"gpu", "cpu_ops", "annotations"})


def group_of(category: Scalar) -> Group:
    """Column group of a category, whatever its case; a comma-joined one by its first word."""
    if not isinstance(category, str):
        return "other"
    for part in category.lower().split(","):
        group = _GROUP_OF_CATEGORY.get(part.strip())
        if group is not None:
            return group
    return "other"


class _GroupColumns:
    """Chunks of one group's columns, joined and sorted once at the end."""

    def __init__(self) -> None:
        self.chunks: dict[str, list[npt.NDArray[Any]]] = {name: [] for name, _ in Events.COLUMNS}

    def append(self, columns: dict[str, Iterable[int]], count: int) -> None:
        for name, dtype in Events.COLUMNS:
            self.chunks[name].append(np.fromiter(columns[name], dtype, count))

    def finish(self, base_ns: int, renumbered: dict[str, I32]) -> Events:
        start = np.concatenate(self.chunks.pop("start_ns")) + base_ns
        dur = np.concatenate(self.chunks.pop("dur_ns"))
        order = np.lexsort((-dur, start))
        columns: dict[str, Any] = {"start_ns": start[order], "dur_ns": dur[order]}
        for name, _ in Events.COLUMNS[2:]:
            column = np.concatenate(self.chunks.pop(name))[order]
            ids = renumbered.get(name)
            columns[name] = column if ids is None else ids[column]
        return Events(**columns)


class Columns(NamedTuple):
    """What a builder leaves; see :class:`parsers.columns.RankTrace`."""

    events: dict[Group, Events]
    strings: Strings
    tracks: tuple[Track, ...]
    collective_args: CollectiveArgs
    process_groups: tuple[ProcessGroup, ...]


class Builder:
    """Fills the columns of one rank; see :class:`parsers.columns.RankTrace` for what it keeps."""

    def __init__(self, notebook: Notebook) -> None:
        self._notebook = notebook
        self.strings = StringPool()
        self.counts: Counter[tuple[Scalar, Scalar]] = Counter()
        self.collectives = CollectiveRows(self.strings)
        self._groups: dict[Group, _GroupColumns] = {}
        self._group_of: dict[Scalar, Group] = {}
        self._tracks: dict[tuple[str, Scalar, Scalar], int] = {}
        self._labels: dict[tuple[str, str], str] = {}
        self._open: dict[tuple[Scalar, Scalar], list[tuple[int, Event]]] = {}
        self.events_kept = 0

    def add(self, batch: Batch) -> None:
        """Take one batch: complete events to columns, the rest to counts and labels."""
        self.counts.update((e.ph, e.cat) for e in batch.events)
        parts: dict[Group, list[Event]] = {group: [] for group in GROUPS}
        group_of_category = self._group_of
        for index, event in enumerate(batch.events):
            phase = event.ph
            if phase == "X":
                group = group_of_category.get(event.cat)
                if group is None:
                    group = group_of_category[event.cat] = group_of(event.cat)
                parts[group].append(event)
            elif phase in ("B", "E"):
                self._pair(batch, index, event)
            elif phase == "M":
                self._label(event)
        for group, events in parts.items():
            if events:
                self._timed(group, events, batch)

    def _timed(self, group: Group, events: list[Event], batch: Batch) -> None:
        """Complete events with usable times; others are dropped and counted."""
        starts = [nanoseconds(event.ts) for event in events]
        durations = [nanoseconds(event.dur) for event in events]
        if None in starts or None in durations or min(durations, default=0) < 0:  # type: ignore[type-var,operator]
            kept = [
                (event, start, duration)
                for event, start, duration in zip(events, starts, durations, strict=True)
                if self._usable(event, start, duration, batch)
            ]
            if not kept:
                return
            events = [event for event, _, _ in kept]
            starts = [start for _, start, _ in kept]
            durations = [duration for _, _, duration in kept]
        self._append(group, events, starts, durations)  # type: ignore[arg-type]

    def _usable(self, event: Event, start: int | None, duration: int | None, batch: Batch) -> bool:
        if start is not None and duration is not None and duration >= 0:
            return True
        if start is None or duration is None:
            code, message = "bad_time", "complete events without a readable ts and dur are dropped"
        else:
            code, message = "negative_duration", "events with a negative duration are dropped"
        known = code in self._notebook
        offset = None
        if not known:
            offset = batch.offset_of(next(i for i, e in enumerate(batch.events) if e is event))
        self._notebook.add(code, message, offset)
        return False

    def _append(
        self, group: Group, events: list[Event], starts: list[int], durations: list[int]
    ) -> None:
        text_id = self.strings.id_of
        args = [event.args for event in events]
        columns: dict[str, Iterable[int]] = {
            "start_ns": starts,
            "dur_ns": durations,
            "name": [text_id(event.name) for event in events],
            "category": [text_id(event.cat) for event in events],
            "track": self._tracks_of(group, events),
            "correlation": [_identifier(a.correlation) or MISSING if a else MISSING for a in args],
            "external_id": [_identifier(a.external_id) if a else MISSING for a in args],
            "args": (
                self.collectives.rows_of(group, events)
                if group in _WITH_ARGS
                else [MISSING] * len(events)
            ),
            "bytes": [_identifier(a.bytes) if a else MISSING for a in args],
        }
        self._groups.setdefault(group, _GroupColumns()).append(columns, len(events))
        self.events_kept += len(events)

    def _tracks_of(self, group: Group, events: list[Event]) -> list[int]:
        tracks = self._tracks
        if group not in ("gpu", "gpu_annotations", "gpu_sync"):
            keys = [("thread", event.pid, event.tid) for event in events]
        else:
            keys = []
            for event in events:
                args = event.args
                device = event.pid if args is None or args.device is None else args.device
                stream = event.tid if args is None or args.stream is None else args.stream
                keys.append(("stream", _hashable(device), _hashable(stream)))
        return [tracks.setdefault(key, len(tracks)) for key in keys]

    def _pair(self, batch: Batch, index: int, event: Event) -> None:
        """A begin waits on its thread's stack for its end; the pair is one complete event."""
        stack = self._open.setdefault((event.pid, event.tid), [])
        time = nanoseconds(event.ts)
        if time is None:
            self._usable(event, None, None, batch)
        elif event.ph == "B":
            stack.append((time, event))
        elif not stack:
            message = "an end event without its begin is dropped"
            self._notebook.add("unmatched_end", message, batch.offset_of(index))
        else:
            start, begin = stack.pop()
            if time >= start:
                self._append(group_of(begin.cat), [begin], [start], [time - start])
            else:
                message = "events that end before they begin are dropped"
                self._notebook.add("negative_duration", message, batch.offset_of(index))

    def _label(self, event: Event) -> None:
        name = event.args.name if event.args is not None else None
        if event.name in ("process_name", "thread_name") and isinstance(name, str):
            thread = "" if event.name == "process_name" else str(event.tid)
            self._labels[str(event.pid), thread] = name

    def finish(self, base_ns: int, table: tuple[ProcessGroup, ...]) -> Columns:
        """Everything read, sorted, with absolute times; ``table`` is the file's ``pg_config``.

        Ids are given anew in an order that depends on the content alone, so that the same
        bytes give the same columns whatever the chunk size. Begins that never ended are noted.
        """
        open_begins = sum(len(stack) for stack in self._open.values())
        if open_begins:
            message = "begin events without an end are dropped"
            self._notebook.add("unmatched_begin", message, None, open_begins)
        strings, text_ids = self.strings.finish()
        tracks, track_ids = in_order(self._tracks, key=_track_order)
        renumbered = {"name": text_ids, "category": text_ids, "track": track_ids}
        events = {
            group: columns.finish(base_ns, renumbered)
            for group, columns in sorted(self._groups.items(), key=lambda item: item[0])
        }
        args, groups = self.collectives.finish(events, text_ids, table)
        join_kernels(events, args, strings)
        return Columns(events, strings, tuple(self._track(*key) for key in tracks), args, groups)

    def _track(self, kind: str, pid: Scalar, tid: Scalar) -> Track:
        stream = kind == "stream"
        return Track(
            kind="stream" if stream else "thread",
            pid=str(pid),
            tid=str(tid),
            device=_small(pid) if stream else MISSING,
            stream=_small(tid) if stream else MISSING,
            label=self._labels.get((str(pid), str(tid)), ""),
        )


def _track_order(track: tuple[str, Scalar, Scalar]) -> tuple[str, ...]:
    kind, pid, tid = track
    return kind, str(pid).rjust(12), str(tid).rjust(12), type(pid).__name__, type(tid).__name__


def _identifier(value: object) -> int:
    """An id as int64; unsigned ids above 2**63 keep their bits, what is no integer is -1."""
    if not isinstance(value, int) or isinstance(value, bool):
        return MISSING
    if -(1 << 63) <= value < 1 << 63:
        return value
    return value - (1 << 64) if 0 < value < 1 << 64 else MISSING


def _hashable(value: object) -> Scalar:
    return value if isinstance(value, str | int | float) or value is None else str(value)


def _small(value: Scalar) -> int:
    """A device or stream number, -1 where the file writes something else."""
    try:
        number = int(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return MISSING
    return number if -(1 << 31) <= number < 1 << 31 else MISSING
