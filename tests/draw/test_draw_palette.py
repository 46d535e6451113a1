"""Every style id has explicit colours at every depth; no style relies on a downgrade."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest
from vision import contrast, distance, lab, luminance

from ccltui.draw.palette import (
    CLASSES,
    HEAT,
    IDLE_INKS,
    KIND_INKS,
    LEVELS,
    MERGED,
    SHADES,
    STYLES,
    Depth,
    Ink,
    Look,
    Theme,
    looks,
    rgb,
    style_of,
)
from ccltui.draw.planes import CURSOR, HEIGHTS, LEFT, POINTER, RIGHT, TICK, UPPER_HALF
from ccltui.draw.text import ASCII, HALVES

TABLES: list[tuple[Theme, Depth]] = [
    *(("dark", "256"), ("light", "256"), ("dark", "16"), ("light", "16")),
]
READ = [Ink.TEXT, Ink.STRONG, Ink.HEADER, Ink.HEADER_DIM, Ink.LABEL, Ink.LABEL_ON, Ink.KEY]
SIGNS = [Ink.WARNING, Ink.ERROR, Ink.HIT, Ink.DIM, Ink.TAB, Ink.RULER]
STATES = [Ink.COMPUTE, Ink.TRANSFER, Ink.OVERLAPPED]


def pair(look: Look) -> tuple[int, int]:
    assert look.foreground is not None
    assert look.background is not None
    return look.foreground, look.background


def ramp(theme: Theme, depth: Depth) -> list[int]:
    table = looks(depth, theme)
    return [pair(table[HEAT + level * LEVELS + level])[1] for level in range(LEVELS)]


def states(theme: Theme, depth: Depth) -> list[int]:
    table = looks(depth, theme)
    return [pair(table[ink])[0] for ink in STATES]


def test_the_ramp_and_the_states_are_those_of_the_search() -> None:
    table = looks("256")

    assert ramp("dark", "256") == [234, 53, 127, 132, 203, 211, 223, 231]
    assert states("dark", "256") == [63, 208, 86]
    assert table[MERGED + 1 * CLASSES + 2].foreground == 63
    assert table[MERGED + 1 * CLASSES + 2].background == 208


@pytest.mark.parametrize(("theme", "depth"), TABLES)
def test_colours_stay_within_the_depth(theme: Theme, depth: Depth) -> None:
    table = looks(depth, theme)

    assert len(table) == STYLES
    for ink in Ink:
        assert table[ink].foreground is not None
    limit = 256 if depth == "256" else 16
    for look in table:
        assert look.foreground is None or look.foreground < limit
        assert look.background is None or look.background < limit
    if depth == "256":  # each terminal has its own first sixteen
        assert all(look.foreground is None or look.foreground >= 16 for look in table)


@pytest.mark.parametrize(("theme", "depth"), TABLES)
def test_text_can_be_read(theme: Theme, depth: Depth) -> None:
    table = looks(depth, theme)

    least = {ink: contrast(*pair(table[ink])) for ink in (*READ, *SIGNS)}

    low, high = (4.5, 7) if depth == "256" else (3.5, 3.5)  # sixteen have only so much between
    assert {ink: value for ink, value in least.items() if value < low} == {}
    assert {ink: value for ink, value in least.items() if ink in READ and value < high} == {}


@pytest.mark.parametrize(
    ("theme", "depth", "of_states", "of_steps"),
    [("dark", "256", 50, 20), ("light", "256", 43, 20), ("dark", "16", 49, 25),
     ("light", "16", 39, 25)],
)  # fmt: skip
def test_states_and_levels_differ_for_everybody(
    theme: Theme, depth: Depth, of_states: float, of_steps: float
) -> None:
    idle = ramp(theme, depth)[0]

    closest = min(distance(a, b) for a, b in combinations([idle, *states(theme, depth)], 2))
    steps = min(distance(a, b) for a, b in pairwise(ramp(theme, depth)))

    assert closest > of_states
    assert steps > of_steps


@pytest.mark.parametrize("vision", ["normal", "protan", "deutan"])
@pytest.mark.parametrize("theme", ["dark", "light"])
def test_more_lag_is_always_further_from_the_ground(theme: Theme, vision: str) -> None:
    lightness = [float(lab(index, vision)[0]) for index in ramp(theme, "256")]

    assert lightness == sorted(lightness, reverse=theme == "light")


def test_the_theme_of_the_terminal_assumes_no_ground() -> None:
    table = looks("256", "ansi")

    assert table[Ink.TEXT] == Look()
    assert all(look.background is None or look.background < 16 for look in table)
    assert {look.background for look in table[:MERGED]} == {None}


def test_true_colours_are_those_of_the_cube() -> None:
    assert [rgb(index) for index in (16, 63, 208, 231, 232, 255)] == [
        (0, 0, 0),
        (95, 95, 255),
        (255, 135, 0),
        (255, 255, 255),
        (8, 8, 8),
        (238, 238, 238),
    ]
    with pytest.raises(ValueError, match="15"):
        rgb(15)


def test_without_colour_there_is_none() -> None:
    for look in looks("mono"):
        assert look.foreground is None
        assert look.background is None


def test_every_glyph_has_an_ascii_form() -> None:
    drawn = [*HEIGHTS, *LEFT, *RIGHT, UPPER_HALF]
    text = "".join(map(chr, drawn)) + CURSOR + TICK + POINTER + "…"

    assert text.translate(ASCII).isascii()


def test_eighths_become_halves_and_activity_stays_visible() -> None:
    drawn = "".join(map(chr, [*HEIGHTS, *LEFT, *RIGHT, UPPER_HALF]))

    shown = drawn.translate(HALVES)

    assert set(shown) <= set(" ▀▄█▌▐")
    assert [a == " " for a in drawn] == [b == " " for b in shown]


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_kinds_of_busy_time_differ_for_everybody(theme: Theme) -> None:
    table = looks("256", theme)
    inks = [*STATES, Ink.COPY, Ink.WAITING, Ink.BUBBLE]

    colours = [pair(table[ink])[0] for ink in inks]

    assert set(inks) == set(KIND_INKS.values()) - {Ink.IDLE}
    assert min(distance(a, b) for a, b in combinations(colours, 2)) > 17


def test_kinds_of_time_have_different_characters_without_colour() -> None:
    glyphs_of = [SHADES[ink].translate(ASCII) for ink in set(KIND_INKS.values())]

    assert len(set(glyphs_of)) == len(glyphs_of)


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_causes_of_idle_time_differ_from_each_other_and_from_work(theme: Theme) -> None:
    table = looks("256", theme)
    causes = [Ink.HOST, Ink.INPUT, Ink.BLOCKED, Ink.DELAY]
    others = [Ink.COMPUTE, Ink.TRANSFER, Ink.OVERLAPPED, Ink.COPY]
    colours = [index for ink in (*causes, *others) if (index := table[ink].foreground) is not None]
    ground = table[Ink.HOST].background

    assert len(colours) == 8
    assert ground is not None
    close = [
        (a, b) for a, b in combinations(colours, 2) if distance(a, b) < 20 and a in colours[:4]
    ]
    assert close == []
    assert min(contrast(index, ground) for index in colours[:4]) >= 3


@pytest.mark.parametrize("theme", ["dark", "light"])
@pytest.mark.parametrize(("glyph", "covered"), [("░", 0.25), ("▒", 0.5), ("▓", 0.75)])
def test_shades_of_a_bar_stand_out_from_the_screen(
    theme: Theme, glyph: str, covered: float
) -> None:
    table = looks("256", theme)
    ground = luminance(pair(table[Ink.TEXT])[1])
    parts = (*KIND_INKS.values(), *IDLE_INKS.values())

    found = {}
    for ink in parts:
        ink_of, behind = (luminance(index) for index in pair(table[style_of(glyph, ink)]))
        # The eye adds the light of the dots of a shade to that of its ground.
        mixed = covered * ink_of + (1 - covered) * behind
        found[ink] = (max(mixed, ground) + 0.05) / (min(mixed, ground) + 0.05)

    assert {ink: value for ink, value in found.items() if value < 3} == {}
    assert style_of("█", Ink.HOST) == Ink.HOST
