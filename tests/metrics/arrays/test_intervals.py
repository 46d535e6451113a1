"""Interval algebra compared with sets of integers, and edge cases."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccltui.metrics.arrays.intervals import Intervals, union

Pairs = list[tuple[int, int]]

POINTS = st.integers(-20, 40)
PAIRS = st.lists(st.tuples(POINTS, POINTS), max_size=12)


def of(pairs: Pairs) -> Intervals:
    return union([start for start, _ in pairs], [end for _, end in pairs])


def points(pairs: Pairs) -> set[int]:
    return {point for start, end in pairs for point in range(start, end)}


def points_of(intervals: Intervals) -> set[int]:
    return points(list(zip(intervals.start_ns.tolist(), intervals.end_ns.tolist(), strict=True)))


def assert_canonical(intervals: Intervals) -> None:
    assert intervals.start_ns.dtype == intervals.end_ns.dtype == np.int64
    assert np.all(intervals.end_ns > intervals.start_ns)
    assert np.all(intervals.start_ns[1:] > intervals.end_ns[:-1])


def test_union_merges_overlapping_touching_and_nested_intervals() -> None:
    merged = of([(60, 70), (10, 30), (20, 50), (12, 13), (70, 75), (90, 90), (95, 91)])

    assert merged.start_ns.tolist() == [10, 60]
    assert merged.end_ns.tolist() == [50, 75]
    assert merged.total_ns == 55


def test_worked_example_of_overlap_and_identity() -> None:
    computing = of([(10, 50), (60, 70)])
    communicating = of([(40, 80)])
    copying = of([(75, 90)])

    overlap = (computing & communicating).total_ns
    comp_only = (computing - communicating).total_ns
    comm_only = (communicating - computing).total_ns
    mem_only = (copying - (communicating | computing)).total_ns
    idle = (computing | communicating | copying).gaps(0, 100)

    assert (computing.total_ns, communicating.total_ns) == (50, 40)
    assert (overlap, comp_only, comm_only, mem_only) == (20, 30, 20, 10)
    assert idle == of([(0, 10), (90, 100)])
    assert overlap + comp_only + comm_only + mem_only + idle.total_ns == 100
    assert (communicating - (computing | copying)).total_ns == 15


def test_epoch_nanoseconds_keep_their_last_digit() -> None:
    base = 1_707_000_000_000_000_000
    one = Intervals.of(base + 1, base + 4)

    assert (one & Intervals.of(base + 3, base + 9)).total_ns == 1
    assert one.within([base, base + 2], [base + 2, base + 10]).tolist() == [1, 2]


def test_an_edge_inside_an_interval_splits_it() -> None:
    busy = of([(0, 10), (20, 30)])

    assert busy.within([-5, 5, 15, 25, 25], [5, 15, 25, 25, 40]).tolist() == [5, 5, 5, 0, 5]
    assert busy.within([-9, 0, 21, 40], [0, 99, 8, 50]).tolist() == [0, 20, -3, 0]


def test_a_start_belongs_to_its_interval_and_an_end_does_not() -> None:
    assert of([(0, 10), (20, 30)]).contains([-1, 0, 9, 10, 20, 30]).tolist() == [
        False, True, True, False, True, False,
    ]  # fmt: skip


def test_membership_in_a_set_of_one_interval() -> None:
    assert of([(3, 10)]).contains([2, 3, 9, 10]).tolist() == [False, True, True, False]


def test_the_empty_set() -> None:
    nothing = Intervals.empty()
    some = of([(1, 2)])

    assert len(nothing) == nothing.total_ns == 0
    assert nothing | some == some == some - nothing
    assert nothing & some == some & nothing == nothing - some == nothing == some - some
    assert nothing.within([0, 5], [5, 9]).tolist() == [0, 0]
    assert nothing.contains([1]).tolist() == [False]
    assert nothing.gaps(0, 3) == of([(0, 3)])
    assert some.clip(5, 5) == some.gaps(1, 2) == nothing


def test_sets_compare_by_value_and_have_no_hash() -> None:
    assert of([(1, 2)]) != (1, 2)
    with pytest.raises(TypeError, match="unhashable"):
        hash(Intervals.empty())


@given(PAIRS, PAIRS)
def test_algebra_equals_that_of_sets_of_points(left: Pairs, right: Pairs) -> None:
    a, b = of(left), of(right)

    for result, truth in (
        (a, points(left)),
        (a & b, points(left) & points(right)),
        (a | b, points(left) | points(right)),
        (a - b, points(left) - points(right)),
    ):
        assert_canonical(result)
        assert points_of(result) == truth
        assert result.total_ns == len(truth)


@given(PAIRS, POINTS, POINTS)
def test_clip_and_gaps_part_a_range(pairs: Pairs, start: int, end: int) -> None:
    kept, left_out = of(pairs).clip(start, end), of(pairs).gaps(start, end)
    inside = set(range(start, end))

    assert points_of(kept) == points(pairs) & inside
    assert points_of(left_out) == inside - points(pairs)
    assert_canonical(kept)
    assert_canonical(left_out)


@given(PAIRS, st.lists(POINTS, min_size=1, max_size=10).map(sorted))
def test_covered_time_counts_the_points_of_every_cell(pairs: Pairs, edges: list[int]) -> None:
    truth = [len(points(pairs) & set(range(left, right))) for left, right in pairwise(edges)]

    assert of(pairs).within(edges[:-1], edges[1:]).tolist() == truth


@given(PAIRS, st.lists(POINTS, max_size=10))
def test_membership_equals_that_of_the_points(pairs: Pairs, times: list[int]) -> None:
    assert of(pairs).contains(times).tolist() == [time in points(pairs) for time in times]
