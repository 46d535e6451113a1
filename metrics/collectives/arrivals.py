"""Compute arrival, lag and wait of each rank at each collective.

    lag floor = max(10 µs, 3 * residual_p95 of the clocks)

A lag up to the floor is a tie and blames no rank. There are two measures of n instances with m
members, in ns:

    clock-free:  wait[r] = dur[r] - min(dur)        last = argmin(dur)
    by start:    wait[r] = max(start) - start[r]    last = argmax(start)
    both:        lag = max(wait)                    late[r] = lag - wait[r]

Collectives in which every rank waits for every other end nearly at once on all ranks, so the rank
with the longest duration arrived first and the rank with the *shortest* one is the late one. The
clock-free measure compares no clocks; the measure by start needs them corrected. Sync points are
the collectives at which given ranks waited for each other: lateness is counted from them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.by_column import (
    highest,
    lowest,
    take_columns,
    take_rows,
    together,
    zeros,
)
from ccltui.metrics.arrays.reductions import row_max, row_min, row_sum, rows_by_value
from ccltui.metrics.collectives.clocks.clock_model import RESIDUALS, ClockModel
from ccltui.metrics.collectives.matching.match import (
    HIGH,
    LOW,
    MEDIUM,
    GroupMatch,
    Matches,
    MatchInput,
    gather,
    gather_starts,
)
from ccltui.metrics.collectives.matching.validity import (
    MIN_CLOCK_TESTS,
    exchange,
    fully_dependent,
    nearest_rank,
    waits_for_one,
)
from ccltui.metrics.model.classify import TYPES
from ccltui.parsers.array_types import I8, I32, I64, Bool
from ccltui.parsers.columns import MISSING

MIN_FLOOR_NS = 10_000
"""Least lag floor, however small the residuals of the clocks are."""
MIN_DRAWN_NS = 100_000
"""Least lag that a chart draws as late unless asked: below it ranks that nobody would call late
colour every cell."""

FEWEST_TO_TELL = 3
"""Fewest members of which one alone can be short where a transfer has two sides."""
WAITING_TOLD = 0.5
"""Share of the waiting in SendRecv kernels that is for one member, from which they are exchanges of
all members."""

NO_RANK = -1

_SENDRECV = TYPES.index("SendRecv")
_GENERIC = TYPES.index("Generic")
_BROADCAST = TYPES.index("Broadcast")


class Lateness(Struct, frozen=True, dict=True):
    """One measure of lateness of n instances with m members each.

    A member waits by how far its time (``times_ns``, int64 [n, m]) is from that of the last one
    (``last_ns``, int64 [n]): durations are longer than it, starts are earlier (``are_starts``).
    ``lag_ns`` is the longest wait (int64 [n]), ``last`` the member that arrived last (int32 [n]),
    NO_RANK where the lag is not above the floor. Where an instance lacks a member or its members
    disagree lag, waits and last are -1.
    """

    times_ns: I64
    last_ns: I64
    lag_ns: I64
    last: I32
    are_starts: bool

    @cached_property
    def wait_ns(self) -> I64:
        """How long each member waited for the last one, int64 [n, m]."""
        return self._waits(slice(None))

    @property
    def waited_ns(self) -> I64:
        """Sum of the waits of each member, int64 [m]."""
        return self._sums[0]

    @property
    def caused_ns(self) -> I64:
        """Sum of the waits of all members at each instance, int64 [n]."""
        return self._sums[1]

    @cached_property
    def _sums(self) -> tuple[I64, I64]:
        """Both sums; no table of all waits is made for them."""
        count, members = self.times_ns.shape
        waited, caused = np.empty(members, np.int64), np.zeros(count, np.int64)
        for some in together(count, members):
            waits = self._waits(some)
            waited[some] = waits.sum(axis=0)
            caused += row_sum(waits)
        return waited, caused

    def _waits(self, members: slice) -> I64:
        times, last = self.times_ns[:, members], self.last_ns[:, np.newaxis]
        wait = last - times if self.are_starts else times - last
        wait[self.lag_ns < 0] = MISSING
        return np.asarray(wait)

    @property
    def late_ns(self) -> I64:
        """How long after the first member each arrived, int64 [n, m]; a new table at each use."""
        late = self.lag_ns[:, np.newaxis] - self.wait_ns
        late[self.lag_ns < 0] = MISSING
        return late

    def late_at(self, row: int) -> I64:
        """Return how long after the first member each arrived at one instance, int64 [m]."""
        return np.asarray(self.take(slice(row, row + 1)).late_ns[0])

    def take(self, rows: Bool | I64 | slice) -> Lateness:
        """Return the lateness of some instances: a mask, indices or a slice."""
        if isinstance(rows, slice) and rows == slice(None):
            return self
        times, last = self.times_ns[rows], self.last_ns[rows]
        return Lateness(times, last, self.lag_ns[rows], self.last[rows], self.are_starts)


class GroupArrivals(Struct, frozen=True):
    """Arrival and lateness of each member at the instances of one group match, row by row.

    ``start_ns`` and ``dur_ns`` are int64 [n, m], -1 for an absent member; starts are on the
    corrected clock unless raw ones were requested. The lateness columns are clock-free.
    ``by_start`` is the other measure, None where the members' clocks are not known.
    ``eligible`` marks instances that can blame a rank: complete, agreeing, and of a type in
    which every rank waits for every other. ``confidence`` is that of the match: at most medium for
    an all-to-all; low for a SendRecv kernel that may be no all-to-all, for a kernel of unknown
    type that ends after all have started, and where the group may have members without a file.
    SendRecv kernels of two ranks count as transfers and are not eligible.
    """

    match: GroupMatch
    start_ns: I64
    dur_ns: I64
    clock_free: Lateness
    by_start: Lateness | None
    eligible: Bool
    confidence: I8

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of the members, as ``match.labels``."""
        return self.match.labels

    @property
    def late_ns(self) -> I64:
        """Clock-free arrival after the first member, int64 ns [n, m]."""
        return self.clock_free.late_ns

    @property
    def wait_ns(self) -> I64:
        """Clock-free wait for the last member, int64 ns [n, m]."""
        return self.clock_free.wait_ns

    @property
    def lag_ns(self) -> I64:
        """Clock-free lag, int64 ns [n]."""
        return self.clock_free.lag_ns

    @property
    def last(self) -> I32:
        """Member blamed by the clock-free measure, int32 [n]; NO_RANK in a tie or not eligible."""
        return np.where(self.eligible, self.clock_free.last, NO_RANK).astype(np.int32)

    @property
    def delays(self) -> Bool:
        """Instances whose last member, of the shortest duration, the others waited for, bool [n].

        Those that can blame a rank, and broadcasts, whose receivers wait for the root: a receiver
        that comes late delays nobody, so that all durations are short then.
        """
        return np.asarray(self.eligible | (self.match.usable & (self.match.kind == _BROADCAST)))

    @property
    def delaying(self) -> I32:
        """Member that the others waited for, int32 [n]; NO_RANK in a tie or where nobody did."""
        return np.where(self.delays, self.clock_free.last, NO_RANK).astype(np.int32)

    @property
    def awaited(self) -> Bool:
        """Instances of a type in which every rank waits for every other, complete or not [n]."""
        return _awaits_all(self.match)

    @property
    def first_start_ns(self) -> I64:
        """Earliest start of the members present, int64 ns [n]."""
        never = np.iinfo(np.int64).max
        return row_min(np.where(self.match.rows >= 0, self.start_ns, never))


class Arrivals(Struct, frozen=True):
    """Arrivals at all groups of a job. ``floor_ns`` is the lag above which a rank is blamed."""

    groups: tuple[GroupArrivals, ...]
    floor_ns: int
    basis: str  # "corrected clocks" or "raw clocks": the clock of start_ns


def arrivals(
    matches: Matches,
    inputs: Sequence[MatchInput],
    clocks: ClockModel,
    *,
    raw_clocks: bool = False,
    floor_ns: int | None = None,
) -> Arrivals:
    """Compute arrival, lag and wait of every matched collective, in both measures.

    Args:
        matches: The matched collectives.
        inputs: The calls of each rank.
        clocks: Offsets of the ranks.
        raw_clocks: Leave the starts as recorded.
        floor_ns: Lag above which a rank is blamed, by default `blame_floor`.
    """
    floor = blame_floor(clocks) if floor_ns is None else floor_ns
    by_label = {item.label: item for item in inputs}
    groups = tuple(
        _arrivals(match, by_label, clocks, floor, raw_clocks=raw_clocks) for match in matches.groups
    )
    return Arrivals(groups, floor, "raw clocks" if raw_clocks else "corrected clocks")


def blame_floor(clocks: ClockModel) -> int:
    """Return the lag floor in ns: max(10 µs, 3 * residual_p95). Lags up to it are ties.

    The residual is the error bar of every start on corrected clocks. Below the floor the two
    measures name different ranks.
    """
    return max(MIN_FLOOR_NS, RESIDUALS * (clocks.residual_p95_ns or 0))


def drawn_floor(floor_ns: int) -> int:
    """Return the lag in ns from which a chart draws a rank as late; none that is not blamed."""
    return max(MIN_DRAWN_NS, floor_ns)


def clock_free(dur_ns: I64, floor_ns: int) -> Lateness:
    """Return lateness from durations alone, int64 ns [n, m] of complete instances."""
    shortest = row_min(dur_ns)
    lag = row_max(dur_ns) - shortest
    last = _named(lowest(dur_ns), lag, floor_ns)
    return Lateness(dur_ns, shortest, lag, last, are_starts=False)


def by_start(start_ns: I64, floor_ns: int) -> Lateness:
    """Return lateness from starts on one clock, int64 ns [n, m] of complete instances."""
    latest = row_max(start_ns)
    lag = latest - row_min(start_ns)
    last = _named(highest(start_ns), lag, floor_ns)
    return Lateness(start_ns, latest, lag, last, are_starts=True)


def _named(last: I64, lag_ns: I64, floor_ns: int) -> I32:
    return np.where(lag_ns > floor_ns, last, NO_RANK).astype(np.int32)


def _arrivals(
    match: GroupMatch,
    inputs: Mapping[str, MatchInput],
    clocks: ClockModel,
    floor_ns: int,
    *,
    raw_clocks: bool,
) -> GroupArrivals:
    start = gather(match, inputs, "start_ns")
    if not raw_clocks:
        absent = match.rows < 0 if match.rows.min(initial=0) < 0 else None
        for member, label in enumerate(match.labels):
            start[:, member] = clocks.corrected(label, start[:, member])
        if absent is not None:
            start[absent] = MISSING
    dur = gather(match, inputs, "dur_ns")
    usable = match.usable
    chosen = slice(None) if usable.all() else usable  # of all ranks a copy takes time and memory
    starts_known = raw_clocks or clocks.comparable(match.labels)
    return GroupArrivals(
        match=match,
        start_ns=start,
        dur_ns=dur,
        clock_free=_expanded(clock_free(dur[chosen], floor_ns), usable, dur),
        by_start=_expanded(by_start(start[chosen], floor_ns), usable, start)
        if starts_known
        else None,
        eligible=usable & _awaits_all(match),
        confidence=_confidence(match, _exchanges(match, start, dur) if starts_known else None),
    )


def _awaits_all(match: GroupMatch) -> Bool:
    """Whether every rank waits for every other, by type and overlap, bool [n]."""
    untyped = (match.kind == _GENERIC) & (match.overlap == 1)
    pair = match.group >= 0 and len(match.labels) + len(match.missing) == 2
    transfer = (match.kind == _SENDRECV) & pair
    return np.asarray((fully_dependent(match.kind) | exchange(match.kind) | untyped) & ~transfer)


def _exchanges(match: GroupMatch, start_ns: I64, dur_ns: I64) -> Bool:
    """Mask of the SendRecv kernels that are all-to-alls, as their members wait for one alone.

    Transfers have two sides, so that two members would be short where one is late. They count
    where most of the waiting in such kernels is for one member.
    """
    found = np.zeros(len(match.rows), np.bool_)
    sent = np.flatnonzero(match.usable & (match.kind == _SENDRECV))
    if not len(sent) or len(match.labels) < FEWEST_TO_TELL:
        return found
    start, dur = start_ns[sent], dur_ns[sent]
    end = start + dur
    spread = row_max(end) - row_min(end)
    lone = waits_for_one(dur, spread, nearest_rank(spread, 0.95))
    lag = row_max(dur) - row_min(dur)
    enough = lone.sum() >= MIN_CLOCK_TESTS
    found[sent] = enough and lag[lone].sum() >= WAITING_TOLD * max(int(lag.sum()), 1)
    return found


def _confidence(match: GroupMatch, exchanges: Bool | None) -> I8:
    """Return the confidence of the matches, bounded by what their type allows, int8 [n]."""
    if not match.whole:
        return np.full(len(match.rows), LOW, np.int8)
    limit = np.where(exchange(match.kind), MEDIUM, HIGH)
    limit[(match.kind == _SENDRECV) | (match.kind == _GENERIC)] = LOW
    if exchanges is not None:
        limit[exchanges] = MEDIUM
    return np.minimum(match.confidence, limit).astype(np.int8)


def _expanded(part: Lateness, usable: Bool, times_ns: I64) -> Lateness:
    """Expand the lateness of usable instances to all, whose times are given."""
    if usable.all():
        return part
    edge, lag = np.full((2, len(usable)), MISSING, np.int64)
    last = np.full(len(usable), NO_RANK, np.int32)
    edge[usable], lag[usable], last[usable] = part.last_ns, part.lag_ns, part.last
    return Lateness(times_ns, edge, lag, last, part.are_starts)


class SyncPoints(Struct, frozen=True):
    """Collectives that all of ``labels`` took part in and waited for, in order of time.

    ``number`` is the matched group of each point and ``row`` its instance; both are -1 for a common
    time before the first collective, ``common_start_ns`` on the clock of each, which is known from
    clock offsets only. ``groups`` are the indices of the communicators. Times are gathered where
    they are asked for: few of the points of a large job are.
    """

    labels: tuple[str, ...]
    groups: frozenset[int]
    number: I64
    row: I64
    common_start_ns: I64
    sources: Mapping[int, tuple[GroupArrivals, Sequence[int]]]  # with the members that labels are
    inputs: Mapping[str, MatchInput]

    def __len__(self) -> int:
        return len(self.row)

    def arrival_ns(self, places: I64) -> I64:
        """Return when each rank joined some points, on its own clock, int64 ns [places, m]."""

        def starts(group: GroupArrivals, rows: I64, columns: Sequence[int]) -> I64:
            return gather_starts(group.match, self.inputs, rows, columns)

        return self._gathered(places, starts, self.common_start_ns)

    def late_ns(self, places: I64) -> I64:
        """Return how long after the first rank each joined, by durations, int64 ns [places, m]."""

        def lateness(group: GroupArrivals, rows: I64, columns: Sequence[int]) -> I64:
            dur = take_columns(take_rows(group.dur_ns, rows), columns)
            return np.asarray(row_max(dur)[:, np.newaxis] - dur)

        return self._gathered(places, lateness, np.zeros(len(self.labels), np.int64))

    def arrivals_of(self, member: int) -> I64:
        """Return when one rank joined every point, on its own clock, int64 ns [p]."""
        found = np.full(len(self), MISSING, np.int64)
        for number, places in rows_by_value(self.number):
            if number < 0:
                found[places] = self.common_start_ns[member]
                continue
            group, columns = self.sources[number]
            column = [columns[member]]
            rows = self.row[places]
            found[places] = gather_starts(group.match, self.inputs, rows, column)[:, 0]
        return found

    def place_of(self, number: int, rows: I64) -> I64:
        """Return the places of instances (rows, ascending) of a matched group, int64."""
        mine = np.flatnonzero(self.number == number)
        order = mine[np.argsort(self.row[mine], kind="stable")]
        return np.asarray(order[np.searchsorted(self.row[order], rows)], np.int64)

    def before(self, times_ns: I64) -> I64:
        """Return how many points all ranks had reached before times [t, m], int64 [t]."""
        reached = [
            np.searchsorted(np.maximum.accumulate(self.arrivals_of(i)), times_ns[:, i])
            for i in range(len(self.labels))
        ]
        return np.asarray(np.min(reached, axis=0), np.int64)

    def _gathered(
        self,
        places: I64,
        measure: Callable[[GroupArrivals, I64, Sequence[int]], I64],
        common: I64,
    ) -> I64:
        """Return a measure of some points, group by group; ``common`` at the common time."""
        number = self.number[places]
        if len(places) and number[0] >= 0 and (number == number[0]).all():
            group, columns = self.sources[int(number[0])]
            return measure(group, self.row[places], columns)
        found = zeros((len(places), len(self.labels)))
        for index, here in rows_by_value(number):
            if index < 0:
                found[here] = common
            else:
                group, columns = self.sources[index]
                found[here] = measure(group, self.row[places[here]], columns)
        return found


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
    when: list[I64] = [np.array([] if common_start_ns is None else common_start_ns[:1], np.int64)]
    number = [np.full(len(when[0]), MISSING, np.int64)]
    row = [np.full(len(when[0]), MISSING, np.int64)]
    sources = {index: (groups[index], columns) for index, columns in holding.items()}
    for index, (group, columns) in sources.items():
        rows = np.flatnonzero(group.eligible)
        when.append(gather_starts(group.match, inputs, rows, columns[:1])[:, 0])
        number.append(np.full(len(rows), index, np.int64))
        row.append(rows)
    order = np.argsort(np.concatenate(when), kind="stable")
    return SyncPoints(
        tuple(labels),
        frozenset(groups[index].match.group for index in holding),
        np.concatenate(number)[order],
        np.concatenate(row)[order],
        np.array([0] * len(labels) if common_start_ns is None else common_start_ns, np.int64),
        sources,
        inputs,
    )
