"""What two hosts tell about the difference of their clocks: a few possible ones, with reasons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ccltui.metrics.arrays.reductions import median_along
from ccltui.metrics.collectives.implied.stream_evidence import (
    Evidence,
    HostCalls,
    Sample,
    evidence,
)
from ccltui.metrics.collectives.implied.stream_votes import candidates
from ccltui.metrics.collectives.matching.align_by_time import Ahead, fit
from ccltui.metrics.collectives.matching.end_deviation import ONE_CLOCK_NS
from ccltui.parsers.array_types import F64

CANDIDATES: Final = 12
KEPT: Final = 5
COARSE: Final = 8
FINE: Final = 16
"""So many calls of a queue are asked: to choose among candidates, and to judge them."""
SPEAKERS: Final = 2
"""So many ranks of a host are asked for candidates."""
WINDOW_NS: Final = 1_000_000_000
"""In so short a time clocks drift apart by less than the ends of a collective."""
WIDER: Final = 8
MAX_DRIFT: Final = 500e-6
"""Clocks of computers drift by some ten parts in a million."""


@dataclass(frozen=True, slots=True)
class Option:
    """A difference of the clocks of two hosts, and what speaks for it."""

    ahead: Ahead
    found: Evidence


@dataclass(frozen=True, slots=True)
class HostPair:
    """Two hosts by their numbers, and the possible differences of their clocks."""

    one: int
    other: int
    options: tuple[Option, ...]


def options_of(host: HostCalls, other: HostCalls) -> tuple[Option, ...]:
    """The differences of clocks that most speaks for, with all that speaks for them."""
    mine, theirs = _speakers(host), _speakers(other)
    found = []
    for ahead_ns in candidates(host, mine, other, theirs, CANDIDATES):
        middle = _middle(host, other, ahead_ns)
        near = Sample.of(host, mine, COARSE, middle, WINDOW_NS)
        rough = Ahead(ahead_ns, 0.0, middle)
        found.append((best_of(evidence(near, host, other, rough).whole), rough))
    found.sort(key=lambda one: -one[0])
    options: list[Option] = []
    whole = host.sample(FINE)
    for score, rough in found:
        known = any(abs(one.ahead.offset_ns - rough.offset_ns) <= ONE_CLOCK_NS for one in options)
        if score > 0 and not known and len(options) < KEPT:
            ahead = _widened(host, mine, other, rough)
            options.append(Option(ahead, evidence(whole, host, other, ahead)))
    return tuple(options)


def _speakers(host: HostCalls) -> list[int]:
    owners = host.owners
    return owners if len(owners) <= SPEAKERS else [owners[0], owners[-1]]


def best_of(told: F64) -> float:
    """What all queues speak, each with the one that it goes together with best."""
    return float(told.max(axis=1, initial=0).sum() + told.max(axis=0, initial=0).sum())


def _middle(host: HostCalls, other: HostCalls, ahead_ns: float) -> int:
    """The middle of what both hosts recorded, on the clock of the first."""
    first = max(int(host.first_ns.min()), int(other.first_ns.min()) + round(ahead_ns))
    last = min(int(host.last_ns.max()), int(other.last_ns.max()) + round(ahead_ns))
    return (first + last) // 2


def _widened(host: HostCalls, owners: Sequence[int], other: HostCalls, rough: Ahead) -> Ahead:
    """The difference of clocks with its drift, told from ever more calls around the middle."""
    longest = int(host.last_ns.max() - host.first_ns.min())
    width, ahead = WINDOW_NS, rough
    while True:
        sample = Sample.of(host, owners, FINE, rough.at_ns, width)
        found = evidence(sample, host, other, ahead)
        if len(found.own_ns) >= 3 and longest <= WINDOW_NS:
            middle = float(median_along(found.own_ns - found.other_ns))
            return Ahead(middle, 0.0, rough.at_ns)
        if len(found.own_ns) >= 3:
            fitted = fit(found.own_ns, found.other_ns)
            if abs(fitted.rate) <= MAX_DRIFT:
                ahead = fitted
        if width >= longest:
            return ahead
        width *= WIDER
