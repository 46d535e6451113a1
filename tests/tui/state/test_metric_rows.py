"""A result as rows and columns."""

from __future__ import annotations

from typing import Any

import pytest

from ccltui.metrics.result import Result
from ccltui.tui.panes.metric_tables import by_rank, leading, rank_columns

LABELS = ("0", "1")


def result(details: dict[str, Any]) -> Result:
    """A result with these details."""
    return Result("m", "ms", "A number.", "ok", 1.0, details)


def test_columns_are_the_parts_that_have_a_value_for_each_rank() -> None:
    found = rank_columns(
        result(
            {
                "value_ms": 1.0,
                "calls_per_rank": {"0": 4, "1": 5},
                "per_rank": {"0": {"avg": 1.5, "name": "x"}, "1": {"avg": None}},
                "clock": {"0": {"offset_us": -3.0}, "1": {"offset_us": 3.0}},
                "calls_per_step": {"0": {"7": 4}, "1": {"7": 5}},
                "by_dim": {"tp": {"bytes": 3}},
                "persistent": {"0": True},
            }
        ),
        LABELS,
    )

    assert found == {
        "calls_per_rank": {"0": 4, "1": 5},
        "avg": {"0": 1.5, "1": None},
        "clock offset_us": {"0": -3.0, "1": 3.0},
    }


def test_the_leading_column_is_the_headline_s_own() -> None:
    assert leading({"x": {}, "value_ms": {}}, "value_ms") == "value_ms"
    assert leading({"min": {}, "avg": {}}, "avg_iter_time_ms") == "avg"
    assert leading({"wait_us": {}}, "mean_lag_us") is None
    assert leading({}, "mean_lag_us") is None


@pytest.mark.parametrize(
    ("details", "expected"),
    [
        ({"per_rank": {"0": {"x": 0.0}, "1": {"x": 2.0}}}, (True, 0.0, "r0", 2.0, "r1", 2.0)),
        ({"per_rank": {"0": {"x": None}, "1": {"x": 1.0}}}, (True, 1.0, "r1", 1.0, "r1", 0.0)),
        # The value is 1: numbers that are all larger, or other numbers, are no range around it.
        ({"per_rank": {"0": {"x": 2.0}, "1": {"x": 3.0}}}, (False, *[None] * 5)),
        ({"per_rank": {"0": {"y": 0.0}, "1": {"y": 3.0}}}, (False, *[None] * 5)),
        ({"per_rank": {"0": {"x": None}, "1": {"x": None}}}, (True, *[None] * 5)),
    ],
)
def test_numbers_by_rank_are_a_range_where_the_value_may_be_their_mean(
    details: dict[str, Any], expected: tuple[object, ...]
) -> None:
    found = by_rank(result(details), "x", LABELS)

    assert found is not None
    ends = (found.low, found.low_rank, found.high, found.high_rank)
    assert (found.is_of_value, *ends, found.spread) == expected


def test_without_numbers_by_rank_there_are_none() -> None:
    assert by_rank(result({"value_ms": 1.0}), "x", LABELS) is None
