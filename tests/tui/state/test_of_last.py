"""What is remembered of the last argument."""

from __future__ import annotations

from typing import Any

from ccltui.tui.state.answers import Findings
from ccltui.tui.state.scene import longest_names
from ccltui.tui.state.session import of_last


def test_an_equal_argument_that_is_another_object_is_computed_again() -> None:
    asked: list[list[int]] = []

    @of_last
    def total(numbers: list[int]) -> int:
        asked.append(numbers)
        return sum(numbers)

    one, other = [1, 2], [1, 2]

    assert [total(one), total(one), total(other), total(one)] == [3] * 4
    assert [id(numbers) for numbers in asked] == [id(one), id(other), id(one)]


def test_names_have_the_host_only_where_there_are_several() -> None:
    lanes: Any = dict.fromkeys(["0", "11", "a"])

    assert longest_names(Findings()) == (0, 0)
    assert longest_names(Findings(lanes=lanes, nodes={"0": 0, "11": 0})) == (3, 3)
    assert longest_names(Findings(lanes=lanes, nodes={"0": 0, "11": 12})) == (3, 7)
