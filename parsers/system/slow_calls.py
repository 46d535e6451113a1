"""Call a function on many files, in threads where each call waits for a file system."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final, TypeVar

_In = TypeVar("_In")
_Out = TypeVar("_Out")

_AT_ONCE: Final = 32
"""Threads that wait. A call to a remote server takes about a millisecond and no CPU."""
_PROBED: Final = 8
_SLOW_S: Final = 0.0002
"""Waiting per call above which threads pay: starting them and passing results cost 50 us a call."""
_BATCH: Final = 256


def each(function: Callable[[_In], _Out], items: Iterable[_In]) -> list[_Out]:
    """Return ``function`` of each item, in order; an exception of it is raised here."""
    return list(each_in_turn(function, items))


def each_in_turn(function: Callable[[_In], _Out], items: Iterable[_In]) -> Iterator[_Out]:
    """Yield ``function`` of each item, in order.

    Some calls are made one after another and timed: only where they wait longer than threads cost
    are the others made concurrently, some hundred ahead of what was yielded.
    """
    rest = iter(items)
    while probed := list(islice(rest, _PROBED)):
        waits = []
        for item in probed:
            wall, used = time.perf_counter(), time.thread_time()
            found = function(item)
            waits.append(time.perf_counter() - wall - (time.thread_time() - used))
            yield found
        # The median: a process that takes the CPU adds to some of them.
        if sorted(waits)[len(waits) // 2] > _SLOW_S:
            yield from _concurrently(function, rest)
            return
        for item in islice(rest, _BATCH):
            yield function(item)


def _concurrently(function: Callable[[_In], _Out], items: Iterator[_In]) -> Iterator[_Out]:
    batch = list(islice(items, _BATCH))
    if not batch:  # the import takes as long as 70 waits
        return
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415  (slow file systems only)

    with ThreadPoolExecutor(_AT_ONCE) as threads:
        while batch:
            yield from threads.map(function, batch)
            batch = list(islice(items, _BATCH))
