"""Find communicators that divide all ranks of a job alike, as the dimensions of a mesh do.

A dimension of k ranks with stride m divides every block of k * m consecutive ranks into m groups.
That all of these end together is hardly chance, also where each stream has a few calls only. Of the
divisions that fit the one with the largest groups is taken: where its groups are several
communicators, these advance in step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from ccltui.metrics.collectives.implied.stream_queues import Queue
from ccltui.metrics.model.classify import TYPES
from ccltui.parsers.array_types import F64, I64

RESOLUTION_NS: Final = 1_000
"""Least usual distance of ends, the resolution of times over all ranks."""
ALIKE: Final = 1.4
"""Ends of a further member may be this many times as far apart as those of known members."""
CHANCE: Final = 2.0
"""Added to that ratio, divided by the square root of the number of calls: sampling error."""
APART: Final = 1.5
"""Streams of different communicators end at least this many times further apart."""
_SENDRECV: Final = TYPES.index("SendRecv")


def alike_within(count: int) -> float:
    """Return how many times further apart than others ends of a member may be, of some calls."""
    return ALIKE + CHANCE / float(np.sqrt(count))


def regular_groups(
    queues: Sequence[Queue],
    ranks: Sequence[int],
    size: int,
    distance: F64,
    usual_ns: float,
) -> list[list[int]]:
    """Return groups of streams, as indices of the queues.

    Args:
        queues: The calls of each rank by stream.
        ranks: Global rank of each queue.
        size: Number of ranks of the job.
        distance: Mean time between the ends of like calls of two queues, float64 ns [q, q].
        usual_ns: Usual distance of the ends of one communicator.

    Returns:
        Nothing for streams that some of the ranks do not have, or have twice, for those that no
        division fits, and for sends and receives, of which ranks in step end many together.
    """
    present = sorted(set(ranks))
    found: list[list[int]] = []
    for one in sorted({(queue.stream, queue.library) for queue in queues}):
        mine = [i for i, queue in enumerate(queues) if (queue.stream, queue.library) == one]
        mine.sort(key=lambda index: ranks[index])
        if [ranks[index] for index in mine] != present:
            continue
        if all((queues[index].kind == _SENDRECV).all() for index in mine):
            continue
        table = distance[np.ix_(mine, mine)]
        alike = alike_within(min(len(queues[index].rows) for index in mine))
        number = _best(np.array(present), size, table, APART * alike * usual_ns, alike)
        if number is not None:
            groups = [np.flatnonzero(number == one).tolist() for one in np.unique(number)]
            found += [[mine[place] for place in group] for group in groups]
    return found


def _best(ranks: I64, size: int, distance: F64, limit: float, alike: float) -> I64 | None:
    """Return the group of each rank in the division with the largest groups that fits.

    None of its ends may be further apart than ``limit``, and ``alike`` times those of the division
    that fits best. None where all groups end as close together as ranks of one: they are not told
    apart. A single group that ends apart from all others tells how wide they are: a slow one often
    does, while the others advance in step.
    """
    found: list[tuple[float, I64]] = []
    for number in _divisions(ranks, size):
        together = number[:, np.newaxis] == number
        np.fill_diagonal(together, val=False)
        apart = float(distance[together].mean()) if together.any() else np.inf
        if apart <= limit:
            found.append((apart, number))
    least = min((apart for apart, _ in found), default=0.0)
    most = alike * max(least, RESOLUTION_NS)
    chosen = next((number for apart, number in found if apart <= most), None)
    if chosen is None:
        return None
    together = chosen[:, np.newaxis] == chosen
    meets = ((distance <= most) & ~together).any(axis=1)
    return chosen if (np.bincount(chosen, meets)[np.unique(chosen)] == 0).any() else None


def _divisions(ranks: I64, size: int) -> Iterator[I64]:
    """Yield the number of the group of each rank for each division, the largest groups first."""
    for width in range(size, 1, -1):
        if size % width:
            continue
        for stride in range(1, size // width + 1):
            if (size // width) % stride == 0:
                yield ranks // (width * stride) * stride + ranks % stride
