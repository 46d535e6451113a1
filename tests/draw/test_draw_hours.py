"""Cells of hours: which windows each shows, the largest value of several, and the time of day."""

from __future__ import annotations

import numpy as np
import pytest

from ccltui.draw import glyphs
from ccltui.draw.hours_chart import HourCells, draw_hours, pooled, span_of
from ccltui.draw.palette import HEAT
from ccltui.draw.planes import Planes

HOUR_US = 3_600_000_000
MIDNIGHT_US = 20_600 * 24 * HOUR_US


def test_a_day_in_sixty_cells_has_the_largest_of_24_minutes() -> None:
    view = HourCells.of(1440, 60, zoom=0, at=-1)
    late = np.zeros((2, 1440), np.int64)
    late[1, 1439] = 7

    assert view == HourCells(first=0, count=1440, per_cell=24, repeat=1)
    assert pooled(late, view)[1].tolist() == [0] * 59 + [7]


@pytest.mark.parametrize("zoom", range(12))
@pytest.mark.parametrize("at", [0, 5, 700, 1439])
@pytest.mark.parametrize("windows", [1, 7, 1440])
def test_the_selected_window_stays_in_view(windows: int, zoom: int, at: int) -> None:
    at = min(at, windows - 1)
    view = HourCells.of(windows, 70, zoom=zoom, at=at)

    assert 0 <= view.column(at) < 70
    assert view.first + view.count <= windows
    assert view.count <= 2 * span_of(windows, zoom)
    assert pooled(np.zeros((1, windows), np.int64), view).shape[1] <= 70


def text(planes: Planes, row: int) -> str:
    return "".join(map(chr, planes.glyph[row].tolist()))


def drawn(late_us: list[int], *, colour: bool) -> Planes:
    late = np.array([late_us]) * 1000
    view = HourCells.of(len(late_us), 60, zoom=0, at=-1)
    return draw_hours(
        late, view, width=60, first_us=MIDNIGHT_US, window_us=60_000_000, floor_ns=100_000,
        top_ns=10_000_000, at=-1, colour=colour,
    )  # fmt: skip


def test_ticks_are_at_round_times_of_day() -> None:
    ruler = text(drawn([0] * 60, colour=True), 0)

    assert ruler.index("╷00:10") == 10
    assert ruler.index("╷00:50") == 50


def test_late_cells_have_a_colour_and_absent_ones_are_blank() -> None:
    planes = drawn([-1, 0, 99, 100, 10_000, *[0] * 55], colour=True)

    assert text(planes, 1).startswith(" ··  ")
    styles = planes.style[1].tolist()
    assert all(style < HEAT for style in styles[:3])
    assert HEAT < styles[3] < styles[4]


def test_without_colour_characters_grow_with_the_lag() -> None:
    planes = drawn([0, 100, 10_000, *[0] * 57], colour=False)

    assert text(planes, 1)[:3] == "·" + chr(glyphs.DENSITY[1]) + chr(glyphs.DENSITY[7])
