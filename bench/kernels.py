"""Measure the set operations on many intervals that are sorted, like those of a stream."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from bench.measure import Spread
from ccltui.metrics.arrays.intervals import Intervals, union

CELLS = 200  # about as many as a timeline has columns
_SEED = 5
Times = npt.NDArray[np.int64]


def measure(count: int, repetitions: int) -> dict[str, dict[str, float]]:
    """Return CPU seconds of each operation on ``count`` intervals: median, low and high.

    Operations on two sets use half of ``count`` for each.
    """
    random = np.random.default_rng(_SEED)
    starts, ends = _stream(count, random, overlapping=0.1)
    one, other = (Intervals(*_stream(count // 2, random, overlapping=0.0)) for _ in range(2))
    whole = Intervals(*_stream(count, random, overlapping=0.0))
    edges = np.linspace(whole.start_ns[0], whole.end_ns[-1], CELLS + 1).astype(np.int64)
    kernels: dict[str, Callable[[], object]] = {
        "union": lambda: union(starts, ends),
        "intersection": lambda: one & other,
        "subtraction": lambda: one - other,
        "coverage": lambda: whole.within(edges[:-1], edges[1:]),
    }
    return {name: _spread(kernel, repetitions) for name, kernel in kernels.items()}


def _stream(count: int, random: np.random.Generator, *, overlapping: float) -> tuple[Times, Times]:
    """Generate kernels of 1 to 40 us with gaps of up to 8 us; some overlap the one before."""
    durations = random.integers(1_000, 40_000, count)
    gaps = random.integers(1, 8_000, count)
    gaps[random.random(count) < overlapping] = -500
    starts = np.cumsum(np.roll(durations, 1) + gaps)
    return starts, starts + durations


def _spread(kernel: Callable[[], object], repetitions: int) -> dict[str, float]:
    seconds = []
    for _ in range(repetitions):
        started = time.process_time()
        kernel()
        seconds.append(time.process_time() - started)
    spread = Spread.of(seconds)
    return {"median": spread.median, "low": spread.low, "high": spread.high}
