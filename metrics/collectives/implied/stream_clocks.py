"""Estimate the clock differences of hosts where no file names a communicator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np
from msgspec.structs import replace

from ccltui.metrics.arrays.reductions import distinct_values, median_along
from ccltui.metrics.arrays.theil_sen import UNKNOWN_ERROR, Z_99, slopes
from ccltui.metrics.collectives.clocks.offsets import Observation, solve, standard_errors
from ccltui.metrics.collectives.implied.stream_evidence import FEWEST, HostCalls, Queue, evidence
from ccltui.metrics.collectives.implied.stream_links import (
    AS_GOOD,
    PartnerScores,
    linked,
    scores_on_host,
)
from ccltui.metrics.collectives.implied.stream_options import HostPair, options_of
from ccltui.metrics.collectives.matching.align_by_time import ClockDifference, difference_between
from ccltui.metrics.collectives.matching.match import MatchInput
from ccltui.parsers.array_types import F64

ROUNDS: Final = 2
REWEIGHTINGS: Final = 8
"""Number of refinements of drift and offset, and of reweightings inside each."""
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
        observed = [_observations(hosts, pair, known, scores) for pair in linked]
        if pass_number % 2:
            offsets = _solved([one for part in observed for one in part[0]], count)
            known = _changed(known, offsets, np.zeros(count))
        else:
            rates = _drifting([one for part in observed for one in part[1]], count)
            known = _changed(known, np.zeros(count), rates)
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
    values = solve(observations, count)
    if not observations:
        return values
    members = np.stack([one.members for one in observations])
    seen = np.stack([one.values for one in observations])
    for _ in range(REWEIGHTINGS):
        rest = np.ptp(seen - values[members], axis=1)
        usual = max(float(median_along(rest)), 1.0)
        share = 1 / (1 + (rest / usual) ** 2)
        weighed = [
            replace(one, weight=one.weight * part)
            for one, part in zip(observations, share.tolist(), strict=True)
        ]
        values = solve(weighed, count)
    return values


def _observations(
    hosts: Sequence[HostCalls],
    pair: HostPair,
    known: Sequence[tuple[int, ClockDifference]],
    scores: Sequence[PartnerScores],
) -> tuple[list[Observation], list[Observation]]:
    """Return the remaining clock difference and drift of two hosts, one observation per queue."""
    host, other = hosts[pair.one], hosts[pair.other]
    ahead = difference_between(known[pair.one][1], known[pair.other][1])
    least = AS_GOOD * scores[pair.one].total, AS_GOOD * scores[pair.other].total
    found = evidence(host.sample(MAX_CALLS), host, other, ahead, least)
    members = np.array([pair.one, pair.other])
    offsets, drifts = [], []
    for queue in distinct_values(found.queue).tolist():
        here = found.queue == queue
        own = found.own_ns[here]
        if len(own) < FEWEST:
            continue
        rest = (own - ahead.of(own) - found.other_ns[here]).astype(np.float64)
        middle = float(median_along(rest))
        scatter = float(median_along(np.abs(rest - middle))) + SHARPEST_NS
        offsets.append(Observation(members, np.array([middle, 0.0]), len(own) / scatter**2))
        since = (own - known[pair.one][1].at_ns) / 1e9
        rate, error = slopes(since, rest[:, np.newaxis])
        if error[0] < UNKNOWN_ERROR:
            weight = 1 / float(error[0]) ** 2
            drifts.append(Observation(members, np.array([rate[0], 0.0]), weight))
    return offsets, drifts


MAX_PAIRS: Final = 600
"""Up to this number of pairs, all pairs of hosts are compared."""
FEWEST_LINKS: Final = 6
"""Least number of hosts that each host is compared with."""


@dataclass(frozen=True, slots=True)
class RankClock:
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
