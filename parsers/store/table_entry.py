"""Entries of the store that hold tables of other things than the events of a rank.

As `column_store` writes them: columns, and a manifest with the place and the checksum of each. What
else is known of a table is a struct of its reader, in the manifest as JSON.
"""

from __future__ import annotations

import contextlib
import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from ccltui.parsers.columns import ColumnFile, StoredColumn, compressed_places
from ccltui.parsers.store.column_store import DamagedEntryError, Store
from ccltui.parsers.store.store_entry import (
    COLUMNS_NAME,
    MANIFEST_NAME,
    remove_entry,
    with_checksum,
)
from ccltui.parsers.store.stored_columns import MappedColumns, SummedFile, map_bytes, mapping_of

TABLE_VERSION: Final = 1
Facts = TypeVar("Facts", bound=msgspec.Struct)


class _Manifest(msgspec.Struct, frozen=True):
    table_version: int
    key: str
    columns: msgspec.Raw  # places of the columns, as of `ColumnFile`
    total_bytes: int
    facts: msgspec.Raw


class TableWriter:
    """Columns of an entry that is being written."""

    def __init__(self, file: SummedFile) -> None:
        self._file = file
        self.columns: list[StoredColumn] = []
        self.facts: msgspec.Struct | None = None

    def put(self, name: str, values: npt.NDArray[Any]) -> None:
        """Write a column; one with a single value as that alone. Raises OSError."""
        is_same = len(values) > 1 and bool((values == values[0]).all())
        begin = self._file.begin_column()
        self._file.write(np.ascontiguousarray(values[:1] if is_same else values).data)
        self.columns.append(
            StoredColumn(
                name,
                values.dtype.str,
                len(values),
                begin,
                self._file.tell(),
                self._file.checksum,
                is_same=is_same,
            )
        )


class StoredTable(MappedColumns):
    """Columns of an entry, each checked when it is first used."""

    def release(self) -> None:
        """Give back the memory that the columns take: they are read again when they are used."""
        mapping = mapping_of(self.data)
        if mapping is not None:
            mapping.madvise(mmap.MADV_DONTNEED)

    @property
    def is_whole(self) -> bool:
        """Whether every column is as it was written."""
        from ccltui.parsers.store.stored_columns import is_intact  # noqa: PLC0415

        return all(is_intact(column, self.data) for column in self.place.columns)


@contextlib.contextmanager
def new_table(store: Store, key: str) -> Iterator[TableWriter]:
    """Write an entry: columns by ``put``, and ``facts`` at the end. Raises OSError."""

    def is_usable() -> bool:
        try:
            with store.opened(key):
                return True
        except (OSError, DamagedEntryError):
            return False

    with store.placed(key, is_usable) as folder:
        with (folder / COLUMNS_NAME).open("wb") as opened:
            file = SummedFile(opened)
            writer = TableWriter(file)
            yield writer
            total_bytes = file.tell()
        manifest = _Manifest(
            TABLE_VERSION,
            key,
            msgspec.Raw(msgspec.json.encode(writer.columns)),
            total_bytes,
            msgspec.Raw(msgspec.json.encode(writer.facts)),
        )
        (folder / MANIFEST_NAME).write_bytes(with_checksum(msgspec.json.encode(manifest)))


def open_table(store: Store, key: str, facts: type[Facts]) -> tuple[StoredTable, Facts]:
    """Open an entry. Raises OSError and DamagedEntryError."""
    with store.opened(key) as (text, descriptor):
        manifest = msgspec.json.decode(text, type=_Manifest, strict=True)
        if (manifest.table_version, manifest.key) != (TABLE_VERSION, key):
            raise ValueError(key)
        path = store.directory / key / COLUMNS_NAME
        place = ColumnFile(path, compressed_places(bytes(manifest.columns)), manifest.total_bytes)
        found = msgspec.json.decode(manifest.facts, type=facts, strict=True)
        return StoredTable(place, map_bytes(place, descriptor), place.columns), found


def drop_table(directory: Path, key: str) -> None:
    """Remove an entry that turned out to be damaged, as far as that is possible."""
    with contextlib.suppress(OSError):
        remove_entry(directory / key)
