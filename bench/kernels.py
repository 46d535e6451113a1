"""The interval kernels on many intervals that are sorted already, as those of a stream are."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from bench.measure import Spread
from metrics.intervals import Intervals, union

CELLS = 200  # about as many as a timeline has columns
_SEED = 5


def measure(count: int, repetitions: int) -> dict[str, dict[str, float]]:
    """CPU seconds of each kernel on ``count`` intervals: median, low and high."""
    starts, ends = _stream(count, np.random.default_rng(_SEED))
    other_starts, other_ends = _stream(count, np.random.default_rng(_SEED + 1))
    one, other = Intervals.of(starts, ends), Intervals.of(other_starts, other_ends)
    edges = np.linspace(starts[0], ends[-1], CELLS + 1).astype(np.int64)
    kernels: dict[str, Callable[[], object]] = {
        "union": lambda: union(starts, ends),
        "intersection": lambda: one & other,
        "subtraction": lambda: one - other,
        "coverage": lambda: one.coverage(edges),
    }
    return {name: _spread(kernel, repetitions) for name, kernel in kernels.items()}


def _stream(
    count: int, random: np.random.Generator
) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """Kernels of a few microseconds with gaps; one in ten overlaps the one before it."""
    durations = random.integers(1_000, 40_000, count)
    gaps = np.where(random.random(count) < 0.1, -500, random.integers(1, 8_000, count))
    starts = np.cumsum(durations + gaps)
    return starts, starts + durations


def _spread(kernel: Callable[[], object], repetitions: int) -> dict[str, float]:
    seconds = []
    for _ in range(repetitions):
        started = time.process_time()
        kernel()
        seconds.append(time.process_time() - started)
    spread = Spread.of(seconds)
    return {"median": spread.median, "low": spread.low, "high": spread.high}
