"""Estimate the clock differences of hosts where no file names a communicator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np

from ccltui.metrics.arrays.reductions import distinct_values
from ccltui.metrics.collectives.implied.stream_evidence import HostCalls
from ccltui.metrics.collectives.implied.stream_links import linked, scores_on_host
from ccltui.metrics.collectives.implied.stream_options import HostPair, options_of
from ccltui.metrics.collectives.implied.stream_queues import Queue
from ccltui.metrics.collectives.implied.stream_refine import refined
from ccltui.metrics.collectives.matching.align_by_time import ClockDifference, difference_between
from ccltui.metrics.collectives.matching.match import MatchInput

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
