"""Read tables of an export into spilled columns, block by block.

Names and tracks are stored as numbers, which get their final ids after all tables are read. The
columns of a file of gigabytes do not fit into memory, and its rows are not sorted by rank: they are
stored by owner, in memory up to a limit and then on disk.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from ccltui.parsers.array_types import I32, I64, Bool
from ccltui.parsers.columns import MISSING
from ccltui.parsers.nsys.sqlite.database import Database
from ccltui.parsers.nsys.sqlite.export_schema import DRIVER, PID_BITS, Source
from ccltui.parsers.nsys.sqlite.table_scans import new_numbers
from ccltui.parsers.store.stored_columns import narrow, widen

MEMORY_BYTES: Final = 64 << 20


class Scratch(Struct):
    """Storage of the columns of one file: ``room`` bytes of memory, then files in ``directory``."""

    directory: Path | None
    room: int = MEMORY_BYTES
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def reserve(self, size: int) -> bool:
        """Reserve ``size`` bytes of memory; False if there is no room for them."""
        with self._lock:
            taken = size <= self.room
            self.room -= size if taken else 0
            return taken


class _Block(Struct, frozen=True):
    """A column of a block, minus ``base``: in memory (``rows``), or at byte ``begin`` on disk."""

    base: int
    dtype: np.dtype[Any]
    rows: npt.NDArray[Any] | None
    begin: int


class Spill:
    """Rows in the order of their blocks, grouped by owner within each block.

    ``dtypes`` are those of the columns, by name.
    """

    def __init__(self, scratch: Scratch, dtypes: Mapping[str, type]) -> None:
        self.dtypes = dtypes
        self._scratch = scratch
        self._descriptor = -1
        self._used = 0
        self._columns: dict[str, list[_Block]] = {name: [] for name in dtypes}
        self._firsts: list[I64] = []  # by block: first row of every owner, and the end
        self._counts: dict[int, int] = {}

    def __del__(self) -> None:
        with contextlib.suppress(AttributeError, OSError):
            if self._descriptor >= 0:
                os.close(self._descriptor)

    def append(self, owner: I32, columns: Mapping[str, npt.NDArray[Any]]) -> None:
        """Add a block; ``owner`` numbers the owner of each row. Raises OSError on a full disk."""
        if not len(owner):
            return
        counts = np.bincount(owner)
        for number in np.flatnonzero(counts).tolist():
            self._counts[number] = self._counts.get(number, 0) + int(counts[number])
        order = None if counts.max() == len(owner) else _order(owner)
        self._firsts.append(np.concatenate([[0], np.cumsum(counts)]))
        for name in self.dtypes:
            column, base = narrow(columns[name])
            self._columns[name].append(
                self._stored(column if order is None else column[order], base)
            )

    def owners(self) -> Mapping[int, int]:
        """Return the number of rows of each owner that has any."""
        return self._counts

    def column(self, name: str, owners: Sequence[int]) -> npt.NDArray[Any]:
        """Return a column of all rows of ``owners``. Raises OSError."""
        count = sum(self._counts.get(owner, 0) for owner in owners)
        return next(self.pieces(name, owners, max(count, 1)), np.empty(0, self.dtypes[name]))

    def pieces(self, name: str, owners: Sequence[int], room: int) -> Iterator[npt.NDArray[Any]]:
        """Yield a column in pieces of at most ``room`` rows, each valid until the next."""
        count = sum(self._counts.get(owner, 0) for owner in owners)
        buffer: npt.NDArray[Any] = np.empty(min(count, room), self.dtypes[name])
        wanted, done = sorted(owners), 0
        for block, firsts in zip(self._columns[name], self._firsts, strict=True):
            for first, last in _runs(firsts, wanted):
                begin = first
                while begin < last:
                    end = min(last, begin + room - done)
                    self._fill(buffer[done : done + end - begin], block, begin)
                    done, begin = done + end - begin, end
                    if done == room:
                        yield buffer
                        done = 0
        if done:
            yield buffer[:done]

    def _stored(self, column: npt.NDArray[Any], base: int) -> _Block:
        if self._scratch.reserve(column.nbytes):
            return _Block(base, column.dtype, column, 0)
        if self._descriptor < 0:
            # Unlinked at once: the file disappears when its descriptor is closed.
            self._descriptor, name = tempfile.mkstemp(prefix="ccltui-", dir=self._scratch.directory)
            Path(name).unlink()
        begin, data = self._used, np.ascontiguousarray(column).view(np.uint8).data
        while len(data):
            written = os.pwrite(self._descriptor, data, self._used)
            self._used += written
            data = data[written:]
        return _Block(base, column.dtype, None, begin)

    def _fill(self, target: npt.NDArray[Any], block: _Block, first: int) -> None:
        """Write the rows of a block, starting at ``first``, into ``target``."""
        rows = block.rows
        if rows is None:
            rows = np.empty(len(target), block.dtype)
            self._read(rows.view(np.uint8).data, block.begin + first * block.dtype.itemsize)
        else:
            rows = rows[first : first + len(target)]
        widen(rows, block.base, target)

    def _read(self, target: memoryview, begin: int) -> None:
        while len(target):
            done = os.preadv(self._descriptor, [target], begin)
            if not done:
                raise OSError("a temporary file was cut off")
            target, begin = target[done:], begin + done


def _order(owner: I32) -> I64:
    """Return a stable order of rows by owner; numpy sorts int16 by radix, without comparisons."""
    small = owner.astype(np.int16) if owner.max() < 1 << 15 else owner
    return np.argsort(small, kind="stable").astype(np.int64, copy=False)


def _runs(firsts: I64, owners: Sequence[int]) -> list[tuple[int, int]]:
    """Return the first and end rows of owners in one block; adjacent owners are merged."""
    runs: list[tuple[int, int]] = []
    for owner in owners:
        if owner + 1 >= len(firsts):
            break
        first, last = int(firsts[owner]), int(firsts[owner + 1])
        if runs and runs[-1][1] == first:
            runs[-1] = (runs[-1][0], last)
        elif last > first:
            runs.append((first, last))
    return runs


MAX_TIME_NS: Final = 1 << 61
"""Times beyond it are none, and sums and differences of others fit 64 bits."""
_LOW: Final = 0xFFFF_FFFF

NameKey = tuple[Any, ...]
"""("id", string id), ("text", text), or (process, domain, string id or text, …) for a range."""
TrackKey = tuple[str, int, int, int]
"""("stream", process, device, stream) or ("thread", process, thread, -1)."""
Owner = tuple[int, int]
"""Process and device, -1 as the device of threads."""


class TableRows(Struct):
    """Rows of one table: spilled columns by owner, and the keys behind their numbers.

    Attributes:
        spill: The columns.
        names: Key of each number in the column ``name``.
        tracks: Key of each number in the column ``track``.
        owners: Each owner by the number that rows are spilled under.
        any_driver: Whether any call is of the CUDA driver API.
        texts: Text of each name, set when the strings of the file are looked up.
        final: Final id of each name, int32, set with the strings of the file.
        num_open: Rows dropped because they have no end.
        num_negative: Rows dropped because they end before they start, or their time is invalid.
    """

    spill: Spill
    names: list[NameKey] = field(default_factory=list)
    tracks: list[TrackKey] = field(default_factory=list)
    owners: list[Owner] = field(default_factory=list)
    any_driver: bool = False
    texts: list[str] = field(default_factory=list)
    final: I32 = field(default_factory=lambda: np.empty(0, np.int32))
    num_open: int = 0
    num_negative: int = 0

    def owned(self) -> Mapping[Owner, int]:
        """Return the number of rows of each owner that has any."""
        return {self.owners[number]: count for number, count in self.spill.owners().items()}

    def column(self, name: str, owners: set[Owner] | None = None) -> npt.NDArray[Any]:
        """Return a column of the rows of ``owners``, of all rows for None."""
        return self.spill.column(name, self._numbers(owners))

    def pieces(self, name: str, owners: set[Owner] | None, room: int) -> Iterator[npt.NDArray[Any]]:
        """Yield a column in pieces of at most ``room`` rows, each valid until the next."""
        return self.spill.pieces(name, self._numbers(owners), room)

    def _numbers(self, owners: set[Owner] | None) -> list[int]:
        return [n for n, owner in enumerate(self.owners) if owners is None or owner in owners]

    def append(self, start: I64, end: I64, owner: I32, **columns: npt.NDArray[Any]) -> None:
        """Add a block; rows without an end, or with an end before the start, are counted only."""
        dur = end - start
        columns = {"start_ns": start, "dur_ns": dur, **columns}
        bad: Bool = (dur < 0) | (start > MAX_TIME_NS) | (start < -MAX_TIME_NS)
        bad |= end > MAX_TIME_NS
        if bad.any():
            opened = end == MISSING
            self.num_open += int((bad & opened).sum())
            self.num_negative += int((bad & ~opened).sum())
            columns = {name: column[~bad] for name, column in columns.items()}
            owner = owner[~bad]
        self.spill.append(owner, columns)


class Pairs:
    """Numbering of pairs of int32 numbers."""

    def __init__(self) -> None:
        self._numbers = new_numbers()

    def of(self, first: I32, second: I32) -> I32:
        """Return the number of each pair, int32."""
        return self._numbers.of((first.astype(np.int64) << 32) | second)

    def values(self) -> list[tuple[int, int]]:
        """Return the pairs by number."""
        return [(pair >> 32, pair & _LOW) for pair in self._numbers.values().tolist()]


class ThreadIds:
    """Numbering of threads and of their processes, by ``globalTid``."""

    def __init__(self) -> None:
        self._threads, self._processes = new_numbers(), new_numbers()
        self._process = np.empty(0, np.int32)  # of each thread

    def of(self, global_ids: I64) -> tuple[I32, I32]:
        """Return the numbers of the threads, and of their processes."""
        threads = self._threads.of(global_ids)
        if len(threads) and threads.max() >= len(self._process):
            self._process = self._processes.of(process_of(self._threads.values()))
        return threads, self._process[threads]

    def tracks(self) -> list[TrackKey]:
        """Return the threads by number."""
        ids = self._threads.values()
        pids, tids = process_of(ids).tolist(), thread_of(ids).tolist()
        return [("thread", p, t, MISSING) for p, t in zip(pids, tids, strict=True)]

    def owners(self) -> list[Owner]:
        """Return the processes by number."""
        return [(process, MISSING) for process in self._processes.values().tolist()]


class _StreamIds:
    def __init__(self) -> None:
        self._processes, self._devices, self._streams = (new_numbers() for _ in range(3))
        self._owners, self._tracks = Pairs(), Pairs()

    def of(self, process: I64, device: I64, stream: I64) -> tuple[I32, I32]:
        """Return the numbers of the streams, and of their owners."""
        owner = self._owners.of(self._processes.of(process_of(process)), self._devices.of(device))
        return self._tracks.of(owner, self._streams.of(stream)), owner

    def owners(self) -> list[Owner]:
        processes, devices = self._processes.values().tolist(), self._devices.values().tolist()
        return [(processes[first], devices[second]) for first, second in self._owners.values()]

    def tracks(self) -> list[TrackKey]:
        owners, streams = self.owners(), self._streams.values().tolist()
        return [("stream", *owners[o], streams[s]) for o, s in self._tracks.values()]


def read_table(
    database: Database,
    source: Source,
    scratch: Scratch,
    progress: Callable[[int], None],
) -> TableRows:
    """Read one table; ``progress`` is called with the number of rows of each block."""
    spilled: dict[str, type] = {
        **{"start_ns": np.int64, "dur_ns": np.int64, "name": np.int32, "track": np.int32},
        **({"correlation": np.int64} if source.correlation else {}),
        **({"bytes": np.int64} if source.bytes else {}),
        **({"driver": np.int8} if source.name and source.kind else {}),
        **({"blocks": np.int64} if source.grid else {}),
    }
    table = TableRows(Spill(scratch, spilled))
    names, kinds, streams, threads = new_numbers(), new_numbers(), _StreamIds(), ThreadIds()
    fields = ("process", "device", "stream", "name", "kind", "correlation", "bytes")
    listed = [database.first_of(source.table, getattr(source, name)) for name in fields]
    listed += [database.first_of(source.table, (name,)) for name in source.grid]
    for numbers in database.numbers(source.table, ["start", "end", *listed], only=source.only):
        start, end, process, device, stream, name, kind, correlation, size, *grid = numbers
        of_stream = source.stream != ()
        ids = streams.of(process, device, stream) if of_stream else threads.of(process)
        table.append(
            start,
            end,
            ids[1],
            track=ids[0],
            name=names.of(name) if source.name else kinds.of(kind),
            correlation=np.where(correlation == 0, MISSING, correlation),
            bytes=size,
            driver=(kind == DRIVER).view(np.int8),
            **({"blocks": _blocks(grid)} if grid else {}),
        )
        table.any_driver |= "driver" in spilled and bool((kind == DRIVER).any())
        progress(len(start))
    table.names = [("text", source.label(kind)) for kind in kinds.values().tolist()]
    if source.name:
        table.names = [("id", number) for number in names.values().tolist()]
    table.tracks = streams.tracks() if source.stream else threads.tracks()
    table.owners = streams.owners() if source.stream else threads.owners()
    return table


def _blocks(grid: Sequence[I64]) -> I64:
    """Return the product of the sides of a grid, -1 where a side is missing or invalid."""
    known = np.all([(side > 0) & (side < 1 << 31) for side in grid], axis=0)
    blocks: I64 = np.prod(np.where(known, grid, 1), axis=0, dtype=np.int64)
    return np.where(known & (blocks > 0), blocks, MISSING)


def process_of(global_ids: I64) -> I64:
    """Return process ids of ``globalTid`` or ``globalPid`` (signed 64 bit), -1 where missing."""
    return np.where(global_ids == MISSING, MISSING, (global_ids >> PID_BITS) & 0xFFFFFF)


def thread_of(global_ids: I64) -> I64:
    """Return thread ids of ``globalTid``, -1 where missing."""
    return np.where(global_ids == MISSING, MISSING, global_ids & 0xFFFFFF)
