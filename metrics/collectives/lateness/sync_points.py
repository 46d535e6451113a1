"""Collect the collectives at which given ranks waited for each other.

Lateness is counted from them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.reductions import row_max
from ccltui.metrics.collectives.lateness.arrivals import GroupArrivals
from ccltui.metrics.collectives.matching.match import MatchInput, gather_starts
from ccltui.parsers.array_types import I64


class SyncPoints(Struct, frozen=True):
    """Collectives that all of ``labels`` took part in and waited for, in order of time.

    ``arrival_ns`` is int64 [p, m], when each rank joined, on its own clock; ``late_ns`` how long
    after the first of them, from durations. ``number`` is the matched group of each point and
    ``row`` its instance; both are -1 for a common time before the first collective, which is known
    from clock offsets only. ``groups`` are the indices of the communicators.
    """

    labels: tuple[str, ...]
    groups: frozenset[int]
    arrival_ns: I64
    late_ns: I64
    number: I64
    row: I64

    def __len__(self) -> int:
        return len(self.row)

    def place_of(self, number: int, rows: I64) -> I64:
        """Return the places of instances (rows, ascending) of a matched group, int64."""
        mine = np.flatnonzero(self.number == number)
        order = mine[np.argsort(self.row[mine], kind="stable")]
        return np.asarray(order[np.searchsorted(self.row[order], rows)], np.int64)

    def before(self, times_ns: I64) -> I64:
        """Return how many points all ranks had reached before times [t, m], int64 [t]."""
        reached = [
            np.searchsorted(np.maximum.accumulate(self.arrival_ns[:, i]), times_ns[:, i])
            for i in range(len(self.labels))
        ]
        return np.asarray(np.min(reached, axis=0), np.int64)


def sync_points(
    labels: Sequence[str],
    groups: Sequence[GroupArrivals],
    inputs: Mapping[str, MatchInput],
    *,
    holding: Mapping[int, Sequence[int]],
    common_start_ns: Sequence[int] | None = None,
) -> SyncPoints:
    """Return the eligible instances of every matched group that contains all of ``labels``.

    ``holding`` are the members that ``labels`` are, by number of these groups, ascending.
    ``common_start_ns`` is a time from which all are recorded, on the clock of each; None where the
    clocks are not known.
    """
    size = len(labels)
    arrival, late = [np.empty((0, size), np.int64)], [np.empty((0, size), np.int64)]
    number: list[I64] = [np.empty(0, np.int64)]
    row: list[I64] = [np.empty(0, np.int64)]
    if common_start_ns is not None:
        arrival.append(np.array([common_start_ns], np.int64))
        late.append(np.zeros((1, size), np.int64))
        number.append(np.full(1, -1))
        row.append(np.full(1, -1))
    for index, columns in holding.items():
        group = groups[index]
        rows = np.flatnonzero(group.eligible)
        dur = group.dur_ns[rows][:, columns]
        arrival.append(gather_starts(group.match, inputs, rows, columns))
        late.append(row_max(dur)[:, np.newaxis] - dur)
        number.append(np.full(len(rows), index, np.int64))
        row.append(rows)
    when = np.concatenate(arrival)
    order = np.argsort(when[:, 0], kind="stable")
    return SyncPoints(
        tuple(labels),
        frozenset(groups[index].match.group for index in holding),
        when[order],
        np.concatenate(late)[order],
        np.concatenate(number)[order],
        np.concatenate(row)[order],
    )
