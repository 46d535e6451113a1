"""Summarise a sample of latencies: mean, median and percentiles."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ccltui.metrics.arrays.reductions import median_along
from ccltui.metrics.arrays.statistics import rank_place

Distribution = dict[str, float | int | None]

_SHARES = (("p90", 0.90), ("p95", 0.95), ("p99", 0.99))


def distribution(values: Sequence[float]) -> Distribution:
    """Return mean, median, nearest-rank p90, p95 and p99, and n; all but n None of no value."""
    if not len(values):
        return {"mean": None, "p50": None, **{name: None for name, _ in _SHARES}, "n": 0}
    ordered = np.sort(np.asarray(values, np.float64))
    count = len(ordered)
    ranks = {name: rank_place(count, share) for name, share in _SHARES}
    return {
        "mean": math.fsum(ordered.tolist()) / count,
        "p50": float(median_along(ordered)),
        **{name: float(ordered[rank]) for name, rank in ranks.items()},
        "n": count,
    }
