"""Read several columns of events side by side, in pieces of equal lengths."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ccltui.parsers.columns import Events

_PIECE_ROWS: Final = 1 << 18


def aligned(events: Events, names: Sequence[str]) -> Iterator[tuple[npt.NDArray[Any], ...]]:
    """Yield the same rows of each column, in pieces that are valid until the next.

    Columns in memory come whole. Those on disk come in pieces of their own lengths, and one of a
    single value in one piece.
    """
    if not events.comes_in_pieces:
        yield tuple(getattr(events, name) for name in names)
        return
    readers = [_Reader(events.pieces(name)) for name in names]
    for begin in range(0, len(events), _PIECE_ROWS):
        count = min(_PIECE_ROWS, len(events) - begin)
        yield tuple(reader.take(count) for reader in readers)


class _Reader:
    def __init__(self, pieces: Iterator[npt.NDArray[Any]]) -> None:
        self._pieces = pieces
        self._piece: npt.NDArray[Any] = np.empty(0)
        self._done = 0

    def take(self, count: int) -> npt.NDArray[Any]:
        """Return the next rows; a copy, as the piece that they are in may be overwritten."""
        parts = []
        while count:
            if self._done == len(self._piece):
                self._piece, self._done = next(self._pieces), 0
            part = self._piece[self._done : self._done + count]
            self._done += len(part)
            count -= len(part)
            parts.append(part.copy())
        return parts[0] if len(parts) == 1 else np.concatenate(parts)
