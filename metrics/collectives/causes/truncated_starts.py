"""Collectives with which a recording begins: what made ranks late for them lies before it.

Profilers do not start at once on all ranks. Before the first collective of some ranks nothing is
recorded that they waited for together, so that their lateness there has no cause to be seen.
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


def beginnings(causes: Causes) -> tuple[Bool, ...]:
    """Of each instance of every matched group, whether its ranks are not seen to meet before.

    One mask a group, bool [n], as of ``causes.arrivals.groups``; False where a call is missing on
    a rank. Of these instances, `Causes.verdicts` know no moment from which to count.
    """
    holding: defaultdict[str, list[GroupArrivals]] = defaultdict(list)
    for group in causes.arrivals.groups:
        for label in group.labels:
            holding[label].append(group)
    return tuple(
        _begins(causes, group, holding[group.labels[0]]) for group in causes.arrivals.groups
    )


def _begins(causes: Causes, group: GroupArrivals, near: Sequence[GroupArrivals]) -> Bool:
    """``near`` are the groups that hold its first rank."""
    labels = set(group.labels)
    found = np.zeros(len(group.eligible), np.bool_)
    moments = [
        moment
        for one in near
        if labels <= set(one.labels) and (moment := _first(causes, one, group.labels)) is not None
    ]
    together = causes.together(group.labels)
    if together is not None:
        moments.insert(0, np.array(together, np.int64))
    if not moments:
        return found
    usable = group.match.usable
    start = gather(group.match.where(usable), causes.inputs, "start_ns")
    first = min(moments, key=lambda moment: int(moment[0]))
    found[usable] = row_any(start <= first)
    return found


def _first(causes: Causes, group: GroupArrivals, labels: Sequence[str]) -> I64 | None:
    """When some of its ranks joined the first of its collectives that all wait for."""
    rows = group.match.rows[group.eligible]
    if not len(rows):
        return None
    columns = [group.labels.index(label) for label in labels]
    start = [causes.inputs[label].calls.start_ns for label in labels]
    at = int(start[0][rows[:, columns[0]]].argmin())
    return np.array([one[rows[at, i]] for one, i in zip(start, columns, strict=True)], np.int64)
