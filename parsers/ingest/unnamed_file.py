"""Columns of many ranks in one file without a name, for ranks that no cache had room for.

Other processes map them by its descriptor. One open file for each rank would need as many
descriptors as there are ranks, and a folder of files would stay behind when the process is killed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import tempfile
from pathlib import Path

from ccltui.parsers.column_file import ColumnFile, OpenFile
from ccltui.parsers.columns import RankTrace
from ccltui.parsers.ingest.rank_transfer import keep_open
from ccltui.parsers.store.file_mapping import PAGE
from ccltui.parsers.store.layout import columns_of, map_columns

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
        return dataclasses.replace(trace, **columns_of(columns), place=place)

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
        return dataclasses.replace(place, kept=kept, begin=begin)

    def _file(self) -> OpenFile:
        if self._kept is None:
            with tempfile.TemporaryFile(dir=self._directory, buffering=0) as file:
                self._kept = OpenFile(os.dup(file.fileno()))
        return self._kept
