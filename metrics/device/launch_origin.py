"""Find what ran on the host when device work was launched: its operator, and the ranges around it.

An operator is found by the External id of the device work, where the operator of that id runs at
the launch; else it is the innermost operator on the thread of the launch at that time. Ranges are
those of the user (NVTX, record_function) and nn.Module frames on the thread of the launch.

`host_threads` divides all that ran there by thread and depth: ranges, operators, calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.nesting import Nesting, depths
from ccltui.metrics.arrays.reductions import first_rows, unique_inverse
from ccltui.metrics.model.classify import any_name, distinct
from ccltui.metrics.model.rank_steps import MARKERS
from ccltui.parsers.columns import MISSING, Group

if TYPE_CHECKING:
    from ccltui.metrics.model.rank_facts import RankFacts
    from ccltui.metrics.view.rank_view import RankView
    from ccltui.parsers.array_types import I32, I64
    from ccltui.parsers.columns import Events, RankTrace


MODULE: Final = "nn.Module: "
"""Beginning of the names that PyTorch gives to the frames of modules."""
MAX_DEPTH: Final = 32
"""Deepest path; ranges inside of it count as it. The modules of models are less deep."""

Path = tuple[str, ...]


def operator_rows(rank: RankView) -> I64:
    """Return the row of ``cpu_ops`` that launched each row of ``gpu``, int64, -1 where unknown.

    Inside a matrix product or attention with recorded shapes, that operator is returned instead
    of the operators which it calls: its FLOPs are those of all its kernels.
    """
    return rank.remember(operator_rows, lambda: operators_of(rank.facts, slice(None)))


def operators_of(facts: RankFacts, rows: slice) -> I64:
    """Return the operators of some rows of ``gpu`` as :func:`operator_rows` does."""
    trace, launch = facts.trace, facts.launch_row[rows]
    gpu, operators = trace.group("gpu"), trace.group("cpu_ops")
    external = gpu.external_id[rows]
    if not len(operators):
        return np.full(len(external), MISSING, np.int64)
    # Old files repeat the correlation id of a kernel as its External id, which then names none.
    ids = np.where(external == gpu.correlation[rows], MISSING, external)
    stated = first_rows(operators.external_id, ids).astype(np.int64)
    stated[ids < 0] = MISSING
    launched = facts.launched_ns[rows]
    elsewhere = (stated >= 0) & (launch >= 0)
    elsewhere &= (launched < operators.start_ns[stated]) | (launched > operators.end_ns[stated])
    stated[elsewhere] = MISSING
    rest = np.flatnonzero((stated < 0) & (launch >= 0))
    calls = trace.group("runtime")
    stated[rest] = _innermost(operators, calls.track[launch[rest]], launched[rest])
    return _product_around(operators, stated)


def _product_around(operators: Events, rows: I64) -> I64:
    """Return the operators with recorded shapes around operators, else these themselves."""
    if not len(operators.shapes):
        return rows
    products = np.flatnonzero(operators.shapes >= 0)
    known = np.flatnonzero(rows >= 0)
    called, place = unique_inverse(rows[known])
    at = operators.start_ns[called]
    around = _innermost(operators.take(products), operators.track[called], at)
    rows = rows.copy()
    rows[known] = np.where(around >= 0, products[around], called)[place]
    return rows


def path_rows(rank: RankView) -> tuple[I64, list[Path]]:
    """Return the index of the path of each row of ``gpu``, -1 for none, and the paths.

    A path lists the names of the ranges around the launch from the outside to the inside; step
    markers are left out, because they would divide every path by step.
    """
    found: tuple[I64, list[Path]] = rank.remember(path_rows, lambda: _path_rows(rank))
    return found


def _path_rows(rank: RankView) -> tuple[I64, list[Path]]:
    trace, launch = rank.trace, rank.facts.launch_row
    index = np.full(len(launch), MISSING, np.int64)
    start, end, track, name = _ranges(rank)
    launched = np.flatnonzero(launch >= 0)
    if not len(start) or not len(launched):
        return index, []
    calls = trace.group("runtime")
    of_range = np.full(len(start), MISSING, np.int64)
    around = np.full(len(start), MISSING, np.int64)
    call_track, at = calls.track[launch[launched]], rank.facts.launched_ns[launched]
    found = np.full(len(launched), MISSING, np.int64)
    for rows, queries in _by_track(track, call_track):
        nesting = Nesting(start[rows], end[rows])
        outer, inner = nesting.outer, nesting.innermost(at[queries])
        around[rows] = np.where(outer >= 0, rows[outer], MISSING)
        found[queries] = np.where(inner >= 0, rows[inner], MISSING)
    of_range, paths = _paths(trace, around, name)
    index[launched] = np.append(of_range, MISSING)[found]
    return index, paths


def has_ranges(rank: RankView) -> bool:
    """Return whether a rank has modules or ranges of the user besides step markers."""
    return bool(len(_ranges(rank)[0]))


def _ranges(rank: RankView) -> tuple[I64, I64, I32, I32]:
    """Start, end, track and name of the ranges of a rank, in order of start, the longer first."""
    trace = rank.trace
    patterns = [marker.pattern for marker in MARKERS if marker.name == rank.marker]
    chosen = []
    annotations, frames = trace.group("annotations"), trace.group("python")
    for events, is_range in (
        (annotations, lambda text: not any(p.fullmatch(text) for p in patterns)),
        (frames, lambda text: text.startswith(MODULE)),
    ):
        names = [i for i in distinct(events.name) if is_range(trace.text(i))]
        rows = np.flatnonzero(any_name(trace.strings, events.name, names))
        chosen.append(
            (events.start_ns[rows], events.end_ns[rows], events.track[rows], events.name[rows])
        )
    start, end, track, name = (np.concatenate(parts) for parts in zip(*chosen, strict=True))
    order = np.lexsort((-end, start))
    return start[order], end[order], track[order], name[order]


def _paths(trace: RankTrace, around: I64, name: I32) -> tuple[I64, list[Path]]:
    """Return the path of each range, int64, and the distinct paths, one depth after the other."""
    path = np.full(len(around), MISSING, np.int64)
    paths: list[Path] = []
    level = np.flatnonzero(around < 0)
    size = len(trace.strings)
    order = np.argsort(around, kind="stable")
    outer = around[order]
    for _ in range(MAX_DEPTH):
        outside = np.where(around[level] >= 0, path[around[level]], MISSING)
        pairs, place = unique_inverse((outside + 1) * size + name[level])
        path[level] = len(paths) + place
        for pair in pairs.tolist():
            before = paths[pair // size - 1] if pair >= size else ()
            paths.append((*before, trace.text(pair % size).removeprefix(MODULE)))
        level = _inside(level, outer, order)
        if not len(level):
            return path, paths
    while len(level):
        path[level] = path[around[level]]
        level = _inside(level, outer, order)
    return path, paths


def _inside(level: I64, outer: I64, order: I64) -> I64:
    """Return the ranges directly inside those of a level; ``order`` sorts by ``outer``."""
    first = np.searchsorted(outer, level)
    counts = np.searchsorted(outer, level, side="right") - first
    ends = np.cumsum(counts)
    if not len(ends) or not ends[-1]:
        return np.empty(0, np.int64)
    return np.asarray(order[np.arange(ends[-1]) + np.repeat(first - ends + counts, counts)])


def _innermost(events: Events, track: I32, times_ns: I64) -> I64:
    """Return the row of the innermost event at each time on each thread, int64, -1 for none."""
    found = np.full(len(times_ns), MISSING, np.int64)
    for rows, queries in _by_track(events.track, track):
        nesting = Nesting(events.start_ns[rows], events.end_ns[rows])
        inner = nesting.innermost(times_ns[queries])
        found[queries] = np.where(inner >= 0, rows[inner], MISSING)
    return found


def _by_track(track: I32, wanted: I32) -> Iterator[tuple[I64, I64]]:
    """Yield the rows of a thread, and the queries about it, for each thread with both."""
    order, asked = np.argsort(track, kind="stable"), np.argsort(wanted, kind="stable")
    ordered, ordered_asked = track[order], wanted[asked]
    for one in distinct(wanted):
        rows = slice(*np.searchsorted(ordered, (one, one + 1)))
        if rows.start < rows.stop:
            yield order[rows], asked[slice(*np.searchsorted(ordered_asked, (one, one + 1)))]


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
