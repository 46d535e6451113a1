"""Compiled functions on intervals equal those in numpy."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccltui.metrics.arrays import interval_arrays
from ccltui.metrics.arrays.compiled import available
from ccltui.metrics.arrays.interval_arrays import Functions, IntervalSet
from ccltui.metrics.arrays.intervals import Intervals, long_gaps, union, union_of_class
from ccltui.parsers.array_types import I64

pytestmark = pytest.mark.skipif(not available(), reason="the functions were not compiled")

POINTS = st.integers(-30, 60) | st.integers(-(1 << 62), 1 << 62)
PAIRS = st.lists(st.tuples(POINTS, POINTS), max_size=25)


def compiled() -> Functions:
    from ccltui.metrics.arrays import _intervals

    functions: Functions = _intervals
    return functions


def columns(pairs: list[tuple[int, int]]) -> IntervalSet:
    table: I64 = np.array(pairs, np.int64).reshape(-1, 2)
    return np.ascontiguousarray(table[:, 0]), np.ascontiguousarray(table[:, 1])


def listed(found: IntervalSet | None) -> list[list[int]] | None:
    return None if found is None else [column.tolist() for column in found]


@given(PAIRS, st.booleans())
def test_union_of_sorted_and_unsorted_intervals(
    pairs: list[tuple[int, int]], is_sorted: bool
) -> None:
    start, end = columns(sorted(pairs) if is_sorted else pairs)

    assert listed(compiled().union(start, end)) == listed(interval_arrays.union(start, end))


@pytest.mark.parametrize("name", ["merge", "intersect", "subtract"])
@given(one=PAIRS, other=PAIRS)
def test_two_sets(name: str, one: list[tuple[int, int]], other: list[tuple[int, int]]) -> None:
    left, right = union(*columns(one)), union(*columns(other))
    arrays = (left.start_ns, left.end_ns, right.start_ns, right.end_ns)

    found = getattr(compiled(), name)(*arrays)

    assert listed(found) == listed(getattr(interval_arrays, name)(*arrays))


@given(PAIRS.filter(lambda pairs: any(end > start for start, end in pairs)), PAIRS)
def test_covered_time_between_moments_in_any_order(
    pairs: list[tuple[int, int]], moments: list[tuple[int, int]]
) -> None:
    busy = union(*columns([(start // 64, end // 64) for start, end in pairs] + [(0, 1)]))
    between = columns([(begin // 64, until // 64) for begin, until in moments])

    found = compiled().covered_within(busy.start_ns, busy.end_ns, *between)

    expected = interval_arrays.covered_within(busy.start_ns, busy.end_ns, *between)
    assert found.tolist() == expected.tolist()


NEAR = st.integers(-50, 400) | st.integers(-(1 << 61), 1 << 61)


@given(st.lists(st.lists(NEAR, max_size=12), min_size=1, max_size=4), st.integers(1, 40))
def test_long_gaps_between_times_in_any_order(parts: list[list[int]], least: int) -> None:
    times = [np.array(part, np.int64) for part in parts]
    order = sorted(time for part in parts for time in part)
    truth = [pair for pair in pairwise(order) if pair[1] - pair[0] >= least]

    found = compiled().long_gaps(times, least)

    if found is not None:  # None: too much room for so few times
        assert list(zip(*(column.tolist() for column in found), strict=True)) == truth
    slow = interval_arrays.long_gaps(times, least)
    assert list(zip(*(column.tolist() for column in slow), strict=True)) == truth
    assert long_gaps(times, least) == union(*columns(truth))


def test_few_times_far_apart_allocate_no_table() -> None:
    far = np.array([0, 1 << 60], np.int64)

    assert compiled().long_gaps([far], 10) is None
    assert long_gaps([far], 10).total_ns == 1 << 60
    assert len(long_gaps([], 10)) == len(long_gaps([far[:0]], 10)) == 0


def test_covered_time_of_many_intervals_at_few_and_many_times() -> None:
    random = np.random.default_rng(3)
    edges = np.cumsum(random.integers(1, 9, 20_000))
    busy = Intervals(edges[::2].copy(), edges[1::2].copy())
    for moments in (edges, edges[::-1].copy(), random.permutation(edges), edges[::3_000].copy()):
        arrays = (busy.start_ns, busy.end_ns, moments[:-1].copy(), moments[1:].copy())
        expected = interval_arrays.covered_within(*arrays)
        assert compiled().covered_within(*arrays).tolist() == expected.tolist()


def test_columns_that_are_not_contiguous() -> None:
    table = np.arange(24).reshape(-1, 2)
    apart = Intervals(table[:, 0], table[:, 1])

    assert (apart & Intervals.of(3, 10)).total_ns == 3
    assert apart.within(table[::2, 0], table[::2, 1]).tolist() == [1] * 6


def test_moments_of_any_shape() -> None:
    moments = np.array([[0, 5], [7, 20]])

    assert Intervals.of(4, 8).within(moments - 1, moments).tolist() == [[0, 1], [1, 0]]
    assert Intervals.of(4, 8).within(5, 9).tolist() == 3


@given(PAIRS, st.booleans(), st.lists(st.integers(0, 2), min_size=25, max_size=25))
def test_union_of_the_events_of_a_class(
    pairs: list[tuple[int, int]], is_sorted: bool, classes: list[int]
) -> None:
    start, lasted = columns(sorted(pairs) if is_sorted else pairs)
    kind = np.array(classes[: len(start)], np.int8)
    arrays = start // 2, lasted // 2, kind, 1

    found = compiled().union_of_class(*arrays)

    assert listed(found) == listed(interval_arrays.union_of_class(*arrays))
    whole = union_of_class(*arrays)
    of_class = union(arrays[0][kind == 1], (arrays[0] + arrays[1])[kind == 1])
    assert whole == of_class


TIMES = st.integers(0, 60)


@given(PAIRS, st.lists(st.tuples(TIMES, TIMES, TIMES, TIMES), max_size=25), st.booleans())
def test_waits_that_no_computation_covers(
    pairs: list[tuple[int, int]], waits: list[tuple[int, int, int, int]], is_sorted: bool
) -> None:
    busy = union(*columns([(start // 64, end // 64) for start, end in pairs]))
    table: I64 = np.array(sorted(waits) if is_sorted else waits, np.int64).reshape(-1, 4)
    begun, shortest, longer, gap = (np.ascontiguousarray(column) for column in table.T)
    given_waits = begun, shortest + longer, shortest, gap
    results = [(np.zeros(len(table), np.int64), np.ones(len(table), np.int64)) for _ in range(2)]

    for functions, found in zip((compiled(), interval_arrays), results, strict=True):
        functions.exposed_waits(busy.start_ns, busy.end_ns, given_waits, found)

    assert [column.tolist() for column in results[0]] == [column.tolist() for column in results[1]]
    exposed = [
        wait - busy.clip(start, start + wait).total_ns
        for start, wait in zip(begun.tolist(), longer.tolist(), strict=True)
    ]
    assert results[0][0].tolist() == exposed
