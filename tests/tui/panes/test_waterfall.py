"""The waterfall of a comparison: what is shown adds up to the whole difference."""

from __future__ import annotations

import re

import pytest

from ccltui.draw.palette import Ink
from ccltui.draw.planes import Planes
from ccltui.metrics.compare.step_diff import Waterfall
from ccltui.tui.panes import collective_drawer

FEW = Waterfall(
    {("compute", "compute"): 40_000_000, ("idle", "data_loading"): 1_000_000},
    {
        ("compute", "compute"): 39_000_000,
        ("idle", "data_loading"): 13_000_000,
        ("copies", "copies"): 2_000_000,
    },
)
MANY = Waterfall({}, {("communication", f"group {n}"): (n + 1) * 1_000_000 for n in range(20)})


def terms_ms(text: str) -> list[float]:
    """Signed times in a line, in ms."""
    return [float(number) for number in re.findall(r"([+-][\d.]+) ms", text)]


@pytest.mark.parametrize("width", [30, 50, 80, 120, 200])
@pytest.mark.parametrize("found", [FEW, MANY])
def test_the_line_adds_up_at_every_width(found: Waterfall, width: int) -> None:
    whole, *parts = terms_ms(collective_drawer.waterfall_line(found, width))

    assert whole == pytest.approx(found.difference_ns / 1e6)
    assert sum(parts) == pytest.approx(whole)


def test_the_largest_part_is_first() -> None:
    text = collective_drawer.waterfall_line(FEW, 120)

    assert text == ("+13 ms = idle: data loading +12 ms  copies +2 ms  compute -1 ms")


@pytest.mark.parametrize("found", [FEW, MANY])
def test_the_last_row_of_the_table_is_the_sum_of_the_others(found: Waterfall) -> None:
    planes = Planes.blank(20, 100, Ink.TEXT)
    end = collective_drawer.put_table(planes, 0, found, colour=False)
    changes = [terms_ms(planes.row_text(y)) for y in range(1, end)]
    changed = [row[0] for row in changes if row]

    assert sum(changed[:-1]) == pytest.approx(changed[-1])
    assert changed[-1] == pytest.approx(found.difference_ns / 1e6)
    assert planes.row_text(end - 1).split()[0] == "time"
