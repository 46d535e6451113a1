"""Device work summed by name and class: what the tables of kernels are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from ccltui.parsers.array_types import I8, I32, I64

if TYPE_CHECKING:
    from ccltui.metrics.view.rank_view import RankView

_CLASSES: Final = 3


@dataclass(frozen=True, slots=True)
class WorkTable:
    """One row a distinct name and class of one rank; arrays of one length.

    ``name`` is the string id (-1 without a name), ``calls`` how many started inside the windows,
    ``total_ns`` the sum of durations inside the windows: streams that run at once count twice.
    """

    name: I32
    kind: I8
    calls: I64
    total_ns: I64


def work_by_name(rank: RankView) -> WorkTable:
    """Sum the rank's device work; rows in order of string id and class."""
    gpu = rank.trace.group("gpu")
    key = (gpu.name.astype(np.int64) + 1) * _CLASSES + rank.facts.classes
    size = (len(rank.trace.strings) + 1) * _CLASSES
    calls = np.bincount(key[rank.starts_inside], minlength=size)
    # float64 counts whole nanoseconds exactly up to 104 days
    total = np.bincount(key, weights=rank.clipped_ns, minlength=size).astype(np.int64)
    rows = np.flatnonzero((calls > 0) | (total > 0))
    return WorkTable(
        name=(rows // _CLASSES - 1).astype(np.int32),
        kind=(rows % _CLASSES).astype(np.int8),
        calls=calls[rows].astype(np.int64),
        total_ns=total[rows],
    )
