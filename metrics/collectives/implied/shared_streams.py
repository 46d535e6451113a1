"""Find calls of several groups at once in a stream that these groups use too.

Some libraries launch the calls of all communicators on one stream. Then calls at one place in the
step may be of one communicator of all ranks, and others of its parts: ends of the former agree over
the parts also where one of them begins late.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from ccltui.metrics.collectives.implied.stream_clocks import RankClock
from ccltui.metrics.collectives.implied.stream_queues import FEWEST, Queue, places_of
from ccltui.parsers.array_types import I64, Bool

MEETING: Final = 0.8
"""Share of the steps in which the ends at one place must agree over all groups."""
WAITING: Final = 0.5
"""Share of the steps in which groups must wait for another there: without it they are in step."""
SPREAD: Final = 3
"""Ends agree within this many times the spread of those of one group."""
RESOLUTION_NS: Final = 2_000
LEAST_WAIT_NS: Final = 50_000
"""A group that begins this much later than another one keeps it waiting."""


def shared_apart(
    found: Sequence[Sequence[Queue]], clocks: Mapping[int, RankClock]
) -> list[list[Queue]]:
    """Return the groups of streams, with the calls that several have together as one more group.

    Args:
        found: Groups of streams.
        clocks: Clock of each rank, by the index of its input.
    """
    streams: dict[tuple[int, int], list[Sequence[Queue]]] = {}
    alone: list[list[Queue]] = []
    for group in found:
        used = {(queue.stream, queue.library) for queue in group}
        if len(used) == 1:
            streams.setdefault(used.pop(), []).append(group)
        else:
            alone.append(list(group))
    for groups in streams.values():
        alone += _apart(groups, clocks)
    return alone


def _apart(groups: Sequence[Sequence[Queue]], clocks: Mapping[int, RankClock]) -> list[list[Queue]]:
    """Split the calls of the groups of one stream into those of each and those of all."""
    as_they_are = [list(group) for group in groups]
    queues = [queue for group in groups for queue in group]
    owners = {queue.owner for queue in queues}
    bases = {clocks[owner].of for owner in owners}
    if len(groups) < 2 or len(owners) < len(queues) or len(bases) > 1:
        return as_they_are
    if any(not np.array_equal(queue.what, queues[0].what) for queue in queues):
        return as_they_are
    place = places_of(queues[0])
    if place is None:
        return as_they_are
    together = _together([len(group) for group in groups], queues, clocks, place)
    if not FEWEST <= together.sum() <= len(place) - FEWEST:
        return as_they_are
    parts = [[_rows(queue, ~together) for queue in group] for group in groups]
    return [*parts, [_rows(queue, together) for queue in queues]]


def _together(
    sizes: Sequence[int], queues: Sequence[Queue], clocks: Mapping[int, RankClock], place: I64
) -> Bool:
    """Whether each call is of all groups at once, by its place in the step, bool [n]."""
    ends = np.stack([q.end_ns - clocks[q.owner].ahead.of(q.end_ns) for q in queues])
    starts = ends - np.stack([queue.dur_ns for queue in queues])
    first = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    begin = np.maximum.reduceat(starts, first, axis=0)
    inside = np.maximum.reduceat(ends, first, axis=0) - np.minimum.reduceat(ends, first, axis=0)
    limit = SPREAD * (inside.max(axis=0) + RESOLUTION_NS)
    meets = ends.max(axis=0) - ends.min(axis=0) <= limit
    waits = meets & (begin.max(axis=0) - begin.min(axis=0) > np.maximum(limit, LEAST_WAIT_NS))
    count = np.bincount(place)
    is_shared = np.bincount(place, meets) >= MEETING * count
    is_shared &= np.bincount(place, waits) >= WAITING * count
    return np.asarray(is_shared[place])


def _rows(queue: Queue, chosen: Bool) -> Queue:
    """Return some calls of a queue."""
    return replace(
        queue,
        rows=queue.rows[chosen],
        kind=queue.kind[chosen],
        what=queue.what[chosen],
        end_ns=queue.end_ns[chosen],
        dur_ns=queue.dur_ns[chosen],
    )
