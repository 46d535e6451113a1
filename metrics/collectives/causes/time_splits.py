"""The time of ranks split by what it went into, and a late rank set beside its peers.

Only times of one rank are ever subtracted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from ccltui.metrics.arrays.intervals import Intervals
from ccltui.metrics.arrays.reductions import distinct_values, row_count
from ccltui.metrics.collectives.causes.activity import Activity
from ccltui.metrics.collectives.causes.host_work import HOST_CAUSES, HOST_STALL
from ccltui.parsers.array_types import F64, I64, Bool

COMPUTE: Final = "compute"
OTHER_COLLECTIVE: Final = "previous_collective"
COPIES: Final = "copies"
IDLE: Final = (*HOST_CAUSES, HOST_STALL)
PARTS: Final = (COMPUTE, OTHER_COLLECTIVE, COPIES, *IDLE)
"""Into what the time between two arrivals is split; waiting for one's own peers is no part."""


@dataclass(frozen=True, slots=True)
class Beside:
    """The late rank beside the median of its punctual peers, for values [t, m]."""

    late: I64
    punctual: Bool

    def both(self, values: I64 | F64) -> tuple[F64, F64]:
        """Value of the late rank, and the median of its peers; float64 [t]."""
        mine = np.asarray(values[np.arange(len(self.late)), self.late], np.float64)
        return mine, _median(np.asarray(values, np.float64), self.punctual)

    def more(self, values: I64 | F64) -> F64:
        """By how much the late rank's is larger."""
        mine, theirs = self.both(values)
        return mine - theirs


def split(
    begin_ns: I64,
    end_ns: I64,
    activities: Sequence[Activity],
    groups: frozenset[int],
    triggers: npt.NDArray[np.str_],
) -> dict[str, I64]:
    """Time of each of ``PARTS`` in [begin, end), int64 ns [t, m] like all that is given."""
    found = {name: np.zeros(begin_ns.shape, np.int64) for name in PARTS}
    for i, one in enumerate(activities):
        begin, end = begin_ns[:, i], end_ns[:, i]
        for trigger in distinct_values(triggers[:, i]).tolist():
            rows, layers = triggers[:, i] == trigger, one.layers(groups, trigger)
            found[COMPUTE][rows, i] = _measure(layers.compute, begin[rows], end[rows])
            found[OTHER_COLLECTIVE][rows, i] = _measure(layers.kept, begin[rows], end[rows])
        found[COPIES][:, i] = _measure(one.copies, begin, end)
        for name in IDLE:
            found[name][:, i] = _measure(one.idle[name], begin, end)
    return found


def stopped_and_computed(
    begin_ns: I64,
    end_ns: I64,
    activities: Sequence[Activity],
    groups: frozenset[int],
    triggers: npt.NDArray[np.str_],
) -> tuple[I64, I64]:
    """Time in which each rank stopped for collectives of ``groups``, and computed apart."""
    stopped, computed = np.zeros((2, *begin_ns.shape), np.int64)
    for i, one in enumerate(activities):
        for trigger in distinct_values(triggers[:, i]).tolist():
            rows, layers = triggers[:, i] == trigger, one.layers(groups, trigger)
            begin, end = begin_ns[rows, i], end_ns[rows, i]
            stopped[rows, i] = _measure(layers.stopped, begin, end)
            computed[rows, i] = _measure(layers.compute, begin, end)
    return stopped, computed


def hidden_ns(beside: Beside, computed: I64, every: I64) -> F64:
    """How much of what a rank computed more its peers computed too, but beside a collective."""
    return np.maximum(beside.more(computed) - np.maximum(beside.more(every), 0), 0)


def triggers_of(
    activities: Sequence[Activity], times_ns: I64, groups: frozenset[int]
) -> npt.NDArray[np.str_]:
    """Behind what kind of collective each rank began each target, [t, m]."""
    columns = [one.triggers(times_ns[:, i], groups) for i, one in enumerate(activities)]
    return np.stack(columns, axis=1)


def computing(one: Activity, begin: I64, end: I64) -> I64:
    """Time in computation, whatever runs beside it."""
    return _measure(one.compute, begin, end)


def by_member(
    activities: Sequence[Activity],
    begin: I64,
    end: I64,
    measure: Callable[[Activity, I64, I64], I64],
) -> I64:
    """What is measured of each rank between moments [t, m], int64 like them."""
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
