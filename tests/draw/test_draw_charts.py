"""Charts of one panel: bars, distributions, sparklines, hours."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
import pytest

from ccltui.draw.alignment_chart import HourCells, draw_hours, pooled, span_of
from ccltui.draw.composition import put_bar, put_scale
from ccltui.draw.palette import HEAT, SHADED, Ink
from ccltui.draw.planes import DENSITY, Planes
from ccltui.draw.text import ASCII, bar, spark
from ccltui.report.alltoall_study import ecdf_lines, ecdf_svg, share_up_to

PARTS = {"compute": 30, "overlapped": 10, "waiting": 10, "transfer": 20, "bubble": 10, "idle": 20}


def test_parts_stand_end_to_end_each_in_the_colour_of_its_kind() -> None:
    planes = Planes.blank(1, 12, Ink.TEXT)
    put_bar(planes, 0, 2, PARTS, 100, colour=True)

    assert planes.row_text(0) == "  ████████▒▒"
    assert planes.style[0, 2:].tolist() == [
        *[Ink.COMPUTE] * 3,
        Ink.OVERLAPPED,
        Ink.WAITING,
        *[Ink.TRANSFER] * 2,
        Ink.BUBBLE,
        *[SHADED + Ink.IDLE] * 2,
    ]


def test_without_colour_parts_have_shades() -> None:
    planes = Planes.blank(1, 12, Ink.TEXT)
    put_bar(planes, 0, 2, PARTS, 100, colour=False)

    assert planes.row_text(0) == "  ███░▓▒▒~··"


def test_a_shorter_step_is_a_shorter_bar() -> None:
    planes = Planes.blank(2, 10, Ink.TEXT)
    put_bar(planes, 0, 0, PARTS, 200, colour=False)
    put_bar(planes, 1, 0, dict.fromkeys(PARTS, 0), 0, colour=False)
    put_bar(planes, 7, 0, PARTS, 100, colour=False)

    assert planes.row_text(0) == "██▒▒·     "
    assert planes.row_text(1) == " " * 10


def test_the_scale_begins_at_zero() -> None:
    planes = Planes.blank(1, 34, Ink.TEXT)
    put_scale(planes, 0, 4, 3_000_000)

    assert planes.row_text(0) == "    ╷0                  ╷2 ms     "


def test_shades_have_their_letters_where_only_ascii_is_shown() -> None:
    planes = Planes.blank(1, 10, Ink.TEXT)
    put_bar(planes, 0, 0, PARTS, 100, colour=False)

    assert planes.row_text(0).translate(ASCII) == "###:%==~.."


def test_shares_include_their_own_value() -> None:
    values = np.array([10, 20, 20, 40], np.int64)

    assert share_up_to(values, np.array([9.0, 10.0, 20.0, 40.0])).tolist() == [0, 0.25, 0.75, 1.0]


def test_cells_rise_from_left_to_right_and_end_full() -> None:
    values = np.array([1_000, 10_000, 100_000, 1_000_000], np.int64)

    assert ecdf_lines(values, width=30, height=4) == [
        "100 %                        █",
        "                      ████████",
        " 50 %         ████████████████",
        "  0 % ████████████████████████",
        "      1 us    31.6 us     1 ms",
    ]


def test_one_value_and_none() -> None:
    assert ecdf_lines(np.empty(0, np.int64)) == []
    lines = ecdf_lines(np.array([500], np.int64), width=20, height=2)
    assert lines[0].endswith("█")
    assert ecdf_lines(np.zeros(3, np.int64), width=20, height=2)


def test_the_drawing_is_well_formed_and_names_are_escaped() -> None:
    curves = {"<a>&\x1b": np.array([1_000, 2_000], np.int64), "empty": np.empty(0, np.int64)}

    root = ElementTree.fromstring(ecdf_svg(curves, title="delay", marks_ns=[1_500]))

    texts = [element.text or "" for element in root.iter() if element.tag.endswith("text")]
    assert "delay" in texts
    assert any(text.startswith("<a>&") for text in texts)
    assert not any("\x1b" in text for text in texts)
    paths = [element for element in root.iter() if element.tag.endswith("path")]
    assert len(paths) == 5 + 1 + 1  # grid, mark, curve
    assert ElementTree.fromstring(ecdf_svg({}, title="nothing")) is not None


def test_long_times_that_differ_by_less_than_logarithms_tell() -> None:
    text = ecdf_svg({"a": np.array([2**53, 2**53 + 1], np.int64)}, title="t")

    assert "nan" not in text


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

    assert text(planes, 1)[:3] == "·" + chr(DENSITY[1]) + chr(DENSITY[7])
