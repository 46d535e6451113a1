"""A column that grows in place and takes no more memory than its rows fill.

It lies in a mapping of its own. What the C library frees while columns grow stays with the
process in pieces of many sizes, and numpy writes zeros to all the room that it adds.
"""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np
import numpy.typing as npt


class GrowingColumn:
    """Rows of one ``dtype``, appended in blocks."""

    def __init__(self, dtype: type, room: int) -> None:
        self._dtype = np.dtype(dtype)
        self._mapping = _mapping(room * self._dtype.itemsize)

    def make_room(self, rows: int) -> None:
        """Room for ``rows`` in all, which costs nothing until they are written.

        Nobody may hold a view of :meth:`rows` then.
        """
        size = rows * self._dtype.itemsize
        if size <= len(self._mapping):
            return
        try:
            self._mapping.resize(size)
        except SystemError:  # where the system cannot move a mapping
            moved = _mapping(size)
            moved[: len(self._mapping)] = self._mapping[:]
            self._mapping = moved

    def rows(self, start: int, stop: int) -> npt.NDArray[Any]:
        """A writable view of some rows."""
        size = self._dtype.itemsize
        return np.frombuffer(self._mapping, self._dtype, stop - start, start * size)


def _mapping(size: int) -> mmap.mmap:
    return mmap.mmap(-1, max(size, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
