"""A result as rows and columns."""

from __future__ import annotations

from typing import Any

from ccltui.metrics.result import Result
from ccltui.tui.state.metric_list import extremes, leading, rank_columns

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


def test_extremes_name_the_ranks() -> None:
    assert extremes({"0": 4.0, "1": None, "2": 9.0}) == (("0", 4.0), ("2", 9.0))
    assert extremes({"0": None}) is None
