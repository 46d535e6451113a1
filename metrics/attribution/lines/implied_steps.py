"""Steps of a job without step markers, from the period of its calls.

A call that occurs on every rank equally often, with always the same number of other calls between,
ends a step. Of several the one with the longest period is used: layers repeat inside of steps.
Where no size tells the calls of a step apart, the numbers of kernels between them do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from ccltui.metrics.arrays.reductions import joint_inverse
from ccltui.metrics.model.calls import Calls
from ccltui.parsers.array_types import I64

LEAST: Final = 3
"""Occurrences of a call from which their distance is a period: two whole steps lie between."""
LEAST_SPAN: Final = 0.5
"""Share of the time of all calls that the steps must span: a burst of equal calls is no period."""


SAME_NUMBERS: Final = 0.8
"""Share of the numbers of kernels that must come again after a period: single steps have more."""


def implied_steps(calls: Sequence[Calls], starts: Sequence[I64]) -> list[I64] | None:
    """Return the rows of the calls that end the steps of each rank; None without a period.

    All ranks have the same number. A rank without calls makes it None.

    Args:
        calls: the collectives of each rank.
        starts: begins of the other kernels of each rank, int64 ns, ascending.
    """
    found = [_periodic(one) for one in calls]
    counts = set.intersection(*(set(one) for one in found)) if found else set()
    if not counts:
        return None
    count = min(counts)
    rows = [one[count] for one in found]
    between = [
        np.diff(np.searchsorted(start, one.end_ns[ends]))
        for one, ends, start in zip(calls, rows, starts, strict=True)
    ]
    period = _period(between)
    if period == 1:
        return rows
    # The call behind which most kernels begin ends a step: a forward pass follows.
    following = np.sum(between, axis=0)
    whole = len(following) // period * period
    phase = int(following[:whole].reshape(-1, period).sum(axis=0).argmax())
    return [one[phase::period] for one in rows]


def _period(between: Sequence[I64]) -> int:
    """Return after how many calls the numbers of kernels between them come again on all ranks."""
    most = len(between[0]) // (LEAST - 1)
    for period in range(1, most + 1):
        if all((one[period:] == one[:-period]).mean() >= SAME_NUMBERS for one in between):
            return period
    return 1


def _periodic(calls: Calls) -> dict[int, I64]:
    """By number of occurrences, the rows of the last call in a step that has a period."""
    columns = (calls.kind, calls.group, calls.message_bytes, calls.src, calls.dst)
    _, token = joint_inverse(*(column.astype(np.int64) for column in columns))
    found: dict[int, I64] = {}
    whole = calls.start_ns[-1] - calls.start_ns[0] if len(calls) else 0
    order = np.argsort(token, kind="stable")
    edges = np.flatnonzero(np.diff(token[order], prepend=-1, append=-1))
    for begin, stop in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        rows = order[begin:stop]
        if len(rows) < LEAST or len(set(np.diff(rows).tolist())) > 1:
            continue
        if calls.start_ns[rows[-1]] - calls.start_ns[rows[0]] < LEAST_SPAN * whole:
            continue
        known = found.get(len(rows))
        if known is None or rows[0] > known[0]:
            found[len(rows)] = rows
    return found
