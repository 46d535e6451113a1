"""Clocks of hosts told again from all that is linked together, the sharpest ends most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from ccltui.metrics.arrays.reductions import distinct_values, median_along
from ccltui.metrics.arrays.theil_sen import UNKNOWN_ERROR, Z_99, slopes
from ccltui.metrics.collectives.clocks.offsets import Observation, solve, standard_errors
from ccltui.metrics.collectives.implied.stream_evidence import HostCalls, evidence
from ccltui.metrics.collectives.implied.stream_links import AS_GOOD, Explained
from ccltui.metrics.collectives.implied.stream_options import HostPair
from ccltui.metrics.collectives.implied.stream_queues import FEWEST
from ccltui.metrics.collectives.matching.align_by_time import Ahead, between
from ccltui.parsers.array_types import F64

ROUNDS: Final = 2
TURNS: Final = 8
"""So often clocks are told anew, and so often contradictions are weighed."""
MOST: Final = 64
SHARPEST_NS: Final = 500.0
"""Ends agree no better than that."""


def refined(
    hosts: Sequence[HostCalls],
    pairs: Sequence[HostPair],
    known: list[tuple[int, Ahead]],
    explained: Sequence[Explained],
) -> list[tuple[int, Ahead]]:
    """The same clocks, told from all pairs of linked hosts together, the sharpest most."""
    count = len(hosts)
    linked = [pair for pair in pairs if known[pair.one][0] == known[pair.other][0]]
    for turn in range(2 * ROUNDS):
        seen = [_seen(hosts, pair, known, explained) for pair in linked]
        if turn % 2:
            moved = _solved([one for part in seen for one in part[0]], count)
            known = _changed(known, moved, np.zeros(count))
        else:
            rates = _drifting([one for part in seen for one in part[1]], count)
            known = _changed(known, np.zeros(count), rates)
    return known


def _changed(
    known: Sequence[tuple[int, Ahead]], moved_ns: F64, rates: F64
) -> list[tuple[int, Ahead]]:
    return [
        (root, Ahead(one.offset_ns + offset, one.rate + rate / 1e9, one.at_ns))
        for (root, one), offset, rate in zip(known, moved_ns, rates, strict=True)
    ]


def _drifting(tilted: Sequence[Observation], count: int) -> F64:
    """Drifts that certainly are left over, ns per s."""
    rates = _solved(tilted, count)
    number = np.bincount([i for one in tilted for i in one.members.tolist()], minlength=count)
    # the scatter of one host's ends is in all of its pairs: they err together
    errors = standard_errors(tilted, count) * np.sqrt(number)
    return np.where(np.abs(rates) > Z_99 * errors, rates, 0.0)


def _solved(observations: Sequence[Observation], count: int) -> F64:
    """Least squares, in which observations weigh less the more they contradict the others."""
    values = solve(observations, count)
    if not observations:
        return values
    for _ in range(TURNS):
        rest = np.array([np.ptp(one.values - values[one.members]) for one in observations])
        usual = max(float(median_along(rest)), 1.0)
        share = 1 / (1 + (rest / usual) ** 2)
        weighed = [
            replace(one, weight=one.weight * part)
            for one, part in zip(observations, share.tolist(), strict=True)
        ]
        values = solve(weighed, count)
    return values


def _seen(
    hosts: Sequence[HostCalls],
    pair: HostPair,
    known: Sequence[tuple[int, Ahead]],
    explained: Sequence[Explained],
) -> tuple[list[Observation], list[Observation]]:
    """What is left over of the difference of two clocks and of their drift, by queues."""
    host, other = hosts[pair.one], hosts[pair.other]
    ahead = between(known[pair.one][1], known[pair.other][1])
    least = AS_GOOD * explained[pair.one].whole, AS_GOOD * explained[pair.other].whole
    found = evidence(host.sample(MOST), host, other, ahead, least)
    members = np.array([pair.one, pair.other])
    moved, tilted = [], []
    for queue in distinct_values(found.queue).tolist():
        here = found.queue == queue
        own = found.own_ns[here]
        if len(own) < FEWEST:
            continue
        rest = (own - ahead.of(own) - found.other_ns[here]).astype(np.float64)
        middle = float(median_along(rest))
        scatter = float(median_along(np.abs(rest - middle))) + SHARPEST_NS
        moved.append(Observation(members, np.array([middle, 0.0]), len(own) / scatter**2))
        since = (own - known[pair.one][1].at_ns) / 1e9
        rate, error = slopes(since, rest[:, np.newaxis])
        if error[0] < UNKNOWN_ERROR:
            weight = 1 / float(error[0]) ** 2
            tilted.append(Observation(members, np.array([rate[0], 0.0]), weight))
    return moved, tilted
