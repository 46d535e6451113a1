"""Find communicators that divide all ranks of a job alike, as the dimensions of a mesh do.

A dimension of k ranks with stride m divides every block of k * m consecutive ranks into m groups.
That all of these end together is hardly chance, also where each stream has a few calls only. Of the
divisions that fit the one with the largest groups is taken: where its groups are several
communicators, these advance in step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from ccltui.metrics.collectives.implied.stream_queues import Queue
from ccltui.parsers.array_types import F64, I64


def regular_groups(
    queues: Sequence[Queue],
    ranks: Sequence[int],
    size: int,
    distance: F64,
    limit_of: Callable[[int], float],
) -> list[list[int]]:
    """Return groups of streams, as indices of the queues.

    Args:
        queues: The calls of each rank by stream.
        ranks: Global rank of each queue.
        size: Number of ranks of the job.
        distance: Mean time between the ends of like calls of two queues, float64 ns [q, q].
        limit_of: Returns the largest mean distance in a group, ns, for a number of calls.

    Returns:
        Nothing for streams that some of the ranks do not have, or have twice, and for those that no
        division fits.
    """
    present = sorted(set(ranks))
    found: list[list[int]] = []
    for stream in sorted({queue.stream for queue in queues}):
        mine = [index for index, queue in enumerate(queues) if queue.stream == stream]
        mine.sort(key=lambda index: ranks[index])
        if [ranks[index] for index in mine] != present:
            continue
        table = distance[np.ix_(mine, mine)]
        limit = limit_of(min(len(queues[index].rows) for index in mine))
        number = _best(np.array(present), size, table, limit)
        if number is not None:
            groups = [np.flatnonzero(number == one).tolist() for one in np.unique(number)]
            found += [[mine[place] for place in group] for group in groups]
    return found


def _best(ranks: I64, size: int, distance: F64, limit: float) -> I64 | None:
    """Return the group of each rank in the division with the largest groups that fits."""
    best: tuple[int, float, I64] | None = None
    for width, number in _divisions(ranks, size):
        if best is not None and width < best[0]:
            break
        together = number[:, np.newaxis] == number
        np.fill_diagonal(together, val=False)
        apart = float(distance[together].mean()) if together.any() else np.inf
        if apart <= limit and (best is None or apart < best[1]):
            best = width, apart, number
    return None if best is None else best[2]


def _divisions(ranks: I64, size: int) -> Iterator[tuple[int, I64]]:
    """Yield size and number of the groups of each division, the largest groups first."""
    for width in range(size, 1, -1):
        if size % width:
            continue
        for stride in range(1, size // width + 1):
            if (size // width) % stride == 0:
                yield width, ranks // (width * stride) * stride + ranks % stride
