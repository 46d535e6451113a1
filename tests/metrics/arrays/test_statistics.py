"""Statistics over ranks and steps."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from ccltui.metrics.arrays.bootstrap import LEAST, block_length, drawn_places, mean_differences
from ccltui.metrics.arrays.statistics import (
    KEYS,
    balance,
    mean,
    median,
    microseconds,
    milliseconds,
    nearest_rank,
    over_ranks,
    ratio,
    sample_std,
    students_t,
)
from ccltui.metrics.arrays.typical import (
    LARGE,
    lower_median,
    lower_medians,
    slow_ones,
    typical_of_groups,
)
from ccltui.parsers.array_types import F64


def test_mean_and_median_of_no_value_are_none() -> None:
    assert mean([]) is None
    assert median([]) is None
    assert nearest_rank([], 0.95) is None
    assert sample_std([]) is None


def test_median_of_an_even_number_is_the_mean_of_the_middle_two() -> None:
    assert median([4, 1, 3, 2]) == 2.5


@pytest.mark.parametrize(
    ("count", "share", "expected"),
    [
        (1, 0.95, 1),  # never an index of -1
        (5, 0.0, 1),
        (2, 0.1, 1),
        (3, 0.95, 3),
        (20, 0.95, 19),  # 0.95 * 20 is 19.000000000000004 in binary
        (100, 0.95, 95),
        (100, 0.99, 99),
        (10, 0.9, 9),
        (84, 0.95, 80),
    ],
)
def test_percentile_is_the_nearest_rank(count: int, share: float, expected: int) -> None:
    values = list(range(count, 0, -1))

    assert nearest_rank(values, share) == expected


def test_std_is_that_of_a_sample_and_undefined_for_one_value() -> None:
    assert sample_std([1, 2, 3]) == 1.0
    assert sample_std([5]) is None


def test_ratio_to_zero_is_none() -> None:
    assert ratio(0, 0) is None
    assert ratio(1, 4) == 0.25


def test_spread_accompanies_a_mean_over_ranks() -> None:
    assert over_ranks({"0": 1.0, "1": 4.0}) == {"mean": 2.5, "min": 1.0, "max": 4.0, "spread": 3.0}
    assert over_ranks({}) == {"mean": None, "min": None, "max": None, "spread": None}


def test_units_are_exact_to_the_nanosecond() -> None:
    assert milliseconds(616_798_984) == 616.798984
    assert microseconds(16_798_984) == 16798.984


@pytest.mark.parametrize(
    ("deviations", "freedom", "expected"),
    # by integrating both densities numerically
    [(4.0, 8, 7.595), (4.0, 30, 4.645), (3.0, 20, 3.422), (2.0, 250, 2.010)],
)
def test_estimated_deviations_need_more_of_them(
    deviations: float, freedom: int, expected: float
) -> None:
    assert students_t(deviations, freedom) == pytest.approx(expected, rel=0.07)


@pytest.mark.parametrize(
    ("freedom", "expected"),
    # by hand: 2 + 10 / (4 n) + 294 / (96 n^2)
    [(1, 2 + 2.5 + 3.0625), (5, 2 + 0.5 + 0.1225), (10, 2 + 0.25 + 0.030625)],
)
def test_the_expansion_has_all_its_terms(freedom: int, expected: float) -> None:
    assert students_t(2.0, freedom) == pytest.approx(expected, rel=1e-12)


def test_a_deviation_that_is_not_known_at_all_is_never_exceeded() -> None:
    assert students_t(4.0, 0) == math.inf


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


LOADS = st.lists(st.integers(0, 10_000), min_size=1, max_size=64)


def test_balance_of_equal_loads() -> None:
    assert balance([4, 4, 4, 4]) == {
        "load_factor": 1.0,
        "max_min_ratio": 1.0,
        "zero_experts": 0,
        "cv": 0.0,
        "gini": 0.0,
        "entropy_bits": 2.0,
        "entropy_norm": 1.0,
    }


def test_balance_of_one_loaded_rank() -> None:
    assert balance([16, 0, 0, 0]) == {
        "load_factor": 4.0,
        "max_min_ratio": None,
        "zero_experts": 3,
        "cv": pytest.approx(math.sqrt(3)),
        "gini": 0.75,
        "entropy_bits": 0.0,
        "entropy_norm": 0.0,
    }


def test_balance_between_the_extremes() -> None:
    found = balance([1, 3])

    assert (found["load_factor"], found["max_min_ratio"], found["cv"]) == (1.5, 3.0, 0.5)
    assert found["gini"] == 0.25
    assert found["entropy_bits"] == pytest.approx(0.811278124459)


def test_balance_of_no_load() -> None:
    assert balance([]) == balance([0, 0]) == dict.fromkeys(KEYS)
    assert balance([5])["entropy_norm"] is None


@given(LOADS, st.integers(1, 50))
def test_order_and_scale_change_nothing(loads: list[int], scale: int) -> None:
    found = balance(loads)

    assert balance(loads[::-1]) == found
    scaled = balance([load * scale for load in loads])
    for key in KEYS:
        assert scaled[key] == pytest.approx(found[key], abs=1e-9)


@given(LOADS)
def test_every_measure_stays_in_its_bounds(loads: list[int]) -> None:
    found = balance(loads)
    if found["load_factor"] is None:
        return
    count = len(loads)
    assert 1 - 1e-12 <= found["load_factor"] <= count + 1e-9
    assert 0 <= found["gini"] <= 1 - 1 / count + 1e-12
    assert found["entropy_norm"] is None or 0 <= found["entropy_norm"] <= 1


@pytest.mark.parametrize("n", [4, 20])
def test_the_interval_holds_the_true_difference_in_about_95_percent(n: int) -> None:
    random = np.random.default_rng(n)
    held = 0
    for seed in range(100):
        a, b = random.normal(10, 2, n), random.normal(11, 1, n)
        found = mean_differences(a, b, seed=seed)
        assert found.half_width is not None
        held += abs(float(found.delta[0]) - 1) <= found.half_width[0]

    assert held >= 0.88 * 100


def test_skewed_times_are_covered_too() -> None:
    random = np.random.default_rng(3)
    held = 0
    for seed in range(100):
        a, b = random.lognormal(0, 0.8, 20), random.lognormal(0, 0.8, 20)
        found = mean_differences(a, b, seed=seed)
        assert found.half_width is not None
        held += abs(float(found.delta[0])) <= found.half_width[0]

    assert held >= 0.88 * 100


def test_fewer_than_four_values_have_no_interval() -> None:
    few, many = np.array([1.0, 2.0, 3.0]), np.arange(50.0)

    found = mean_differences(few, many)

    assert found.half_width is None
    assert (found.count, float(found.delta[0])) == ((3, 50), 22.5)
    assert mean_differences(np.arange(float(LEAST)), many).half_width is not None


def test_equal_input_gives_equal_output_and_swapping_sides_changes_the_sign() -> None:
    random = np.random.default_rng(0)
    a, b = random.normal(5, 1, 20), random.normal(6, 1, 20)

    one, same, swapped = mean_differences(a, b), mean_differences(a, b), mean_differences(b, a)

    assert one.half_width is not None
    assert same.half_width is not None
    assert one.half_width.tolist() == same.half_width.tolist()
    assert float(one.delta[0]) == -float(swapped.delta[0])


def test_constant_values_differ_for_certain() -> None:
    found = mean_differences(np.full(5, 2.0), np.full(5, 3.0))

    assert found.half_width is not None
    assert (found.delta.tolist(), found.half_width.tolist()) == ([1.0], [0.0])


def test_intervals_of_many_quantities_together_rarely_miss_any() -> None:
    random = np.random.default_rng(7)
    missed = 0
    for seed in range(40):
        a, b = random.normal(0, 1, (15, 15)), random.normal(0, 1, (15, 15))
        found = mean_differences(a, b, together=True, seed=seed)
        assert found.half_width is not None
        missed += bool((np.abs(found.delta) > found.half_width).any())

    assert missed <= 6


def test_correlated_steps_are_averaged_in_blocks() -> None:
    random = np.random.default_rng(1)
    noise = random.normal(0, 1, 400)
    walk = np.zeros(400)
    for i in range(1, 400):
        walk[i] = 0.9 * walk[i - 1] + noise[i]

    assert block_length(noise) == 1
    assert block_length(np.ones(50)) == 1
    size = block_length(walk)
    assert size > 10
    alone, blocked = (mean_differences(walk, noise, block=(n, 1)) for n in (1, size))
    assert blocked.blocks == (400 // size, 400)
    assert alone.half_width is not None
    assert blocked.half_width is not None
    assert blocked.half_width[0] > 2 * alone.half_width[0]


def test_too_few_blocks_have_no_interval() -> None:
    found = mean_differences(np.arange(12.0), np.arange(12.0), block=(4, 1))

    assert (found.half_width, found.blocks) == (None, (3, 12))


def test_one_quantity_with_a_long_tail_does_not_widen_the_others() -> None:
    random = np.random.default_rng(2)
    calm = random.normal(10, 0.1, (2, 6, 1))
    late = np.full((2, 6, 1), 5.0) + random.normal(0, 1e-6, (2, 6, 1))
    late[:, 3] = 50.0  # one late step a side

    alone = mean_differences(calm[0], calm[1], together=True)
    found = mean_differences(*np.concatenate([calm, late], axis=2), together=True)

    assert alone.half_width is not None
    assert found.half_width is not None
    assert found.half_width[0] < 3 * alone.half_width[0]


def test_a_late_step_does_not_hide_a_change_many_times_larger() -> None:
    late, short = np.array([57.0, 57.01, 57.0, 60.9, 64.8, 57.02]), np.array([10, 10.1, 10, 9.9])

    found = mean_differences(late, short)

    assert found.half_width is not None
    assert found.half_width[0] < 20 < -found.delta[0]


@pytest.mark.parametrize("count", [1, 3, 10, 1000])
def test_drawn_places_are_even_and_independent(count: int) -> None:
    drawn = drawn_places(count, 400)

    assert drawn.shape == (400, count)
    assert np.array_equal(drawn, drawn_places(count, 400))
    often = np.bincount(drawn.ravel(), minlength=count)
    # of 400 * count draws each place has 400, with a standard deviation of at most 20
    assert len(often) == count
    assert abs(often - 400).max() < 100
    if count > 2:  # the first draw tells nothing about the second
        assert abs(np.corrcoef(drawn[:, 0], drawn[:, 1])[0, 1]) < 0.2
