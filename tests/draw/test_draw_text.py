"""Text on the screen: what is cut, where, and how columns are aligned."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pictures import Golden

from ccltui.draw.alignment_chart import ABSENT, Columns, Heat, Rows, align, levels, scale_top_ns
from ccltui.draw.palette import HEAT, Ink
from ccltui.draw.planes import Planes, put_tick
from ccltui.draw.text import Column, clean, fit, fit_middle, table, wrap


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("ncclDevKernel_AllReduce", "ncclDevKernel_AllReduce"),
        ("[bold]x[/bold]", "[bold]x[/bold]"),
        ("a\x1b[31mred\x1b[0m", "a␛[31mred␛[0m"),
        ("two\nlines\ttab", "two␊lines␉tab"),
        ("\x9b31m", "?31m"),
        ("\x7f", "␡"),
        ("rtl\u202eabc", "rtl?abc"),
        ("cafe\u0301", "cafe?"),
        ("数", "?"),
        ("\ud800", "?"),
        ("a\u00a0b", "a b"),
        ("µs × 2", "µs × 2"),
    ],
)
def test_clean(raw: str, shown: str) -> None:
    assert clean(raw) == shown


@given(st.text())
def test_clean_keeps_the_number_of_characters_and_leaves_no_control(raw: str) -> None:
    shown = clean(raw)

    assert len(shown) == len(raw)
    assert not any(ord(character) < 32 or 127 <= ord(character) < 160 for character in shown)


@given(st.text(), st.integers(0, 30))
def test_fit_is_exactly_as_wide_as_asked(raw: str, width: int) -> None:
    assert len(fit(raw, width)) == width


def test_fit_cuts_at_the_end_and_fit_middle_keeps_both_ends() -> None:
    assert fit("ncclDevKernel", 6) == "ncclD…"
    assert fit("3", 4, align="right") == "   3"
    assert fit_middle("/scratch/u/run-0421/traces", 16) == "/scra…421/traces"
    assert fit_middle("short", 16) == "short"


def test_wrap_breaks_between_words_and_says_when_it_leaves_something_out() -> None:
    assert wrap("no rank is late by more", 12) == ["no rank is", "late by more"]
    assert wrap("no rank is late by more", 12, most=1) == ["no rank is…"]
    assert wrap("a \x1b b", 12, indent="  ") == ["a ␛ b"]
    assert wrap("one two three", 7, indent="  ") == ["one two", "  three"]
    assert wrap("", 12) == []


def test_wrap_shows_the_beginning_of_a_long_name() -> None:
    assert wrap("12 of cutlass::Kernel<float>", 16, most=1) == ["12 of cutlass::…"]
    assert wrap("it was late by more than others", 16, most=1) == ["it was late by…"]


def test_a_label_that_has_no_room_leaves_its_tick() -> None:
    planes = Planes.blank(1, 20, Ink.RULER)

    put_tick(planes, 2, "600ms")
    put_tick(planes, 14, "800ms")
    assert planes.row_text(0) == "  ╷600ms      ╷800ms"

    put_tick(planes, 15, "1.2s")
    put_tick(planes, 17, "1.4s")
    assert planes.row_text(0)[14:] == "╷╷1╷2s"


def test_text_up_to_the_edge_leaves_an_ellipsis() -> None:
    planes = Planes.blank(3, 10, Ink.TEXT)

    planes.put_fitted(0, 3, "seven \x1bs", Ink.TEXT)
    planes.put_fitted(1, 3, "seven", Ink.DIM)
    planes.put_fitted(2, 30, "outside", Ink.DIM)

    assert [planes.row_text(y) for y in range(3)] == ["   seven …", "   seven  ", " " * 10]
    assert planes.style[1].tolist() == [Ink.TEXT] * 3 + [Ink.DIM] * 7


COLUMNS = (Column("rank"), Column("wait", "right"), Column("what", widest=8))
ROWS = (("r0", "20.29ms", "gemm_bf16_long"), ("r16", "0", "\x1b[2J"))


def test_columns_are_as_wide_as_their_content() -> None:
    assert table(COLUMNS, ROWS, 40) == [
        "rank     wait  what",
        "r0    20.29ms  gemm_bf…",
        "r16         0  ␛[2J",
    ]


def test_columns_drop_from_the_right_when_narrow() -> None:
    assert table(COLUMNS, ROWS, 16) == ["rank     wait", "r0    20.29ms", "r16         0"]
    assert table(COLUMNS, ROWS, 3) == ["ran", "r0", "r16"]


def test_levels_start_at_the_floor_and_keep_their_ratios() -> None:
    lags = np.array([ABSENT, 0, 99_999, 100_000, 250_000, 10_000_000, 10**9], np.int64)

    assert levels(lags, 100_000, 10_000_000).tolist() == [0, 0, 0, 1, 2, 7, 7]
    assert levels(lags, 200_000, 20_000_000).tolist() == [0, 0, 0, 0, 1, 6, 7]


def test_lags_far_beyond_the_floor_differ_in_colour() -> None:
    lags = np.array([0, 145_000_000, 200_000_000, 310_000_000] * 50, np.int64)

    top = scale_top_ns(lags, 100_000)

    assert top == 310_000_000
    assert levels(lags[:4], 100_000, top).tolist() == [0, 5, 6, 7]
    assert scale_top_ns(np.array([0, 10**6], np.int64), 100_000) == 10_000_000
    assert scale_top_ns(np.empty(0, np.int64), 100_000) == 10_000_000


@given(
    st.integers(1, 700),
    st.integers(0, 8),
    st.integers(0, 40),
    st.integers(1, 60),
    st.integers(1, 3),
)
def test_a_cell_is_the_maximum_of_its_collectives(
    count: int, power: int, start: int, cells: int, repeat: int
) -> None:
    late = np.random.default_rng(count).integers(0, 10**6, (2, count))
    columns = Columns(start << power, per_cell=1 << power, repeat=repeat)

    shown = Heat(late).cells(columns, cells)

    for cell in range(cells):
        first = columns.first + cell // repeat * columns.per_cell
        share = late[:, first : first + columns.per_cell]
        expected = share.max(axis=1) if share.size else np.full(2, ABSENT)
        assert shown[:, cell].tolist() == expected.tolist()


def test_columns_map_a_collective_to_its_first_column() -> None:
    assert Columns(8, per_cell=4).column(21) == 3
    assert Columns(8, repeat=3).column(10) == 6
    assert Columns(8).column(6) == -2
    assert Columns(0, per_cell=4).shown(10) == 40
    assert Columns(0, repeat=3).shown(10) == 4


@pytest.mark.parametrize(
    ("ranks", "rows", "layout"),
    [
        (8, 20, Rows(8, 1, 1)),
        (64, 20, Rows(64, 2, 2)),
        (32, 20, Rows(32, 1, 2)),
        (1024, 20, Rows(1024, 26, 2)),
    ],
)
def test_ranks_share_rows_only_when_they_must(ranks: int, rows: int, layout: Rows) -> None:
    assert Rows.of(ranks, rows) == layout
    assert layout.rows <= rows


def test_two_ranks_in_a_row_are_two_halves() -> None:
    late = np.array([[0, 10**7], [10**7, 10**7], [0, 0]], np.int64)

    planes = align(
        Heat(late),
        ("0", "1", "2"),
        Columns(0),
        height=3,
        width=8,
        gutter=6,
        floor_ns=100_000,
        top_ns=10_000_000,
        selected=(1, 0),
    )

    assert planes.row_text(0)[6:] == "▼╷"[:1] + planes.row_text(0)[7:]
    assert planes.row_text(1) == "▶0/1  ▀ "
    assert planes.row_text(2) == " 2    ··"
    assert planes.style[1, 6:].tolist() == [HEAT + 0 * 8 + 7, HEAT + 7 * 8 + 7]


def test_on_time_differs_from_absent() -> None:
    late = np.array([[0, ABSENT, 10**7]], np.int64)

    planes = align(
        Heat(late),
        ("0",),
        Columns(0, repeat=2),
        height=2,
        width=12,
        gutter=6,
        floor_ns=100_000,
        top_ns=10_000_000,
        selected=(0, 0),
    )

    assert planes.row_text(1)[6:] == "·     "
    assert set(planes.style[1, 10:].tolist()) == {HEAT + 7 * 8 + 7}


def test_without_colour_levels_are_densities() -> None:
    late = np.array([[0, 10**5, 10**6, 10**7]], np.int64)

    planes = align(
        Heat(late),
        ("0",),
        Columns(0),
        height=2,
        width=10,
        gutter=6,
        floor_ns=100_000,
        top_ns=10_000_000,
        selected=(0, 3),
        colour=False,
    )

    assert planes.row_text(1) == "▶0    ·.=#"


SIZES = [(80, 24), (120, 40), (200, 50)]


@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.parametrize("ranks", [8, 64, 1024])
def test_picture(width: int, height: int, ranks: int, golden: Golden) -> None:
    rank, k = np.meshgrid(np.arange(ranks), np.arange(600), indexing="ij")
    late = (rank * 7919 + k * 104_729) % 300_000
    late[ranks // 3, 40:60] = 20_000_000
    late[:, 500] = 1_500_000

    planes = align(
        Heat(late),
        [str(index) for index in range(ranks)],
        Columns(0, per_cell=8),
        height=height,
        width=width,
        gutter=10,
        floor_ns=100_000,
        top_ns=10_000_000,
        selected=(ranks // 3, 44),
    )

    golden(f"align_{ranks}_{width}x{height}", planes)


def test_no_ranks_leave_the_ruler() -> None:
    planes = align(
        Heat(np.zeros((3, 4), np.int64)),
        (),
        Columns(0),
        height=4,
        width=20,
        gutter=6,
        floor_ns=100_000,
        top_ns=10_000_000,
        selected=(-1, 0),
        order=[],
    )

    assert [planes.row_text(row).strip() for row in (1, 2, 3)] == ["", "", ""]
