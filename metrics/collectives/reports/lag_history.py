"""Compute the distribution and the trend of the lags of like collectives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ccltui.metrics.arrays.reductions import median_along
from ccltui.metrics.collectives.lateness.arrivals import GroupArrivals
from ccltui.parsers.array_types import I64

BINS = 12
_LEAST_NS = 1_000


@dataclass(frozen=True, slots=True, eq=False)
class LagHistory:
    """Lags of the n complete collectives of one type of a group, int64 ns.

    ``edges_ns`` [BINS + 1] are even on a logarithmic scale from the smallest lag (at least 1 us)
    to the largest; ``counts`` [BINS] counts smaller lags in the first bin. ``trend_ns`` [n] is in
    order of time. ``bin`` and ``place`` are the bin and the place in time of the collective that
    the history was computed for.
    """

    edges_ns: I64
    counts: I64
    bin: int
    trend_ns: I64
    place: int

    @property
    def median_ns(self) -> int:
        """Median lag."""
        return int(median_along(self.trend_ns))


def lag_history(arrived: GroupArrivals, row: int) -> LagHistory | None:
    """Return the lags of all collectives of the type of ``row``; None where its lag is unknown."""
    lag, kind = arrived.lag_ns, arrived.match.kind
    if lag[row] < 0:
        return None
    rows = np.flatnonzero((kind == kind[row]) & (lag >= 0))
    rows = rows[np.argsort(arrived.first_start_ns[rows], kind="stable")]
    lags = lag[rows]
    low = max(int(lags.min()), _LEAST_NS)
    high = max(int(lags.max()), low + BINS)
    edges = np.rint(np.geomspace(low, high, BINS + 1)).astype(np.int64)
    at = np.clip(np.searchsorted(edges, lags, side="right") - 1, 0, BINS - 1)
    place = int(np.flatnonzero(rows == row)[0])
    return LagHistory(edges, np.bincount(at, minlength=BINS), int(at[place]), lags, place)
