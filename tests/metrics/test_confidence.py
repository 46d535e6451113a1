"""How sure a statement is, in words."""

from __future__ import annotations

import pytest

from ccltui.metrics.confidence import Sure, level_of_saving, sure_text


def test_each_stated_part_has_its_name_and_the_others_are_left_out() -> None:
    assert Sure("high", "medium", "low").text == "cause high, rank medium, saving low"
    assert Sure("unknown", "high").text == "rank high"
    assert sure_text(Sure("high", "low").to_dict(), " · ") == "cause high · rank low"
    assert Sure("unknown").text == "not known"


@pytest.mark.parametrize(
    ("saves", "bounds", "level"),
    [
        (3.0, None, "high"),
        (3.0, [1.0, 4.0], "medium"),
        (None, [1.0, 4.0], "low"),
        (None, None, "unknown"),
    ],
)
def test_bounds_of_a_saving_are_less_sure_than_a_number(
    saves: float | None, bounds: list[float] | None, level: str
) -> None:
    assert level_of_saving(saves, bounds, "high") == level
