"""Which number of a returned value is the metric's, and when there is none."""

from __future__ import annotations

from typing import Any

import pytest

from ccltui.metrics.functions.function_metric import read_returned


@pytest.mark.parametrize(
    ("returned", "value", "unit", "key"),
    [
        (3, 3, "", None),
        (2.5, 2.5, "", None),
        ({"value": 1, "lag_us": 2}, 1, "", "value"),
        ({"lag_us": 2, "metric_value": 1, "units": "apples"}, 1, "apples", "metric_value"),
        ({"num_ranks": 4, "lag": 2.0}, 2.0, "", "lag"),  # the metric is called lag
        ({"mode": "x", "mean_lag_us": 2.0, "num": 3}, 2.0, "us", "mean_lag_us"),
        ({"status": "ok", "schema": 1, "total_calls": 5}, 5, "", "total_calls"),
        ({"deep": {"value": 9}, "list": [1], "flag": True, "bytes": 7}, 7, "bytes", "bytes"),
    ],
)
def test_the_number(returned: Any, value: float, unit: str, key: str | None) -> None:
    reading = read_returned("lag", returned)

    assert (reading.value, reading.unit, reading.key) == (value, unit, key)
    assert reading.problem == reading.reservation == ""
    assert reading.details["value"] == value


@pytest.mark.parametrize(
    ("returned", "not_finite", "message"),
    [
        (None, (), "nothing"),
        (True, (), "a bool"),
        ("12", (), "a str"),
        ([1, 2], (), "a list"),
        ({}, (), "the dictionary is empty"),
        ({"mode": "x"}, (), "none of mode is one"),
        ({"error": "no files", "mode": "x"}, (), "error: no files"),
        # A later number is another quantity, and must not stand for one that is missing.
        ({"mean_lag_us": None, "num_collectives": 0}, (), "mean_lag_us is null"),
        ({"num": 3, "metric_value": None}, (), "metric_value is null"),
        ({"value": "fast", "num": 3}, (), "value is a str"),
        ({"lag_us": None, "num": 3}, ("lag_us",), "lag_us is not finite"),
        (None, ("the value",), "the value is not finite"),
    ],
)
def test_no_number(returned: Any, not_finite: tuple[str, ...], message: str) -> None:
    reading = read_returned("lag", returned, not_finite)

    assert reading.value is None
    assert message in reading.problem


def test_a_reservation_of_the_function_is_kept() -> None:
    reading = read_returned("m", {"value": 1, "status": "partial", "reason": "rank 3 is cut"})

    assert reading.value == 1
    assert reading.reservation == "the function states status partial; reason: rank 3 is cut"
    assert reading.details == {
        "value": 1,
        "returned_status": "partial",
        "returned_reason": "rank 3 is cut",
    }
    assert "p95" in read_returned("m", {"value": 1, "p95": None}, ("p95",)).reservation
