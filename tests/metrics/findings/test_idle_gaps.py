"""Idle times and the launches behind them, from compiled code and from arrays."""

from __future__ import annotations

import numpy as np
import pytest

from ccltui.metrics.arrays.compiled import available
from ccltui.metrics.arrays.intervals import Intervals, union
from ccltui.metrics.findings.rank_time.idle_causes import _compiled, _in_arrays
from ccltui.metrics.model.rank_steps import NOT_LAUNCHED
from ccltui.parsers.array_types import I32, I64


def _pieces(random: np.random.Generator, count: int, calls: int) -> tuple[I64, I64, I32]:
    """Return starts in order, ends and launching rows of device events; some begin together."""
    start = np.sort(random.integers(0, 3 * count + 1, count)) * 5
    launch = random.integers(-1, calls, count).astype(np.int32)
    return start, start + random.integers(0, 30, count), launch


@pytest.mark.skipif(not available(), reason="the compiled modules are not built")
@pytest.mark.parametrize("seed", range(40))
def test_compiled_gaps_are_equal_to_those_of_arrays(seed: int) -> None:
    random = np.random.default_rng(seed)
    count, calls = int(random.integers(0, 30)), int(random.integers(1, 20))
    start, end, launch = _pieces(random, count, calls)
    work = union(start, end)
    edges = np.sort(random.choice(500, 8, replace=False))
    idle = union(edges[::2], edges[1::2]) - work
    launches = np.sort(random.integers(0, 400, calls)), np.broadcast_to(np.int64(7), (calls,))

    both = [
        gaps_of(
            (work.start_ns, work.end_ns), (idle.start_ns, idle.end_ns), (start, launch), launches
        )
        for gaps_of in (_compiled, _in_arrays)
    ]

    for compiled, in_arrays in zip(*both, strict=True):
        assert compiled.tolist() == in_arrays.tolist()


def test_a_gap_ends_with_the_latest_launch_of_the_work_that_starts_there() -> None:
    work, idle = Intervals.of([0, 100], [10, 120]), Intervals.of([10, 120], [100, 150])
    pieces = np.array([0, 100, 100]), np.array([-1, 0, 1], np.int32)

    found = _in_arrays(
        (work.start_ns, work.end_ns),
        (idle.start_ns, idle.end_ns),
        pieces,
        (np.array([20, 60]), np.array([5, 9])),
    )

    start, end, launched, returned = (column.tolist() for column in found)
    assert (start, end) == ([10, 120], [100, 150])
    assert launched == [60, NOT_LAUNCHED]
    assert returned == [69, NOT_LAUNCHED]
