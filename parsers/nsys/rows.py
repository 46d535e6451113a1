"""Rows of tables become columns, block by block; names and tracks are ids until the end."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from parsers.columns import I32, I64, MISSING, Events
from parsers.nsys.database import Database
from parsers.nsys.schema import Source

_Key = TypeVar("_Key", bound=Hashable)
_DTYPES: dict[str, type] = dict(Events.COLUMNS)
_MAX_TIME_NS = 1 << 61


class Ids(Generic[_Key]):
    """Small numbers for keys, in order of appearance."""

    def __init__(self) -> None:
        self._ids: dict[_Key, int] = {}

    def of(self, key: _Key) -> int:
        """Number of one key."""
        return self._ids.setdefault(key, len(self._ids))

    def each(self, keys: Iterable[_Key]) -> I32:
        """Numbers of many keys, int32."""
        ids = self._ids
        return np.array([ids.setdefault(key, len(ids)) for key in keys], np.int32)

    def keys(self) -> list[_Key]:
        """The keys by number."""
        return list(self._ids)

    def __len__(self) -> int:
        return len(self._ids)


NameKey = tuple[Any, ...]
"""("id", string id), ("text", text), or (process, domain, string id or text) for a range."""
TrackKey = tuple[str, int, int, int]
"""("stream", process, device, stream) or ("thread", process, thread, -1)."""

Columns = dict[str, npt.NDArray[Any]]
"""Columns of one group by name, all of one length."""


class Shared:
    """Ids that all tables of a file have in common."""

    def __init__(self) -> None:
        self.names: Ids[NameKey] = Ids()
        self.tracks: Ids[TrackKey] = Ids()


class GroupRows:
    """Columns of one group of events, as blocks until they are asked for."""

    def __init__(self, *extra: str) -> None:
        self._blocks: dict[str, list[npt.NDArray[Any]]] = {
            name: [] for name in ("start_ns", "dur_ns", "name", "track", *extra)
        }
        self.num_open = 0
        self.num_negative = 0

    def append(self, start: I64, end: I64, **columns: npt.NDArray[Any]) -> None:
        """Add a block; rows without an end, or with one before the start, are only counted."""
        dur = end - start
        columns = {"start_ns": start, "dur_ns": dur, **columns}
        bad = (dur < 0) | (np.abs(start) > _MAX_TIME_NS) | (end > _MAX_TIME_NS)
        if bad.any():
            opened = end == MISSING
            self.num_open += int((bad & opened).sum())
            self.num_negative += int((bad & ~opened).sum())
            columns = {name: column[~bad] for name, column in columns.items()}
        for name, blocks in self._blocks.items():
            blocks.append(columns[name].astype(_DTYPES.get(name, np.int32), copy=False))

    def __len__(self) -> int:
        return sum(len(block) for block in self._blocks["start_ns"])

    def take_all(self) -> Columns:
        """The columns, sorted by (start, longer first); the blocks are given up one by one."""
        start, dur = self._joined("start_ns"), self._joined("dur_ns")
        order = by_start(start, dur)
        columns: Columns = {"start_ns": start[order], "dur_ns": dur[order]}
        del start, dur
        for name in [name for name in self._blocks if name not in columns]:
            columns[name] = self._joined(name)[order]
        return columns

    def _joined(self, name: str) -> npt.NDArray[Any]:
        blocks = self._blocks[name]
        joined = np.concatenate(blocks) if blocks else np.empty(0, _DTYPES.get(name, np.int32))
        blocks.clear()
        return joined


def by_start(start: I64, dur: I64) -> npt.NDArray[np.intp]:
    """Order by (start, longer first, as given). Nearly sorted starts, as files have, are quick."""
    order = np.argsort(start, kind="stable")
    ordered = start[order]
    equal = ordered[1:] == ordered[:-1]
    del ordered
    tied = np.flatnonzero(np.append(equal, False) | np.insert(equal, 0, False))
    some = order[tied]
    order[tied] = some[np.lexsort((-dur[some], start[some]))]
    return order


def distinct(values: I64) -> tuple[I64, npt.NDArray[np.intp]]:
    """Distinct values, sorted, and for each row which of them it is.

    Columns of a file hold few values in long runs: only the beginnings of runs are compared.
    """
    if not len(values):
        return values, np.empty(0, np.intp)
    begins = np.flatnonzero(np.insert(values[1:] != values[:-1], 0, True))
    found, inverse = np.unique(values[begins], return_inverse=True)
    lengths = np.diff(np.append(begins, len(values)))
    return found, np.repeat(inverse, lengths)


def process_of(global_ids: I64) -> I64:
    """Process ids of ``globalTid`` or ``globalPid`` (signed 64 bit), -1 where missing."""
    return np.where(global_ids == MISSING, MISSING, (global_ids >> 24) & 0xFFFFFF)


def thread_of(global_ids: I64) -> I64:
    """Thread ids of ``globalTid``, -1 where missing."""
    return np.where(global_ids == MISSING, MISSING, global_ids & 0xFFFFFF)


def thread_tracks(global_ids: I64, shared: Shared) -> I32:
    """Track ids of threads."""
    found, inverse = distinct(global_ids)
    pids, tids = process_of(found).tolist(), thread_of(found).tolist()
    keys: list[TrackKey] = [("thread", p, t, MISSING) for p, t in zip(pids, tids, strict=True)]
    return shared.tracks.each(keys)[inverse]


def stream_tracks(process: I64, device: I64, stream: I64, shared: Shared) -> I32:
    """Track ids of streams, from ``globalPid`` and what the process calls its device and stream."""
    (pids, of_pid), (gpus, of_gpu) = distinct(process), distinct(device)
    streams, of_stream = distinct(stream)
    found, inverse = distinct((of_pid * len(gpus) + of_gpu) * len(streams) + of_stream)
    owners = process_of(pids)
    keys: list[TrackKey] = []
    for code in found.tolist():
        rest, third = divmod(code, len(streams))
        first, second = divmod(rest, len(gpus))
        keys.append(("stream", int(owners[first]), int(gpus[second]), int(streams[third])))
    return shared.tracks.each(keys)[inverse]


class Block(NamedTuple):
    """Rows of one table; ``name`` and ``track`` are ids, the rest as in the file, -1 if absent."""

    start: I64
    end: I64
    name: I32
    kind: I64
    track: I32
    correlation: I64
    bytes: I64


def read_source(database: Database, source: Source, shared: Shared) -> Iterator[Block]:
    """The rows of one table, block by block."""
    fields = (
        source.process,
        source.device,
        source.stream,
        source.name,
        source.kind,
        source.correlation,
        source.bytes,
    )
    columns = ["start", "end", *(database.first_of(source.table, names) for names in fields)]
    where = ""
    if source.only is not None and source.only[0] in database.tables.get(source.table, ()):
        where = f"{source.only[0]} = {source.only[1]}"
    for numbers in database.numbers(source.table, columns, where):
        start, end, process, device, stream, name, kind, correlation, size = numbers
        if source.stream:
            track = stream_tracks(process, device, stream, shared)
        else:
            track = thread_tracks(process, shared)
        launch = np.where(correlation == 0, MISSING, correlation)
        yield Block(start, end, _named(name, shared), kind, track, launch, size)


def _named(string_ids: I64, shared: Shared) -> I32:
    found, inverse = distinct(string_ids)
    ids = [MISSING if i == MISSING else shared.names.of(("id", i)) for i in found.tolist()]
    return np.array(ids, np.int32)[inverse]


def named_by(kinds: I64, shared: Shared, name_of: Callable[[int], str]) -> I32:
    """Name ids made of a number that says what kind of event a row is."""
    found, inverse = distinct(kinds)
    ids = [shared.names.of(("text", name_of(kind))) for kind in found.tolist()]
    return np.array(ids, np.int32)[inverse]
