"""Columns of a mapped file: in few bytes, and checked when they are first used.

An entry opens in a fraction of a millisecond because nothing of its columns is read. The checksum
of a column (CRC-32 of isal, 1.7 to 7 GB/s) costs less than the pages that its first use reads from
disk. A column that is not as it was written is taken from the trace, which is read again: no number
is ever computed from damaged bytes.

Columns of large files are packed: writing a gigabyte takes longer than reading the file that it
came from, and a cache is small. A packed column is pieces of numbers less a base, 1 to 8 bytes
each, and behind them an index of int64: rows, bytes a number, base and offset of each piece.

``mmap.mmap`` keeps a copy of the descriptor for as long as the mapping lives, so that a job of a
thousand ranks exceeds the usual limit of 1,024 open files. A mapping needs none: the system calls
are made here by hand until Python 3.13, which has ``trackfd=False``, is the oldest version.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import importlib
import mmap
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Final, Literal

import msgspec
import numpy as np
import numpy.typing as npt
from isal import isal_zlib
from msgspec import Struct

from ccltui.parsers.array_types import I64
from ccltui.parsers.columns import (
    CollectiveArgs,
    ColumnFile,
    Columns,
    Events,
    Group,
    RankTrace,
    Samples,
    StoredColumn,
    Strings,
    place_of,
)
from ccltui.parsers.errors import DamagedColumnsError

PAGE = mmap.ALLOCATIONGRANULARITY

if sys.version_info >= (3, 13):

    class FileMapping(mmap.mmap):
        """The bytes of a file, read only, until nothing refers to them."""

        def __new__(cls, descriptor: int, size: int, begin: int) -> FileMapping:
            """Map ``size`` bytes from ``begin``; there is at least one. Raises OSError."""
            access = mmap.ACCESS_READ
            return super().__new__(
                cls, descriptor, size, access=access, offset=begin, trackfd=False
            )

else:

    class FileMapping:
        """The bytes of a file, read only, until nothing refers to them."""

        def __init__(self, descriptor: int, size: int, begin: int) -> None:
            """Map ``size`` bytes from ``begin``; there is at least one. Raises OSError."""
            library = _c_library()
            self._unmap, self._advise = library.munmap, library.madvise
            self._size = size
            self._address = library.mmap(
                None, size, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, begin
            )
            if self._address == _FAILED:
                raise _error()

        @property
        def __array_interface__(self) -> dict[str, Any]:
            """Array interface of numpy: an array refers to this object, which unmaps the bytes."""
            return {
                "version": 3,
                "shape": (self._size,),
                "typestr": "|u1",
                "data": (self._address, True),
            }

        def madvise(self, option: int) -> None:
            """Tell the kernel how the bytes will be used. Raises OSError."""
            if self._advise(self._address, self._size, option):
                raise _error()

        def __del__(self) -> None:
            if getattr(self, "_address", _FAILED) != _FAILED:
                self._unmap(self._address, self._size)


_FAILED = ctypes.c_void_p(-1).value


@cache
def _c_library() -> ctypes.CDLL:
    library = ctypes.CDLL(None, use_errno=True)
    size, address, number = ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int
    # off_t has the width of long in every build of Python that this runs on.
    library.mmap.argtypes = (address, size, number, number, number, ctypes.c_long)
    library.mmap.restype = address
    library.munmap.argtypes = (address, size)
    library.madvise.argtypes = (address, size, number)
    return library


def _error() -> OSError:
    code = ctypes.get_errno() or errno.EINVAL
    return OSError(code, os.strerror(code))


@cache
def _survive_cuts() -> None:
    """End the process with a line, not a crash, where a file is cut while it is mapped.

    Without compiled code SIGBUS ends it.
    """
    with contextlib.suppress(ImportError, OSError):
        importlib.import_module("ccltui.parsers.store._cut_files").end_in_order()


def map_file(descriptor: int, size: int, begin: int = 0) -> npt.NDArray[np.uint8]:
    """``size`` bytes of a file from ``begin``, a multiple of `PAGE`; the descriptor may be closed.

    Raises OSError.
    """
    if not size:
        return np.empty(0, np.uint8)
    _survive_cuts()
    mapping: Any = FileMapping(descriptor, size, begin)
    return np.asarray(mapping) if sys.version_info < (3, 13) else np.frombuffer(mapping, np.uint8)


def mapping_of(array: Any) -> FileMapping | None:
    """The mapped file that an array is a view of, None where it is in memory."""
    base = array
    while isinstance(base, np.ndarray | memoryview):
        base = base.base if isinstance(base, np.ndarray) else base.obj
    return base if isinstance(base, FileMapping) else None


PACKED_ROWS: Final = 1 << 16
"""Rows of a piece. Groups with fewer are stored as they are."""
_INDEX_COLUMNS: Final = 4
INDEX_BYTES: Final = 8 * _INDEX_COLUMNS
"""Bytes of a piece in the index."""
_ALIGNMENT: Final = 64
_PACKED_DTYPES: Final = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.int64}


class SummedFile:
    """A file that is written from its beginning, with the checksum (CRC-32) of each column."""

    def __init__(self, file: BinaryIO) -> None:
        """Write to an open file."""
        self._file = file
        self.checksum = 0

    def begin_column(self) -> int:
        """Begin a column at a multiple of 64 bytes, and return its first byte."""
        self._file.write(bytes(-self._file.tell() % _ALIGNMENT))
        self.checksum = 0
        return self._file.tell()

    def write(self, data: bytes | memoryview) -> None:
        """Write bytes at the end. Raises OSError."""
        self.checksum = isal_zlib.crc32(data, self.checksum)
        self._file.write(data)

    def tell(self) -> int:
        """Bytes written so far."""
        return self._file.tell()


def narrow(column: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], int]:
    """Return the integers less a base, in as few bytes as they need; there is at least one."""
    low, high = int(column.min()), int(column.max())
    for size in (1, 2, 4):
        if high - low < 1 << 8 * size:
            return (column - low if low else column).astype(_PACKED_DTYPES[size]), low
    return column.astype(np.int64, copy=False), 0


def widen(rows: npt.NDArray[Any], base: int, target: npt.NDArray[Any]) -> None:
    """Write the integers that `narrow` packed into ``target``."""
    np.copyto(target, rows, casting="unsafe")  # a sum of different dtypes takes longer
    if base:
        target += base


def write_packed(
    file: SummedFile, pieces: Iterable[npt.NDArray[Any]]
) -> tuple[int, int, np.dtype[Any]]:
    """Write a column of integers; its number of pieces, its length and its dtype."""
    index: list[tuple[int, int, int, int]] = []
    dtype: np.dtype[Any] = np.dtype(np.int64)
    length = 0
    for piece in pieces:
        dtype = piece.dtype
        for begin in range(0, len(piece), PACKED_ROWS):
            rows, base = narrow(piece[begin : begin + PACKED_ROWS])
            index.append((len(rows), rows.itemsize, base, file.tell()))
            file.write(np.ascontiguousarray(rows).data)
            length += len(rows)
    file.write(bytes(-file.tell() % 8))
    file.write(np.array(index, np.int64).data)
    return len(index), length, dtype


class Packed(Struct, frozen=True):
    """A packed column in the bytes of a file."""

    data: npt.NDArray[np.uint8]
    dtype: np.dtype[Any]
    index: I64  # [pieces, 4]

    @classmethod
    def at(
        cls,
        data: npt.NDArray[np.uint8],
        dtype: np.dtype[Any],
        end: int,
        num_pieces: int,
        length: int,
    ) -> Packed:
        """The column whose index ends at ``end``. Raises ValueError where it does not fit."""
        count, begin = num_pieces * _INDEX_COLUMNS, end - INDEX_BYTES * num_pieces
        index = np.frombuffer(data, np.int64, count, begin).reshape(-1, _INDEX_COLUMNS)
        rows, sizes, _, begins = index.T
        inside = (rows > 0) & (begins >= 0) & (begins + rows * sizes <= len(data))
        if not (
            inside.all() and np.isin(sizes, list(_PACKED_DTYPES)).all() and rows.sum() == length
        ):
            raise ValueError("a packed column does not fit")
        return cls(data, dtype, index)

    def column(self) -> npt.NDArray[Any]:
        """All values."""
        found: npt.NDArray[Any] = np.empty(int(self.index[:, 0].sum()), self.dtype)
        done = 0
        for number in range(len(self.index)):
            rows = self._piece(number)
            widen(rows, int(self.index[number, 2]), found[done : done + len(rows)])
            done += len(rows)
        found.flags.writeable = False
        return found

    def _piece(self, number: int) -> npt.NDArray[Any]:
        count, size, _, begin = self.index[number].tolist()
        return np.frombuffer(self.data, _PACKED_DTYPES[size], count, begin)


# By their sizes: numpy has two types of 8 bytes, and casts a column of "q" in each operation with
# another of "l", which is np.int64 on Linux.
_DTYPES: Final = {
    dtype.str: np.dtype(dtype.str) for dtype in (np.dtype(code) for code in "?bBhHiIqQfd")
}
"""Types of columns: NumPy itself evaluates what is in the text of a type."""
_EVENT_COLUMNS: Final[dict[str, type]] = dict((*Events.COLUMNS, *Events.SPARSE))


class MappedColumns:
    """Columns of one rank in the bytes of a mapped file.

    What is needed only where a column is used is made at its first use.
    """

    def __init__(
        self, place: ColumnFile, data: npt.NDArray[np.uint8], columns: Iterable[StoredColumn]
    ) -> None:
        """Check the places of ``columns``. Raises ValueError, KeyError where one does not fit."""
        self.place = place
        self.data = data
        self._encoded = b""
        self._intact: frozenset[str] = frozenset()
        self._lock = threading.Lock()
        self._fresh: RankTrace | None = None  # the trace, once it was read again
        self._tables: dict[str, tuple[int, int]] = {}
        self.packed: dict[str, list[str]] = {}
        """Names of the columns that are unpacked when they are used, by group."""
        for column in columns:
            _require_fit(column, len(data))
            table = sys.intern(column.name.partition("/")[0])
            if table not in self._tables or column.name.endswith("/start_ns"):
                self._tables[table] = column.length, column.first
            if column.packed:
                self.packed.setdefault(table, []).append(column.name.partition("/")[2])

    def __contains__(self, name: str) -> bool:
        return self._place(name) is not None

    def __getitem__(self, name: str) -> StoredColumn:
        """Place of a column. Raises KeyError."""
        column = self._place(name)
        if column is None:
            raise KeyError(name)
        return column

    def _place(self, name: str) -> StoredColumn | None:
        if not self._encoded:
            self._encoded = self.place.encoded
        return place_of(name, self._encoded)

    @property
    def groups(self) -> list[str]:
        """What is before the slash in the names of columns, in order of the file."""
        return list(self._tables)

    def length(self, group: str) -> int:
        """Number of rows of the columns of a group. Raises KeyError."""
        return self._tables[group][0]

    def first_ns(self, group: str) -> int:
        """First start of a group; nothing is read. Raises KeyError."""
        return self._tables[group][1]

    def array(self, name: str) -> npt.NDArray[Any]:
        """Values of a column, as they were written or as the trace holds them.

        Raises:
            TraceError: The column is damaged, and the trace cannot be read again.
        """
        return self._checked(self[name])

    def stated(self, name: str) -> npt.NDArray[Any] | None:
        """The same, None where there is no such column."""
        column = self._place(name)
        return None if column is None else self._checked(column)

    def _checked(self, column: StoredColumn) -> npt.NDArray[Any]:
        name = column.name
        if name in self._intact:
            return _values(column, self.data)
        if self._fresh is None and (shared := _shared_values(column, self.data)) is not None:
            return shared
        if self._fresh is not None or not is_intact(column, self.data):
            return self._from_trace(column)
        self._intact |= {name}
        values = _values(column, self.data)
        if not column.packed:
            _SHARED[_content_of(column)] = values
        return values

    def _from_trace(self, column: StoredColumn) -> npt.NDArray[Any]:
        with self._lock:  # a query of the explorer may come upon the same damage meanwhile
            if self._fresh is None:
                if self.place.read_again is None:
                    raise DamagedColumnsError("these columns are damaged", path=self.place.path)
                self._fresh = self.place.read_again()
        found = _column_of(self._fresh, column.name)
        if len(found) != column.length or found.dtype.str != column.dtype:
            raise DamagedColumnsError(
                "these columns are damaged, and the trace has other ones; run the command again",
                path=self.place.path,
            )
        return found


class StoredEvents(Events):
    """Events whose columns are checked, and unpacked, when they are first used."""

    __slots__ = ("_added_ns", "_group", "_mapped")
    _mapped: MappedColumns
    _group: Group
    _added_ns: int

    def __init__(self, mapped: MappedColumns, group: Group, added_ns: int = 0) -> None:
        """Columns of a group; ``added_ns`` is added to each start."""
        _set(self, "_mapped", mapped)
        _set(self, "_group", group)
        _set(self, "_added_ns", added_ns)

    def __len__(self) -> int:
        return self._mapped.length(self._group)

    def __getattr__(self, name: str) -> Any:
        """A column that is not used yet."""
        dtype = _EVENT_COLUMNS.get(name)
        if dtype is None:
            raise AttributeError(name)
        column = self._mapped.stated(f"{self._group}/{name}")
        if column is None:
            column = np.empty(0, dtype)
        if name == "start_ns" and self._added_ns:
            column = column + self._added_ns
        _set(self, name, column)
        return column

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        return Events, tuple(getattr(self, name) for name in _EVENT_COLUMNS)

    @property
    def first_ns(self) -> int:
        """Start of the first event; there is one. No column is read."""
        return self._mapped.first_ns(self._group) + self._added_ns

    def later(self, by_ns: int) -> Events:
        """The same events, every start ``by_ns`` later; no column is read."""
        found: Events = StoredEvents(self._mapped, self._group, self._added_ns + by_ns)
        return found

    def forget(self) -> npt.NDArray[np.uint8]:
        """Free the columns that were unpacked; return the bytes that they came from."""
        for name in self._mapped.packed.get(self._group, ()):
            with contextlib.suppress(AttributeError):
                object.__delattr__(self, name)
        return self._mapped.data


class StoredStrings(Strings):
    """Strings whose bytes are checked when they are first used."""

    __slots__ = ("_mapped",)

    def __init__(self, mapped: MappedColumns) -> None:
        self._mapped = mapped
        self._index = None

    def __getattr__(self, name: str) -> Any:
        """The bytes or the offsets, which are not used yet."""
        if name not in ("_blob", "_offsets"):
            raise AttributeError(name)
        found = self._mapped.array(f"strings/{name.removeprefix('_')}")
        setattr(self, name, found)
        return found

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        return Strings, (self.blob, self.offsets)


class _StoredTable:
    """Rows of a mapped file whose columns are checked when they are first used."""

    __slots__ = ()
    COLUMNS: ClassVar[Columns]
    _plain: ClassVar[type]  # the table as it is in memory
    _name: ClassVar[str]  # of the table in the file
    _names: ClassVar[frozenset[str]]  # of its columns
    _mapped: MappedColumns

    def __init__(self, mapped: MappedColumns) -> None:
        _set(self, "_mapped", mapped)

    def __len__(self) -> int:
        return self._mapped.length(self._name)

    def __getattr__(self, name: str) -> Any:
        """A column that is not used yet."""
        if name not in self._names:
            raise AttributeError(name)
        column = self._mapped.array(f"{self._name}/{name}")
        _set(self, name, column)
        return column

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        return self._plain, tuple(getattr(self, name) for name, _ in self.COLUMNS)


class StoredArgs(_StoredTable, CollectiveArgs):
    """Arguments of collectives in a mapped file."""

    __slots__ = ("_mapped",)
    _plain, _name = CollectiveArgs, "collectives"
    _names = frozenset(name for name, _ in CollectiveArgs.COLUMNS)


class StoredSamples(_StoredTable, Samples):
    """Readings of counters in a mapped file."""

    __slots__ = ("_mapped",)
    _plain, _name = Samples, "samples"
    _names = frozenset(name for name, _ in Samples.COLUMNS)


def is_intact(column: StoredColumn, data: npt.NDArray[np.uint8]) -> bool:
    """Whether the bytes of a column are those that were written."""
    return isal_zlib.crc32(data[column.begin : column.end]) == column.checksum


_SHARED: Final[weakref.WeakValueDictionary[tuple[str, int, bool, int], npt.NDArray[Any]]] = (
    weakref.WeakValueDictionary()
)
"""Columns that are in use, by what is stated of their content."""


def _content_of(column: StoredColumn) -> tuple[str, int, bool, int]:
    return column.dtype, column.length, column.is_same, column.checksum


def _shared_values(column: StoredColumn, data: npt.NDArray[np.uint8]) -> npt.NDArray[Any] | None:
    """Return a column in use that has the same bytes, None without.

    Ranks that do the same work have most columns in common, and what follows from one and the same
    array need not be found again for each rank. To compare bytes with those of a column that is
    intact takes less time than their checksum, which they need not have any more.
    """
    known = _SHARED.get(_content_of(column)) if column.length else None
    if known is None or column.packed:
        return None
    if column.is_same:
        is_equal = data[column.begin : column.end].tobytes() == known[:1].tobytes()
    else:
        is_equal = np.array_equal(_values(column, data), known)
    return known if is_equal else None


_set: Final[Callable[[object, str, object], None]] = object.__setattr__


def _require_fit(column: StoredColumn, size: int) -> None:
    """Raise ValueError or KeyError for a column that cannot be in a file of ``size`` bytes."""
    dtype = _DTYPES[column.dtype]
    rows, taken = 1 if column.is_same else column.length, column.end - column.begin
    if column.packed:
        is_whole = 0 < column.packed <= column.length and INDEX_BYTES * column.packed < taken
    else:
        is_whole = taken == rows * dtype.itemsize
    if not (column.length >= 0 and 0 <= column.begin <= column.end <= size and is_whole):
        raise ValueError(f"{column.name} does not fit")


def _values(column: StoredColumn, data: npt.NDArray[np.uint8]) -> npt.NDArray[Any]:
    dtype = _DTYPES[column.dtype]
    if not column.length:
        return np.empty(0, dtype)
    if column.packed:
        return Packed.at(data, dtype, column.end, column.packed, column.length).column()
    strides = (0,) if column.is_same else (dtype.itemsize,)
    # a tenth of the time that frombuffer and broadcast_to take, which 75 columns a rank are worth
    return np.ndarray((column.length,), dtype, data, column.begin, strides)


def _column_of(trace: RankTrace, name: str) -> npt.NDArray[Any]:
    """Return a column of a trace by its name in files; empty where the trace has none."""
    group, _, column = name.partition("/")
    parts: dict[str, Any] = {str(group): rows for group, rows in trace.events.items()}
    parts |= {"strings": trace.strings, "collectives": trace.collective_args}
    parts["samples"] = trace.samples
    found: npt.NDArray[Any] = getattr(parts.get(group, Events.empty()), column)
    return found


class StoredColumns(Struct, frozen=True):
    """The parts of a trace that are stored as columns."""

    strings: Strings
    events: dict[Group, Events]
    collective_args: CollectiveArgs
    samples: Samples


def columns_of(source: RankTrace | StoredColumns) -> dict[str, Any]:
    """Return the parts of a trace that are columns, by the names of its fields."""
    return {name: getattr(source, name) for name in StoredColumns.__struct_fields__}


def map_columns(place: ColumnFile, descriptor: int | None = None) -> StoredColumns:
    """Return columns as views of one mapping of the file, or of an open ``descriptor`` of it.

    They are checked at their first use. Raises OSError where the file cannot be opened, ValueError
    and KeyError where it does not fit.
    """
    columns = place.columns
    mapped = MappedColumns(place, map_bytes(place, descriptor), columns)
    groups = [name for name in mapped.groups if name not in ("strings", "collectives", "samples")]
    _require_columns(columns, groups)
    return StoredColumns(
        strings=StoredStrings(mapped),
        events={_group(name): StoredEvents(mapped, _group(name)) for name in groups},
        collective_args=StoredArgs(mapped),
        samples=StoredSamples(mapped),
    )


def _require_columns(places: Iterable[StoredColumn], groups: list[str]) -> None:
    """Raise KeyError or ValueError where a column is missing, or has another length."""
    length = {column.name: column.length for column in places}
    tables = [("collectives", CollectiveArgs.COLUMNS), ("samples", Samples.COLUMNS)]
    tables += [(group, Events.COLUMNS) for group in groups]
    for table, columns in tables:
        if len({length[f"{table}/{name}"] for name, _ in columns}) > 1:
            raise ValueError(f"columns of {table} have several lengths")
    _ = length["strings/blob"], length["strings/offsets"]


def map_bytes(place: ColumnFile, descriptor: int | None = None) -> npt.NDArray[np.uint8]:
    """Map the bytes of a rank. Raises OSError, and ValueError where the file has another size."""
    opened = open_columns(place.path) if descriptor is None else descriptor
    try:
        size = os.fstat(opened).st_size
        begin = place.begin or 0
        end = begin + place.total_bytes
        if size < end or (place.begin is None and size != end):
            raise ValueError(f"{place.path} has {size:,} bytes, not {place.total_bytes:,}")
        return map_file(opened, place.total_bytes, begin)
    finally:
        if descriptor is None:
            os.close(opened)


def open_columns(path: Path) -> int:
    """Open a file for reading, and no link, and return its descriptor. Raises OSError."""
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)


@cache
def _group(name: str) -> Group:
    group: Group = msgspec.convert(name, Literal[Group])
    return group
