"""Map the columns of a trace from a file, which any process may do."""

from __future__ import annotations

import dataclasses
import os
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from ccltui.parsers.column_file import ColumnFile, StoredColumn
from ccltui.parsers.columns import CollectiveArgs, Events, Group, RankTrace, Samples, Strings
from ccltui.parsers.store.file_mapping import map_file
from ccltui.parsers.store.packing import Packed, PackedEvents
from ccltui.parsers.system.quick_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class StoredColumns:
    """The parts of a trace that are stored as columns."""

    strings: Strings
    events: dict[Group, Events]
    collective_args: CollectiveArgs
    samples: Samples


def columns_of(source: RankTrace | StoredColumns) -> dict[str, Any]:
    """Return the parts of a trace that are columns, by the names of its fields."""
    return {one.name: getattr(source, one.name) for one in dataclasses.fields(StoredColumns)}


def map_columns(place: ColumnFile, descriptor: int | None = None) -> StoredColumns:
    """Return columns as views of one mapping of the file, or of an open ``descriptor`` of it.

    Raises OSError where it cannot be opened, ValueError and KeyError where it does not fit.
    """
    data = _data(place, descriptor)
    arrays: dict[str, Any] = {column.name: _array(column, data) for column in place.columns}
    lengths = {column.name: column.length for column in place.columns}
    groups = {name.partition("/")[0]: None for name in arrays}
    events: dict[Group, Events] = {}
    for group in groups:
        if group not in ("strings", "collectives", "samples"):
            sparse = [c for c, _ in Events.SPARSE if f"{group}/{c}" in arrays]
            columns = [*(column for column, _ in Events.COLUMNS), *sparse]
            found = {column: arrays[f"{group}/{column}"] for column in columns}
            events[_group(group)] = _events(found, lengths[f"{group}/start_ns"])
    return StoredColumns(
        strings=Strings(arrays["strings/blob"], arrays["strings/offsets"]),
        events=events,
        collective_args=CollectiveArgs(
            **{column: arrays[f"collectives/{column}"] for column, _ in CollectiveArgs.COLUMNS}
        ),
        samples=Samples(**{column: arrays[f"samples/{column}"] for column, _ in Samples.COLUMNS}),
    )


def _data(place: ColumnFile, descriptor: int | None) -> npt.NDArray[np.uint8]:
    """The bytes of the file, mapped."""
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


def _events(columns: dict[str, Any], length: int) -> Events:
    if any(isinstance(column, Packed) for column in columns.values()):
        return PackedEvents(columns, length)
    return Events(**columns)


_DTYPES: Final = {np.dtype(code).str: np.dtype(code) for code in "?bBhHiIqQfd"}
"""Types of columns: NumPy itself evaluates what is in the text of a type."""


def _array(column: StoredColumn, data: npt.NDArray[np.uint8]) -> npt.NDArray[Any] | Packed:
    dtype = _DTYPES[column.dtype]
    if not column.length:
        return np.empty(0, dtype)
    if column.length < 0:
        raise ValueError(f"{column.name} has {column.length} rows")
    if column.packed:
        return Packed.at(data, dtype, column.offset, column.packed, column.length)
    strides = (0,) if column.is_same else (dtype.itemsize,)
    # a tenth of the time that frombuffer and broadcast_to take, which 75 columns a rank are worth
    return np.ndarray((column.length,), dtype, data, column.offset, strides)


@cache
def _group(name: str) -> Group:
    group: Group = msgspec.convert(name, Literal[Group])
    return group
