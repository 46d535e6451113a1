"""Sum the device work of one rank by name and class, for tables of kernels."""

from __future__ import annotations

from typing import Final

import numpy as np
from msgspec import Struct

from ccltui.parsers.array_types import I8, I32, I64, Bool
from ccltui.parsers.columns import RankTrace

_NUM_CLASSES: Final = 3


class WorkTable(Struct, frozen=True):
    """Device work of one rank, one row for each distinct name and class; arrays of one length.

    ``name`` is the string id (-1 without a name), ``kind`` the class, ``calls`` the number of
    rows that started inside the windows, ``total_ns`` the sum of durations inside the windows:
    time in which two streams run is counted twice.
    """

    name: I32
    kind: I8
    calls: I64
    total_ns: I64


def work_by_name(
    trace: RankTrace, classes: I8, *, starts_inside: Bool, clipped_ns: I64
) -> WorkTable:
    """Sum the device work of a rank by name and class.

    Args:
        trace: the columns of the rank.
        classes: class of each row of ``gpu``.
        starts_inside: which rows of ``gpu`` start inside the windows.
        clipped_ns: duration of each row of ``gpu`` inside the windows.

    Returns:
        The table, its rows in ascending order of string id and class.
    """
    gpu = trace.group("gpu")
    key = (gpu.name.astype(np.int64) + 1) * _NUM_CLASSES + classes
    size = (len(trace.strings) + 1) * _NUM_CLASSES
    calls = np.bincount(key[starts_inside], minlength=size)
    # bincount sums in float64, which is exact for whole nanoseconds up to 104 days
    total = np.bincount(key, weights=clipped_ns, minlength=size).astype(np.int64)
    rows = np.flatnonzero((calls > 0) | (total > 0))
    return WorkTable(
        name=(rows // _NUM_CLASSES - 1).astype(np.int32),
        kind=(rows % _NUM_CLASSES).astype(np.int8),
        calls=calls[rows].astype(np.int64),
        total_ns=total[rows],
    )
