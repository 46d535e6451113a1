"""Estimate the clock differences of hosts where no file names a communicator.

Hosts are linked one after another, the clearest clock difference first. The evidence of a stream
for a new partner counts only where it exceeds that for its known partners: a pipeline stage
resembles the next one shifted in time, but the true partners of its streams are elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Final

import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.reductions import distinct_values, median_along
from ccltui.metrics.arrays.typical import UNKNOWN_ERROR, Z_99, slopes
from ccltui.metrics.collectives.clocks.clock_estimate import (
    Observation,
    PairEquations,
    standard_errors,
)
from ccltui.metrics.collectives.implied.stream_evidence import (
    FEWEST,
    FINE,
    Evidence,
    HostCalls,
    HostPair,
    Option,
    Queue,
    evidence,
    options_of,
)
from ccltui.metrics.collectives.matching.align_calls import ClockDifference, difference_between
from ccltui.metrics.collectives.matching.match import MatchInput
from ccltui.metrics.collectives.matching.validity import ONE_CLOCK_NS
from ccltui.parsers.array_types import F64, I64, Bool

CLEAR: Final = 1.25
"""A clock difference is accepted with this many times the evidence of any other."""
CLEARER: Final = 1.5
"""The same for evidence that does not exceed that of known partners."""
MARGIN: Final = 12.0
"""Least difference of the evidence, in the unit of ``log_gain``, a natural logarithm."""
AS_GOOD: Final = 0.7
"""Share of the evidence of the best known partner from which on a partner is nearly as good."""


class PartnerScores(Struct, frozen=True):
    """Evidence of each queue of a host with its best known partner, as in `Evidence`.

    ``transfers`` marks queues of sends and receives.
    """

    log_gain: F64
    total: F64
    transfers: Bool

    def with_partners(self, found: Evidence, side: int) -> PartnerScores:
        """Return the scores with found partners; ``side``: 0 for the first host of the evidence."""
        log_gain = np.maximum(self.log_gain, found.log_gain[side])
        total = np.maximum(self.total, found.total[side])
        if np.array_equal(log_gain, self.log_gain) and np.array_equal(total, self.total):
            return self  # so that what was computed with these scores stays
        return PartnerScores(log_gain, total, self.transfers)


Links = dict[tuple[int, int], tuple[float, HostPair, Option]]
_Gain = Callable[[HostPair, PartnerScores, PartnerScores], F64]


class _ClearLinks:
    """Clear clock differences of pairs of linked sets of hosts, by one kind of gain.

    They stay until one of the two sets is joined with another: few sets are joined in a round, and
    only the clocks and scores of their hosts change.
    """

    def __init__(self, gain_of: _Gain, clear: float, roots: Sequence[int]) -> None:
        self._gain_of = gain_of
        self._clear = clear
        self._changed = set(roots)
        self._found: Links = {}
        self._gains: dict[HostPair, tuple[PartnerScores, PartnerScores, list[float]]] = {}

    def forget(self, roots: Sequence[int]) -> None:
        """Find the differences of some sets of hosts again."""
        self._changed.update(roots)

    def among(
        self,
        pairs: Sequence[HostPair],
        known: Sequence[tuple[int, ClockDifference]],
        scores: Sequence[PartnerScores],
    ) -> Links:
        """Return for pairs of sets the clear difference: margin, host pair, option.

        Args:
            pairs: Pairs of hosts that are not linked.
            known: Root and clock of each host.
            scores: Evidence of each host with its known partners.
        """
        changed = self._changed
        self._found = {key: one for key, one in self._found.items() if changed.isdisjoint(key)}
        for key, options in self._options(pairs, known, scores).items():
            clear = _clearest(options, self._clear)
            if clear is not None:
                self._found[key] = clear
        self._changed = set()
        return self._found

    def _options(
        self,
        pairs: Sequence[HostPair],
        known: Sequence[tuple[int, ClockDifference]],
        scores: Sequence[PartnerScores],
    ) -> dict[tuple[int, int], list[tuple[float, float, HostPair, Option]]]:
        """Return the options of pairs of sets that changed, those of all their hosts together."""
        found: dict[tuple[int, int], list[tuple[float, float, HostPair, Option]]] = {}
        for pair in pairs:
            one, other = known[pair.one], known[pair.other]
            if not pair.options or self._changed.isdisjoint((one[0], other[0])):
                continue
            gains = self._gains_of(pair, scores[pair.one], scores[pair.other])
            for option, gain in zip(pair.options, gains, strict=True):
                if gain > 0:
                    apart = _between_roots(one[1], option.ahead, other[1])
                    here, there = (one[0], other[0])
                    if here > there:
                        here, there, apart = there, here, -apart
                    found.setdefault((here, there), []).append((apart, gain, pair, option))
        return found

    def _gains_of(self, pair: HostPair, one: PartnerScores, other: PartnerScores) -> list[float]:
        """Return the gain of each option of a pair, anew where the scores of a host changed."""
        kept = self._gains.get(pair)
        if kept is None or kept[0] is not one or kept[1] is not other:
            kept = one, other, self._gain_of(pair, one, other).tolist()
            self._gains[pair] = kept
        return kept[2]


def linked(
    hosts: Sequence[HostCalls], pairs: Sequence[HostPair], host_scores: list[PartnerScores]
) -> list[tuple[int, ClockDifference]]:
    """Return for each host the root host that it is linked to, and its clock difference to it."""
    scores, apart = host_scores, pairs
    known = [
        (index, ClockDifference(0.0, 0.0, int(host.first_ns[0])))
        for index, host in enumerate(hosts)
    ]
    kinds = [
        _ClearLinks(gain_of, clear, range(len(hosts)))
        for gain_of, clear in (
            (_gains_beyond_known, CLEAR),
            (_gains_as_good, CLEARER),
            (_gains_of_all, CLEARER),
        )
    ]
    while True:
        links: Links = {}
        for kind in kinds:
            links = links or kind.among(apart, known, scores)
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
            for kind in kinds:
                kind.forget(key)
        _update_scores(hosts, apart, known, scores)
        apart = [pair for pair in apart if known[pair.one][0] != known[pair.other][0]]


def _clearest(
    options: Sequence[tuple[float, float, HostPair, Option]], clear: float
) -> tuple[float, HostPair, Option] | None:
    shift = np.array([one[0] for one in options])
    gain = np.array([one[1] for one in options])
    together = np.abs(shift[:, np.newaxis] - shift) <= ONE_CLOCK_NS
    total = (together * gain).sum(axis=1)
    best = int(total.argmax())
    others = np.abs(shift - shift[best]) > 2 * ONE_CLOCK_NS
    second = float(total[others].max(initial=0))
    margin = float(total[best]) - second
    if margin < MARGIN or total[best] < clear * second:
        return None
    strongest = int(np.where(together[best], gain, -1).argmax())
    return margin, options[strongest][2], options[strongest][3]


def _gains_beyond_known(pair: HostPair, one: PartnerScores, other: PartnerScores) -> F64:
    """Return the log gain of each option beyond that of the known partners.

    A transfer has one partner, so only the excess counts; a collective may have several partners
    with nearly equal evidence, which count in full.
    """
    gains = np.zeros(len(pair.options))
    for side, known in zip(pair.log_gains, (one, other), strict=True):
        more = np.where(side >= AS_GOOD * known.log_gain, side, 0.0)
        if known.transfers.any():
            excess = np.maximum(side - known.log_gain, 0)
            more = np.where(known.transfers, excess, more)
        gains += more.sum(axis=1)
    return gains


def _gains_as_good(pair: HostPair, one: PartnerScores, other: PartnerScores) -> F64:
    """Return the log gain of each option with partners nearly as good as the known ones."""
    gains = np.zeros(len(pair.options))
    for side, known in zip(pair.log_gains, (one, other), strict=True):
        gains += [gain[gain >= AS_GOOD * known.log_gain].sum() for gain in side]
    return gains


def _gains_of_all(pair: HostPair, one: PartnerScores, other: PartnerScores) -> F64:
    """Return the total evidence of each option, independent of known partners."""
    return np.array([option.found.sum for option in pair.options])


def _between_roots(one: ClockDifference, ahead: ClockDifference, other: ClockDifference) -> float:
    """Return how far the root clock of ``one`` is ahead of that of ``other``, ns."""
    return ahead.offset_ns - _at(one, ahead.at_ns) + _at(other, ahead.at_ns - ahead.offset_ns)


def _at(ahead: ClockDifference, time_ns: float) -> float:
    return ahead.offset_ns + (time_ns - ahead.at_ns) * ahead.rate


def _join(known: list[tuple[int, ClockDifference]], pair: HostPair, ahead: ClockDifference) -> None:
    """Re-express the clocks of all hosts linked to the first one against the root of the other."""
    root, own = known[pair.one]
    home, there = known[pair.other]
    over = added(_reversed(own), added(ahead, there))
    for index, (other_root, clock) in enumerate(known):
        if other_root == root:
            known[index] = home, added(clock, over)


def added(ahead: ClockDifference, other: ClockDifference) -> ClockDifference:
    """Add two clock differences: of a clock to a second one, and of that to a third one."""
    then = ahead.at_ns - round(ahead.offset_ns)
    return ClockDifference(ahead.offset_ns + _at(other, then), ahead.rate + other.rate, ahead.at_ns)


def _reversed(ahead: ClockDifference) -> ClockDifference:
    return ClockDifference(-ahead.offset_ns, -ahead.rate, ahead.at_ns - round(ahead.offset_ns))


def scores_on_host(host: HostCalls) -> PartnerScores:
    """Return the evidence of each queue with its best partner on its own host."""
    found = evidence(host.sample(FINE), host, host, ClockDifference(0.0, 0.0, 0))
    return PartnerScores(found.log_gain[0], found.total[0], host.transfers)


def _update_scores(
    hosts: Sequence[HostCalls],
    pairs: Sequence[HostPair],
    known: Sequence[tuple[int, ClockDifference]],
    scores: list[PartnerScores],
) -> None:
    """Update the scores with partners on the hosts that are linked now.

    ``pairs`` were apart before: the clock difference of two hosts does not change once they are
    linked, and neither does their evidence.
    """
    for pair in pairs:
        if known[pair.one][0] == known[pair.other][0]:
            found = _evidence_between(hosts, pair, known)
            for side, index in enumerate((pair.one, pair.other)):
                scores[index] = scores[index].with_partners(found, side)


def _evidence_between(
    hosts: Sequence[HostCalls], pair: HostPair, known: Sequence[tuple[int, ClockDifference]]
) -> Evidence:
    host, other = hosts[pair.one], hosts[pair.other]
    ahead = difference_between(known[pair.one][1], known[pair.other][1])
    return evidence(host.sample(FINE), host, other, ahead)


ROUNDS: Final = 2
REWEIGHTINGS: Final = 8
"""Number of refinements of drift and offset, and of reweightings inside each."""
LEAST_WEIGHT: Final = 1e-12
"""Least weight of an observation over the largest: rounded times agree exactly here and not at all
there, and equations whose weights are further apart are singular in doubles."""
MAX_CALLS: Final = 64
SHARPEST_NS: Final = 500.0
"""Least scatter of ends."""


def refined(
    hosts: Sequence[HostCalls],
    pairs: Sequence[HostPair],
    known: list[tuple[int, ClockDifference]],
    scores: Sequence[PartnerScores],
) -> list[tuple[int, ClockDifference]]:
    """Return the clocks refined from all pairs of linked hosts, weighted by 1 / scatter^2."""
    count = len(hosts)
    linked = [pair for pair in pairs if known[pair.one][0] == known[pair.other][0]]
    for pass_number in range(2 * ROUNDS):
        observe = _offset_of if pass_number % 2 else _drift_of
        observed = [
            one for pair in linked for one in _observations(hosts, pair, known, scores, observe)
        ]
        if pass_number % 2:
            known = _changed(known, _solved(observed, count), np.zeros(count))
        else:
            known = _changed(known, np.zeros(count), _drifting(observed, count))
    return known


def _changed(
    known: Sequence[tuple[int, ClockDifference]], offsets_ns: F64, rates: F64
) -> list[tuple[int, ClockDifference]]:
    return [
        (root, ClockDifference(one.offset_ns + offset, one.rate + rate / 1e9, one.at_ns))
        for (root, one), offset, rate in zip(known, offsets_ns, rates, strict=True)
    ]


def _drifting(drifts: Sequence[Observation], count: int) -> F64:
    """Return the remaining drifts whose 99 % interval excludes 0, else 0; ns per s."""
    rates = _solved(drifts, count)
    number = np.bincount([i for one in drifts for i in one.members.tolist()], minlength=count)
    # the scatter of one host's ends is in all of its pairs, whose errors are correlated
    errors = standard_errors(drifts, count) * np.sqrt(number)
    return np.where(np.abs(rates) > Z_99 * errors, rates, 0.0)


def _solved(observations: Sequence[Observation], count: int) -> F64:
    """Solve by reweighted least squares: observations with large residuals weigh less.

    weight factor = 1 / (1 + (residual / median residual)^2)
    """
    if not observations:
        return np.zeros(count)
    equations = PairEquations.of(observations, count)
    given = np.array([one.weight for one in observations])
    values = equations.solve(given)
    for _ in range(REWEIGHTINGS):
        rest = np.ptp(equations.values - values[equations.members], axis=1)
        usual = max(float(median_along(rest)), 1.0)
        weight = given / (1 + (rest / usual) ** 2)
        values = equations.solve(np.maximum(weight, LEAST_WEIGHT * weight.max()))
    return values


_Observed = tuple[float, float]
"""A value, and its weight."""


def _observations(
    hosts: Sequence[HostCalls],
    pair: HostPair,
    known: Sequence[tuple[int, ClockDifference]],
    scores: Sequence[PartnerScores],
    observe: Callable[[I64, F64], _Observed | None],
) -> list[Observation]:
    """Return what ends of two hosts tell of their clock difference, one observation per queue.

    Args:
        hosts: All hosts.
        pair: The two.
        known: Root and clock of each host.
        scores: Evidence of each host with its known partners.
        observe: Returns the value and its weight, None for none, from the time since the start of
            the first host's clock and the remaining difference of each call, ns.
    """
    host, other = hosts[pair.one], hosts[pair.other]
    ahead = difference_between(known[pair.one][1], known[pair.other][1])
    least = AS_GOOD * scores[pair.one].total, AS_GOOD * scores[pair.other].total
    found = evidence(host.sample(MAX_CALLS), host, other, ahead, least)
    members = np.array([pair.one, pair.other])
    observed = []
    for queue in distinct_values(found.queue).tolist():
        here = found.queue == queue
        own = found.own_ns[here]
        if len(own) < FEWEST:
            continue
        rest = (own - ahead.of(own) - found.other_ns[here]).astype(np.float64)
        one = observe(own - known[pair.one][1].at_ns, rest)
        if one is not None:
            observed.append(Observation(members, np.array([one[0], 0.0]), one[1]))
    return observed


def _offset_of(since_ns: I64, rest_ns: F64) -> _Observed:
    """Return the remaining clock difference, ns."""
    middle = float(median_along(rest_ns))
    scatter = float(median_along(np.abs(rest_ns - middle))) + SHARPEST_NS
    return middle, len(rest_ns) / scatter**2


def _drift_of(since_ns: I64, rest_ns: F64) -> _Observed | None:
    """Return the remaining drift, ns per s."""
    rate, error = slopes(since_ns / 1e9, rest_ns[:, np.newaxis])
    return None if error[0] >= UNKNOWN_ERROR else (float(rate[0]), 1 / float(error[0]) ** 2)


MAX_PAIRS: Final = 600
"""Up to this number of pairs, all pairs of hosts are compared."""
FEWEST_LINKS: Final = 6
"""Least number of hosts that each host is compared with."""


class RankClock(Struct, frozen=True):
    """Offset of a rank's clock ahead of the clock of the rank ``of`` (an index of the inputs)."""

    ahead: ClockDifference
    of: int


def stream_clocks(inputs: Sequence[MatchInput], queues: Sequence[Queue]) -> dict[int, RankClock]:
    """Return the clock of each rank that has queues, against the first rank linked to it."""
    hosts = _hosts(inputs, queues)
    pairs = [HostPair(a, b, options_of(hosts[a], hosts[b])) for a, b in _compared_pairs(len(hosts))]
    scores = [scores_on_host(host) for host in hosts]
    known = linked(hosts, pairs, scores)
    known = refined(hosts, pairs, known, scores)
    first: dict[int, int] = {}
    for index, (root, _) in enumerate(known):
        first.setdefault(root, index)
    clocks: dict[int, RankClock] = {}
    for host, (root, ahead) in zip(hosts, known, strict=True):
        base = first[root]
        own = difference_between(ahead, known[base][1])
        for owner in host.owners:
            clocks[owner] = RankClock(own, hosts[base].owners[0])
    return clocks


def _hosts(inputs: Sequence[MatchInput], queues: Sequence[Queue]) -> list[HostCalls]:
    """Group the queues by host; a rank of unknown host is a host of its own."""
    found: dict[str | int, list[Queue]] = {}
    for queue in queues:
        found.setdefault(inputs[queue.owner].host or queue.owner, []).append(queue)
    return [HostCalls(number, tuple(part)) for number, part in enumerate(found.values())]


def _compared_pairs(count: int) -> list[tuple[int, int]]:
    """Return the pairs of hosts to compare: all, or of many hosts near and some distant ones."""
    every = list(combinations(range(count), 2))
    if len(every) <= MAX_PAIRS:
        return every
    links = max(MAX_PAIRS // count, FEWEST_LINKS)
    steps = distinct_values(np.geomspace(1, count / 2, links).astype(np.int64)).tolist()
    return sorted({tuple(sorted((i, (i + s) % count))) for i in range(count) for s in steps})
