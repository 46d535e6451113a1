"""Compare the time of a late rank with that of its peers since their last sync point.

The time of each rank from one arrival to the next is split exactly into parts, so that

    lateness at the end = lateness at the start + sum of the differences of the parts

independent of the clocks: only times of one rank are ever subtracted. Where ranks did not stop for
a collective (it was hidden behind computation), they carry their lateness past it; the start is
then moved back to a collective at which they had none. Excess computation is told apart by name:
kernels that run longer, and kernels that the late rank ran more often than its peers.

While ranks wait in a collective for a late rank, they may run the work behind it, as where
gradients are reduced on a stream of their own. The late rank runs the same work after that
collective: it has no more than they have, and what made it late lies before that point.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple, Self

import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.by_column import marked_median, take_rows, zeros
from ccltui.metrics.arrays.compiled import available
from ccltui.metrics.arrays.reductions import (
    distinct_values,
    median_along,
    row_all,
    row_any,
    row_count,
    row_min,
    rows_by_value,
)
from ccltui.metrics.collectives.arrivals import SyncPoints
from ccltui.metrics.findings.causes.activity import (
    HOST_CAUSES,
    HOST_STALL,
    NO_TRIGGER,
    OWN,
    STANDSTILL_NS,
    Activity,
    Groups,
)
from ccltui.metrics.model.classify import COMP, MEM, TYPES
from ccltui.parsers.array_types import F64, I32, I64, Bool
from ccltui.parsers.columns import MISSING

AT_EDGES: Final = 4
"""Number of kernels by which ranks that run the same program differ where their time begins."""
AHEAD: Final = 0.5
"""A late rank was behind at a point if it began more work than its peers since then, and at most
this share of that surplus since an earlier point: its peers had begun the rest in between."""
_BLOCK: Final = 2048
"""Targets that are looked at together: some 5 MB, whatever the number of late arrivals is."""


class WorkDone:
    """How many kernels and copies members had begun at each sync point, and at each target.

    Members are counted at first use: of a large job only few are asked for.

    Args:
        points: Sync points of the members.
        times_ns: Times of the targets on own clocks, int64 [t, m].
        activities: Activity of each member.
        most_back: Number of points before a point that are looked at.
    """

    def __init__(
        self, points: SyncPoints, times_ns: I64, activities: Sequence[Activity], most_back: int
    ) -> None:
        self._points = points
        self._times_ns = times_ns
        self._activities = activities
        self._most_back = most_back
        self._known: dict[int, tuple[I64, I64]] = {}

    def _of(self, member: int) -> tuple[I64, I64]:
        """Number of pieces of work of a member before each point, and before each target."""
        if member not in self._known:
            count = self._activities[member].pieces_before
            self._known[member] = (
                count(self._points.arrivals_of(member)),
                count(self._times_ns[:, member]),
            )
            self._activities[member].settle()
        return self._known[member]

    def behind(self, targets: I64, late: I64, peers: I64, place: I64) -> Bool:
        """Return which late ranks were behind their peers at points, bool [t].

        They began more work since that point than their peers, and no more since an earlier one.

        Args:
            targets: Numbers of t targets.
            late: Late member of each.
            peers: Members to compare with, int64 [t, w]; -1 for none.
            place: Point of each.
        """
        behind = np.zeros(len(targets), np.bool_)
        number = (peers >= 0).sum(axis=1)
        for count in distinct_values(number[number > 0]).tolist():
            alike = np.flatnonzero(number == count)
            others = peers[alike]
            members = np.column_stack((late[alike], others[others >= 0].reshape(-1, count)))
            for begin in range(0, len(alike), _BLOCK):
                some = slice(begin, begin + _BLOCK)
                rows = alike[some]
                behind[rows] = self._were_behind(targets[rows], members[some], place[rows])
        return behind

    def _were_behind(self, targets: I64, members: I64, place: I64) -> Bool:
        """Return whether the first of each row of members was behind the others at a point."""
        # What is before the first point is that point again, which changes no answer.
        points = np.maximum(place[:, None] + np.arange(-self._most_back, 1), 0)
        begun = np.empty((*members.shape, points.shape[1]), np.int64)
        for member in distinct_values(members).tolist():
            at_points, at_targets = self._of(member)
            row, column = np.nonzero(members == member)
            begun[row, column] = at_targets[targets[row], None] - at_points[points[row]]
        more = begun[:, 0] - median_along(begun[:, 1:], axis=1)
        since, before = more[:, -1:], more[:, :-1]
        had_begun = (before <= np.minimum(AHEAD * since, AT_EDGES)).any(axis=1)
        return np.asarray((since[:, 0] > 0) & had_begun)


COMPUTE: Final = "compute"
OTHER_COLLECTIVE: Final = "previous_collective"
COPIES: Final = "copies"
IDLE: Final = (*HOST_CAUSES, HOST_STALL)
PARTS: Final = (COMPUTE, OTHER_COLLECTIVE, COPIES, *IDLE)
"""Parts of the time between two arrivals, without waiting for the compared peers themselves."""
OWN_COLLECTIVE: Final = "own_collective"
"""Time in collectives of the compared ranks that no other work hides."""
ALL_COMPUTE: Final = "all_compute"
ALL_COPIES: Final = "all_copies"
"""Time in computation, and in copies, whatever runs at the same time."""
KINDS: Final = (OWN_COLLECTIVE, *PARTS, ALL_COMPUTE, ALL_COPIES)
"""Rows of the result of `time_between`."""


class PeerComparison(Struct, frozen=True):
    """Comparison of the late rank with the median of its punctual peers, for values [t, m].

    ``late`` [t] is the late member, ``punctual`` [t, m] the mask of the peers.
    """

    late: I64
    punctual: Bool

    def late_and_peers(self, values: I32 | I64 | F64) -> tuple[F64, F64]:
        """Value of the late rank, and the median of its peers; float64 [t]."""
        mine = np.asarray(values[np.arange(len(self.late)), self.late], np.float64)
        return mine, marked_median(values, self.punctual)

    def excess(self, values: I32 | I64 | F64) -> F64:
        """Value of the late rank minus the median of its peers, float64 [t]."""
        mine, theirs = self.late_and_peers(values)
        return mine - theirs


def time_between(
    one: Activity,
    begin_ns: I64,
    end_ns: I64,
    groups: Groups,
    triggers: I32,
    *,
    with_idle: bool = True,
) -> I64:
    """Return the time of each kind from one moment to another, int64 ns [kinds, t].

    It is negative where the second moment is the earlier one. Of a large job nothing that was found
    of the rank is kept.

    Args:
        one: What the rank did.
        begin_ns: Moments on the clock of the rank, int64 [t].
        end_ns: Likewise, before the end of the recording.
        groups: Groups whose collectives are those of the compared ranks.
        triggers: Kind of group that the rank had to await, as of `Activity.layers`, int32 [t].
        with_idle: Whether idle time is asked for; else it may be 0.
    """
    several = distinct_values(triggers).tolist()
    if len(several) == 1:
        return _with_trigger(one, begin_ns, end_ns, groups, several[0], with_idle=with_idle)
    found = np.zeros((len(KINDS), len(begin_ns)), np.int64)
    for trigger in several:
        rows = np.flatnonzero(triggers == trigger)
        begin, end = begin_ns[rows], end_ns[rows]
        found[:, rows] = _with_trigger(one, begin, end, groups, trigger, with_idle=with_idle)
    return found


def _with_trigger(
    one: Activity, begin_ns: I64, end_ns: I64, groups: Groups, trigger: int, *, with_idle: bool
) -> I64:
    if not (available() and one.has_kernels):
        return time_of_sets(one, begin_ns, end_ns, groups, trigger)
    from ccltui.metrics.arrays import _intervals  # noqa: PLC0415

    order = np.argsort(np.concatenate((begin_ns, end_ns)), kind="stable")
    awaits = trigger == OWN, trigger not in (OWN, NO_TRIGGER)
    host = (lambda: _of_host(one)) if with_idle else None
    calls = *one.timed_calls, one.roles(groups, trigger)
    work = *one.device_events, COMP, MEM
    found: I64 = _intervals.parts_of_time(
        begin_ns, end_ns, order, calls, work, awaits, host, STANDSTILL_NS
    )
    return found


def _of_host(one: Activity) -> tuple[Any, ...]:
    """Return operations of the host, ranges that a rule names, and the first recorded time."""
    first = one.trace.first_ns
    start, end, cause = one.host.ranges_by_rule
    rows = cause + KINDS.index(HOST_CAUSES[0])
    never = np.iinfo(np.int64).max
    return one.host.timed_operations, (start, end, rows), never if first is None else first


def time_of_sets(one: Activity, begin_ns: I64, end_ns: I64, groups: Groups, trigger: int) -> I64:
    """Return what `time_between` does for one trigger, from the sets of intervals of each kind."""
    found = one.layers(groups, trigger)
    sets = {
        OWN_COLLECTIVE: found.own_comm,
        COMPUTE: found.compute,
        OTHER_COLLECTIVE: found.other_comm,
        COPIES: one.copies,
        **one.idle,
        ALL_COMPUTE: one.compute,
        ALL_COPIES: one.all_copies,
    }
    return np.stack([sets[kind].within(begin_ns, end_ns) for kind in KINDS])


_OFTEN: Final = (OWN_COLLECTIVE, COMPUTE, OTHER_COLLECTIVE, ALL_COMPUTE)
_MOST_NS: Final = np.iinfo(np.int32).max
"""Times up to this are kept in 4 B."""
_Times = dict[str, I32 | I64]


def spent(
    begin_ns: I64,
    end_ns: I64,
    activities: Sequence[Activity],
    groups: frozenset[int],
    triggers: I32,
    *,
    with_idle: bool = True,
) -> _Times:
    """Return the time of each kind in [begin, end), ns [t, m]; without those of no rank.

    ``begin_ns``, ``end_ns`` and ``triggers`` are [t, m], the times on the clock of each member.
    Times take 4 B where they fit: 82 MB for 20,000 targets of 1,024 ranks. Ranks of a large job are
    looked at in turn, and what was found of each is freed, in a whole job some MB a rank.
    """
    found: _Times = {kind: _small(begin_ns.shape) for kind in _OFTEN}
    for i, one in enumerate(activities):
        columns = begin_ns[:, i], end_ns[:, i], groups, triggers[:, i]
        _add_member(found, i, time_between(one, *columns, with_idle=with_idle))
        one.forget_if_large()
    return found


def _add_member(found: _Times, member: int, times_ns: I64) -> None:
    """Write the times of a member, int64 [kinds, t], to the tables of the kinds [t, m]."""
    if not times_ns.size:
        return
    low, high = times_ns.min(axis=1).tolist(), times_ns.max(axis=1).tolist()
    for place, kind in enumerate(KINDS):
        if not low[place] and not high[place]:
            continue
        if kind not in found:
            found[kind] = _small(found[COMPUTE].shape)
        if max(-low[place], high[place]) > _MOST_NS:
            found[kind] = found[kind].astype(np.int64, copy=False)
        found[kind][:, member] = times_ns[place]


def _small(shape: tuple[int, ...]) -> I32:
    return np.zeros(shape[::-1], np.int32).T


def hidden_ns(seen: F64, every: F64) -> F64:
    """Return the excess of one kind of work that the peers did too, hidden behind other work.

    Args:
        seen: Excess of computation outside awaited collectives, or of copies outside other work.
        every: Excess of all computation, or of all copies.
    """
    return np.maximum(seen - np.maximum(every, 0), 0)


MAX_COMPARED: Final = 5000
"""Number of late arrivals compared by kernel name; of further ones only sums are compared."""
MAX_PEERS: Final = 4
_MAX_COUNTS: Final = 500_000
"""Number of counts, and of kernels, that are in memory at once."""


def extra_kernel_time(
    activities: Sequence[Activity],
    begin_ns: I64,
    end_ns: I64,
    late: I64,
    punctual: Bool,
    *,
    most: int = MAX_COMPARED,
) -> F64:
    """Return the time in kernels that the late rank ran more often than its peers.

    Of each name: max(count - median count of the peers, 0) times the mean duration on the late
    rank. At most ``MAX_PEERS`` peers are compared. Where the late rank has more kernels, up to
    ``AT_EDGES`` more kernels before and after the time of each peer are counted: ranks that run
    the same kernels a little earlier or later have other ones at the edges.

    Args:
        activities: Activity of each of the m members.
        begin_ns: int64 [t, m], each member's on its own clock.
        end_ns: Likewise.
        late: Late member of each target, int64 [t].
        punctual: Mask of the peers of each target, bool [t, m].
        most: Number of targets that are compared.

    Returns:
        Float64 ns [t]; NaN without peers and from target ``most`` on.
    """
    count = len(late)
    extra = np.full(count, np.nan)
    rows = np.flatnonzero(row_any(punctual[:most]))
    who = np.column_stack((late[rows], _first_marked(punctual[rows], MAX_PEERS)))
    compared = distinct_values(who[who >= 0]).tolist()
    size = max((activities[member].names_end for member in compared), default=0)
    if not size:
        return extra
    places = _places(activities, who, begin_ns[rows], end_ns[rows])
    each = max(_MAX_COUNTS // (size * who.shape[1]), 1)
    for at in range(0, len(rows), each):
        here = slice(at, at + each)
        some = _Places(*(column[here] for column in places))
        extra[rows[here]] = _extra_time(activities, who[here], some, size)
    for member in compared:
        activities[member].settle()
    return extra


class _Places(NamedTuple):
    """First and last kernel between two times, and the number of all, of members [t, w]."""

    first: I64
    stop: I64
    number: I64


def _places(activities: Sequence[Activity], who: I64, begin_ns: I64, end_ns: I64) -> _Places:
    """Places in the work of the members ``who`` [t, w] (-1: none) between times [t, m]."""
    first, stop, number = np.zeros((3, who.size), np.int64)
    for member, cells in rows_by_value(who.ravel()):
        if member >= 0:
            start, row = activities[member].work[0], cells // who.shape[1]
            first[cells] = np.searchsorted(start, begin_ns[row, member])
            stop[cells] = np.searchsorted(start, end_ns[row, member])
            number[cells] = len(start)
    return _Places(*(column.reshape(who.shape) for column in (first, stop, number)))


def _extra_time(activities: Sequence[Activity], who: I64, places: _Places, size: int) -> F64:
    """Return the extra time by row of the first of the members ``who`` [t, w] (-1: none).

    Names are below ``size``.
    """
    late, *peers = who.T
    mine = places.first[:, 0], places.stop[:, 0]
    counts = _totals_by_name(activities, late, *mine, size, timed=False)
    theirs = []
    for column, one in enumerate(peers, 1):
        extended = _extended(places, column)
        theirs.append(_totals_by_name(activities, one, *extended, size, timed=False))
    each_ns = _totals_by_name(activities, late, *mine, size, timed=True) / np.maximum(counts, 1)
    more = counts - _middle(np.stack(theirs, axis=1), who[:, 1:] >= 0)
    return np.asarray((np.maximum(more, 0) * each_ns).sum(axis=1))


def _extended(places: _Places, column: int) -> tuple[I64, I64]:
    """Return the places of the peers in a column, extended by the kernels that they lack."""
    length = places.stop - places.first
    lacking = np.clip(length[:, 0] - length[:, column], 0, AT_EDGES)
    first, stop = places.first[:, column] - lacking, places.stop[:, column] + lacking
    return np.maximum(first, 0), np.minimum(stop, places.number[:, column])


def _first_marked(marks: Bool, most: int) -> I64:
    """Return the first ``most`` marked columns of each row, int64 [t, most]; -1 after the last."""
    place = np.where(marks, np.cumsum(marks, axis=1) - 1, most)
    found = np.full((len(marks), most), MISSING, np.int64)
    rows, columns = np.nonzero(place < most)
    found[rows, place[rows, columns]] = columns
    return found


def _totals_by_name(
    activities: Sequence[Activity], who: I64, first: I64, stop: I64, size: int, *, timed: bool
) -> F64:
    """Return how often, or for how many ns (``timed``), each name ran on one member; [t, name].

    ``who`` [t] is the member of each row (-1: none), ``first`` and ``stop`` [t] are places in its
    work.
    """
    found = np.zeros((len(who), size))
    for member, rows in rows_by_value(who):
        if member < 0:
            continue
        _, dur, name = activities[member].work
        begin, length = first[rows], stop[rows] - first[rows]
        weights = dur if timed else None
        add = _add_compiled if available() else _add
        add(found, rows, (begin, length), name, weights)
    return found


def _add_compiled(
    found: F64, rows: I64, segments: tuple[I64, I64], name: I64, weights: I64 | None
) -> None:
    """Do what `_add` does, in one pass over the kernels."""
    from ccltui.metrics.arrays import _passes  # noqa: PLC0415

    none = np.empty(0, np.int64)
    _passes.totals_by_name(rows, *segments, name, none if weights is None else weights, found)


def _add(found: F64, rows: I64, segments: tuple[I64, I64], name: I64, weights: I64 | None) -> None:
    """Add the kernels of segments (begin, length) to rows of ``found`` [t, name], with weights."""
    (begin, length), size = segments, found.shape[1]
    for part in _portions(length):
        many = length[part]
        pick = np.repeat(begin[part] - (np.cumsum(many) - many), many) + np.arange(many.sum())
        named = name.take(pick) >= 0
        row, pick = np.repeat(np.arange(len(many)), many)[named], pick[named]
        cell = row * size + name.take(pick)
        sums = np.bincount(cell, None if weights is None else weights.take(pick), len(many) * size)
        found[rows[part]] = sums.reshape(len(many), size)


def _portions(length: I64) -> list[slice]:
    """Split segments into consecutive portions of about ``_MAX_COUNTS`` kernels."""
    portion = np.cumsum(length) // _MAX_COUNTS
    edges = [0, *(np.flatnonzero(np.diff(portion)) + 1).tolist(), len(length)]
    return [slice(a, b) for a, b in pairwise(edges)]


def _middle(values: F64, present: Bool) -> F64:
    """Median over the present members (mask [t, w]) of [t, w, name], float64 [t, name]."""
    ordered = np.sort(np.where(present[:, :, np.newaxis], values, np.inf), axis=1)
    count = row_count(present)
    line = np.arange(len(values))
    return np.asarray((ordered[line, (count - 1) // 2] + ordered[line, count // 2]) / 2)


MAX_BACK: Final = 64
"""Number of collectives that a start is moved back at most."""
_STEPS_BACK: Final = (1, 8, MAX_BACK)
"""Numbers of collectives by which more of what the ranks did is looked at: for most one suffices,
and each look begins anew."""
CARRIED: Final = 0.1
"""Share of the lateness that may have existed at the start."""
PUNCTUAL: Final = 0.5
"""A peer less late than this share of the late rank's lateness is compared with."""

_MAX_CELLS: Final = 1 << 21
"""Number of targets times ranks that are split at a time: some 200 MB for all parts. Fewer cost
more calls of numpy a rank."""
_ALL_TO_ALL: Final = TYPES.index("AllToAll")


class ByTarget(Struct, frozen=True):
    """Columns of t late arrivals: arrays [t, ...], or such columns."""

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Concatenate the columns of several sets of arrivals."""
        names = cls.__struct_fields__
        return cls(*(_joined([getattr(one, name) for one in parts]) for name in names))

    def take(self, rows: I64) -> Self:
        """Select some arrivals by index."""
        columns = (getattr(self, name) for name in self.__struct_fields__)
        return type(self)(
            *(
                one.take(rows) if isinstance(one, ByTarget) else take_rows(one, rows)
                for one in columns
            )
        )


def _joined(parts: Sequence[Any]) -> Any:
    first = parts[0]
    return type(first).joined(parts) if isinstance(first, ByTarget) else np.concatenate(parts)


class Targets(ByTarget, frozen=True):
    """Arrivals to be explained: ``time_ns`` int64 [t, m] on own clocks, ``late`` member [t].

    ``place`` is how many sync points lie before each.
    """

    time_ns: I64
    late: I64
    place: I64

    def __len__(self) -> int:
        return len(self.late)


class Start(ByTarget, frozen=True):
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


class Segments(ByTarget, frozen=True):
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

    Targets are compared some at a time: a part of the time of every rank at each is 8 B.
    """
    count, most = len(targets), max(_MAX_CELLS // max(len(activities), 1), 1)
    looked = first_look(points, targets, activities)
    found: list[Segments] = []
    compared = 0
    for begin in range(0, max(count, 1), most):
        rows = np.arange(begin, min(begin + most, count))
        some = targets.take(rows)
        around = Surroundings(points, some, activities, looked.take(rows))
        found.append(_explained(points, some, around, MAX_COMPARED - compared))
        compared += int((found[-1].start.since >= 0).sum())
    return found[0] if len(found) == 1 else Segments.joined(found)


class FirstLook(Struct, frozen=True):
    """What ranks did between the point before each target and the target.

    ``triggers`` are as of `Start`, ``times`` [t, m] those of each kind.
    """

    triggers: I32
    times: _Times

    def take(self, rows: I64) -> FirstLook:
        """Select targets by index; consecutive ones are views."""
        times: dict[str, Any] = {kind: take_rows(one, rows) for kind, one in self.times.items()}
        return FirstLook(take_rows(self.triggers, rows), times)


def first_look(points: SyncPoints, targets: Targets, activities: Sequence[Activity]) -> FirstLook:
    """Look at all ranks in turn."""
    shape, groups = targets.time_ns.shape, points.groups
    triggers = np.empty(shape[::-1], np.int32).T
    times: _Times = {kind: _small(shape) for kind in _OFTEN}
    before_ns = points.arrival_ns(np.maximum(targets.place - 1, 0))
    for i, one in enumerate(activities):
        begin, end = before_ns[:, i], targets.time_ns[:, i]
        triggers[:, i] = one.triggers(end, groups)
        _add_member(times, i, time_between(one, begin, end, groups, triggers[:, i]))
        one.forget_if_large()
    return FirstLook(triggers, times)


class Surroundings:
    """What ranks did before targets, as far back as it is asked for.

    Args:
        points: Sync points of the ranks.
        targets: Late arrivals.
        activities: What each rank did.
        looked: What `first_look` found of these targets: what is further back is looked at alone.
    """

    def __init__(
        self,
        points: SyncPoints,
        targets: Targets,
        activities: Sequence[Activity],
        looked: FirstLook,
    ) -> None:
        self._points = points
        self._targets = targets
        self._looked = looked
        self.activities = activities

    @property
    def triggers(self) -> I32:
        """Triggers of each target, as of `Activity.layers`, int32 [t, m]."""
        return self._looked.triggers

    def behind(self, rows: I64, back: int, begin: I64, triggers: I32) -> _Times:
        """Times of some targets since the point ``back`` points before; idle ones may be missing.

        ``begin`` are the times of that point, and ``triggers`` those of the targets, [rows, m].
        """
        if back == 1:
            return self._looked.take(rows).times
        return self._spent(rows, begin, triggers, with_idle=False)

    def compared(self, rows: I64, since: I64, begin: I64, triggers: I32) -> _Times:
        """Times of some targets since points (places) that were asked for, as they are compared."""
        found = dict(self._looked.take(rows).times)
        moved = np.flatnonzero(since < self._targets.place[rows] - 1)
        if len(moved):
            columns = rows[moved], take_rows(begin, moved), take_rows(triggers, moved)
            later = self._spent(*columns, with_idle=True)
            for kind in {**found, **later}:
                times = found[kind].astype(np.int64) if kind in found else zeros(begin.shape)
                times[moved] = later.get(kind, 0)
                found[kind] = times
        return found

    def _spent(self, rows: I64, begin: I64, triggers: I32, *, with_idle: bool) -> _Times:
        end, groups = take_rows(self._targets.time_ns, rows), self._points.groups
        return spent(begin, end, self.activities, groups, triggers, with_idle=with_idle)


def _explained(
    points: SyncPoints, targets: Targets, around: Surroundings, most_compared: int
) -> Segments:
    start = find_start(points, targets, around)
    activities = around.activities
    count = len(targets)
    parts = np.zeros((count, len(PARTS)))
    mine, theirs = np.zeros((2, count))
    extra, ratio = np.full((2, count), np.nan)
    known = np.flatnonzero(start.since >= 0)
    if len(known):
        begin = points.arrival_ns(start.since[known])
        end = take_rows(targets.time_ns, known)
        comparison = PeerComparison(targets.late[known], start.punctual[known])
        triggers = take_rows(start.triggers, known)
        times = around.compared(known, start.since[known], begin, triggers)
        mine[known], theirs[known] = comparison.late_and_peers(times[ALL_COMPUTE])
        excess = {name: comparison.excess(times[name]) for name in PARTS if name in times}
        excess[COMPUTE] -= hidden_ns(excess[COMPUTE], mine[known] - theirs[known])
        if COPIES in excess:
            copied = comparison.excess(times[ALL_COPIES])
            excess[COPIES] -= hidden_ns(excess[COPIES], copied)
        del times
        for name, more in excess.items():  # every target has a peer, so the others are 0
            parts[known, PARTS.index(name)] = more
        extra[known] = extra_kernel_time(
            activities,
            begin,
            end,
            comparison.late,
            comparison.punctual,
            most=max(most_compared, 0),
        )
        if any((one.calls.kind == _ALL_TO_ALL).any() for one in activities):
            elements = zeros(begin.shape)
            for i, one in enumerate(activities):
                elements[:, i] = _exchanged(one, begin[:, i], end[:, i])
            exchanged, usual = comparison.late_and_peers(elements)
            ratio[known] = np.where(usual > 0, exchanged / np.maximum(usual, 1), np.nan)
    by_clocks = (start.since >= 0) & (np.append(points.number, 0)[start.since] < 0)
    return Segments(start, parts, mine, theirs, extra, ratio, by_clocks)


def find_start(points: SyncPoints, targets: Targets, around: Surroundings) -> Start:
    """Return the latest sync point since which nearly all of the lateness of a target arose.

    At that point the late rank is not behind its peers in its work. If more than the share
    ``CARRIED`` of it existed at each of the last ``MAX_BACK`` points, that with the least.
    """
    count, size = targets.time_ns.shape
    triggers = around.triggers
    since = np.full(count, -1, np.int64)
    punctual = np.zeros((size, count), np.bool_).T
    excess, carried = np.zeros(count), np.full(count, np.inf)
    left = np.arange(count)
    done = WorkDone(points, targets.time_ns, around.activities, MAX_BACK)
    for back in range(1, MAX_BACK + 1):
        left = left[targets.place[left] >= back]
        if not len(left):
            break
        place = targets.place[left] - back
        some = targets.take(left)
        mine = take_rows(triggers, left)
        begin = points.arrival_ns(place)
        times = around.behind(left, back, begin, mine)
        peers, found, carried_ns, more_ns = _lateness(some, begin, points.late_ns(place), times)
        little = CARRIED * np.abs(found)
        doubtful = np.flatnonzero((carried_ns <= little) & (more_ns > little))
        others = _first_marked(peers[doubtful], MAX_PEERS)
        late = some.late[doubtful]
        behind = done.behind(left[doubtful], late, others, place[doubtful])
        carried_ns[doubtful[behind]] = np.nan
        # False for NaN: not all ranks reached the point, or the peers ran ahead of it
        better = np.maximum(carried_ns, 0) < carried[left]
        rows = left[better]
        since[rows], punctual[rows] = place[better], peers[better]
        excess[rows], carried[rows] = found[better], carried_ns[better]
        left = left[~(carried_ns <= little)]
    carried[since < 0] = 0.0
    return Start(since, punctual, excess, carried, triggers)


def _lateness(
    targets: Targets, begin: I64, behind: I64, times: _Times
) -> tuple[Bool, F64, F64, F64]:
    """Return punctual peers, excess, the carried part of it, and work beyond the peers'.

    All are counted from sync points, with their times, how far behind the ranks were there and what
    they did since (`Surroundings.behind`), [t, m].
    """
    late = behind + (targets.time_ns - begin)
    late = late - row_min(late)[:, np.newaxis]
    latest = late[np.arange(len(targets)), targets.late]
    peers = late < PUNCTUAL * latest[:, np.newaxis]
    comparison = PeerComparison(targets.late, peers)
    every = times[ALL_COMPUTE]
    carried_ns = comparison.excess(behind + times[OWN_COLLECTIVE])
    more_ns = comparison.excess(every)
    carried_ns += hidden_ns(comparison.excess(times[COMPUTE]), more_ns)
    if ALL_COPIES in times:  # without any all these are 0
        copied, none = times[ALL_COPIES], zeros(begin.shape)
        seen = comparison.excess(times.get(COPIES, none))
        carried_ns += hidden_ns(seen, comparison.excess(copied))
        more_ns = comparison.excess(np.add(every, copied, dtype=np.int64))
    reached = row_all(begin < targets.time_ns)
    carried_ns = np.where(reached, carried_ns, np.nan)
    return peers, comparison.excess(late), carried_ns, more_ns


def _exchanged(one: Activity, begin: I64, end: I64) -> I64:
    """Return the elements of the all-to-alls that begin in [begin, end)."""
    rows = np.flatnonzero(one.calls.kind == _ALL_TO_ALL)
    elements = np.maximum(one.calls.in_elems[rows], one.calls.out_elems[rows])
    total = np.concatenate((np.zeros(1, np.int64), np.cumsum(np.maximum(elements, 0))))
    starts = one.calls.start_ns[rows]
    return np.asarray(total[np.searchsorted(starts, end)] - total[np.searchsorted(starts, begin)])
