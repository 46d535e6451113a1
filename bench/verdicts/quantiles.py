"""Quantiles and intervals of proportions."""

from __future__ import annotations

import math
from collections.abc import Sequence


def wilson(right: int, count: int, z: float = 1.96) -> tuple[float, float]:
    """Score interval of a proportion."""
    share, square = right / count, z * z / count
    middle = (share + square / 2) / (1 + square)
    half = z / (1 + square) * math.sqrt(share * (1 - share) / count + square / (4 * count))
    return max(0.0, middle - half), min(1.0, middle + half)


def nearest(ordered: Sequence[float], share: float) -> float:
    """The smallest value that at least this share does not exceed."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
