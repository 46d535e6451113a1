"""Lag as heat: levels, pooling without loss of maxima, ranks that share rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pictures import Golden

from ccltui.draw.alignment_chart import ABSENT, Columns, Heat, Rows, align, levels, scale_top_ns
from ccltui.draw.palette import HEAT


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
