"""Sparklines and bars."""

from __future__ import annotations

from ccltui.draw.bars import bar, spark


def test_spark_begins_at_zero() -> None:
    assert spark([0, 1, 2, 3, 4, 5, 6, 7], 8) == "▁▂▃▄▅▆▇█"
    assert spark([6, 7], 8) == "▇█"


def test_a_zero_is_the_lowest_cell_and_nothing_else_is() -> None:
    assert spark([0, 0, 0], 8) == "▁▁▁"
    assert spark([0, 0.001, 100], 8) == "▁▂█"


def test_a_scale_that_begins_below_zero_says_so() -> None:
    assert spark([-7, 0, 7], 8) == "±▁▅█"
    assert spark([-1, -1], 8) == "±▁▁"
    assert len(spark([-1.0] * 30, 8)) == 8


def test_equal_values_are_level_and_absent_ones_blank() -> None:
    assert spark([5, 5, None, 5], 10) == "██ █"
    assert spark([None, None], 5) == "  "
    assert spark([], 5) == ""


def test_more_values_than_cells_show_the_maximum_of_each_share() -> None:
    assert spark([0, 0, 0, 7, 0, 0, 0, 0], 4) == "▁█▁▁"


def test_bar_is_exact_to_an_eighth() -> None:
    assert bar(0.0, 4) == "    "
    assert bar(0.5, 4) == "██  "
    assert bar(0.53125, 4) == "██▏ "
    assert bar(2.0, 4) == "████"
