"""Every style id has an explicit look at every depth; nothing relies on a downgrade."""

from __future__ import annotations

import pytest

from ccltui.draw import glyphs
from ccltui.draw.palette import HEAT, LEVELS, MERGED, STYLES, Depth, Ink, looks
from ccltui.draw.text import ASCII


def test_the_ramp_and_the_states_are_those_of_the_search() -> None:
    table = looks("256")

    assert [table[HEAT + level * LEVELS + level].background for level in range(LEVELS)] == [
        234, 53, 127, 132, 203, 211, 223, 231,
    ]  # fmt: skip
    assert [table[ink].foreground for ink in (Ink.COMPUTE, Ink.EXPOSED, Ink.OVERLAPPED)] == [
        63,
        208,
        86,
    ]
    assert table[MERGED + 1 * 4 + 2].foreground == 63
    assert table[MERGED + 1 * 4 + 2].background == 208


@pytest.mark.parametrize(("depth", "limit"), [("256", 256), ("16", 16)])
def test_colours_stay_within_the_depth(depth: Depth, limit: int) -> None:
    table = looks(depth)

    assert len(table) == STYLES
    for ink in Ink:
        assert table[ink].foreground is not None
    for look in table:
        assert look.foreground is None or look.foreground < limit
        assert look.background is None or look.background < limit


def test_without_colour_there_is_none() -> None:
    for look in looks("mono"):
        assert look.foreground is None
        assert look.background is None


def test_every_glyph_has_an_ascii_form() -> None:
    drawn = [*glyphs.HEIGHTS, *glyphs.LEFT, *glyphs.RIGHT, glyphs.UPPER_HALF]
    text = "".join(map(chr, drawn)) + glyphs.CURSOR + glyphs.TICK + glyphs.POINTER + "…"

    assert text.translate(ASCII).isascii()
