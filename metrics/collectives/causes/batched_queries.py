"""Judge the late arrivals of several searches in joint passes.

One judgement is a pass over arrays of all its ranks, so that judging one late arrival costs
nearly as much as judging a thousand. A search that needs verdicts yields a `VerdictRequest`; the
requests of all searches for the same ranks are judged in one pass.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Final, TypeAlias, TypeVar

import numpy as np

from ccltui.metrics.collectives.causes.cause_search import Causes
from ccltui.metrics.collectives.causes.kernel_counts import MAX_COMPARED
from ccltui.metrics.collectives.causes.segments import Targets
from ccltui.metrics.collectives.causes.verdicts import VerdictRequest, Verdicts

T = TypeVar("T")

Search: TypeAlias = Generator[VerdictRequest, Verdicts, T]
"""A search that yields requests, receives their verdicts and returns its result."""

_MAX_TOGETHER: Final = MAX_COMPARED
"""Beyond so many targets in one pass, kernel names of the last are not compared."""
_MAX_CELLS: Final = 500_000
"""Limit of targets times ranks: a judgement holds some hundred bytes for each."""


def run_searches(causes: Causes, searches: Sequence[Search[T]]) -> list[T]:
    """Run searches in step and return their results in the same order.

    In every round all open requests are judged, those for the same ranks in one pass.
    """
    results: dict[int, T] = {}
    verdicts: dict[int, Verdicts | None] = dict.fromkeys(range(len(searches)))
    while verdicts:
        requests: dict[int, VerdictRequest] = {}
        for index, found in verdicts.items():
            try:
                # a generator that has not started accepts only None
                search = searches[index]
                requests[index] = next(search) if found is None else search.send(found)
            except StopIteration as end:
                results[index] = end.value
        verdicts = dict(_judged(causes, requests))
    return [results[index] for index in range(len(searches))]


def _judged(
    causes: Causes, requests: Mapping[int, VerdictRequest]
) -> Iterator[tuple[int, Verdicts]]:
    """Yield the verdicts on each request with the number of its search."""
    by_ranks: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
    for search, request in requests.items():
        by_ranks[request.labels].append(search)
    for labels, searches in by_ranks.items():
        for portion in _portions(searches, requests):
            parts = [requests[search] for search in portion]
            targets = Targets.joined([one.targets for one in parts])
            limits = np.concatenate([one.limits for one in parts])
            found = causes.judge(VerdictRequest(labels, targets, limits))
            ends = np.cumsum([len(one.targets) for one in parts])
            rows = np.split(np.arange(len(targets)), ends[:-1])
            yield from (
                (search, found.take(mine)) for search, mine in zip(portion, rows, strict=True)
            )


def _portions(
    searches: Sequence[int], requests: Mapping[int, VerdictRequest]
) -> Iterator[list[int]]:
    """Split searches, in order, into portions within the limits of one pass."""
    portion: list[int] = []
    count = 0
    for search in searches:
        size = len(requests[search].targets)
        most = min(_MAX_TOGETHER, _MAX_CELLS // len(requests[search].labels))
        if portion and count + size > most:
            yield portion
            portion, count = [], 0
        portion.append(search)
        count += size
    yield portion
