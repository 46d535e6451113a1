"""Find when device events with impossible times can have run: nothing is known of a device then."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ccltui.metrics.arrays.intervals import Intervals, union
from ccltui.parsers.columns import UNTIMED

if TYPE_CHECKING:
    from ccltui.parsers.array_types import I64
    from ccltui.parsers.columns import RankTrace


def untimed_gaps(trace: RankTrace, launched_ns: I64) -> Intervals:
    """Return the time in which the events of ``gpu_untimed`` can have run.

    A stream runs its work in the order of the launches: an event runs after its own launch and
    after the work launched before it, and before the work launched after it.

    Args:
        trace: The columns of the rank.
        launched_ns: Launch of each row of ``gpu``, the lowest int64 where unknown.
    """
    untimed, gpu = trace.group(UNTIMED), trace.group("gpu")
    if not len(untimed) or not len(gpu):
        return Intervals.empty()
    starts, ends = [], []
    last_ns = int(gpu.end_ns.max())
    known = launched_ns > np.iinfo(np.int64).min
    for track in np.unique(untimed.track).tolist():
        rows = np.flatnonzero(known & (gpu.track == track))
        rows = rows[np.argsort(launched_ns[rows], kind="stable")]
        launches = untimed.start_ns[untimed.track == track]
        place = np.searchsorted(launched_ns[rows], launches)
        ended = np.maximum.accumulate(np.append(np.iinfo(np.int64).min, gpu.end_ns[rows]))
        begun = np.minimum.accumulate(np.append(last_ns, gpu.start_ns[rows][::-1]))[::-1]
        starts.append(np.maximum(launches, ended[place]))
        ends.append(begun[place])
    start, end = np.concatenate(starts), np.concatenate(ends)
    possible = start < end
    return union(start[possible], end[possible])
