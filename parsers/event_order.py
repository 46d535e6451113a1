"""Sort order of the events of a group."""

from __future__ import annotations

import numpy as np

from ccltui.parsers.array_types import I64, SortOrder


def by_start(start_ns: I64, dur_ns: I64) -> SortOrder | None:
    """Rows by (start, longer first, place), None where they are sorted already.

    Files have their rows nearly in order, which a stable sort makes quick. Only rows that start
    together are sorted by their duration: sorting all of them by it would dominate the cost.
    """
    kind: type[np.signedinteger] = np.int32 if len(start_ns) < 1 << 31 else np.int64
    order: SortOrder | None = None
    ordered = start_ns
    if (start_ns[1:] < start_ns[:-1]).any():
        order = np.argsort(start_ns, kind="stable").astype(kind)
        ordered = start_ns[order]
    ties = ordered[1:] == ordered[:-1]
    if not ties.any():
        return order
    tied = np.zeros(len(start_ns), np.bool_)
    tied[1:] |= ties
    tied[:-1] |= ties
    rows = np.flatnonzero(tied) if order is None else order[tied]
    settled = rows[np.lexsort((-dur_ns[rows], start_ns[rows]))]
    if order is None:
        if (settled == rows).all():
            return None
        order = np.arange(len(start_ns), dtype=kind)
    order[tied] = settled
    return order
