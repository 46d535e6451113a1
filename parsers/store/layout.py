"""Map the columns of a trace from a file, which any process may do."""

from __future__ import annotations

import dataclasses
import os
from functools import cache
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from ccltui.parsers.column_file import ColumnFile
from ccltui.parsers.columns import CollectiveArgs, Events, Group, RankTrace, Samples, Strings
from ccltui.parsers.store.file_mapping import map_file
from ccltui.parsers.store.stored_columns import (
    MappedColumns,
    StoredArgs,
    StoredEvents,
    StoredSamples,
    StoredStrings,
)
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

    They are checked at their first use. Raises OSError where the file cannot be opened, ValueError
    and KeyError where it does not fit.
    """
    mapped = MappedColumns(place, map_bytes(place, descriptor))
    groups = [name for name in mapped.groups if name not in ("strings", "collectives", "samples")]
    _require_columns(mapped, groups)
    return StoredColumns(
        strings=StoredStrings(mapped),
        events={_group(name): StoredEvents(mapped, _group(name)) for name in groups},
        collective_args=StoredArgs(mapped),
        samples=StoredSamples(mapped),
    )


def _require_columns(mapped: MappedColumns, groups: list[str]) -> None:
    """Raise KeyError or ValueError where a column is missing, or has another length."""
    tables = [("collectives", CollectiveArgs.COLUMNS), ("samples", Samples.COLUMNS)]
    tables += [(group, Events.COLUMNS) for group in groups]
    for table, columns in tables:
        if len({mapped[f"{table}/{name}"].length for name, _ in columns}) > 1:
            raise ValueError(f"columns of {table} have several lengths")
    _ = mapped["strings/blob"], mapped["strings/offsets"]


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
