"""Fit latency and inverse bandwidth to sizes and times of calls, robustly (Theil-Sen)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from ccltui.metrics.arrays.reductions import distinct_values, median_along, unique_counts
from ccltui.parsers.array_types import F64, I64

MIN_INSTANCES: Final = 5
MIN_SIZES: Final = 2
_MAX_POINTS: Final = 512  # 130 thousand pairs; more do not improve the slope
_Z_95: Final = 1.959964


@dataclass(frozen=True, slots=True)
class Line:
    """T = alpha + beta * S over ``n`` calls of ``sizes`` different sizes.

    ``alpha_ns`` is the latency, ``beta_ns_per_byte`` the inverse bandwidth with its 95 %
    interval (Sen 1968); ``r2`` is the share of the variance of the times that the line explains.
    """

    alpha_ns: float
    beta_ns_per_byte: float
    beta_low: float
    beta_high: float
    r2: float | None
    n: int
    sizes: int


def fit(size_bytes: I64, time_ns: I64) -> Line | str:
    """Fit the Theil-Sen line through the calls.

    Args:
        size_bytes: message size of each call.
        time_ns: duration of each call.

    Returns:
        The line, or the reason why the calls do not follow one.
    """
    sizes = len(distinct_values(size_bytes))
    if len(size_bytes) < MIN_INSTANCES or sizes < MIN_SIZES:
        found = f"{len(size_bytes)} calls of {sizes} {'size' if sizes == 1 else 'sizes'}"
        return f"{found}; a line needs {MIN_INSTANCES} calls of {MIN_SIZES} sizes"
    size, time = _sampled(size_bytes, time_ns)
    early, late = np.triu_indices(len(size), 1)
    apart = size[late] != size[early]
    early, late = early[apart], late[apart]
    slopes = np.sort((time[late] - time[early]) / (size[late] - size[early]))
    beta = float(median_along(slopes))
    alpha = float(median_along(time - beta * size))
    if beta <= 0:
        return "larger messages take no longer: waiting, not moving, decides the times"
    if alpha < 0:
        return "the latency comes out negative: the times do not grow along one line"
    low, high = _interval(slopes, size)
    if low < 0:
        return "the times may not grow with the size: the 95 % interval of the slope contains 0"
    return Line(alpha, beta, low, high, _explained(size, time, alpha, beta), len(size_bytes), sizes)


def _sampled(size_bytes: I64, time_ns: I64) -> tuple[F64, F64]:
    """Sizes and times of all calls, or of an even selection in order of size and time."""
    order = np.lexsort((time_ns, size_bytes))
    if len(order) > _MAX_POINTS:
        order = order[np.linspace(0, len(order) - 1, _MAX_POINTS).astype(np.int64)]
    return size_bytes[order].astype(np.float64), time_ns[order].astype(np.float64)


def _interval(slopes: F64, size: F64) -> tuple[float, float]:
    """Sen's confidence limits of the slope, with the variance corrected for repeated sizes."""
    n = len(size)
    _, tied = unique_counts(size)
    variance = n * (n - 1) * (2 * n + 5) - float((tied * (tied - 1) * (2 * tied + 5)).sum())
    spread = _Z_95 * np.sqrt(variance / 18)
    low = int(np.floor((len(slopes) - spread) / 2)) - 1
    high = int(np.ceil((len(slopes) + spread) / 2))
    return float(slopes[max(low, 0)]), float(slopes[min(high, len(slopes) - 1)])


def _explained(size: F64, time: F64, alpha: float, beta: float) -> float | None:
    total = float(((time - time.mean()) ** 2).sum())
    rest = float(((time - alpha - beta * size) ** 2).sum())
    return 1 - rest / total if total else None
