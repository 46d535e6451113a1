"""Intervals of differences of means: coverage, too few values, correlation, many quantities."""

from __future__ import annotations

import numpy as np
import pytest

from ccltui.metrics.arrays.bootstrap import LEAST, block_length, drawn_places, mean_differences


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
