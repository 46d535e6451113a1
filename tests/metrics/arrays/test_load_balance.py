"""Measures of load balance at known values."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccltui.metrics.arrays.statistics import KEYS, balance

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
