"""Rows of ranks: pins, streams, means of several, one kind of kernels, steps on the ruler."""

from __future__ import annotations

import numpy as np
import pytest
from pictures import lane, track

from ccltui.draw.palette import BOX, CLASSES, MERGED, Ink
from ccltui.draw.planes import Planes
from ccltui.draw.rank_rows import RankRow, StepMark, Stream, grown, in_view, timeline
from ccltui.draw.timeline_chart import Lane, Selected, TimeGrid, Track, shaded_row

GRID = TimeGrid(0, 40, 0)


def draw(*rows: RankRow, height: int = 8, selected: int = 0, **more: object) -> Planes:
    return timeline(
        rows,
        GRID,
        height=height,
        width=14,
        gutter=6,
        selected=Selected(selected, None),
        **more,  # type: ignore[arg-type]
    )


def busy(label: str, *intervals: tuple[int, int]) -> Lane:
    return Lane(label, track(*intervals), Track.empty(), Track.empty())


def rows(count: int, *, pinned: tuple[int, ...] = ()) -> list[RankRow]:
    return [RankRow(str(i), (busy(str(i)),), pinned=i in pinned) for i in range(count)]


def test_whole_pages_hold_the_selected_row() -> None:
    assert in_view(rows(9), 6, 4, merged=False) == [3, 4, 5]
    assert in_view(rows(9), 6, 2, merged=False) == [0, 1, 2]
    assert in_view(rows(8), 6, 7, merged=False) == [5, 6, 7]  # the last page is full
    assert in_view(rows(3), 20, 1, merged=True) == [0, 1, 2]


def test_pins_stay_on_top_of_every_page_up_to_half_of_the_room() -> None:
    assert in_view(rows(9, pinned=(0,)), 6, 8, merged=False) == [0, 7, 8]
    assert in_view(rows(9, pinned=(0, 1, 2)), 8, 8, merged=False) == [0, 1, 7, 8]
    assert in_view(rows(4, pinned=(0,)), 8, 0, merged=False) == [0, 1, 2, 3]


def test_a_pinned_row_is_marked() -> None:
    planes = draw(*rows(2, pinned=(1,)), selected=0)

    assert planes.row_text(1)[:3] == "•1 "
    assert planes.row_text(3)[:3] == "▶0 "


def test_several_ranks_in_a_row_show_their_mean() -> None:
    half = RankRow("0-1", (busy("0", (0, 80)), busy("1")))
    planes = draw(half)

    assert planes.row_text(1)[6:] == "▄▄      "
    assert draw(half, merged=True).style[1, 6] == MERGED + CLASSES * 1  # compute over idle


def test_one_kind_of_kernels_takes_one_row() -> None:
    only = RankRow("0", (busy("0", (0, 320)),), only=(track((40, 80)),), ink=Ink.COPY)
    planes = draw(only, RankRow("1", (busy("1"),)))

    assert planes.row_text(1)[6:] == " █      "
    assert set(planes.style[1, 6:].tolist()) == {Ink.COPY}
    assert planes.row_text(2)[1] == "1"


def stream(name: str, *intervals: tuple[int, int], kind: int = 0) -> Stream:
    parts = [Track.empty(), Track.empty(), Track.empty()]
    parts[kind] = track(*intervals)
    return Stream(
        label=f"s{name}",
        work=track(*intervals),
        parts=(parts[0], parts[1], parts[2]),
        start_ns=np.array([start for start, _ in intervals], np.int64),
        end_ns=np.array([end for _, end in intervals], np.int64),
        kind=np.full(len(intervals), kind, np.uint8),
        name=np.zeros(len(intervals), np.int32),
        text=lambda _: "gemm\x1b[31m",
    )


def test_streams_stand_below_their_rank_with_names_in_long_boxes() -> None:
    row = RankRow("0", (busy("0", (0, 280)),), (stream("7", (0, 280)), stream("20", (0, 40))))
    planes = draw(row, RankRow("1", (busy("1"),)))

    assert planes.row_text(3) == "   s7 gemm␛…  "
    assert planes.style[3, 6] == BOX + Ink.COMPUTE
    assert planes.row_text(4) == "  s20 █       "
    assert planes.row_text(5)[1] == "1"


@pytest.mark.parametrize(("kind", "ink"), enumerate((Ink.COMPUTE, Ink.TRANSFER, Ink.COPY)))
def test_a_stream_has_the_colour_of_what_it_does(kind: int, ink: int) -> None:
    row = RankRow("0", (busy("0"),), (stream("7", (0, 40), kind=kind),))

    assert draw(row).style[3, 6] == ink


def test_steps_are_ruled_and_numbered_where_there_is_room() -> None:
    marks = [StepMark("10", 0, 160), StepMark("11", 160, 200), StepMark("12", 200, 320)]
    planes = draw(*rows(1), steps=marks)

    assert planes.row_text(1) == " step ╷10 ╷╷12"
    assert planes.row_text(2)[:2] == "▶0"


def test_a_step_that_began_before_the_view_has_its_number_at_the_edge() -> None:
    planes = draw(*rows(1), steps=[StepMark("9", -400, 160), StepMark("10", 160, 900)])

    assert planes.row_text(1) == " step 9   ╷10 "


def test_no_part_of_a_number_is_shown_for_a_step() -> None:
    """A sliver of step 12 at the edge hides neither the begin nor the number of step 13."""
    marks = [StepMark("12", -400, 20), StepMark("13", 20, 900)]

    assert draw(*rows(1), steps=marks).row_text(1) == " step ╷13     "
    narrow = [StepMark("123", 0, 80), StepMark("124", 80, 320)]
    assert draw(*rows(1), steps=narrow).row_text(1) == " step ╷ ╷124  "


def test_without_colour_merged_cells_have_shades() -> None:
    rank = Lane("0", track((0, 80), (160, 200)), track((40, 120), (160, 200)), track((40, 80)))
    glyph = shaded_row(rank, 40 * np.arange(6, dtype=np.int64))
    planes = draw(RankRow("0", (rank,)), merged=True, colour=False)

    assert glyph.tobytes().decode("utf-32-le")[:4] == "█░▒ "
    assert planes.row_text(1)[6:10] == "█░▒ "


@pytest.mark.parametrize("height", range(7))
def test_any_height_is_drawn(height: int) -> None:
    row = RankRow("0", (lane("0"),), (stream("7", (0, 40)),))

    assert draw(row, row, height=height, steps=[StepMark("1", 0, 100)]).height == height


def copying(label: str, *copies: tuple[int, int]) -> RankRow:
    """A rank that computes from 0 to 80 and copies."""
    one = Lane(label, track((0, 80)), Track.empty(), Track.empty(), copies=track(*copies))
    return RankRow(label, (one,))


def test_copies_show_where_nothing_computes_until_they_have_a_row() -> None:
    planes = draw(copying("0", (40, 160)))

    assert planes.row_text(1)[6:12] == "████  "
    assert planes.style[1, 6:10].tolist() == [Ink.COMPUTE] * 2 + [Ink.COPY] * 2

    (row,) = grown([copying("0", (40, 160))], 4, merged=False, steps=False)
    planes = draw(row)
    assert row.height(merged=False) == 3
    assert planes.row_text(1)[6:12] == "██    "
    assert planes.row_text(3)[:12] == " copy  ███  "
    assert planes.style[3, 7] == Ink.COPY


def test_rows_grow_alike_as_far_as_there_is_room() -> None:
    def heights(count: int, room: int, *, merged: bool = False) -> list[int]:
        found = grown(rows(count), room, merged=merged, steps=True)
        return [row.height(merged=merged) for row in found]

    assert heights(2, 24) == [8, 8]
    assert heights(4, 24) == [4] * 4
    assert heights(12, 24) == [2] * 12
    assert heights(2, 24, merged=True) == [1, 1]


def test_a_tall_row_has_more_heights_and_exact_edges() -> None:
    lane = busy("0", (0, 60), (80, 85), (100, 105), (120, 150), (151, 155))
    planes = draw(RankRow("0", (lane,), tall=2))

    assert planes.row_text(1)[6:10] == "█▌ ▆"  # 34 of 40: 14 of 16
    assert planes.row_text(2)[6:10] == "█▌▄█"


def test_what_does_not_fit_is_announced() -> None:
    work = track((0, 80))
    stream = Stream(
        *("s7", work, (work, Track.empty(), Track.empty()), work.start_ns, work.end_ns),
        *(np.zeros(1, np.uint8), np.zeros(1, np.int32), str),
    )
    many = RankRow("0", (busy("0"),), streams=(stream,) * 9)

    assert draw(*rows(9)).row_text(7).strip() == "… 6 mor…"
    cut = draw(many, *rows(1), height=6)
    assert cut.row_text(5)[6:].strip() == "… 7 mor…"
    wide = timeline(
        [many, *rows(1)], GRID, height=6, width=60, gutter=6, selected=Selected(0, None)
    )
    assert wide.row_text(5).strip() == "… 7 more lanes of 0, 1 more rank"
