"""Who arrived last at each collective, and who waited how long for it.

Two measures. Clock-free: such collectives end nearly together, so the longest duration belongs
to the first to arrive and the shortest to the last; no clock is compared. By start: on corrected
clocks, the last start. The rank with the *shortest* collective is the late one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ccltui.metrics.arrays.reductions import row_max, row_min
from ccltui.metrics.collectives.clocks.clock_model import ClockModel
from ccltui.metrics.collectives.matching.end_deviation import exchange, fully_dependent
from ccltui.metrics.collectives.matching.match import (
    HIGH,
    LOW,
    MEDIUM,
    GroupMatch,
    Matches,
    MatchInput,
    gather,
)
from ccltui.metrics.model.classify import TYPES
from ccltui.parsers.array_types import I8, I32, I64, Bool
from ccltui.parsers.columns import MISSING

MIN_FLOOR_NS = 10_000
"""A lag up to here blames nobody, whatever the clocks say."""
RESIDUALS_TO_BLAME = 3

NOBODY = -1

_SENDRECV = TYPES.index("SendRecv")
_GENERIC = TYPES.index("Generic")


@dataclass(frozen=True, slots=True)
class Lateness:
    """One measure of lateness of n instances with m members each.

    ``wait_ns`` is how long each member waited for the last (int64 [n, m]), ``late_ns`` how long
    after the first it arrived, ``lag_ns`` their largest (int64 [n]), ``last`` the member that
    arrived last, NOBODY where the lag is not above the floor. Where an instance lacks a member
    or its members disagree all are -1.
    """

    wait_ns: I64
    late_ns: I64
    lag_ns: I64
    last: I32


@dataclass(frozen=True, slots=True)
class GroupArrivals:
    """The instances of one group match, row by row, with when and how late each member came.

    ``start_ns`` and ``dur_ns`` are int64 [n, m], -1 for an absent member; starts are on the
    corrected clock unless raw ones were asked for. The lateness columns are clock-free.
    ``by_start`` is the other measure, None where the members' clocks are not known.
    ``eligible`` marks instances that can blame a rank: complete, agreeing, and of a type in
    which every rank waits for every other; ``confidence`` is that of the match, at most medium
    for an all-to-all and low for a SendRecv kernel, which may be none, and for one that tells no
    type but ends after all have started, or whose group may have members that no file tells of.
    SendRecv kernels of two ranks are taken for transfers.
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
        """Clock-free arrival after the first member."""
        return self.clock_free.late_ns

    @property
    def wait_ns(self) -> I64:
        """Clock-free wait for the last member."""
        return self.clock_free.wait_ns

    @property
    def lag_ns(self) -> I64:
        """Clock-free lag."""
        return self.clock_free.lag_ns

    @property
    def last(self) -> I32:
        """Member that the clock-free measure blames, NOBODY in a tie or if not eligible."""
        return np.where(self.eligible, self.clock_free.last, NOBODY).astype(np.int32)

    @property
    def first_start_ns(self) -> I64:
        """Start of the first member that is present, int64 [n]."""
        never = np.iinfo(np.int64).max
        return row_min(np.where(self.match.rows >= 0, self.start_ns, never))


@dataclass(frozen=True, slots=True)
class Arrivals:
    """All groups of a job. ``floor_ns`` is the lag above which a rank is blamed."""

    groups: tuple[GroupArrivals, ...]
    floor_ns: int
    basis: str  # "corrected clocks" or "raw clocks": what start_ns is on


def arrivals(
    matches: Matches,
    inputs: Sequence[MatchInput],
    clocks: ClockModel,
    *,
    raw_clocks: bool = False,
    floor_ns: int | None = None,
) -> Arrivals:
    """Arrival, lag and wait of every matched collective, in both measures.

    The floor is three residuals (p95) of the clocks, at least 10 µs, unless ``floor_ns`` is
    given. ``raw_clocks`` leaves the starts as recorded.
    """
    floor = blame_floor(clocks) if floor_ns is None else floor_ns
    by_label = {item.label: item for item in inputs}
    groups = tuple(
        _arrivals(match, by_label, clocks, floor, raw_clocks=raw_clocks) for match in matches.groups
    )
    return Arrivals(groups, floor, "raw clocks" if raw_clocks else "corrected clocks")


def blame_floor(clocks: ClockModel) -> int:
    """The noise floor: lags up to it are ties."""
    return max(MIN_FLOOR_NS, RESIDUALS_TO_BLAME * (clocks.residual_p95_ns or 0))


def clock_free(dur_ns: I64, floor_ns: int) -> Lateness:
    """Lateness from durations alone, int64 [n, m] of complete instances."""
    return _lateness(dur_ns - row_min(dur_ns)[:, np.newaxis], floor_ns)


def by_start(start_ns: I64, floor_ns: int) -> Lateness:
    """Lateness from starts on one clock, int64 [n, m] of complete instances."""
    return _lateness(row_max(start_ns)[:, np.newaxis] - start_ns, floor_ns)


def _lateness(wait_ns: I64, floor_ns: int) -> Lateness:
    lag = row_max(wait_ns)
    last = np.where(lag > floor_ns, wait_ns.argmin(axis=1), NOBODY).astype(np.int32)
    return Lateness(wait_ns, lag[:, np.newaxis] - wait_ns, lag, last)


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
        for member, label in enumerate(match.labels):
            corrected = clocks.corrected(label, start[:, member])
            start[:, member] = np.where(match.rows[:, member] >= 0, corrected, MISSING)
    dur = gather(match, inputs, "dur_ns")
    usable = match.usable
    starts_known = raw_clocks or clocks.comparable(match.labels)
    return GroupArrivals(
        match=match,
        start_ns=start,
        dur_ns=dur,
        clock_free=_spread(clock_free(dur[usable], floor_ns), usable),
        by_start=_spread(by_start(start[usable], floor_ns), usable) if starts_known else None,
        eligible=usable & _awaits_all(match),
        confidence=_capped(match),
    )


def _awaits_all(match: GroupMatch) -> Bool:
    """Whether every rank waits for every other, as far as types and times tell."""
    untold = (match.kind == _GENERIC) & (match.overlap == 1)
    pair = match.group >= 0 and len(match.labels) + len(match.missing) == 2
    transfer = (match.kind == _SENDRECV) & pair
    return np.asarray((fully_dependent(match.kind) | exchange(match.kind) | untold) & ~transfer)


def _capped(match: GroupMatch) -> I8:
    if not match.whole:
        return np.full(len(match.rows), LOW, np.int8)
    limit = np.where(exchange(match.kind), MEDIUM, HIGH)
    limit[(match.kind == _SENDRECV) | (match.kind == _GENERIC)] = LOW
    return np.minimum(match.confidence, limit).astype(np.int8)


def _spread(part: Lateness, usable: Bool) -> Lateness:
    """The lateness of usable instances among all, -1 for the others."""
    if usable.all():
        return part
    n, m = len(usable), part.wait_ns.shape[1]
    wait, late = np.full((n, m), MISSING, np.int64), np.full((n, m), MISSING, np.int64)
    lag, last = np.full(n, MISSING, np.int64), np.full(n, NOBODY, np.int32)
    wait[usable], late[usable] = part.wait_ns, part.late_ns
    lag[usable], last[usable] = part.lag_ns, part.last
    return Lateness(wait, late, lag, last)
