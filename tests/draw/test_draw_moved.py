"""Rows that are horizontally shifted copies of earlier rows."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ccltui.draw.planes import Planes, moved_rows

GUTTER = 4


def picture(*rows: str) -> Planes:
    """Rows of text behind a gutter, in one style."""
    planes = Planes.blank(len(rows), GUTTER + len(rows[0]), 17)
    for y, row in enumerate(rows):
        planes.put(y, 0, f"r{y}", 7)
        planes.put(y, GUTTER, row, 17)
    return planes


def test_each_row_has_moved_on_its_own() -> None:
    one, other, third = "abcdefghijklmnopqrst", "0123456789ABCDEFGHIJ", "zyxwvutsrqponmlkjihg"
    before = picture(one, other, third)
    after = picture(f"..{one[:-2]}", f"{other[3:]}---", third)

    assert moved_rows(before, after, GUTTER) == [(0, 2), (1, -3)]


def test_a_move_that_brings_too_little_is_none() -> None:
    before = picture("abcdefg             ", "abcdefgh            ")
    after = picture(" abcdefg............", " abcdefgh...........")

    assert moved_rows(before, after, GUTTER) == [(1, 1)]


def test_a_long_move_is_found_where_it_is_guessed() -> None:
    rows = ["abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"] * 2
    before, after = picture(*rows), picture(rows[0][40:].ljust(62), rows[1])

    assert moved_rows(before, after, GUTTER) == []
    assert moved_rows(before, after, GUTTER, -40) == [(0, -40)]
    assert moved_rows(before, after, GUTTER, -62) == []


def test_what_looks_different_has_not_moved() -> None:
    row = "abcdefghijklmnopqrst"
    before, after = picture(row), picture(f".{row[:-1]}")
    after.style[0, GUTTER:] = 18

    assert moved_rows(before, after, GUTTER) == []


def test_a_picture_without_room_has_not_moved() -> None:
    assert moved_rows(Planes.blank(2, GUTTER, 0), Planes.blank(2, GUTTER, 1), GUTTER) == []
    assert moved_rows(Planes.blank(0, 9, 0), Planes.blank(0, 9, 1), GUTTER) == []
    assert moved_rows(Planes.blank(1, 9, 0), Planes.blank(1, 9, 1), 0) == []


@given(st.integers(-32, 32), st.integers(0, 2**32 - 1))
@settings(max_examples=50)
def test_any_move_of_a_busy_row_is_found(columns: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    cells = random.integers(0x2581, 0x2589, 150).astype(np.uint32)
    before, after = (Planes.blank(1, 70, 17) for _ in range(2))
    before.glyph[0] = cells[40:110]
    after.glyph[0] = cells[40 - columns : 110 - columns]

    assert moved_rows(before, after, 0) == ([(0, columns)] if columns else [])
