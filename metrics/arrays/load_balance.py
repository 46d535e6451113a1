"""Measures of load balance: load factor, coefficient of variation, Gini coefficient, entropy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ccltui.parsers.array_types import F64

KEYS = (
    "load_factor",
    "max_min_ratio",
    "zero_experts",
    "cv",
    "gini",
    "entropy_bits",
    "entropy_norm",
)


def balance(loads: Sequence[float] | F64) -> dict[str, Any]:
    """Return the measures of KEYS of non-negative loads; all None of no load, or where all are 0.

    For equal loads the load factor is 1, cv 0, Gini 0 and the normalised entropy 1; where one of n
    has all of the load, they are n, √(n−1), 1−1/n and 0. ``max_min_ratio`` is None where a load is
    0 (``zero_experts`` counts these). ``cv`` uses the standard deviation of the population.
    """
    values = np.sort(np.asarray(loads, np.float64))
    total, count = math.fsum(values.tolist()), len(values)
    if not count or not total:
        return dict.fromkeys(KEYS)
    mean = total / count
    share = values[values > 0] / total
    entropy = max(0.0, -math.fsum((share * np.log2(share)).tolist()))
    ranks = 2 * np.arange(1, count + 1) - count - 1
    return {
        "load_factor": float(values[-1]) / mean,
        "max_min_ratio": float(values[-1] / values[0]) if values[0] > 0 else None,
        "zero_experts": int((values == 0).sum()),
        "cv": float(np.std(values)) / mean,
        "gini": max(0.0, math.fsum((ranks * values).tolist()) / (count * total)),
        "entropy_bits": entropy,
        "entropy_norm": min(1.0, entropy / math.log2(count)) if count > 1 else None,
    }
