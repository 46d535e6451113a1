"""Find candidate clock differences of two hosts: those that many pairs of calls share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from ccltui.metrics.arrays.reductions import median_along
from ccltui.metrics.collectives.implied.stream_evidence import FINE_NS, USUAL, HostCalls
from ccltui.metrics.collectives.implied.stream_queues import FEWEST, Queue

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
