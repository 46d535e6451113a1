"""Cell rules of the timeline, and whole pictures at three sizes."""

from __future__ import annotations

import numpy as np
import pytest
from pictures import Golden, lane, track

from ccltui.draw.palette import CLASSES, MERGED, Ink
from ccltui.draw.rank_rows import RankRow, timeline
from ccltui.draw.timeline_chart import (
    Lane,
    Selected,
    TimeGrid,
    Track,
    merged_row,
    row_glyphs,
    shaded_row,
)


def rows(*lanes: Lane) -> list[RankRow]:
    """One row a rank."""
    return [RankRow(one.label, (one,)) for one in lanes]


def glyphs_of(*intervals: tuple[int, int], cells: int = 4) -> str:
    """Characters of one row at 80 ns a cell."""
    edges = 80 * np.arange(cells + 1, dtype=np.int64)
    return row_glyphs(track(*intervals).sample(edges), edges).tobytes().decode("utf-32-le")


def test_no_transition_is_solid_or_blank() -> None:
    assert glyphs_of((0, 160)) == "██  "
    assert glyphs_of() == "    "


def test_an_end_inside_a_cell_is_exact_to_an_eighth() -> None:
    assert glyphs_of((0, 120)) == "█▌  "
    assert glyphs_of((0, 81)) == "█▏  "
    assert glyphs_of((0, 159)) == "█▉  "


def test_a_start_inside_a_cell_takes_the_nearest_right_aligned_block() -> None:
    assert glyphs_of((79, 160)) == "▕█  "
    assert glyphs_of((40, 160)) == "▐█  "
    assert glyphs_of((5, 160)) == "██  "


def test_more_transitions_are_a_height_rounded_up() -> None:
    assert glyphs_of((10, 11)) == "▁   "
    assert glyphs_of((10, 30), (40, 61)) == "▅   "
    assert glyphs_of((1, 79), (85, 87)) == "█▁  "


def test_a_network_cell_is_overlapped_by_majority_and_blanks_inherit() -> None:
    rank = Lane("0", track((0, 60)), track((20, 80), (160, 240)), track((20, 60)))

    planes = timeline(
        rows(rank),
        TimeGrid(0, 40, 0),
        height=3,
        width=14,
        gutter=6,
        selected=Selected(0, None),
    )

    assert planes.row_text(1) == "▶0    █▌      "
    assert planes.row_text(2) == "  net ▐█  ██  "
    expected = [Ink.OVERLAPPED, *[Ink.TRANSFER] * 7]
    assert planes.style[2, 6:].tolist() == expected


def test_what_repeats_looks_the_same_where_the_cells_begin_at_the_same_part_of_it() -> None:
    repeated = [
        (start + 170 * k, end + 170 * k) for k in range(9) for start, end in ((7, 60), (90, 141))
    ]
    rank = Lane("0", track(*repeated), track(), track())

    def glyphs(k0: int, phase_ns: int) -> str:
        grid = TimeGrid(k0, 40, 0, phase_ns)
        pictured = timeline(
            rows(rank), grid, height=3, width=26, gutter=6, selected=Selected(0, 40 * k0 + phase_ns)
        )
        assert pictured.row_text(0)[6] == "▼"
        return pictured.row_text(1)[6:]

    assert glyphs(0, 0)[:4] == "█▌▐▌"
    assert glyphs(4, 10) == glyphs(8, 20) == glyphs(0, 0)
    assert glyphs(4, 0) != glyphs(0, 0)


def test_merged_cells_show_the_two_largest_classes_and_solid_ones_are_blanks() -> None:
    rank = Lane("0", track((0, 120)), track((80, 160)), track((80, 120)))
    edges = 80 * np.arange(4, dtype=np.int64)

    glyph, style = merged_row(rank, edges)

    assert glyph.tobytes().decode("utf-32-le") == " ▌ "
    idle, compute, transfer, both = range(4)
    assert (style - MERGED).tolist() == [
        compute * CLASSES + compute,
        both * CLASSES + transfer,
        idle * CLASSES + idle,
    ]


def test_waiting_and_bubble_have_colours_of_their_own() -> None:
    rank = Lane(
        "0",
        track((0, 60)),
        track((40, 240)),
        track((40, 60)),
        waiting=track((60, 130)),
        bubble=track((160, 220)),
    )
    edges = 40 * np.arange(7, dtype=np.int64)

    planes = timeline(
        rows(rank), TimeGrid(0, 40, 0), height=3, width=12, gutter=6, selected=Selected(0, None)
    )
    _, style = merged_row(rank, edges)

    assert planes.row_text(2) == "  net  █████"
    # 40-80 is half overlapped, half waiting: the class that is named first.
    assert planes.style[2, 6:].tolist() == [
        Ink.TRANSFER,
        Ink.OVERLAPPED,
        Ink.WAITING,
        Ink.TRANSFER,
        Ink.BUBBLE,
        Ink.TRANSFER,
    ]
    assert [int(one) // CLASSES for one in style - MERGED] == [1, 3, 4, 4, 5, 5]
    assert "".join(map(chr, shaded_row(rank, edges))) == "█░▓▒~▒"


def test_waiting_begins_at_its_place_and_shares_a_cell_with_transfer() -> None:
    rank = Lane("0", track(), track((60, 160)), track(), waiting=track((60, 120)))

    glyph, style = merged_row(rank, 80 * np.arange(3, dtype=np.int64))

    assert "".join(map(chr, glyph)) == "▊▄"
    idle, transfer, waiting = 0, 2, 4
    assert [divmod(int(one) - MERGED, CLASSES) for one in style] == [
        (idle, waiting),
        (waiting, transfer),
    ]


def test_a_clock_offset_moves_the_lane_not_the_ruler() -> None:
    late = Lane("1", track((1000, 1080)), Track.empty(), Track.empty(), offset_ns=1000)
    rank = Lane("0", track((0, 80)), Track.empty(), Track.empty())

    planes = timeline(
        rows(rank, late),
        TimeGrid(0, 40, 0),
        height=5,
        width=12,
        gutter=6,
        selected=Selected(0, 0),
    )

    assert planes.row_text(1)[6:] == planes.row_text(3)[6:] == "██    "


SIZES = [(80, 24), (120, 40), (200, 50)]


@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.parametrize("cell_ns", [90_000, 9_000])
@pytest.mark.parametrize("merged", [False, True])
def test_picture(width: int, height: int, cell_ns: int, merged: bool, golden: Golden) -> None:
    lanes = [lane(str(rank), late_us=35 * rank % 200) for rank in range(16)]

    planes = timeline(
        rows(*lanes),
        TimeGrid(600_000 // cell_ns, cell_ns, 0),
        height=height,
        width=width,
        gutter=8,
        selected=Selected(4, 600_000 + 30 * cell_ns),
        merged=merged,
    )

    kind = "merged" if merged else "split"
    golden(f"timeline_{kind}_{cell_ns // 1000}us_{width}x{height}", planes)
