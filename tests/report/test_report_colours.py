"""Colours of the page are those of the explorer, and text in them can be read."""

from __future__ import annotations

import re
from importlib.resources import files
from itertools import pairwise

import pytest
from vision import contrast as contrast_of_indices

from ccltui.draw.palette import HEAT, KIND_INKS, LEVELS, Ink, Look, looks, rgb
from ccltui.report.page.make_page import Rgb, Theme, colours_of, contrast, html_page
from ccltui.report.page.page_parts import Page

THEMES: list[Theme] = ["light", "dark"]
LEAST_CONTRAST = 4.5  # WCAG 2.2, level AA, for text of usual size
KINDS = ("compute", "waiting", "bubble", "communication", "copies")


def front(look: Look) -> Rgb:
    assert look.foreground is not None
    return rgb(look.foreground)


def own_colours(theme: Theme) -> dict[str, Rgb]:
    """The colours that only the page has, which its style sheet states."""
    styles = (files("ccltui.report.page") / "page.css").read_text(encoding="utf-8")
    light, dark = styles.split("@media screen and (prefers-color-scheme: dark) {")
    text = light if theme == "light" else dark[: dark.index("}")]
    found = re.findall(r"--(\w+): #([0-9a-f]{6});", text)
    return {name: rgb_of(value) for name, value in found}


def rgb_of(text: str) -> Rgb:
    red, green, blue = bytes.fromhex(text)
    return red, green, blue


@pytest.mark.parametrize("theme", THEMES)
def test_a_kind_of_time_has_the_colour_of_the_explorer(theme: Theme) -> None:
    table, found = looks("truecolor", theme), colours_of(theme).parts

    assert {kind: found[kind] for kind in KINDS} == {
        kind: front(table[KIND_INKS[kind]]) for kind in KINDS
    }
    assert found["cause-unknown"] == found["idle"] != found["cause-data_loading"]
    assert found["dim-tp"] == found["communication"]
    assert len({found[f"dim-{dim}"] for dim in ("tp", "dp", "pp", "ep", "cp", "world")}) == 6


@pytest.mark.parametrize("theme", THEMES)
def test_lateness_has_colours_of_the_ramp_in_its_order_and_the_same_end(theme: Theme) -> None:
    table, found = looks("truecolor", theme), colours_of(theme).parts
    ramp = [table[HEAT + level * LEVELS + level].foreground or 0 for level in range(LEVELS)]

    colours = [found[f"heat{number}"] for number in range(1, 7)]
    places = [[rgb(index) for index in ramp].index(colour) for colour in colours]

    assert places == sorted(set(places))
    assert (places[0], places[-1]) == (1, LEVELS - 1)
    cells = [found["none"], found["heat0"], *colours]
    assert min(contrast(*two) for two in pairwise(cells[:2])) > 1.3
    assert len(set(cells)) == len(cells)


@pytest.mark.parametrize("theme", THEMES)
def test_text_has_enough_contrast_to_what_is_below_it(theme: Theme) -> None:
    found, own = colours_of(theme), own_colours(theme)
    texts = {**found.texts, **own}
    below = {
        "paper": ("ink", "quiet", "warn", "accent"),
        "ground": ("ink", "quiet", "accent"),
        "lead": ("ink", "quiet"),
    }

    low = {
        (text, ground): contrast(texts[text], texts[ground])
        for ground, names in below.items()
        for text in names
    }
    low |= {(name, "bar"): contrast(colour, found.parts[name]) for name, colour in found.on.items()}

    assert {pair: value for pair, value in low.items() if value < LEAST_CONTRAST} == {}
    assert set(KINDS) | {"idle"} < set(found.on)


def test_contrast_is_that_of_wcag() -> None:
    assert contrast((0, 0, 0), (255, 255, 255)) == pytest.approx(21)
    assert contrast(rgb(166), rgb(231)) == pytest.approx(contrast_of_indices(166, 231))


def test_paper_has_the_light_colours_of_the_screen() -> None:
    """Dark ones are for screens only, and each part has one rule in either theme."""
    text = html_page(Page("/job", "", (), (), "0")).decode()
    styles = text[text.index("<style>") : text.index("</style>")]
    light, dark, _ = styles.split("@media screen and (prefers-color-scheme: dark) {")

    for theme, text in zip(THEMES, (light, dark), strict=True):
        stated = re.findall(r"\.([\w-]+) { --own: #([0-9a-f]{6}); }", text)
        assert {name: rgb_of(value) for name, value in stated} == colours_of(theme).parts
        assert len(stated) == len(dict(stated))


def test_no_colour_of_a_part_is_stated_in_the_style_sheet() -> None:
    styles = (files("ccltui.report.page") / "page.css").read_text(encoding="utf-8")

    assert set(re.findall(r"--(\w+): #", styles)) == {
        "ground", "accent", "lead",
        "ink", "quiet", "rule",  # on paper
    }  # fmt: skip
    assert set(re.findall(r"@media ([^{]*dark[^{]*) {", styles)) == {
        "screen and (prefers-color-scheme: dark)"
    }
    assert re.findall(r"#[0-9a-f]{3,6}\b", re.sub(r"--\w+: #[0-9a-f]{6};", "", styles)) == []


def test_text_of_the_explorer_and_of_the_page_have_one_colour() -> None:
    for theme in THEMES:
        table, found = looks("truecolor", theme), colours_of(theme).texts
        assert found["ink"] == front(table[Ink.TEXT])
        assert found["quiet"] == front(table[Ink.DIM])
        assert found["warn"] == front(table[Ink.WARNING])
