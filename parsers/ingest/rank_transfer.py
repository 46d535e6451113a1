"""Send a rank to another process: its facts without columns, and the file to map.

The other process maps the same file. Nothing is read again, and no column is copied.

Ranks that no cache had room for share one file without a name, which other processes map by its
descriptor. One open file for each rank would need as many descriptors as there are ranks, and a
folder of files would stay behind when the process is killed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

from msgspec import Struct, structs

from ccltui.parsers.columns import (
    CollectiveArgs,
    ColumnFile,
    OpenFile,
    RankTrace,
    Samples,
    Strings,
    in_replica,
    later,
)
from ccltui.parsers.store.stored_columns import PAGE, StoredColumns, columns_of, map_columns


class TransferredRank(Struct, frozen=True):
    """``facts`` is the rank without its columns; ``place`` is the file that holds them."""

    facts: RankTrace
    place: ColumnFile


def keep_open(trace: RankTrace) -> RankTrace:
    """Return the rank with its file kept open for when its name is removed, if it still exists."""
    if trace.place is None:
        return trace
    with contextlib.suppress(OSError):
        kept = OpenFile.opened(trace.place.path)
        return structs.replace(trace, place=structs.replace(trace.place, kept=kept))
    return trace


def detach_columns(trace: RankTrace) -> TransferredRank | None:
    """Return the rank for another process, None where its columns are in no file.

    The descriptor of a file that is kept open has to be sent along.
    """
    if trace.place is None:
        return None
    none = StoredColumns(Strings.of(()), {}, CollectiveArgs.empty(), Samples.empty())
    facts = structs.replace(trace, **columns_of(none), place=None)
    return TransferredRank(facts, structs.replace(trace.place, kept=None))


def attach_columns(handed: TransferredRank, columns: StoredColumns) -> RankTrace:
    """Return a received rank with the mapped ``columns`` of its file."""
    found = columns_of(columns)
    if handed.facts.added_ns:
        found["events"] = later(columns.events, handed.facts.added_ns)
    if handed.facts.first_rank:
        found["collective_args"] = in_replica(columns.collective_args, handed.facts.first_rank)
    return structs.replace(handed.facts, **found, place=handed.place)


_PIECE = 4 << 20


class SharedColumnFile:
    """The file; it is freed with the last rank that is mapped from it."""

    def __init__(self, directory: Path) -> None:
        """Create the file in ``directory`` on first use."""
        self._directory = directory
        self._kept: OpenFile | None = None

    def add(self, trace: RankTrace) -> RankTrace:
        """Return the rank mapped from this file; its own file is removed.

        Where there is no room its own file is kept open instead.
        """
        if trace.place is None:
            return trace
        try:
            place = self._append(trace.place)
            columns = map_columns(place, self._file().descriptor)
        except OSError:
            return keep_open(trace)
        shutil.rmtree(trace.place.path.parent, ignore_errors=True)
        return structs.replace(trace, **columns_of(columns), place=place)

    def _append(self, place: ColumnFile) -> ColumnFile:
        """Write the columns at the end. Raises OSError and then restores the old length."""
        kept = self._file()
        end = os.fstat(kept.descriptor).st_size
        begin = -(-end // PAGE) * PAGE
        done = begin
        try:
            with place.path.open("rb", buffering=0) as file:
                while piece := file.read(_PIECE):
                    view = memoryview(piece)
                    while view:
                        written = os.pwrite(kept.descriptor, view, done)
                        view, done = view[written:], done + written
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(kept.descriptor, end)
            raise
        return structs.replace(place, kept=kept, begin=begin)

    def _file(self) -> OpenFile:
        if self._kept is None:
            with tempfile.TemporaryFile(dir=self._directory, buffering=0) as file:
                self._kept = OpenFile(os.dup(file.fileno()))
        return self._kept
