"""The ranks of a job without a trace, as ranges: a file may state a world of any size."""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from typing import Final, overload

MAX_LISTED: Final = 4096
"""Most ranks that documents list one by one; their number is stated beside them."""


class MissingRanks(Sequence[int]):
    """Sorted ranks from 0 to ``world_size`` that are not in ``present``; equal to a tuple of them.

    Memory and time grow with the ranks that are present, whatever size a file states.
    """

    def __init__(self, world_size: int, present: Collection[int | None]) -> None:
        inside = sorted({r for r in present if r is not None and 0 <= r < world_size})
        gaps = itertools.pairwise((-1, *inside, world_size))
        self._ranges = [range(a + 1, b) for a, b in gaps if b - a > 1]
        self._ends = list(itertools.accumulate(map(len, self._ranges)))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __iter__(self) -> Iterator[int]:
        return itertools.chain.from_iterable(self._ranges)

    @overload
    def __getitem__(self, index: int) -> int: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[int]: ...

    def __getitem__(self, index: int | slice) -> int | Sequence[int]:
        if isinstance(index, slice):
            return tuple(self[place] for place in range(*index.indices(len(self))))
        place = range(len(self))[index]
        part = bisect_right(self._ends, place)
        return self._ranges[part][place - self._ends[part]]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, MissingRanks):
            return self._ranges == other._ranges
        return isinstance(other, tuple) and len(self) == len(other) and tuple(self) == other

    def __hash__(self) -> int:
        return hash(tuple(self._ends))
