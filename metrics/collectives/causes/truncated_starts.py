"""Find the collectives before which the recording has no common point of their ranks.

Profilers do not start at once on all ranks. Before the first collective of some ranks no other
collective that they all waited for is recorded, and neither is the cause of their lateness.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from ccltui.metrics.arrays.reductions import row_any
from ccltui.metrics.collectives.causes.cause_search import Causes
from ccltui.metrics.collectives.lateness.arrivals import GroupArrivals
from ccltui.metrics.collectives.matching.match import gather
from ccltui.parsers.array_types import I64, Bool


def starts_recording(causes: Causes) -> tuple[Bool, ...]:
    """Mark the instances before which no common point of their ranks is recorded.

    For these, `Causes.verdicts` has no time to count from.

    Returns:
        One mask per group of ``causes.arrivals.groups``, bool [n]; False where a call is missing
        on a rank.
    """
    holding: defaultdict[str, list[GroupArrivals]] = defaultdict(list)
    for group in causes.arrivals.groups:
        for label in group.labels:
            holding[label].append(group)
    return tuple(
        _starts_recording(causes, group, holding[group.labels[0]])
        for group in causes.arrivals.groups
    )


def _starts_recording(causes: Causes, group: GroupArrivals, near: Sequence[GroupArrivals]) -> Bool:
    """Return the mask of one group; ``near`` are the groups with its first rank."""
    labels = set(group.labels)
    found = np.zeros(len(group.eligible), np.bool_)
    moments = [
        moment
        for one in near
        if labels <= set(one.labels) and (moment := _first(causes, one, group.labels)) is not None
    ]
    common = causes.common_start(group.labels)
    if common is not None:
        moments.insert(0, np.array(common, np.int64))
    if not moments:
        return found
    usable = group.match.usable
    start = gather(group.match.where(usable), causes.inputs, "start_ns")
    first = min(moments, key=lambda moment: int(moment[0]))
    found[usable] = row_any(start <= first)
    return found


def _first(causes: Causes, group: GroupArrivals, labels: Sequence[str]) -> I64 | None:
    """Return when ``labels`` joined the first eligible collective of a group; None without one."""
    rows = group.match.rows[group.eligible]
    if not len(rows):
        return None
    columns = [group.labels.index(label) for label in labels]
    start = [causes.inputs[label].calls.start_ns for label in labels]
    at = int(start[0][rows[:, columns[0]]].argmin())
    return np.array([one[rows[at, i]] for one, i in zip(start, columns, strict=True)], np.int64)
