"""Divide what ran on the host of a rank by thread and depth: ranges, operators, calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.nesting import depths
from ccltui.parsers.columns import Group

if TYPE_CHECKING:
    from ccltui.metrics.model.rank_facts import RankFacts
    from ccltui.parsers.array_types import I64

MAX_THREADS: Final = 2
"""Threads that are divided: that of the forward pass and that of the backward pass launch work."""
MAX_DEPTHS: Final[Mapping[Group, int]] = {"annotations": 2, "cpu_ops": 4, "runtime": 1}
"""Deepest level of each group of events; the runtime calls of a thread do not call one another."""


class Level(Struct, frozen=True):
    """Events of one group on one thread at one depth: ``rows`` of the group, in order of start."""

    group: Group
    depth: int
    rows: I64


class HostThread(Struct, frozen=True):
    """One thread of the host; ``track`` is its place among the tracks of the trace, -1 unknown.

    ``deepest`` is the number of levels of each group, also where fewer are in ``levels``.
    """

    track: int
    levels: tuple[Level, ...]
    deepest: Mapping[Group, int]


class HostThreads(Struct, frozen=True):
    """Threads of a rank, those that launch most device work first; ``others`` are not listed."""

    threads: tuple[HostThread, ...]
    others: int


def host_threads(facts: RankFacts) -> HostThreads:
    """Return the threads of a rank that launch most device work, else that record most events."""
    trace = facts.trace
    found = {group: trace.group(group).track for group in MAX_DEPTHS}
    size = len(trace.tracks) + 1  # the last place is that of events without a thread
    events = sum(np.bincount(track, minlength=size) for track in (found[g] + 1 for g in found))
    launching = found["runtime"][facts.launch_row[facts.launch_row >= 0]] + 1
    launches = np.bincount(launching, minlength=size)
    order = np.lexsort((-np.asarray(events), -launches))
    used = [int(place) - 1 for place in order if np.asarray(events)[place]]
    threads = tuple(_thread(facts, track) for track in used[:MAX_THREADS])
    return HostThreads(threads, len(used) - len(threads))


def _thread(facts: RankFacts, track: int) -> HostThread:
    levels, deepest = list[Level](), dict[Group, int]()
    for group, most in MAX_DEPTHS.items():
        events = facts.trace.group(group)
        rows = np.flatnonzero(events.track == track)
        depth = depths(events.start_ns[rows], events.end_ns[rows])
        if not len(rows) or depth.max() < 0:
            continue
        deepest[group] = 1 if most == 1 else int(depth.max()) + 1
        if most == 1:
            levels.append(Level(group, 0, rows[depth >= 0]))
            continue
        levels += [Level(group, d, rows[depth == d]) for d in range(min(most, deepest[group]))]
    return HostThread(track, tuple(levels), deepest)
