"""Description of a file of columns: where each column of a rank is in it."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from ccltui.parsers.system.quick_dataclass import dataclass


class StoredColumn(msgspec.Struct, frozen=True, array_like=True):
    """ColumnFile of one column: ``name`` is "group/column", ``offset`` in bytes.

    ``is_same``: every row has one value, which alone is in the file. ``packed``: how many pieces
    it was packed in, 0 for a plain column; ``offset`` is then that of their index.
    """

    name: str
    dtype: str
    length: int
    offset: int
    is_same: bool = False
    packed: int = 0


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
    """

    path: Path
    columns: tuple[StoredColumn, ...]
    total_bytes: int
    kept: OpenFile | None = None
    begin: int | None = None
