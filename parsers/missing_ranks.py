"""The ranks of a job without a trace, as ranges: a file may state a world of any size."""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from typing import Final, overload

MOST_RANKS: Final = 1 << 20
"""More than any job has: a number from here on is not that of a rank, whatever a file states."""
MAX_LISTED: Final = 4096
"""Most ranks that documents list one by one; their number is stated beside them."""


class MissingRanks(Sequence[int]):
    """Sorted ranks from 0 to ``world_size`` that are not in ``present``; equal to a tuple of them.

    Memory and time grow with the ranks that are present, whatever size a file states. ``unread``
    are ranks that have a file which is not read: missing also beyond the world that files state.
    """

    def __init__(
        self, world_size: int, present: Collection[int | None], unread: Collection[int] = ()
    ) -> None:
        inside = sorted({r for r in present if r is not None and 0 <= r < world_size})
        gaps = itertools.pairwise((-1, *inside, world_size))
        self._ranges = [range(a + 1, b) for a, b in gaps if b - a > 1]
        beyond = {rank for rank in unread if rank >= world_size}
        self._ranges += _ranges_of(sorted(beyond.difference(present)))
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

    @property
    def ranges(self) -> Sequence[range]:
        """The ranks as ranges, in order."""
        return self._ranges


MAX_RANGES: Final = 8
"""Most ranges that a sentence lists; the number of the other ranks is stated."""


def ranges_text(ranks: Sequence[int], most: int = MAX_RANGES) -> str:
    """Format sorted ranks on one line: ``0-15, 48-1023``, or ``1, 3, 5 and 61 more up to 127``."""
    ranges = ranks.ranges if isinstance(ranks, MissingRanks) else _ranges_of(ranks)
    shown = [str(one[0]) if len(one) == 1 else f"{one[0]}-{one[-1]}" for one in ranges[:most]]
    left = sum(map(len, ranges[most:]))
    more = f" and {left} more up to {ranges[-1][-1]}" if left else ""
    return ", ".join(shown) + more


def _ranges_of(ranks: Sequence[int]) -> list[range]:
    found: list[range] = []
    for rank in ranks:
        if found and found[-1].stop == rank:
            found[-1] = range(found[-1].start, rank + 1)
        else:
            found.append(range(rank, rank + 1))
    return found
