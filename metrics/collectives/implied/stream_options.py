"""Find a few possible clock differences of two hosts, with the evidence for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from ccltui.metrics.arrays.reductions import median_along
from ccltui.metrics.collectives.implied.stream_evidence import (
    FEWEST,
    FINE_NS,
    USUAL,
    Evidence,
    HostCalls,
    Queue,
    Sample,
    evidence,
)
from ccltui.metrics.collectives.matching.align_by_time import ClockDifference, fit
from ccltui.metrics.collectives.matching.end_deviation import ONE_CLOCK_NS
from ccltui.parsers.array_types import F64

MIN_WEIGHT: Final = 0.1
"""Weight of a pair of calls whose starts agree as well as its ends."""
_BIN_NS: Final = 30_000
_VOTERS: Final = 256
_CELLS: Final = 100_000
"""Number of pairs of calls of two queues that vote, those in the middle of the first."""
_SLACK: Final = 64
"""Number of calls that may be missing on both sides, beyond the difference of the lengths."""


def candidates(
    host: HostCalls, owners: Sequence[int], other: HostCalls, others: Sequence[int], most: int
) -> list[float]:
    """Return the clock differences (ns) with most votes of some ranks of either host."""
    votes: list[tuple[float, float]] = []
    for one in (queue for queue in host.queues if queue.owner in owners):
        for two in (queue for queue in other.queues if queue.owner in others):
            short, long = sorted((len(one.rows), len(two.rows)))
            if short >= USUAL * long:
                votes += _votes(one, two)
    votes.sort(reverse=True)
    found: list[float] = []
    for _, ahead in votes:
        if all(abs(ahead - known) > _BIN_NS for known in found):
            found.append(ahead)
            if len(found) == most:
                break
    return found


def _votes(one: Queue, two: Queue, most: int = 4) -> list[tuple[float, float]]:
    """Return (votes, difference) of differences that many pairs of like calls share.

    A pair votes with log(1 + |difference of durations| / FINE_NS) + MIN_WEIGHT.
    """
    count, others = len(one.rows), len(two.rows)
    reach = abs(count - others) + _SLACK
    voters = min(count, max(_CELLS // (2 * reach), 16), _VOTERS)
    first = (count - voters) // 2
    mine = slice(first, first + voters)
    there = slice(max(first - reach, 0), first + voters + reach)
    like = one.what[mine, np.newaxis] == two.what[there]
    apart = (one.end_ns[mine, np.newaxis] - two.end_ns[there])[like]
    if len(apart) < FEWEST:
        return []
    longer = np.abs(one.dur_ns[mine, np.newaxis] - two.dur_ns[there])[like]
    order = np.argsort(apart)
    apart = apart[order]
    weight = np.concatenate(([0.0], np.cumsum(np.log1p(longer[order] / FINE_NS) + MIN_WEIGHT)))
    stop = np.searchsorted(apart, apart + _BIN_NS, side="right")
    begin = np.arange(len(apart))
    votes = np.where(stop - begin >= FEWEST, weight[stop] - weight[:-1], 0.0)
    found = []
    for _ in range(most):
        best = int(votes.argmax())
        if votes[best] <= 0:
            break
        found.append((float(votes[best]), float(median_along(apart[best : stop[best]]))))
        low, high = np.searchsorted(apart, apart[best] + np.array([-2, 3]) * _BIN_NS)
        votes[low:high] = 0
    return found


CANDIDATES: Final = 12
MAX_OPTIONS: Final = 5
COARSE: Final = 8
FINE: Final = 16
"""Number of calls of a queue used to choose among candidates, and to evaluate them."""
MAX_RANKS_SAMPLED: Final = 2
"""Number of ranks of a host used to find candidates."""
WINDOW_NS: Final = 1_000_000_000
"""Half the time over which a drift is smaller than the distances of ends of a collective."""
WIDER: Final = 8
MAX_DRIFT: Final = 500e-6
"""Larger fitted drifts are rejected: clocks of computers drift by some ten parts in a million."""


@dataclass(frozen=True, slots=True)
class Option:
    """A possible clock difference of two hosts, and its evidence."""

    ahead: ClockDifference
    found: Evidence


@dataclass(frozen=True, slots=True)
class HostPair:
    """Two hosts by number, and their possible clock differences."""

    one: int
    other: int
    options: tuple[Option, ...]


def options_of(host: HostCalls, other: HostCalls) -> tuple[Option, ...]:
    """Return the clock differences with most evidence, at most ``MAX_OPTIONS``."""
    mine, theirs = _sampled_ranks(host), _sampled_ranks(other)
    found = []
    for ahead_ns in candidates(host, mine, other, theirs, CANDIDATES):
        middle = _middle(host, other, ahead_ns)
        near = Sample.of(host, mine, COARSE, middle, WINDOW_NS)
        rough = ClockDifference(ahead_ns, 0.0, middle)
        found.append((best_of(evidence(near, host, other, rough).total), rough))
    found.sort(key=lambda one: -one[0])
    options: list[Option] = []
    whole = host.sample(FINE)
    for score, rough in found:
        known = any(abs(one.ahead.offset_ns - rough.offset_ns) <= ONE_CLOCK_NS for one in options)
        if score > 0 and not known and len(options) < MAX_OPTIONS:
            ahead = _widened(host, mine, other, rough)
            options.append(Option(ahead, evidence(whole, host, other, ahead)))
    return tuple(options)


def _sampled_ranks(host: HostCalls) -> list[int]:
    owners = host.owners
    return owners if len(owners) <= MAX_RANKS_SAMPLED else [owners[0], owners[-1]]


def best_of(score: F64) -> float:
    """Sum the evidence of all queues of both hosts, each with its best partner."""
    return float(score.max(axis=1, initial=0).sum() + score.max(axis=0, initial=0).sum())


def _middle(host: HostCalls, other: HostCalls, ahead_ns: float) -> int:
    """Return the middle of the time that both hosts recorded, ns on the clock of the first."""
    first = max(int(host.first_ns.min()), int(other.first_ns.min()) + round(ahead_ns))
    last = min(int(host.last_ns.max()), int(other.last_ns.max()) + round(ahead_ns))
    return (first + last) // 2


def _widened(
    host: HostCalls, owners: Sequence[int], other: HostCalls, rough: ClockDifference
) -> ClockDifference:
    """Fit the clock difference with its drift to calls in a growing window around the middle."""
    longest = int(host.last_ns.max() - host.first_ns.min())
    width, ahead = WINDOW_NS, rough
    while True:
        sample = Sample.of(host, owners, FINE, rough.at_ns, width)
        found = evidence(sample, host, other, ahead)
        if len(found.own_ns) >= 3 and longest <= WINDOW_NS:
            middle = float(median_along(found.own_ns - found.other_ns))
            return ClockDifference(middle, 0.0, rough.at_ns)
        if len(found.own_ns) >= 3:
            fitted = fit(found.own_ns, found.other_ns)
            if abs(fitted.rate) <= MAX_DRIFT:
                ahead = fitted
        if width >= longest:
            return ahead
        width *= WIDER
