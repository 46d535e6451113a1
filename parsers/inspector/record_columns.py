"""Columns of the records of one process: in memory, or in the store.

Records are in parts of at most `PART_ROWS`, in the order in which they were written; in a part they
are in order of series and number. A part has, for each series, the place after its last record
(``ends``), the number and the time of its first record (``first_number``, ``first_us``), and for
each record the step from the number and the time before (``step``, ``step_us``), the size and the
execution time. Each is stored in as few bytes as it needs: 9 bytes a record where an operation is
written every second, and no more than 24.

In the store they are an entry as those of `column_store`: columns, and a manifest with the place
and the checksum of each. What else is known of a table is a struct of its reader, in the manifest
as JSON. The sums by minute are stored the same way.
"""

from __future__ import annotations

import contextlib
import mmap
from collections.abc import ItemsView, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ccltui.parsers.array_types import I64
from ccltui.parsers.columns import ColumnFile, Note, StoredColumn, compressed_places
from ccltui.parsers.store.column_store import DamagedEntryError, Store
from ccltui.parsers.store.store_entry import (
    COLUMNS_NAME,
    MANIFEST_NAME,
    remove_entry,
    with_checksum,
)
from ccltui.parsers.store.stored_columns import MappedColumns, SummedFile, map_bytes, mapping_of

PART_ROWS: Final = 1 << 18
"""Records that a reader holds at once: 8 MB, and twice that while they are put in order."""


class Communicator(NamedTuple):
    """A communicator as every rank of it writes it; the hash is cut to 14 digits by the writer."""

    id: str
    name: str
    n_ranks: int
    nnodes: int


class Series(NamedTuple):
    """Records with one numbering: operations of one type of one rank in one communicator.

    ``rank`` is inside the communicator; ``timing`` is where execution times were measured.
    """

    communicator: Communicator
    rank: int
    operation: str
    timing: str
    is_p2p: bool


class Records(Struct, frozen=True):
    """Records of one series in order of their numbers; all arrays have one length.

    Attributes:
        number: Sequence number in its series; of a P2P record a count of the process.
        size: Bytes of the message, of AllGather and ReduceScatter those of one rank.
        exec_us: Execution time in µs, waiting for other ranks included.
        written_us: When the line was written, µs since the epoch: late by one interval at most.
    """

    number: I64
    size: I64
    exec_us: I64
    written_us: I64

    def __len__(self) -> int:
        return len(self.number)

    def taken(self, rows: npt.NDArray[Any]) -> Records:
        """Return the records of ``rows``, places or a mask."""
        names = self.__struct_fields__
        return Records(**{name: getattr(self, name)[rows] for name in names})

    @staticmethod
    def joined(pieces: Sequence[Records]) -> Records:
        """Return the records of all pieces in order of their numbers, each number once.

        Of several records with one number the first is kept.
        """
        if len(pieces) == 1:
            found = pieces[0]
        else:
            names = Records.__struct_fields__
            found = Records(
                **{name: np.concatenate([getattr(one, name) for one in pieces]) for name in names}
            )
        if len(found) and (np.diff(found.number) < 0).any():
            found = found.taken(np.argsort(found.number, kind="stable"))
        once = np.ones(len(found), np.bool_)
        once[1:] = found.number[1:] != found.number[:-1]
        return found if once.all() else found.taken(once)


class Columns(Protocol):
    """Arrays by name: those of a mapped file, or in memory."""

    def array(self, name: str) -> npt.NDArray[Any]:
        """Values of a column. Raises TraceError where it is damaged."""


class MemoryColumns:
    """Columns in memory."""

    def __init__(self, columns: Mapping[str, npt.NDArray[Any]]) -> None:
        self._columns = columns

    def array(self, name: str) -> npt.NDArray[Any]:
        """Values of a column."""
        return self._columns[name]

    def items(self) -> ItemsView[str, npt.NDArray[Any]]:
        """All columns."""
        return self._columns.items()


class InspectorFacts(Struct, frozen=True):
    """What is known of the log of one process besides its records.

    Attributes:
        version: Of the form, that of the first record.
        host: Name of the host.
        pid: Number of the process.
        series: What records belong to.
        num_parts: Number of parts of its columns.
        num_records: Records in all of them.
        first_us: When the first record of a collective was written.
        last_us: The same of the last one.
        dropped: Collectives that the writer states as dropped, by communicator; empty where it
            states none: before form v4.1.
        notes: What was left out.
    """

    version: str
    host: str
    pid: int
    series: tuple[Series, ...]
    num_parts: int
    num_records: int
    first_us: int
    last_us: int
    dropped: tuple[tuple[Communicator, int], ...] = ()
    notes: tuple[Note, ...] = ()


class InspectorFile(Struct, frozen=True):
    """The records of one process; ``path`` is for messages."""

    path: str
    facts: InspectorFacts
    columns: Columns

    def records(self, series: int) -> Records:
        """Return the records of a series by its place in ``facts.series``."""
        pieces = [self._of_part(part, series) for part in range(self.facts.num_parts)]
        return Records.joined([one for one in pieces if len(one)] or [_no_records()])

    def _of_part(self, part: int, series: int) -> Records:
        ends = self.columns.array(f"{part}/ends")
        if series >= len(ends):  # it began after this part
            return _no_records()
        begin, end = int(ends[series - 1]) if series else 0, int(ends[series])

        def of(name: str) -> npt.NDArray[Any]:
            return self.columns.array(f"{part}/{name}")

        rows = slice(begin, end)
        return Records(
            number=_summed(of("first_number"), of("step"), series, rows),
            size=of("size")[rows].astype(np.int64),
            exec_us=of("exec_us")[rows].astype(np.int64),
            written_us=_summed(of("first_us"), of("step_us"), series, rows),
        )


def _no_records() -> Records:
    return Records(*(np.empty(0, np.int64) for _ in Records.__struct_fields__))


def _summed(first: I64, step: npt.NDArray[Any], series: int, rows: slice) -> I64:
    values = step[rows].astype(np.int64)
    if len(values):
        values[0] = first[series]
    return np.cumsum(values, out=values)


class FileRows(NamedTuple):
    """Records in the order of the file; all arrays have one length.

    ``series`` and ``exec_us`` are int32, the others int64.
    """

    series: npt.NDArray[Any]
    number: npt.NDArray[Any]
    size: npt.NDArray[Any]
    exec_us: npt.NDArray[Any]
    written_us: npt.NDArray[Any]


def part_columns(rows: FileRows, num_series: int) -> Iterator[tuple[str, npt.NDArray[Any]]]:
    """Yield the columns of a part, of records in the order of the file; there is at least one."""
    series, number, size, exec_us, written_us = rows
    order = np.lexsort((number, series))
    ends = np.cumsum(np.bincount(series, minlength=num_series)).astype(np.int64)
    begins = np.concatenate([np.zeros(1, np.int64), ends[:-1]])
    yield "ends", ends
    filled = ends > begins
    for names, values in (
        (("first_number", "step"), number[order]),
        (("first_us", "step_us"), written_us[order]),
    ):
        first = np.zeros(num_series, np.int64)
        first[filled] = values[begins[filled]]
        step = np.diff(values, prepend=values[:1])
        step[begins[filled]] = 0
        yield names[0], first
        yield names[1], _narrow(step)
    yield "size", _narrow(size[order])
    yield "exec_us", _narrow(exec_us[order])


def _narrow(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return integers in as few bytes as they need."""
    low, high = int(values.min()), int(values.max())
    if low >= 0:
        for dtype in (np.uint8, np.uint16, np.uint32):
            if high <= np.iinfo(dtype).max:
                return values.astype(dtype)
    return values.astype(np.int64)


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
