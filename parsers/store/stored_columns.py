"""Columns of a mapped file that are checked when they are first used.

An entry opens in a fraction of a millisecond because nothing of its columns is read. The checksum
of a column (CRC-32 of isal, 1.7 to 7 GB/s) costs less than the pages that its first use reads from
disk. A column that is not as it was written is taken from the trace, which is read again: no number
is ever computed from damaged bytes.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from isal import isal_zlib

from ccltui.parsers.column_file import ColumnFile, StoredColumn
from ccltui.parsers.columns import CollectiveArgs, Events, Group, RankTrace, Samples, Strings
from ccltui.parsers.errors import DamagedColumnsError
from ccltui.parsers.store.packing import INDEX_BYTES, Packed

_DTYPES: Final = {np.dtype(code).str: np.dtype(code) for code in "?bBhHiIqQfd"}
"""Types of columns: NumPy itself evaluates what is in the text of a type."""
_EVENT_COLUMNS: Final[dict[str, type]] = dict((*Events.COLUMNS, *Events.SPARSE))


class MappedColumns:
    """Columns of one rank in the bytes of a mapped file."""

    def __init__(self, place: ColumnFile, data: npt.NDArray[np.uint8]) -> None:
        """Take the place of each column. Raises ValueError and KeyError where one does not fit."""
        self.place = place
        self.data = data
        self._columns = {column.name: column for column in place.columns}
        self._intact: set[str] = set()
        self._lock = threading.Lock()
        self._fresh: RankTrace | None = None  # the trace, once it was read again
        for column in place.columns:
            _require_fit(column, len(data))

    def __contains__(self, name: str) -> bool:
        return name in self._columns

    def __getitem__(self, name: str) -> StoredColumn:
        """Place of a column. Raises KeyError."""
        return self._columns[name]

    @property
    def groups(self) -> list[str]:
        """What is before the slash in the names of columns, in order of the file."""
        return list(dict.fromkeys(name.partition("/")[0] for name in self._columns))

    def array(self, name: str) -> npt.NDArray[Any]:
        """Values of a column, as they were written or as the trace holds them.

        Raises:
            TraceError: The column is damaged, and the trace cannot be read again.
        """
        column = self._columns[name]
        if name not in self._intact:
            if self._fresh is not None or not is_intact(column, self.data):
                return self._from_trace(column)
            self._intact.add(name)
        return _values(column, self.data)

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

    def __new__(cls, *of_file: Any, **columns: Any) -> Any:
        """Make events of a file; for `dataclasses.replace`, which gives columns, plain ones."""
        return Events(**columns) if columns else object.__new__(cls)

    def __init__(self, mapped: MappedColumns, group: Group, added_ns: int = 0) -> None:
        """Columns of a group; ``added_ns`` is added to each start."""
        _set(self, "_mapped", mapped)
        _set(self, "_group", group)
        _set(self, "_added_ns", added_ns)

    def __len__(self) -> int:
        return self._mapped[f"{self._group}/start_ns"].length

    def __getattr__(self, name: str) -> Any:
        """A column that is not used yet."""
        dtype = _EVENT_COLUMNS.get(name)
        if dtype is None:
            raise AttributeError(name)
        full = f"{self._group}/{name}"
        column = self._mapped.array(full) if full in self._mapped else np.empty(0, dtype)
        if name == "start_ns" and self._added_ns:
            column = column + self._added_ns
        _set(self, name, column)
        return column

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        return Events, tuple(getattr(self, name) for name in _EVENT_COLUMNS)

    @property
    def first_ns(self) -> int:
        """Start of the first event; there is one. No column is read."""
        return self._mapped[f"{self._group}/start_ns"].first + self._added_ns

    def later(self, by_ns: int) -> Events:
        """The same events, every start ``by_ns`` later; no column is read."""
        found: Events = StoredEvents(self._mapped, self._group, self._added_ns + by_ns)
        return found

    def forget(self) -> npt.NDArray[np.uint8]:
        """Free the columns that were unpacked; return the bytes that they came from."""
        for name in _EVENT_COLUMNS:
            full = f"{self._group}/{name}"
            if full in self._mapped and self._mapped[full].packed:
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


class StoredArgs(CollectiveArgs):
    """Arguments of collectives, whose columns are checked when they are first used."""

    __slots__ = ("_mapped",)
    _mapped: MappedColumns

    def __new__(cls, *of_file: Any, **columns: Any) -> Any:
        """As of `StoredEvents`."""
        return CollectiveArgs(**columns) if columns else object.__new__(cls)

    def __init__(self, mapped: MappedColumns) -> None:
        _set(self, "_mapped", mapped)

    def __len__(self) -> int:
        return self._mapped["collectives/op"].length

    def __getattr__(self, name: str) -> Any:
        """A column that is not used yet."""
        return _first_use(self, "collectives", name)

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        return CollectiveArgs, tuple(getattr(self, name) for name, _ in CollectiveArgs.COLUMNS)


class StoredSamples(Samples):
    """Readings of counters, whose columns are checked when they are first used."""

    __slots__ = ("_mapped",)
    _mapped: MappedColumns

    def __new__(cls, *of_file: Any, **columns: Any) -> Any:
        """As of `StoredEvents`."""
        return Samples(**columns) if columns else object.__new__(cls)

    def __init__(self, mapped: MappedColumns) -> None:
        _set(self, "_mapped", mapped)

    def __len__(self) -> int:
        return self._mapped["samples/time_ns"].length

    def __getattr__(self, name: str) -> Any:
        """A column that is not used yet."""
        return _first_use(self, "samples", name)

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        return Samples, tuple(getattr(self, name) for name, _ in Samples.COLUMNS)


def is_intact(column: StoredColumn, data: npt.NDArray[np.uint8]) -> bool:
    """Whether the bytes of a column are those that were written."""
    return isal_zlib.crc32(data[column.begin : column.end]) == column.checksum


_set: Final[Callable[[object, str, object], None]] = object.__setattr__


def _first_use(rows: StoredArgs | StoredSamples, group: str, name: str) -> npt.NDArray[Any]:
    if all(name != column for column, _ in rows.COLUMNS):
        raise AttributeError(name)
    column = rows._mapped.array(f"{group}/{name}")
    _set(rows, name, column)
    return column


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
