"""Linking the clocks of hosts one after another, the surest first.

What a stream tells about two hosts counts only where it goes together better than with any stream
whose clock is known already: a stage of a pipeline resembles the next one a little later, but its
streams have their partners elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from ccltui.metrics.collectives.implied.stream_evidence import Evidence, HostCalls, evidence
from ccltui.metrics.collectives.implied.stream_options import FINE, HostPair, Option, best_of
from ccltui.metrics.collectives.matching.align_by_time import ClockDifference, difference_between
from ccltui.metrics.collectives.matching.end_deviation import ONE_CLOCK_NS
from ccltui.parsers.array_types import F64, Bool

CLEAR: Final = 1.25
"""A difference of clocks is told where that much more speaks for it than for any other."""
CLEARER: Final = 1.5
"""The same where it rests on less than partners that no other clock has given."""
MARGIN: Final = 12.0
"""And so much more, in logarithms of chances."""
AS_GOOD: Final = 0.7
"""Partners go together nearly as well as the best known from this share on."""


@dataclass(frozen=True, slots=True)
class Explained:
    """What each queue of a host speaks together with its best known partner, as in `Evidence`.

    ``transfers`` marks those of sends and receives.
    """

    told: F64
    whole: F64
    transfers: Bool

    def with_partners(self, found: Evidence, axis: int) -> Explained:
        """The same with the partners that are found, of the queues along the other axis."""
        told = np.maximum(self.told, found.told.max(axis=axis, initial=0))
        whole = np.maximum(self.whole, found.whole.max(axis=axis, initial=0))
        return Explained(told, whole, self.transfers)


Links = dict[tuple[int, int], tuple[float, HostPair, Option]]
_Gain = Callable[[Evidence, Explained, Explained], float]


def linked(
    hosts: Sequence[HostCalls], pairs: Sequence[HostPair], known_inside: list[Explained]
) -> list[tuple[int, ClockDifference]]:
    """Of each host the number of what it is linked to, and how far ahead it is of that clock."""
    explained = known_inside
    known = [
        (index, ClockDifference(0.0, 0.0, int(host.first_ns[0])))
        for index, host in enumerate(hosts)
    ]
    while True:
        links: Links = {}
        for gain in (_beyond, _as_good, _together):
            links = links or _links(pairs, known, explained, gain)
        best: dict[int, tuple[float, int, int]] = {}
        for (one, other), (margin, _, _) in links.items():
            for root in (one, other):
                best[root] = max(best.get(root, (0.0, -1, -1)), (margin, one, other))
        joined = [key for key in links if best[key[0]][1:] == key == best[key[1]][1:]]
        if not joined:
            return known
        for key in joined:
            _, pair, option = links[key]
            _join(known, pair, option.ahead)
        _explain(hosts, pairs, known, explained)


def _links(
    pairs: Sequence[HostPair],
    known: Sequence[tuple[int, ClockDifference]],
    explained: Sequence[Explained],
    gain_of: _Gain,
) -> Links:
    """Of every two linked sets of hosts the clear difference: how clear, and what tells it best.

    Options of several pairs of hosts that mean the same difference speak together.
    """
    spoken: dict[tuple[int, int], list[tuple[float, float, HostPair, Option]]] = {}
    for pair in pairs:
        one, other = known[pair.one], known[pair.other]
        if one[0] == other[0]:
            continue
        for option in pair.options:
            gain = gain_of(option.found, explained[pair.one], explained[pair.other])
            if gain > 0:
                apart = _between_roots(one[1], option.ahead, other[1])
                here, there = (one[0], other[0])
                if here > there:
                    here, there, apart = there, here, -apart
                spoken.setdefault((here, there), []).append((apart, gain, pair, option))
    found = {}
    for key, said in spoken.items():
        clear = _clearest(said, CLEAR if gain_of is _beyond else CLEARER)
        if clear is not None:
            found[key] = clear
    return found


def _clearest(
    said: Sequence[tuple[float, float, HostPair, Option]], clear: float
) -> tuple[float, HostPair, Option] | None:
    shift = np.array([one[0] for one in said])
    gain = np.array([one[1] for one in said])
    together = np.abs(shift[:, np.newaxis] - shift) <= ONE_CLOCK_NS
    total = (together * gain).sum(axis=1)
    best = int(total.argmax())
    others = np.abs(shift - shift[best]) > 2 * ONE_CLOCK_NS
    second = float(total[others].max(initial=0))
    margin = float(total[best]) - second
    if margin < MARGIN or total[best] < clear * second:
        return None
    strongest = int(np.where(together[best], gain, -1).argmax())
    return margin, said[strongest][2], said[strongest][3]


def _beyond(found: Evidence, one: Explained, other: Explained) -> float:
    """What ends that agree better than starts speak beyond what the known partners explain.

    A transfer has one partner; a collective may have more, which go together with it as well.
    """
    gain = 0.0
    for axis, known in ((1, one), (0, other)):
        side = found.told.max(axis=axis, initial=0)
        more = np.where(side >= AS_GOOD * known.told, side, 0.0)
        more[known.transfers] = np.maximum(side - known.told, 0)[known.transfers]
        gain += float(more.sum())
    return gain


def _as_good(found: Evidence, one: Explained, other: Explained) -> float:
    """What they speak for partners that go together nearly as well as the known ones."""
    sides = _sides(found.told, one.told, other.told)
    return float(sum(side[side >= AS_GOOD * known].sum() for side, known in sides))


def _together(found: Evidence, one: Explained, other: Explained) -> float:
    """What all ends that agree speak, whatever the starts do."""
    return best_of(found.whole)


def _sides(table: F64, one: F64, other: F64) -> tuple[tuple[F64, F64], tuple[F64, F64]]:
    return (table.max(axis=1, initial=0), one), (table.max(axis=0, initial=0), other)


def _between_roots(one: ClockDifference, ahead: ClockDifference, other: ClockDifference) -> float:
    """How far the clock that ``one`` counts from is ahead of that of the ``other``, ns."""
    return ahead.offset_ns - _at(one, ahead.at_ns) + _at(other, ahead.at_ns - ahead.offset_ns)


def _at(ahead: ClockDifference, time_ns: float) -> float:
    return ahead.offset_ns + (time_ns - ahead.at_ns) * ahead.rate


def _join(known: list[tuple[int, ClockDifference]], pair: HostPair, ahead: ClockDifference) -> None:
    """Count the clocks of all that the first host is linked to from where the other's count."""
    root, own = known[pair.one]
    home, there = known[pair.other]
    over = chained(_reversed(own), chained(ahead, there))
    for index, (other_root, clock) in enumerate(known):
        if other_root == root:
            known[index] = home, chained(clock, over)


def chained(ahead: ClockDifference, other: ClockDifference) -> ClockDifference:
    """How far a clock is ahead of a third, being ``ahead`` of one that is by ``other``."""
    then = ahead.at_ns - round(ahead.offset_ns)
    return ClockDifference(ahead.offset_ns + _at(other, then), ahead.rate + other.rate, ahead.at_ns)


def _reversed(ahead: ClockDifference) -> ClockDifference:
    return ClockDifference(-ahead.offset_ns, -ahead.rate, ahead.at_ns - round(ahead.offset_ns))


def inside(host: HostCalls) -> Explained:
    """What each queue speaks together with its best partner on its own host."""
    found = evidence(host.sample(FINE), host, host, ClockDifference(0.0, 0.0, 0))
    told, whole = found.told.max(axis=1, initial=0), found.whole.max(axis=1, initial=0)
    return Explained(told, whole, host.transfers)


def _explain(
    hosts: Sequence[HostCalls],
    pairs: Sequence[HostPair],
    known: Sequence[tuple[int, ClockDifference]],
    explained: list[Explained],
) -> None:
    """Let queues find their partners on all hosts that are linked by now."""
    for pair in pairs:
        if known[pair.one][0] == known[pair.other][0]:
            found = _told(hosts, pair, known)
            for index, axis in ((pair.one, 1), (pair.other, 0)):
                explained[index] = explained[index].with_partners(found, axis)


def _told(
    hosts: Sequence[HostCalls], pair: HostPair, known: Sequence[tuple[int, ClockDifference]]
) -> Evidence:
    host, other = hosts[pair.one], hosts[pair.other]
    ahead = difference_between(known[pair.one][1], known[pair.other][1])
    return evidence(host.sample(FINE), host, other, ahead)
