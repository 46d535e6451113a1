"""Nesting: the range that began last of those that run, against a search through all ranges."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccltui.metrics.arrays.nesting import Nesting, depths

Ranges = list[tuple[int, int]]
TIMES = np.arange(-1, 60)


def sorted_ranges(ranges: Ranges) -> Ranges:
    return sorted(ranges, key=lambda one: (one[0], -one[1]))


def nesting(ranges: Ranges) -> Nesting:
    return Nesting(
        np.array([start for start, _ in ranges], np.int64),
        np.array([end for _, end in ranges], np.int64),
    )


def expected(ranges: Ranges, at: int, before: int) -> int:
    running = [i for i, (start, end) in enumerate(ranges[:before]) if start <= at < end]
    return max(running, default=-1)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 20)), max_size=14))
def test_any_ranges_even_overlapping_ones(lengths: list[tuple[int, int]]) -> None:
    ranges = sorted_ranges([(start, start + length) for start, length in lengths])
    found = nesting(ranges)

    assert found.innermost(TIMES).tolist() == [
        expected(ranges, t, len(ranges)) for t in TIMES.tolist()
    ]
    for row, (start, end) in enumerate(ranges):
        assert found.outer[row] == (expected(ranges, start, row) if end > start else -1)


@given(st.lists(st.booleans(), max_size=50))
def test_calls_on_a_stack(moves: list[bool]) -> None:
    """Nested ranges made by calls and returns, a time unit apart."""
    stack: list[int] = []
    starts: list[int] = []
    ends: dict[int, int] = {}
    for at, is_call in enumerate(moves):
        if is_call:
            stack.append(len(starts))
            starts.append(at)
        elif stack:
            ends[stack.pop()] = at
    ranges = [(start, ends.get(row, 60)) for row, start in enumerate(starts)]
    found = nesting(ranges).innermost(TIMES)

    assert found.tolist() == [expected(ranges, t, len(ranges)) for t in TIMES.tolist()]


@pytest.mark.parametrize("ranges", [[], [(3, 3)]])
def test_nothing_runs(ranges: Ranges) -> None:
    assert set(nesting(ranges).innermost(TIMES).tolist()) == {-1}


def test_a_range_that_outlives_the_one_around_it_is_still_found() -> None:
    found = nesting([(0, 10), (5, 15)])

    assert found.innermost(np.array([4, 7, 12, 15])).tolist() == [0, 1, 1, -1]


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 20)), max_size=14))
def test_the_depth_is_the_number_of_earlier_ranges_that_still_run(
    lengths: list[tuple[int, int]],
) -> None:
    ranges = sorted_ranges([(start, start + length) for start, length in lengths])
    start, end = (np.array([one[side] for one in ranges], np.int64) for side in (0, 1))

    for row, (begin, stop) in enumerate(ranges):
        running = [i for i in range(row) if ranges[i][0] <= begin < ranges[i][1]]
        assert depths(start, end)[row] == (len(running) if stop > begin else -1)
