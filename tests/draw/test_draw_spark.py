"""Sparklines and bars."""

from __future__ import annotations

from ccltui.draw.spark import bar, spark


def test_spark_spans_the_smallest_to_the_largest_value() -> None:
    assert spark([0, 1, 2, 3, 4, 5, 6, 7], 8) == "▁▂▃▄▅▆▇█"


def test_equal_values_are_level_and_absent_ones_blank() -> None:
    assert spark([5, 5, None, 5], 10) == "▄▄ ▄"
    assert spark([None, None], 5) == "  "
    assert spark([], 5) == ""


def test_more_values_than_cells_show_the_maximum_of_each_share() -> None:
    assert spark([0, 0, 0, 7, 0, 0, 0, 0], 4) == "▁█▁▁"


def test_bar_is_exact_to_an_eighth() -> None:
    assert bar(0.0, 4) == "    "
    assert bar(0.5, 4) == "██  "
    assert bar(0.53125, 4) == "██▏ "
    assert bar(2.0, 4) == "████"
