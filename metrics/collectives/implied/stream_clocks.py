"""Estimate the clock differences of hosts where no file names a communicator.

Hosts are linked one after another, the clearest clock difference first. The evidence of a stream
for a new partner counts only where it exceeds that for its known partners: a pipeline stage
resembles the next one shifted in time, but the true partners of its streams are elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations, pairwise
from typing import Final

import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.compiled import has_near_ends
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
    """Evidence of each queue of all hosts with its best known partner, as in `Evidence`.

    ``transfers`` marks queues of sends and receives; ``first`` is the first queue of each host,
    and their number.
    """

    log_gain: F64
    total: F64
    transfers: Bool
    first: I64

    @classmethod
    def on_hosts(cls, hosts: Sequence[HostCalls]) -> PartnerScores:
        """Return the evidence of each queue with its best partner on its own host."""
        none = ClockDifference(0.0, 0.0, 0)
        found = [evidence(host.sample(FINE), host, host, none) for host in hosts]
        return cls(
            np.concatenate([np.empty(0), *(one.log_gain[0] for one in found)]),
            np.concatenate([np.empty(0), *(one.total[0] for one in found)]),
            np.concatenate([np.empty(0, np.bool_), *(host.transfers for host in hosts)]),
            np.cumsum([0, *(len(host.queues) for host in hosts)], dtype=np.int64),
        )

    def of(self, host: int) -> slice:
        """Return where the queues of a host are."""
        return slice(int(self.first[host]), int(self.first[host + 1]))

    def add(self, found: Evidence, hosts: tuple[int, int]) -> None:
        """Count the partners that the queues of two hosts have found."""
        for side, host in enumerate(hosts):
            here = self.of(host)
            np.maximum(self.log_gain[here], found.log_gain[side], out=self.log_gain[here])
            np.maximum(self.total[here], found.total[side], out=self.total[here])


class Options(Struct, frozen=True):
    """The clock differences of pairs of hosts, one after another.

    Attributes:
        pairs: All pairs of hosts.
        pair: Of each difference, index of its pair.
        place: Likewise, which of those of its pair it is.
        offset_ns: Likewise.
        at_ns: Likewise.
        total: Likewise, all evidence.
        gain: ``log_gain`` of each difference and queue of either host, float64 [v].
        queue: Likewise, the queue among those of all hosts.
        side: Likewise, twice the index of the difference, and 1 more for the other host.
    """

    pairs: Sequence[HostPair]
    pair: I64
    place: I64
    offset_ns: F64
    at_ns: I64
    total: F64
    gain: F64
    queue: I64
    side: I64

    @classmethod
    def of(cls, pairs: Sequence[HostPair], first: I64) -> Options:
        """Return those of some pairs; ``first`` as in `PartnerScores`."""
        counts = np.array([len(pair.ahead) for pair in pairs], np.int64)
        hosts = np.array([(pair.one, pair.other) for pair in pairs], np.int64).reshape(-1, 2)
        number = np.arange(counts.sum())
        pair = np.repeat(np.arange(len(pairs)), counts)
        sizes = np.diff(first)[hosts[pair]].ravel()  # of either side of each difference
        begins = np.cumsum(sizes) - sizes
        side = np.repeat(np.arange(len(sizes)), sizes)
        total = np.concatenate([np.empty(0), *(one.total.ravel() for one in pairs)])
        sums = np.bincount(side, total, len(sizes))
        return cls(
            pairs,
            pair,
            number - (np.cumsum(counts) - counts)[pair],
            np.array([one.offset_ns for pair in pairs for one in pair.ahead], np.float64),
            np.array([one.at_ns for pair in pairs for one in pair.ahead], np.int64),
            np.asarray(sums[::2] + sums[1::2], np.float64),
            np.concatenate([np.empty(0), *(one.log_gain.ravel() for one in pairs)]),
            np.arange(len(side)) - begins[side] + first[hosts[pair]].ravel()[side],
            side,
        )

    def among(self, chosen: Bool) -> Options:
        """Return the differences of a mask of the pairs."""
        kept = chosen[self.pair]
        values = kept[self.side >> 1]
        number = np.cumsum(kept) - 1
        side = self.side[values]
        return Options(
            self.pairs,
            self.pair[kept],
            self.place[kept],
            self.offset_ns[kept],
            self.at_ns[kept],
            self.total[kept],
            self.gain[values],
            self.queue[values],
            2 * number[side >> 1] + (side & 1),
        )

    def summed(self, values: F64) -> F64:
        """Return the sum over the queues of both hosts for each difference."""
        sums = np.bincount(self.side, values, 2 * len(self.pair))
        return np.asarray(sums[::2] + sums[1::2])


Links = dict[tuple[int, int], tuple[float, int, ClockDifference]]
"""By pair of roots the margin, the index of a pair of hosts and their clock difference."""
_Gain = Callable[[Options, PartnerScores], F64]


class _Known(Struct, frozen=True):
    """Root of each host, and its clock against that of the root, as arrays."""

    root: I64
    offset_ns: F64
    rate: F64
    at_ns: I64

    @classmethod
    def of(cls, known: Sequence[tuple[int, ClockDifference]]) -> _Known:
        return cls(
            np.array([root for root, _ in known], np.int64),
            np.array([one.offset_ns for _, one in known], np.float64),
            np.array([one.rate for _, one in known], np.float64),
            np.array([one.at_ns for _, one in known], np.int64),
        )

    def at(self, hosts: I64, times_ns: I64 | F64) -> F64:
        """Return how far clocks are ahead at times, ns."""
        since = times_ns - self.at_ns[hosts]
        return np.asarray(self.offset_ns[hosts] + since * self.rate[hosts])

    def rounded(self, hosts: I64, times_ns: I64) -> I64:
        """Return the same in whole ns, as `ClockDifference.of` does."""
        drifted = np.rint((times_ns - self.at_ns[hosts]) * self.rate[hosts])
        return np.rint(self.offset_ns).astype(np.int64)[hosts] + drifted.astype(np.int64)


class _ClearLinks:
    """Clear clock differences of pairs of linked sets of hosts, by one kind of gain.

    They stay until one of the two sets is joined with another: few sets are joined in a round, and
    only the clocks and scores of their hosts change.
    """

    def __init__(self, gain_of: _Gain, clear: float, count: int) -> None:
        self._gain_of = gain_of
        self._clear = clear
        self._changed = np.ones(count, np.bool_)
        self._found: Links = {}

    def forget(self, roots: Sequence[int]) -> None:
        """Find the differences of some sets of hosts again."""
        self._changed[list(roots)] = True

    def among(self, options: Options, hosts: I64, known: _Known, scores: PartnerScores) -> Links:
        """Return for pairs of sets the clear difference.

        Args:
            options: Those of all pairs of hosts.
            hosts: Of each pair, int64 [n, 2].
            known: Clock of each host.
            scores: Evidence of each queue with its known partners.
        """
        changed = self._changed.tolist()
        self._found = {
            key: one for key, one in self._found.items() if not (changed[key[0]] or changed[key[1]])
        }
        root = known.root[hosts]
        anew = self._changed[root].any(axis=1) & (root[:, 0] != root[:, 1])
        some = options.among(anew)
        if len(some.pair):
            self._found.update(self._clear_ones(some, hosts, known, scores))
        self._changed[:] = False
        return self._found

    def _clear_ones(
        self, options: Options, hosts: I64, known: _Known, scores: PartnerScores
    ) -> Links:
        """Return the clear differences among those of all hosts of two sets together."""
        gain = self._gain_of(options, scores)
        one, other = hosts[options.pair].T
        # how far the clock of one root is ahead of that of the other
        then = options.at_ns - options.offset_ns
        apart = options.offset_ns - known.at(one, options.at_ns) + known.at(other, then)
        root, there = known.root[one], known.root[other]
        apart = np.where(root > there, -apart, apart)
        key = np.minimum(root, there) * len(known.root) + np.maximum(root, there)
        rows = np.flatnonzero(gain > 0)
        rows = rows[np.lexsort((apart[rows], key[rows]))]
        first = np.append(np.flatnonzero(np.diff(key[rows], prepend=-1)), len(rows))
        found: Links = {}
        for margin, at in _clear_differences(apart, gain, rows, first, self._clear):
            pair = int(options.pair[at])
            ahead = options.pairs[pair].ahead[options.place[at]]
            found[divmod(int(key[at]), len(known.root))] = margin, pair, ahead
        return found


def linked(
    hosts: Sequence[HostCalls], pairs: Sequence[HostPair], scores: PartnerScores
) -> list[tuple[int, ClockDifference]]:
    """Return for each host the root host that it is linked to, and its clock difference to it.

    The scores become those of all hosts that are linked.
    """
    known = [
        (index, ClockDifference(0.0, 0.0, int(host.first_ns[0])))
        for index, host in enumerate(hosts)
    ]
    kinds = [
        _ClearLinks(gain_of, clear, len(hosts))
        for gain_of, clear in (
            (_gains_beyond_known, CLEAR),
            (_gains_as_good, CLEARER),
            (_gains_of_all, CLEARER),
        )
    ]
    options = Options.of(pairs, scores.first)
    sides = np.array([(pair.one, pair.other) for pair in pairs], np.int64).reshape(-1, 2)
    apart = pairs
    while True:
        links: Links = {}
        clocks = _Known.of(known)
        for kind in kinds:
            links = links or kind.among(options, sides, clocks, scores)
        best: dict[int, tuple[float, int, int]] = {}
        for (one, other), (margin, _, _) in links.items():
            for root in (one, other):
                best[root] = max(best.get(root, (0.0, -1, -1)), (margin, one, other))
        joined = [key for key in links if best[key[0]][1:] == key == best[key[1]][1:]]
        if not joined:
            return known
        for key in joined:
            _, number, ahead = links[key]
            _join(known, pairs[number], ahead)
            for kind in kinds:
                kind.forget(key)
        _update_scores(hosts, apart, known, scores)
        apart = [pair for pair in apart if known[pair.one][0] != known[pair.other][0]]


def _clear_differences(
    shift: F64, gain: F64, rows: I64, first: I64, clear: float
) -> list[tuple[float, int]]:
    """Return margin and index of the clearest difference of each group that has a clear one.

    Args:
        shift: Differences.
        gain: Their gains.
        rows: Indices of the differences of each group, in ascending order of these.
        first: Index into ``rows`` of the first of each group, and the number of all.
        clear: How many times the gain of any other one it has.
    """
    if has_near_ends():
        from ccltui.metrics.arrays import _near_ends  # noqa: PLC0415 - not built everywhere

        compiled: list[tuple[float, int]] = _near_ends.clear_differences(
            shift, gain, rows, first, ONE_CLOCK_NS, MARGIN, clear
        )
        return compiled
    groups = (np.sort(rows[begin:stop]) for begin, stop in pairwise(first.tolist()))
    found = (_clearest(shift, gain, group, clear) for group in groups)
    return [one for one in found if one is not None]


def _clearest(shift: F64, gain: F64, rows: I64, clear: float) -> tuple[float, int] | None:
    """Return the same of one group, None where none is clear."""
    shift, gain = shift[rows], gain[rows]
    together = np.abs(shift[:, np.newaxis] - shift) <= ONE_CLOCK_NS
    total = (together * gain).sum(axis=1)
    best = int(total.argmax())
    others = np.abs(shift - shift[best]) > 2 * ONE_CLOCK_NS
    second = float(total[others].max(initial=0))
    margin = float(total[best]) - second
    if margin < MARGIN or total[best] < clear * second:
        return None
    return margin, int(rows[np.where(together[best], gain, -1).argmax()])


def _gains_beyond_known(options: Options, known: PartnerScores) -> F64:
    """Return the log gain of each option beyond that of the known partners.

    A transfer has one partner, so only the excess counts; a collective may have several partners
    with nearly equal evidence, which count in full.
    """
    gain, before = options.gain, known.log_gain[options.queue]
    more = np.where(gain >= AS_GOOD * before, gain, 0.0)
    excess = np.maximum(gain - before, 0)
    return options.summed(np.where(known.transfers[options.queue], excess, more))


def _gains_as_good(options: Options, known: PartnerScores) -> F64:
    """Return the log gain of each option with partners nearly as good as the known ones."""
    as_good = options.gain >= AS_GOOD * known.log_gain[options.queue]
    return options.summed(np.where(as_good, options.gain, 0.0))


def _gains_of_all(options: Options, known: PartnerScores) -> F64:
    """Return the total evidence of each option, independent of known partners."""
    return options.total


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


def _update_scores(
    hosts: Sequence[HostCalls],
    pairs: Sequence[HostPair],
    known: Sequence[tuple[int, ClockDifference]],
    scores: PartnerScores,
) -> None:
    """Update the scores with partners on the hosts that are linked now.

    ``pairs`` were apart before: the clock difference of two hosts does not change once they are
    linked, and neither does their evidence.
    """
    for pair in pairs:
        if known[pair.one][0] == known[pair.other][0]:
            host, other = hosts[pair.one], hosts[pair.other]
            ahead = difference_between(known[pair.one][1], known[pair.other][1])
            scores.add(evidence(host.sample(FINE), host, other, ahead), (pair.one, pair.other))


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
    scores: PartnerScores,
) -> list[tuple[int, ClockDifference]]:
    """Return the clocks refined from all pairs of linked hosts, weighted by 1 / scatter^2."""
    count = len(hosts)
    linked = [pair for pair in pairs if known[pair.one][0] == known[pair.other][0]]
    for pass_number in range(2 * ROUNDS):
        ends = _Ends.of(hosts, linked, known, scores)
        if pass_number % 2:
            known = _changed(known, _solved(_offsets_of(ends), count), np.zeros(count))
        else:
            known = _changed(known, np.zeros(count), _drifting(_drifts_of(ends), count))
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


class _Ends(Struct, frozen=True):
    """What ends of two hosts tell of their clock difference, for each queue of a linked pair.

    Attributes:
        members: The two hosts of each queue, int64 [n, 2].
        first: Index of the first call of each, and the number of all.
        since_ns: Of each call, the time since the start of the first host's clock.
        rest_ns: Likewise, the remaining difference.
    """

    members: I64
    first: I64
    since_ns: I64
    rest_ns: F64

    @classmethod
    def of(
        cls,
        hosts: Sequence[HostCalls],
        pairs: Sequence[HostPair],
        known: Sequence[tuple[int, ClockDifference]],
        scores: PartnerScores,
    ) -> _Ends:
        """Compare the ends of linked hosts, of queues with at least ``FEWEST`` of them."""
        least = AS_GOOD * scores.total
        most = 1 + int(np.diff(scores.first).max(initial=0))
        parts: list[tuple[I64, I64, I64]] = []
        clocks = []
        for number, pair in enumerate(pairs):
            host, other = hosts[pair.one], hosts[pair.other]
            ahead = difference_between(known[pair.one][1], known[pair.other][1])
            enough = least[scores.of(pair.one)], least[scores.of(pair.other)]
            found = evidence(host.sample(MAX_CALLS), host, other, ahead, enough)
            parts.append((found.own_ns, found.other_ns, number * most + found.queue))
            clocks.append((pair.one, ahead))
        none = np.empty(0, np.int64)
        own, end, key = (
            np.concatenate(one) for one in zip((none, none, none), *parts, strict=True)
        )
        first = np.flatnonzero(np.diff(key, prepend=-1))
        sizes = np.diff(first, append=len(key))
        enough_calls = sizes >= FEWEST
        kept = np.repeat(enough_calls, sizes)
        pair_of = key[kept] // most
        ahead_of = _Known.of(clocks)
        rest = own[kept] - ahead_of.rounded(pair_of, own[kept]) - end[kept]
        begin = np.array([known[pair.one][1].at_ns for pair in pairs], np.int64)
        both = np.array([(pair.one, pair.other) for pair in pairs], np.int64).reshape(-1, 2)
        return cls(
            both[key[first[enough_calls]] // most],
            np.append(0, np.cumsum(sizes[enough_calls])),
            own[kept] - begin[pair_of],
            rest.astype(np.float64),
        )


def _offsets_of(ends: _Ends) -> list[Observation]:
    """Return the remaining clock differences, ns."""
    sizes = np.diff(ends.first)
    of = np.repeat(np.arange(len(sizes)), sizes)
    middle = _medians(ends.rest_ns, of, ends.first)
    scatter = _medians(np.abs(ends.rest_ns - middle[of]), of, ends.first) + SHARPEST_NS
    return [
        Observation(pair, np.array([value, 0.0]), weight)
        for pair, value, weight in zip(
            ends.members, middle.tolist(), (sizes / scatter**2).tolist(), strict=True
        )
    ]


def _medians(values: F64, group: I64, first: I64) -> F64:
    """Return the median of the values of each group, which are side by side."""
    ordered = values[np.lexsort((values, group))]
    begin, sizes = first[:-1], np.diff(first)
    return np.asarray((ordered[begin + (sizes - 1) // 2] + ordered[begin + sizes // 2]) / 2)


def _drifts_of(ends: _Ends) -> list[Observation]:
    """Return the remaining drifts, ns per s."""
    observed = []
    for pair, (begin, stop) in zip(ends.members, pairwise(ends.first.tolist()), strict=True):
        rest = ends.rest_ns[begin:stop, np.newaxis]
        rate, error = slopes(ends.since_ns[begin:stop] / 1e9, rest)
        if error[0] < UNKNOWN_ERROR:
            values = np.array([float(rate[0]), 0.0])
            observed.append(Observation(pair, values, 1 / float(error[0]) ** 2))
    return observed


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
    pairs = [options_of(hosts[a], hosts[b]) for a, b in _compared_pairs(len(hosts))]
    scores = PartnerScores.on_hosts(hosts)
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
