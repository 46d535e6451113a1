"""Description of a file of columns: where each column of a rank is in it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from ccltui.parsers.system.quick_dataclass import dataclass


class StoredColumn(msgspec.Struct, frozen=True, array_like=True):
    """Place of one column in a file.

    Attributes:
        name: "group/column".
        dtype: Type of the numbers.
        length: Number of rows.
        begin: First byte of the column.
        end: The byte after its last.
        checksum: CRC-32 of these bytes.
        is_same: Every row has one value, which alone is in the file.
        packed: Number of pieces it was packed in, 0 for a plain column; their index is at the end.
        first: Value of the first row, of columns of starts alone: known before the column is read.
    """

    name: str
    dtype: str
    length: int
    begin: int
    end: int
    checksum: int
    is_same: bool = False
    packed: int = 0
    first: int = 0


class OpenFile:
    """A file that is kept open because it has no name, or will lose it."""

    def __init__(self, descriptor: int) -> None:
        """Own an open descriptor, which is closed with this object."""
        self.descriptor = descriptor

    @classmethod
    def opened(cls, path: Path) -> OpenFile:
        """Open the file of a name. Raises OSError."""
        return cls(os.open(path, os.O_RDONLY | os.O_CLOEXEC))

    def __del__(self) -> None:
        os.close(self.descriptor)


@dataclass(frozen=True, slots=True)
class ColumnFile:
    """A file that holds the columns of a rank.

    Attributes:
        path: Name of the file.
        columns: Position of each column.
        total_bytes: Size of all columns with their padding.
        kept: The open file, where it cannot be opened by name any more.
        begin: First byte of this rank in a file of several, None where the file holds one rank.
        read_again: Returns the `RankTrace` as its trace holds it, for columns that are damaged;
            None where that is not possible.
    """

    path: Path
    columns: tuple[StoredColumn, ...]
    total_bytes: int
    kept: OpenFile | None = None
    begin: int | None = None
    read_again: Callable[[], Any] | None = None
