"""How far the clocks of hosts are from each other where no file names a communicator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np

from ccltui.metrics.arrays.reductions import distinct_values
from ccltui.metrics.collectives.implied.stream_evidence import HostCalls
from ccltui.metrics.collectives.implied.stream_links import inside, linked
from ccltui.metrics.collectives.implied.stream_options import HostPair, options_of
from ccltui.metrics.collectives.implied.stream_queues import Queue
from ccltui.metrics.collectives.implied.stream_refine import refined
from ccltui.metrics.collectives.matching.align_by_time import Ahead, between
from ccltui.metrics.collectives.matching.match import MatchInput

MAX_PAIRS: Final = 600
"""Up to so many pairs of hosts all are compared."""
FEWEST_LINKS: Final = 6


@dataclass(frozen=True, slots=True)
class RankClock:
    """How far a rank's clock is ahead of that of the rank ``of`` (an index of the inputs)."""

    ahead: Ahead
    of: int


def stream_clocks(inputs: Sequence[MatchInput], queues: Sequence[Queue]) -> dict[int, RankClock]:
    """The clock of each rank that has queues, against the first of those it is linked to."""
    hosts = _hosts(inputs, queues)
    pairs = [HostPair(a, b, options_of(hosts[a], hosts[b])) for a, b in _asked(len(hosts))]
    explained = [inside(host) for host in hosts]
    known = linked(hosts, pairs, explained)
    known = refined(hosts, pairs, known, explained)
    first: dict[int, int] = {}
    for index, (root, _) in enumerate(known):
        first.setdefault(root, index)
    clocks: dict[int, RankClock] = {}
    for host, (root, ahead) in zip(hosts, known, strict=True):
        base = first[root]
        own = between(ahead, known[base][1])
        for owner in host.owners:
            clocks[owner] = RankClock(own, hosts[base].owners[0])
    return clocks


def _hosts(inputs: Sequence[MatchInput], queues: Sequence[Queue]) -> list[HostCalls]:
    """Ranks of one host together; a rank of unknown host for itself."""
    found: dict[str | int, list[Queue]] = {}
    for queue in queues:
        found.setdefault(inputs[queue.owner].host or queue.owner, []).append(queue)
    return [HostCalls(number, tuple(part)) for number, part in enumerate(found.values())]


def _asked(count: int) -> list[tuple[int, int]]:
    """Pairs of hosts that are compared: all, or of many hosts the nearest and some further ones."""
    every = list(combinations(range(count), 2))
    if len(every) <= MAX_PAIRS:
        return every
    links = max(MAX_PAIRS // count, FEWEST_LINKS)
    steps = distinct_values(np.geomspace(1, count / 2, links).astype(np.int64)).tolist()
    return sorted({tuple(sorted((i, (i + s) % count))) for i in range(count) for s in steps})
