"""Split the time of ranks into parts and compare a late rank with its peers.

Only times of one rank are ever subtracted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.intervals import Intervals
from ccltui.metrics.arrays.reductions import distinct_values, row_count
from ccltui.metrics.collectives.causes.activity import Activity
from ccltui.metrics.collectives.causes.host_work import HOST_CAUSES, HOST_STALL
from ccltui.parsers.array_types import F64, I32, I64, Bool

COMPUTE: Final = "compute"
OTHER_COLLECTIVE: Final = "previous_collective"
COPIES: Final = "copies"
IDLE: Final = (*HOST_CAUSES, HOST_STALL)
PARTS: Final = (COMPUTE, OTHER_COLLECTIVE, COPIES, *IDLE)
"""Parts of the time between two arrivals, without waiting for the compared peers themselves."""


class PeerComparison(Struct, frozen=True):
    """Comparison of the late rank with the median of its punctual peers, for values [t, m].

    ``late`` [t] is the late member, ``punctual`` [t, m] the mask of the peers.
    """

    late: I64
    punctual: Bool

    def late_and_peers(self, values: I64 | F64) -> tuple[F64, F64]:
        """Value of the late rank, and the median of its peers; float64 [t]."""
        mine = np.asarray(values[np.arange(len(self.late)), self.late], np.float64)
        return mine, _median(np.asarray(values, np.float64), self.punctual)

    def excess(self, values: I64 | F64) -> F64:
        """Value of the late rank minus the median of its peers, float64 [t]."""
        mine, theirs = self.late_and_peers(values)
        return mine - theirs


def split(
    begin_ns: I64,
    end_ns: I64,
    activities: Sequence[Activity],
    groups: frozenset[int],
    triggers: I32,
) -> dict[str, I64]:
    """Return the time of each of ``PARTS`` in [begin, end), int64 ns [t, m].

    ``begin_ns``, ``end_ns`` and ``triggers`` are [t, m], the times on the clock of each member.
    """
    found = {name: np.zeros(begin_ns.shape, np.int64) for name in PARTS}
    for i, one in enumerate(activities):
        begin, end = begin_ns[:, i], end_ns[:, i]
        for trigger in distinct_values(triggers[:, i]).tolist():
            rows, layers = triggers[:, i] == trigger, one.layers(groups, trigger)
            found[COMPUTE][rows, i] = _measure(layers.compute, begin[rows], end[rows])
            found[OTHER_COLLECTIVE][rows, i] = _measure(layers.other_comm, begin[rows], end[rows])
        found[COPIES][:, i] = _measure(one.copies, begin, end)
        for name in IDLE:
            found[name][:, i] = _measure(one.idle[name], begin, end)
    return found


def own_comm_and_compute(
    begin_ns: I64,
    end_ns: I64,
    activities: Sequence[Activity],
    groups: frozenset[int],
    triggers: I32,
) -> tuple[I64, I64]:
    """Return exposed time in collectives of ``groups`` and computation, each int64 ns [t, m]."""
    stopped, computed = np.zeros((2, *begin_ns.shape), np.int64)
    for i, one in enumerate(activities):
        for trigger in distinct_values(triggers[:, i]).tolist():
            rows, layers = triggers[:, i] == trigger, one.layers(groups, trigger)
            begin, end = begin_ns[rows, i], end_ns[rows, i]
            stopped[rows, i] = _measure(layers.own_comm, begin, end)
            computed[rows, i] = _measure(layers.compute, begin, end)
    return stopped, computed


def hidden_ns(comparison: PeerComparison, computed: I64, every: I64) -> F64:
    """Return the excess computation that the peers did too, hidden behind a collective.

    Args:
        comparison: The late rank and its peers.
        computed: Computation outside awaited collectives, ns [t, m].
        every: All computation, ns [t, m].

    Returns:
        Float64 ns [t].
    """
    return np.maximum(comparison.excess(computed) - np.maximum(comparison.excess(every), 0), 0)


def triggers_of(activities: Sequence[Activity], times_ns: I64, groups: frozenset[int]) -> I32:
    """Return the triggers of each time, as `Activity.triggers`, int32 [t, m]."""
    columns = [one.triggers(times_ns[:, i], groups) for i, one in enumerate(activities)]
    return np.stack(columns, axis=1)


def compute_time(one: Activity, begin: I64, end: I64) -> I64:
    """Return all time in computation between begin and end, ns."""
    return _measure(one.compute, begin, end)


def by_member(
    activities: Sequence[Activity],
    begin: I64,
    end: I64,
    measure: Callable[[Activity, I64, I64], I64],
) -> I64:
    """Apply ``measure`` to each rank between times [t, m]; int64 [t, m]."""
    columns = [measure(one, begin[:, i], end[:, i]) for i, one in enumerate(activities)]
    return np.stack(columns, axis=1)


def _measure(intervals: Intervals, begin: I64, end: I64) -> I64:
    return np.asarray(intervals.before(end) - intervals.before(begin))


def _median(values: F64, rows: Bool) -> F64:
    """Median over the marked members, float64 [t]; NaN where none is marked."""
    if values.shape[1] == 2:
        return np.where(rows[:, 0], values[:, 0], np.where(rows[:, 1], values[:, 1], np.nan))
    ordered = np.sort(np.where(rows, values, np.inf), axis=1)
    number = row_count(rows)
    line = np.arange(len(values))
    low = ordered[line, np.maximum((number - 1) // 2, 0)]
    high = ordered[line, np.minimum(number // 2, values.shape[1] - 1)]
    return np.where(number > 0, (low + high) / 2, np.nan)
