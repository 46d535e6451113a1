"""The moments at which given ranks waited for each other: what lateness is counted from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ccltui.metrics.arrays.reductions import row_max
from ccltui.metrics.collectives.lateness.arrivals import GroupArrivals
from ccltui.metrics.collectives.matching.match import MatchInput, gather
from ccltui.parsers.array_types import I64


@dataclass(frozen=True, slots=True)
class SyncPoints:
    """Collectives that all of ``labels`` took part in and waited for, in order of time.

    ``arrival_ns`` is int64 [p, m], when each rank joined, on its own clock; ``late_ns`` how long
    after the first of them, told from durations. ``number`` and ``row`` say which instance of
    which matched group each one is, -1 for a common moment before the first of them: there the
    clocks, not a collective, say that the ranks were together. ``groups`` are the indices of the
    communicators.
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
        """Places of instances (rows, ascending) of a matched group among the points, int64."""
        mine = np.flatnonzero(self.number == number)
        order = mine[np.argsort(self.row[mine], kind="stable")]
        return np.asarray(order[np.searchsorted(self.row[order], rows)], np.int64)

    def before(self, times_ns: I64) -> I64:
        """How many points every rank had reached before its time, int64 [t] for int64 [t, m]."""
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
    together_ns: Sequence[int] | None = None,
) -> SyncPoints:
    """Eligible instances of every matched group that holds all of ``labels``.

    ``together_ns`` is one moment on the clock of each, where the clocks are known.
    """
    size = len(labels)
    arrival, late = [np.empty((0, size), np.int64)], [np.empty((0, size), np.int64)]
    number: list[I64] = [np.empty(0, np.int64)]
    row: list[I64] = [np.empty(0, np.int64)]
    holding: set[int] = set()
    if together_ns is not None:
        arrival.append(np.array([together_ns], np.int64))
        late.append(np.zeros((1, size), np.int64))
        number.append(np.full(1, -1))
        row.append(np.full(1, -1))
    for index, group in enumerate(groups):
        if not set(labels) <= set(group.labels):
            continue
        holding.add(group.match.group)
        columns = [group.labels.index(label) for label in labels]
        rows = np.flatnonzero(group.eligible)
        dur = group.dur_ns[rows][:, columns]
        arrival.append(gather(group.match, inputs, "start_ns")[rows][:, columns])
        late.append(row_max(dur)[:, np.newaxis] - dur)
        number.append(np.full(len(rows), index, np.int64))
        row.append(rows)
    when = np.concatenate(arrival)
    order = np.argsort(when[:, 0], kind="stable")
    return SyncPoints(
        tuple(labels),
        frozenset(holding),
        when[order],
        np.concatenate(late)[order],
        np.concatenate(number)[order],
        np.concatenate(row)[order],
    )
