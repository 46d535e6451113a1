"""The minimap: shares of network time over the whole window, and the part in view."""

from __future__ import annotations

import numpy as np

from ccltui.draw.palette import Ink
from ccltui.draw.planes import Planes
from ccltui.draw.timeline_chart import Lane, Minimap, Track, What


def lane(start_ns: int, end_ns: int, offset_ns: int = 0) -> Lane:
    """A rank whose network is busy once."""
    track = Track.of(np.array([start_ns]), np.array([end_ns]))
    return Lane("0", Track.empty(), track, Track.empty(), offset_ns)


def drawn(*lanes: Lane, view_ns: tuple[int, int] = (0, 100)) -> Planes:
    """Ten cells of 10 ns each beside a gutter of six."""
    planes = Planes.blank(2, 16, Ink.TEXT)
    minimap = Minimap(lanes)
    for _ in range(2):  # the second time from what is kept
        minimap.put(planes, 1, 6, origin_ns=1_000, span_ns=(0, 100), view_ns=view_ns)
    return planes


def test_heights_are_the_mean_share_of_all_ranks() -> None:
    planes = drawn(lane(1_020, 1_040), lane(1_030, 1_050))

    assert planes.row_text(1) == "net %   ▄█▄     "


def test_each_rank_is_read_on_its_own_clock() -> None:
    assert drawn(lane(1_520, 1_530, offset_ns=500)).row_text(1) == "net %   █       "


def test_the_part_in_view_stands_out() -> None:
    style = drawn(lane(1_000, 1_100), view_ns=(30, 50)).style[1, 6:]

    assert np.flatnonzero(style == Ink.AREA).tolist() == [3, 4]


def test_nothing_to_show_leaves_the_row_alone() -> None:
    assert drawn().row_text(1).strip() == ""


def test_many_ranks_cost_no_more_than_some() -> None:
    planes = drawn(*[lane(1_000, 1_050)] * 200)

    assert planes.row_text(1)[6:] == "█████     "


def test_other_widths_spans_and_kinds_are_not_mixed_up() -> None:
    track = Track.of(np.array([0]), np.array([50]))
    minimap = Minimap([Lane("0", Track.empty(), track, Track.empty())])

    def row(width: int, end_ns: int, what: What) -> str:
        planes = Planes.blank(1, width, Ink.TEXT)
        span = (0, end_ns)
        minimap.put(planes, 0, 7, origin_ns=0, span_ns=span, view_ns=span, what=what)
        return planes.row_text(0)

    for _ in range(3):
        assert row(17, 100, "net") == " net % █████     "
        assert row(11, 100, "net") == " net % ██  "
        assert row(17, 200, "net") == " net % ██▄       "
        assert row(17, 100, "comp") == "comp %           "
        assert row(17, 50, "net") == " net % ██████████"
