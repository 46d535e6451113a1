"""Counts have singulars: no screen of a small job has \u00ab1 ranks\u00bb."""

from __future__ import annotations

import re

import pytest
from explorers import Settle, Start, screen
from fakes import FakeLoad, Plan

from ccltui.parsers import numbers
from ccltui.tui import panes
from ccltui.tui.state.pane import Pane

_ONE_OF_MANY = re.compile(
    r"(?<![\d.,/-])1 (?:more )?"
    r"(ranks|files|captures|rows|steps|names|collectives|communicators|lines|parts|kernels|metrics"
    r"|operators|modules|streams|categories|groups|findings|iterations|hits|keys|links)\b"
)


@pytest.mark.parametrize(
    ("number", "expected"), [(0, "0 ranks"), (1, "1 rank"), (2, "2 ranks"), (1200, "1,200 ranks")]
)
def test_a_number_of_things(number: int, expected: str) -> None:
    assert numbers.counted(number, "rank") == expected


def test_a_plural_of_its_own() -> None:
    found = [numbers.counted(number, "category", "categories") for number in (1, 3)]

    assert found == ["1 category", "3 categories"]


def test_the_pattern_finds_what_it_is_for() -> None:
    assert _ONE_OF_MANY.search("  1 ranks ")
    assert _ONE_OF_MANY.search("\u2026 1 more steps")
    assert not _ONE_OF_MANY.search("11 ranks, rank 1 computes, 0.1 steps, 1 of 8 ranks")


@pytest.mark.parametrize("size", [(80, 24), (200, 50)])
async def test_no_screen_of_a_job_of_one_has_a_plural_of_one(
    start: Start, settle: Settle, size: tuple[int, int]
) -> None:
    app = start(FakeLoad(Plan(ranks=1)))
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        for pane in panes.PANES:
            await _press(pilot, pane)
            for keys in ((), ("j",), ("at", "escape"), ("Y",)):
                await pilot.press(*keys)
                await settle(pilot)
                assert [row for row in screen(app) if _ONE_OF_MANY.search(row)] == [], pane.name


async def _press(pilot: object, pane: Pane) -> None:
    names = {"*": "asterisk", "%": "percent_sign"}
    await pilot.press(names.get(pane.key, pane.key))  # type: ignore[attr-defined]
