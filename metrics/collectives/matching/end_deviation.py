"""Compare the ends of the members of one collective.

A collective in which every rank needs every other ends on all of them nearly at once. The
differences of the ends are therefore those of the clocks plus a small scatter: the basis of the
clock estimate and of the test whether a match is possible.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ccltui.metrics.arrays.reductions import median_along, row_max, row_min
from ccltui.metrics.arrays.statistics import rank_place
from ccltui.metrics.arrays.theil_sen import Z_99, slopes
from ccltui.metrics.model.classify import TYPES
from ccltui.parsers.array_types import F64, I64, Bool

ONE_CLOCK_NS = 100_000
"""Largest offset on one clock: ends are up to some tens of µs apart on ranks that share one."""

_DEPENDENT = np.array(
    [name in ("AllReduce", "AllGather", "ReduceScatter", "Barrier") for name in TYPES]
)
_EXCHANGE = np.array([name in ("AllToAll", "SendRecv") for name in TYPES])


MAX_INSTANCES = 4096
"""Largest sample of instances: its median has 1/64 of the scatter of single ends, and more
instances would not improve the clock estimate."""


def evenly(rows: I64) -> I64:
    """Return at most ``MAX_INSTANCES`` of ``rows``, evenly spread."""
    if len(rows) <= MAX_INSTANCES:
        return rows
    return rows[np.linspace(0, len(rows) - 1, MAX_INSTANCES).astype(np.int64)]


def fully_dependent(kind: npt.ArrayLike) -> Bool:
    """Whether no rank can finish before all have started: allreduce, allgather, …, barrier."""
    return np.asarray(_DEPENDENT[np.asarray(kind, np.int64)])


def exchange(kind: npt.ArrayLike) -> Bool:
    """Whether the type is an all-to-all, or a SendRecv kernel that may be one."""
    return np.asarray(_EXCHANGE[np.asarray(kind, np.int64)])


def end_deviation(end_ns: I64) -> F64:
    """Return the deviation of each end from the median end of its instance, float64 ns [n, m].

    ``end_ns`` is int64 [n, m] with every member present. Differences are taken before the
    median, so that times since the epoch lose no precision as floats.
    """
    relative = np.ascontiguousarray(end_ns - end_ns[:, :1]).astype(np.float64)
    return relative - median_along(relative, 1)[:, np.newaxis]


def nearest_rank(values: F64 | I64, share: float) -> float:
    """Return the ceil(share * n)-th smallest of ``values``, which must not be empty."""
    index = rank_place(len(values), share)
    return float(np.partition(values, index)[index])


def middle_and_rank(values: F64 | I64, share: float) -> tuple[float, float]:
    """Return the median and the `nearest_rank` of ``values`` (none is NaN) in one pass."""
    low, high, index = (len(values) - 1) // 2, len(values) // 2, rank_place(len(values), share)
    ordered = np.partition(values, [low, high, index])
    return (float(ordered[low]) + float(ordered[high])) / 2, float(ordered[index])


def member_offsets(end_ns: I64) -> I64:
    """Return the clock offset of each member against the median of its group, int64 ns [m].

    0 where the offset is at most ``ONE_CLOCK_NS``, which devices on one clock reach too, or at most
    the p95 of the scatter of the ends around it. Without an instance all are 0.
    """
    if not len(end_ns):
        return np.zeros(end_ns.shape[1], np.int64)
    deviation = end_deviation(end_ns)
    offsets = median_along(deviation)
    scatter = np.abs(deviation - offsets)
    hidden = [
        abs(offset) <= max(nearest_rank(column, 0.95), ONE_CLOCK_NS)
        for offset, column in zip(offsets, scatter.T, strict=True)
    ]
    return np.where(hidden, 0, np.rint(offsets)).astype(np.int64)


def drifts(end_ns: I64, times_ns: I64) -> I64:
    """Return how far each member's clock has drifted from the median at each time, int64 ns [t, m].

    Counted from the middle of the instances ``end_ns`` [n, m], on the first member's clock; 0
    where the 99 % interval of the drift includes 0.
    """
    nothing = np.zeros((len(times_ns), end_ns.shape[1]), np.int64)
    if not len(end_ns):
        return nothing
    middle = int(median_along(end_ns[:, 0]))
    rates, errors = slopes((end_ns[:, 0] - middle) / 1e9, end_deviation(end_ns))
    rates = np.where(np.abs(rates) > Z_99 * errors, rates, 0.0)
    if not rates.any():
        return nothing
    return np.rint((times_ns - middle)[:, np.newaxis] / 1e9 * rates).astype(np.int64)


def missed_ns(start_ns: I64, end_ns: I64) -> I64:
    """The overlap test on one clock: max start - min end, per instance of [n, m]; ns [n].

    Above 0 a member ended before the last one started.
    """
    return np.asarray(row_max(start_ns) - row_min(end_ns))
