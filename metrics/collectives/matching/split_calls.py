"""Join collectives that several kernels execute, and calls that one kernel executes together.

One call may be executed by several kernels, all of which have its sequence number. A rank may
issue several calls as one group, executed by one kernel with the number of the first, while
another rank issues them one by one.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ccltui.metrics.arrays.reductions import row_all, row_any
from ccltui.parsers.array_types import I64, Bool
from ccltui.parsers.columns import MISSING

MAX_JOINED: Final = 64
"""Largest number of calls that may be one kernel on another rank."""


def runs(keys: I64, tokens: I64) -> tuple[I64, I64]:
    """Return first and last position of each run of consecutive calls of one key and token."""
    if not len(keys):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    changes = (keys[1:] != keys[:-1]) | (tokens[1:] != tokens[:-1])
    first = np.flatnonzero(np.concatenate(([True], changes)))
    return first, np.append(first[1:], len(keys)) - 1


def grouped(positions: I64, elements: I64) -> tuple[I64, Bool, Bool]:
    """Join the calls of some members that other members executed in one kernel.

    Where some members have one kernel with as many elements as the others have in it and in the
    kernels that follow, these are one collective.

    Args:
        positions: int64 [n, m] in order of the sequence numbers, -1 where a member has no kernel
            of that number.
        elements: Elements of each, int64 [n, m], -1 where not known.

    Returns:
        The last position of each line and member, int64 [n, m]; the mask of the lines that remain;
        and the mask of the lines that were joined.
    """
    last = positions.copy()
    keep, joined = np.ones(len(positions), np.bool_), np.zeros(len(positions), np.bool_)
    present = positions >= 0
    known = row_all(present) & row_all(elements > 0)
    uneven = known & row_any(elements != elements[:, :1])
    for line in np.flatnonzero(uneven).tolist():
        stop = _together(present, elements, line)
        if stop > line:
            small = elements[line] < elements[line].max()
            last[line, small] = positions[stop, small]
            keep[line + 1 : stop + 1] = False
            joined[line] = True
    return last, keep, joined


def _together(present: Bool, elements: I64, line: int) -> int:
    """Return the line up to which the smaller calls sum up to the larger one, else ``line``."""
    whole = int(elements[line].max())
    small = elements[line] < whole
    total = elements[line, small].copy()
    for after in range(line + 1, min(line + MAX_JOINED, len(elements))):
        if present[after, ~small].any() or not present[after, small].all():
            return line
        total += elements[after, small]
        if (total == whole).all():
            return after
        if (total > whole).any() or (elements[after, small] == MISSING).any():
            return line
    return line
