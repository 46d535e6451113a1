"""What is typical of several ranks, some of which are slow."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from ccltui.metrics.arrays.typical import (
    LARGE,
    lower_median,
    lower_medians,
    slow_ones,
    typical_of_groups,
)
from ccltui.parsers.array_types import F64


def typical_of_rows(rows: F64) -> F64:
    """The typical value of each column; rows whose sum is slow are set aside first."""
    count, columns = rows.shape
    slow = slow_ones(rows.sum(axis=1), np.zeros(count, np.int64), 1)
    group = np.tile(np.arange(columns), count)
    return typical_of_groups(rows.ravel(), group, columns, np.repeat(slow, columns))


def test_slow_rows_are_set_aside_before_the_median() -> None:
    # two of four take twice as long: the lower median would be 102 and 104
    rows = np.array([[100.0, 104.0], [102.0, 100.0], [200.0, 208.0], [204.0, 200.0]])

    assert typical_of_rows(rows).tolist() == [101.0, 102.0]


def test_of_two_the_mean_counts_unless_one_is_slow() -> None:
    assert typical_of_rows(np.array([[100.0], [104.0]])).tolist() == [102.0]
    assert typical_of_rows(np.array([[100.0], [106.0]])).tolist() == [100.0]


def test_of_ranks_that_all_differ_the_lower_median_counts() -> None:
    assert typical_of_rows(np.array([[100.0], [140.0], [170.0], [220.0]])).tolist() == [140.0]


def test_a_single_slow_value_of_a_row_that_is_not_slow_is_set_aside() -> None:
    rows = np.array([[100.0, 1000.0], [120.0, 1000.0]])  # 2 % longer in all

    assert typical_of_rows(rows).tolist() == [100.0, 1000.0]


def test_rows_without_any_time_are_typical_of_themselves() -> None:
    assert typical_of_rows(np.zeros((3, 2))).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("size", [3, LARGE + 1])
def test_small_and_large_groups_set_the_same_aside(size: int) -> None:
    rows = np.random.default_rng(5).normal(1000, 5, (size, 2))
    rows[: size // 2] *= 1.5
    kept = np.sort(rows[size // 2 :], axis=0)

    mask = slow_ones(rows.sum(axis=1), np.zeros(size, np.int64), 1)

    assert mask.tolist() == [row < size // 2 for row in range(size)]
    assert typical_of_rows(rows).tolist() == pytest.approx(np.median(kept, axis=0).tolist())


def test_groups_of_slow_members_alone_and_empty_groups() -> None:
    values, group = np.array([5.0, 7.0]), np.array([0, 2])

    found = typical_of_groups(values, group, 3, np.array([True, False]))

    assert found[[0, 2]].tolist() == [5.0, 7.0]
    assert np.isnan(found[1])
    assert not len(slow_ones(np.empty(0), np.empty(0, np.int64), 1))


@pytest.mark.parametrize(
    "sizes",
    [[4] * 50, [1, 4, 0, 3, 4, 2] * 9, [90, *[1] * 60], [LARGE] * 3, [3 * LARGE, 0, 1], [], [0, 0]],
    ids=["equal", "uneven", "one is large", "all are large", "large and small", "none", "empty"],
)
def test_groups_of_any_sizes_have_their_own_median(sizes: list[int]) -> None:
    draw = np.random.default_rng(3)
    group = draw.permutation(np.repeat(np.arange(len(sizes)), sizes))
    values = draw.integers(0, 30, len(group)).astype(np.float64)

    found = lower_medians(values, group, len(sizes))

    assert_array_equal(found, [lower_median(values[group == i]) for i in range(len(sizes))])
