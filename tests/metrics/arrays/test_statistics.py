"""Statistics of plain lists."""

from __future__ import annotations

import math

import pytest

from ccltui.metrics.arrays.statistics import (
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
