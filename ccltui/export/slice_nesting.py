"""Order the begins and ends of slices so that they are nested on every track."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ccltui.parsers.array_types import I64, Bool


def places(start_ns: I64, end_ns: I64) -> tuple[I64, I64]:
    """Return the places of the begin and of the end of each slice among all begins and ends.

    At one time ends come first, the innermost first; a slice without length ends right after its
    begin.

    Args:
        start_ns: int64 [n], ascending; of equal ones the longer slice first.
        end_ns: int64 [n], not before the start.

    Returns:
        Two int64 [n]: together a permutation of 0 to 2n - 1.
    """
    empty = end_ns == start_ns
    empty_before = np.cumsum(empty) - empty
    long = np.flatnonzero(~empty)[::-1]  # of equal ends the slice that began last is first
    long = long[np.argsort(end_ns[long], kind="stable")]
    ends = end_ns[long]
    begin = np.arange(len(start_ns)) + np.searchsorted(ends, start_ns, side="right") + empty_before
    end = begin + 1
    begun = np.searchsorted(start_ns, ends, side="left")
    empty_until = np.append(empty_before, empty.sum())
    end[long] = np.arange(len(long)) + begun + empty_until[begun]
    return begin, end


def layers(start_ns: I64, end_ns: I64) -> Iterator[I64]:
    """Yield the rows of slices for as many tracks as it takes for the slices of each to be nested.

    Slices that begin within another one and end after it go to a further track.

    Args:
        start_ns: int64 [n], ascending; of equal ones the longer slice first.
        end_ns: int64 [n], not before the start.
    """
    rows = np.arange(len(start_ns))
    while len(rows):
        kept, left = rows, rows[:0]
        while (outlives := _outlives(start_ns[kept], end_ns[kept])).any():
            left = np.concatenate((left, kept[outlives]))
            kept = kept[~outlives]
        yield kept
        rows = np.sort(left)


def _outlives(start_ns: I64, end_ns: I64) -> Bool:
    """Mask of the slices that end after a slice which they began in.

    Such a slice is open on top of others when it begins, and less deep when it ends.
    """
    begin, end = places(start_ns, end_ns)
    sign = np.empty(2 * len(begin), np.int64)
    sign[begin], sign[end] = 1, -1
    depth = np.cumsum(sign)
    return np.asarray(depth[end] + 1 < depth[begin])
