"""Measure the time in kernels that a late rank ran more often than its peers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np

from ccltui.metrics.arrays.compiled import available
from ccltui.metrics.arrays.reductions import distinct_values, row_any, row_count
from ccltui.metrics.collectives.causes.activity import Activity
from ccltui.parsers.array_types import F64, I64, Bool
from ccltui.parsers.columns import MISSING

MAX_COMPARED: Final = 5000
"""Number of late arrivals compared by kernel name; of further ones only sums are compared."""
MAX_PEERS: Final = 4
AT_EDGES: Final = 4
"""Number of kernels by which ranks that run the same program differ where their time begins."""
_MAX_CELLS: Final = 500_000
"""Number of counts, and of kernels, that are in memory at once."""


def extra_kernel_time(
    activities: Sequence[Activity],
    begin_ns: I64,
    end_ns: I64,
    late: I64,
    punctual: Bool,
    *,
    most: int = MAX_COMPARED,
) -> F64:
    """Return the time in kernels that the late rank ran more often than its peers.

    Of each name: max(count - median count of the peers, 0) times the mean duration on the late
    rank. At most ``MAX_PEERS`` peers are compared. Where the late rank has more kernels, up to
    ``AT_EDGES`` more kernels before and after the time of each peer are counted: ranks that run
    the same kernels a little earlier or later have other ones at the edges.

    Args:
        activities: Activity of each of the m members.
        begin_ns: int64 [t, m], each member's on its own clock.
        end_ns: Likewise.
        late: Late member of each target, int64 [t].
        punctual: Mask of the peers of each target, bool [t, m].
        most: Number of targets that are compared.

    Returns:
        Float64 ns [t]; NaN without peers and from target ``most`` on.
    """
    count = len(late)
    extra = np.full(count, np.nan)
    starts = [one.work[0] for one in activities]
    first = np.stack([np.searchsorted(s, begin_ns[:, i]) for i, s in enumerate(starts)], axis=1)
    stop = np.stack([np.searchsorted(s, end_ns[:, i]) for i, s in enumerate(starts)], axis=1)
    size = max((one.names_end for one in activities), default=0)
    rows = np.flatnonzero(row_any(punctual[:most]))
    if not size or not len(rows):
        return extra
    who = np.column_stack((late[rows], _first_marked(punctual[rows], MAX_PEERS)))
    each = max(_MAX_CELLS // (size * who.shape[1]), 1)
    for at in range(0, len(rows), each):
        here = rows[at : at + each]
        extra[here] = _extra_time(activities, who[at : at + each], first[here], stop[here], size)
    return extra


def _extra_time(activities: Sequence[Activity], who: I64, first: I64, stop: I64, size: int) -> F64:
    """Return the extra time by row of the first of the members ``who`` [t, w] (-1: none).

    ``first`` and ``stop`` are places in the work of each member [t, m]; names are below ``size``.
    """
    late, *peers = who.T
    mine = _totals_by_name(activities, late, first, stop, size, timed=False)
    theirs = []
    for one in peers:
        places = _extended(activities, late, one, first, stop)
        theirs.append(_totals_by_name(activities, one, *places, size, timed=False))
    each_ns = _totals_by_name(activities, late, first, stop, size, timed=True) / np.maximum(mine, 1)
    more = mine - _middle(np.stack(theirs, axis=1), who[:, 1:] >= 0)
    return np.asarray((np.maximum(more, 0) * each_ns).sum(axis=1))


def _extended(
    activities: Sequence[Activity], late: I64, peer: I64, first: I64, stop: I64
) -> tuple[I64, I64]:
    """Return ``first`` and ``stop`` with the time of a peer extended by the kernels it lacks."""
    row = np.arange(len(late))
    length = stop - first
    lacking = np.clip(length[row, late] - length[row, peer], 0, AT_EDGES)[:, np.newaxis]
    number = np.array([len(one.work[0]) for one in activities], np.int64)
    return np.maximum(first - lacking, 0), np.minimum(stop + lacking, number)


def _first_marked(marks: Bool, most: int) -> I64:
    """Return the first ``most`` marked columns of each row, int64 [t, most]; -1 after the last."""
    place = np.where(marks, np.cumsum(marks, axis=1) - 1, most)
    found = np.full((len(marks), most), MISSING, np.int64)
    rows, columns = np.nonzero(place < most)
    found[rows, place[rows, columns]] = columns
    return found


def _totals_by_name(
    activities: Sequence[Activity], who: I64, first: I64, stop: I64, size: int, *, timed: bool
) -> F64:
    """Return how often, or for how many ns (``timed``), each name ran on one member; [t, name].

    ``who`` [t] is the member of each row (-1: none), ``first`` and ``stop`` [t, m] are places in
    the work of the members.
    """
    found = np.zeros((len(who), size))
    for member in distinct_values(who[who >= 0]).tolist():
        _, dur, name = activities[member].work
        rows = np.flatnonzero(who == member)
        begin, length = first[rows, member], stop[rows, member] - first[rows, member]
        weights = dur if timed else None
        add = _add_compiled if available() else _add
        add(found, rows, (begin, length), name, weights)
    return found


def _add_compiled(
    found: F64, rows: I64, segments: tuple[I64, I64], name: I64, weights: I64 | None
) -> None:
    """Do what `_add` does, in one pass over the kernels."""
    from ccltui.metrics.arrays import _passes  # noqa: PLC0415

    none = np.empty(0, np.int64)
    _passes.totals_by_name(rows, *segments, name, none if weights is None else weights, found)


def _add(found: F64, rows: I64, segments: tuple[I64, I64], name: I64, weights: I64 | None) -> None:
    """Add the kernels of segments (begin, length) to rows of ``found`` [t, name], with weights."""
    (begin, length), size = segments, found.shape[1]
    for part in _portions(length):
        many = length[part]
        pick = np.repeat(begin[part] - (np.cumsum(many) - many), many) + np.arange(many.sum())
        named = name.take(pick) >= 0
        row, pick = np.repeat(np.arange(len(many)), many)[named], pick[named]
        cell = row * size + name.take(pick)
        sums = np.bincount(cell, None if weights is None else weights.take(pick), len(many) * size)
        found[rows[part]] = sums.reshape(len(many), size)


def _portions(length: I64) -> list[slice]:
    """Split segments into consecutive portions of about ``_MAX_CELLS`` kernels."""
    portion = np.cumsum(length) // _MAX_CELLS
    edges = [0, *(np.flatnonzero(np.diff(portion)) + 1).tolist(), len(length)]
    return [slice(a, b) for a, b in pairwise(edges)]


def _middle(values: F64, present: Bool) -> F64:
    """Median over the present members (mask [t, w]) of [t, w, name], float64 [t, name]."""
    ordered = np.sort(np.where(present[:, :, np.newaxis], values, np.inf), axis=1)
    count = row_count(present)
    line = np.arange(len(values))
    return np.asarray((ordered[line, (count - 1) // 2] + ordered[line, count // 2]) / 2)
