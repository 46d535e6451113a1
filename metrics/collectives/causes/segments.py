"""What a late rank spent its time on since ranks last waited for each other, beside its peers.

From one arrival to the next each rank's time is split exactly. Lateness at the end is lateness
at the start plus what the splits differ by, whatever the clocks do: only times of one rank are
ever subtracted. Where ranks did not stop for a collective (it was hidden behind computation), the
lateness they had there is still with them; the start is then moved back to where it was not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Final

import numpy as np
import numpy.typing as npt

from ccltui.metrics.arrays.reductions import row_all, row_min
from ccltui.metrics.collectives.causes.activity import Activity
from ccltui.metrics.collectives.causes.kernel_counts import beyond_number
from ccltui.metrics.collectives.causes.time_splits import (
    COMPUTE,
    PARTS,
    Beside,
    by_member,
    computing,
    hidden_ns,
    split,
    stopped_and_computed,
    triggers_of,
)
from ccltui.metrics.collectives.lateness.sync_points import SyncPoints
from ccltui.metrics.model.classify import TYPES
from ccltui.parsers.array_types import F64, I64, Bool

MAX_BACK: Final = 64
"""So many collectives without a stop are looked through."""
CARRIED: Final = 0.1
"""Share of the lateness that may have been there at the start."""
PUNCTUAL: Final = 0.5
"""A peer less late than this share of the latest is one to compare with."""

_ALL_TO_ALL: Final = TYPES.index("AllToAll")


@dataclass(frozen=True, slots=True)
class Targets:
    """Arrivals to be explained: ``time_ns`` int64 [t, m] on own clocks, ``late`` member [t].

    ``place`` is how many sync points lie before each.
    """

    time_ns: I64
    late: I64
    place: I64

    def __len__(self) -> int:
        return len(self.late)

    @classmethod
    def joined(cls, parts: Sequence[Targets]) -> Targets:
        """Those of several, one after the other, of the same members."""
        columns = ((one.time_ns, one.late, one.place) for one in parts)
        return cls(*(np.concatenate(column) for column in zip(*columns, strict=True)))

    def take(self, rows: I64) -> Targets:
        """Some of them."""
        return Targets(self.time_ns[rows], self.late[rows], self.place[rows])


@dataclass(frozen=True, slots=True)
class Start:
    """Where the time of each target is counted from, and how late its ranks were.

    ``since`` is the place of a sync point, -1 where there is none. ``punctual`` [t, m] marks the
    peers to compare with. ``excess_ns`` is how much later than their median the late rank came,
    ``carried_ns`` the part of it that was there at the start. ``triggers`` [t, m] is the kind of
    group right behind whose collective each rank began.
    """

    since: I64
    punctual: Bool
    excess_ns: F64
    carried_ns: F64
    triggers: npt.NDArray[np.str_]

    def take(self, rows: I64) -> Start:
        """Some of them."""
        return Start(*(getattr(self, field.name)[rows] for field in fields(self)))


@dataclass(frozen=True, slots=True)
class Segments:
    """What the late rank of each target did more than the median of its punctual peers.

    ``parts_ns`` is float64 [t, part] over ``PARTS``. ``compute_ns`` is its own computation, beside
    that of the peers; ``extra_kernels_ns`` the time in kernels that they ran less often, NaN where
    names were not compared. ``elements_ratio`` is what it exchanged in all-to-alls over what they
    did, NaN without any. ``by_clocks`` marks those counted from a moment that only the clocks tell.
    """

    start: Start
    parts_ns: F64
    compute_ns: F64
    peer_compute_ns: F64
    extra_kernels_ns: F64
    elements_ratio: F64
    by_clocks: Bool

    def take(self, rows: I64) -> Segments:
        """Some targets."""
        others = (getattr(self, field.name)[rows] for field in fields(self)[1:])
        return Segments(self.start.take(rows), *others)

    def summed(self, rows: Bool) -> Segments:
        """Some targets (mask) as one: what was spent on all of them."""
        start = Start(
            self.start.since[rows][:1],
            np.asarray(self.start.punctual[rows].any(axis=0, keepdims=True)),
            self.start.excess_ns[rows].sum(keepdims=True),
            self.start.carried_ns[rows].sum(keepdims=True),
            self.start.triggers[rows][:1],
        )
        weight = self.peer_compute_ns[rows]
        told = ~np.isnan(self.elements_ratio[rows])
        ratio = np.nan
        if told.any():
            heavy = np.maximum(weight[told], 1)
            ratio = float(np.average(self.elements_ratio[rows][told], weights=heavy))
        return Segments(
            start,
            self.parts_ns[rows].sum(axis=0, keepdims=True),
            self.compute_ns[rows].sum(keepdims=True),
            weight.sum(keepdims=True),
            np.nansum(self.extra_kernels_ns[rows], keepdims=True),
            np.atleast_1d(ratio),
            np.atleast_1d(self.by_clocks[rows].all()),
        )


def explain(points: SyncPoints, targets: Targets, activities: Sequence[Activity]) -> Segments:
    """Split the time before each target; ``activities`` are those of ``points.labels``."""
    start = find_start(points, targets, activities)
    count = len(targets)
    parts = np.zeros((count, len(PARTS)))
    mine, theirs = np.zeros((2, count))
    extra, ratio = np.full((2, count), np.nan)
    known = np.flatnonzero(start.since >= 0)
    if len(known):
        begin, end = points.arrival_ns[start.since[known]], targets.time_ns[known]
        beside = Beside(targets.late[known], start.punctual[known])
        measured = split(begin, end, activities, points.groups, start.triggers[known])
        for index, name in enumerate(PARTS):
            parts[known, index] = beside.more(measured[name])
        every = by_member(activities, begin, end, computing)
        parts[known, PARTS.index(COMPUTE)] -= hidden_ns(beside, measured[COMPUTE], every)
        mine[known], theirs[known] = beside.both(every)
        extra[known] = beyond_number(activities, begin, end, beside.late, beside.punctual)
        exchanged, usual = beside.both(by_member(activities, begin, end, _exchanged))
        ratio[known] = np.where(usual > 0, exchanged / np.maximum(usual, 1), np.nan)
    by_clocks = (start.since >= 0) & (np.append(points.number, 0)[start.since] < 0)
    return Segments(start, parts, mine, theirs, extra, ratio, by_clocks)


def find_start(points: SyncPoints, targets: Targets, activities: Sequence[Activity]) -> Start:
    """The latest sync point from which nearly all of a target's lateness comes."""
    count, size = targets.time_ns.shape
    since = np.full(count, -1, np.int64)
    punctual = np.zeros((count, size), np.bool_)
    excess, carried = np.zeros(count), np.full(count, np.inf)
    triggers = triggers_of(activities, targets.time_ns, points.groups)
    left = np.arange(count)
    for back in range(1, MAX_BACK + 1):
        left = left[targets.place[left] >= back]
        if not len(left):
            break
        place = targets.place[left] - back
        peers, found, brought = _lateness(
            points, targets.take(left), activities, place, triggers[left]
        )
        better = np.maximum(brought, 0) < carried[left]  # never of NaN: not reached by all
        rows = left[better]
        since[rows], punctual[rows] = place[better], peers[better]
        excess[rows], carried[rows] = found[better], brought[better]
        left = left[~(brought <= CARRIED * np.abs(found))]
    carried[since < 0] = 0.0
    return Start(since, punctual, excess, carried, triggers)


def _lateness(
    points: SyncPoints,
    targets: Targets,
    activities: Sequence[Activity],
    place: I64,
    triggers: npt.NDArray[np.str_],
) -> tuple[Bool, F64, F64]:
    """Punctual peers, excess and what of it was brought along, counted from some points."""
    begin = points.arrival_ns[place]
    late = points.late_ns[place] + (targets.time_ns - begin)
    late = late - row_min(late)[:, np.newaxis]
    latest = late[np.arange(len(targets)), targets.late]
    peers = late < PUNCTUAL * latest[:, np.newaxis]
    beside = Beside(targets.late, peers)
    times = targets.time_ns
    stopped, computed = stopped_and_computed(begin, times, activities, points.groups, triggers)
    brought = beside.more(points.late_ns[place] + stopped)
    brought += hidden_ns(beside, computed, by_member(activities, begin, times, computing))
    reached = row_all(begin < targets.time_ns)
    return peers, beside.more(late), np.where(reached, brought, np.nan)


def _exchanged(one: Activity, begin: I64, end: I64) -> I64:
    """Elements of the all-to-alls that begin in [begin, end)."""
    rows = np.flatnonzero(one.calls.kind == _ALL_TO_ALL)
    elements = np.maximum(one.calls.in_elems[rows], one.calls.out_elems[rows])
    total = np.concatenate((np.zeros(1, np.int64), np.cumsum(np.maximum(elements, 0))))
    starts = one.calls.start_ns[rows]
    return np.asarray(total[np.searchsorted(starts, end)] - total[np.searchsorted(starts, begin)])
