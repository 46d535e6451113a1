"""Compare the time of a late rank with that of its peers since their last sync point.

The time of each rank from one arrival to the next is split exactly into parts, so that

    lateness at the end = lateness at the start + sum of the differences of the parts

independent of the clocks: only times of one rank are ever subtracted. Where ranks did not stop for
a collective (it was hidden behind computation), they carry their lateness past it; the start is
then moved back to a collective at which they had none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Final

import numpy as np

from ccltui.metrics.arrays.reductions import row_all, row_min
from ccltui.metrics.collectives.causes.activity import Activity
from ccltui.metrics.collectives.causes.kernel_counts import MAX_COMPARED, extra_kernel_time
from ccltui.metrics.collectives.causes.time_splits import (
    COMPUTE,
    PARTS,
    PeerComparison,
    by_member,
    compute_time,
    hidden_ns,
    own_comm_and_compute,
    split,
    triggers_of,
)
from ccltui.metrics.collectives.lateness.sync_points import SyncPoints
from ccltui.metrics.model.classify import TYPES
from ccltui.parsers.array_types import F64, I32, I64, Bool
from ccltui.parsers.system.quick_dataclass import dataclass

MAX_BACK: Final = 64
"""Number of collectives that a start is moved back at most."""
CARRIED: Final = 0.1
"""Share of the lateness that may have existed at the start."""
PUNCTUAL: Final = 0.5
"""A peer less late than this share of the late rank's lateness is compared with."""

_MAX_CELLS: Final = 1 << 21
"""Number of targets times ranks that are split at a time: some 200 MB for all parts. Fewer cost
more calls of numpy a rank."""
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
        """Concatenate targets of the same members."""
        columns = ((one.time_ns, one.late, one.place) for one in parts)
        return cls(*(np.concatenate(column) for column in zip(*columns, strict=True)))

    def take(self, rows: I64) -> Targets:
        """Select some of them by index."""
        return Targets(self.time_ns[rows], self.late[rows], self.place[rows])


@dataclass(frozen=True, slots=True)
class Start:
    """Time from which each target is compared, and how late its ranks were then.

    ``since`` is the place of a sync point, -1 where there is none. ``punctual`` [t, m] marks the
    peers to compare with. ``excess_ns`` is how much later than their median the late rank
    arrived, ``carried_ns`` the part of it that existed at the start. ``triggers`` [t, m] is the
    kind of group whose collective ended right before each rank arrived.
    """

    since: I64
    punctual: Bool
    excess_ns: F64
    carried_ns: F64
    triggers: I32

    def take(self, rows: I64) -> Start:
        """Select some of them by index."""
        return Start(*(getattr(self, field.name)[rows] for field in fields(self)))


@dataclass(frozen=True, slots=True)
class Segments:
    """Excess of the late rank of each target over the median of its punctual peers.

    ``parts_ns`` is float64 [t, part] over ``PARTS``. ``compute_ns`` is the computation of the late
    rank, ``peer_compute_ns`` that of the peers; ``extra_kernels_ns`` the time in kernels that the
    peers ran less often, NaN where names were not compared. ``elements_ratio`` is the number of
    elements of its all-to-alls over that of the peers, NaN without any. ``by_clocks`` marks those
    whose start is a time that is common by clock offsets only.
    """

    start: Start
    parts_ns: F64
    compute_ns: F64
    peer_compute_ns: F64
    extra_kernels_ns: F64
    elements_ratio: F64
    by_clocks: Bool

    @classmethod
    def joined(cls, parts: Sequence[Segments]) -> Segments:
        """Return the segments of several sets of targets as one."""
        names = [field.name for field in fields(cls)][1:]
        start = Start(
            *(
                np.concatenate([getattr(one.start, field.name) for one in parts])
                for field in fields(Start)
            )
        )
        columns = (np.concatenate([getattr(one, name) for one in parts]) for name in names)
        return cls(start, *columns)

    def take(self, rows: I64) -> Segments:
        """Select some targets by index."""
        others = (getattr(self, field.name)[rows] for field in fields(self)[1:])
        return Segments(self.start.take(rows), *others)

    def summed(self, rows: Bool) -> Segments:
        """Return the sum of some targets (mask) as a single target."""
        start = Start(
            self.start.since[rows][:1],
            np.asarray(self.start.punctual[rows].any(axis=0, keepdims=True)),
            self.start.excess_ns[rows].sum(keepdims=True),
            self.start.carried_ns[rows].sum(keepdims=True),
            self.start.triggers[rows][:1],
        )
        weight = self.peer_compute_ns[rows]
        known = ~np.isnan(self.elements_ratio[rows])
        ratio = np.nan
        if known.any():
            heavy = np.maximum(weight[known], 1)
            ratio = float(np.average(self.elements_ratio[rows][known], weights=heavy))
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
    """Split the time before each target and compare it; ``activities`` are by ``points.labels``.

    Targets are taken some at a time: a part of the time of every rank at each is 8 B.
    """
    count, most = len(targets), max(_MAX_CELLS // max(len(activities), 1), 1)
    found: list[Segments] = []
    compared = 0
    for begin in range(0, max(count, 1), most):
        some = targets.take(np.arange(begin, min(begin + most, count)))
        found.append(_explained(points, some, activities, MAX_COMPARED - compared))
        compared += int((found[-1].start.since >= 0).sum())
    return found[0] if len(found) == 1 else Segments.joined(found)


def _explained(
    points: SyncPoints, targets: Targets, activities: Sequence[Activity], most_compared: int
) -> Segments:
    start = find_start(points, targets, activities)
    count = len(targets)
    parts = np.zeros((count, len(PARTS)))
    mine, theirs = np.zeros((2, count))
    extra, ratio = np.full((2, count), np.nan)
    known = np.flatnonzero(start.since >= 0)
    if len(known):
        begin, end = points.arrival_ns[start.since[known]], targets.time_ns[known]
        comparison = PeerComparison(targets.late[known], start.punctual[known])
        measured = split(begin, end, activities, points.groups, start.triggers[known])
        for index, name in enumerate(PARTS):
            parts[known, index] = comparison.excess(measured[name])
        every = by_member(activities, begin, end, compute_time)
        parts[known, PARTS.index(COMPUTE)] -= hidden_ns(comparison, measured[COMPUTE], every)
        mine[known], theirs[known] = comparison.late_and_peers(every)
        extra[known] = extra_kernel_time(
            activities,
            begin,
            end,
            comparison.late,
            comparison.punctual,
            most=max(most_compared, 0),
        )
        exchanged, usual = comparison.late_and_peers(by_member(activities, begin, end, _exchanged))
        ratio[known] = np.where(usual > 0, exchanged / np.maximum(usual, 1), np.nan)
    by_clocks = (start.since >= 0) & (np.append(points.number, 0)[start.since] < 0)
    return Segments(start, parts, mine, theirs, extra, ratio, by_clocks)


def find_start(points: SyncPoints, targets: Targets, activities: Sequence[Activity]) -> Start:
    """Return the latest sync point since which nearly all of the lateness of a target arose.

    If more than the share ``CARRIED`` of it existed at each of the last ``MAX_BACK`` points, that
    with the least.
    """
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
        peers, found, carried_ns = _lateness(
            points, targets.take(left), activities, place, triggers[left]
        )
        # False for NaN: not all ranks reached the point
        better = np.maximum(carried_ns, 0) < carried[left]
        rows = left[better]
        since[rows], punctual[rows] = place[better], peers[better]
        excess[rows], carried[rows] = found[better], carried_ns[better]
        left = left[~(carried_ns <= CARRIED * np.abs(found))]
    carried[since < 0] = 0.0
    return Start(since, punctual, excess, carried, triggers)


def _lateness(
    points: SyncPoints,
    targets: Targets,
    activities: Sequence[Activity],
    place: I64,
    triggers: I32,
) -> tuple[Bool, F64, F64]:
    """Return punctual peers, excess and the carried part of it, counted from sync points."""
    begin = points.arrival_ns[place]
    late = points.late_ns[place] + (targets.time_ns - begin)
    late = late - row_min(late)[:, np.newaxis]
    latest = late[np.arange(len(targets)), targets.late]
    peers = late < PUNCTUAL * latest[:, np.newaxis]
    comparison = PeerComparison(targets.late, peers)
    times = targets.time_ns
    stopped, computed = own_comm_and_compute(begin, times, activities, points.groups, triggers)
    carried_ns = comparison.excess(points.late_ns[place] + stopped)
    carried_ns += hidden_ns(comparison, computed, by_member(activities, begin, times, compute_time))
    reached = row_all(begin < targets.time_ns)
    return peers, comparison.excess(late), np.where(reached, carried_ns, np.nan)


def _exchanged(one: Activity, begin: I64, end: I64) -> I64:
    """Return the elements of the all-to-alls that begin in [begin, end)."""
    rows = np.flatnonzero(one.calls.kind == _ALL_TO_ALL)
    elements = np.maximum(one.calls.in_elems[rows], one.calls.out_elems[rows])
    total = np.concatenate((np.zeros(1, np.int64), np.cumsum(np.maximum(elements, 0))))
    starts = one.calls.start_ns[rows]
    return np.asarray(total[np.searchsorted(starts, end)] - total[np.searchsorted(starts, begin)])
