"""Colours and characters for each kind of terminal."""

from __future__ import annotations

import io
import sys

import pytest
from explorers import Settle, Start

from ccltui.draw.palette import BOX, HEAT, Ink
from ccltui.draw.text import ASCII, HALVES
from ccltui.tui.canvas import Appearance, ground_of, styles
from ccltui.tui.options import ColorName, ExplorerOptions, ThemeName


def appearance(
    color: ColorName = "auto", theme: ThemeName = "auto", *, ascii_only: bool = False
) -> Appearance:
    return Appearance.before_start(ExplorerOptions(color=color, theme=theme, ascii=ascii_only))


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal that says nothing about itself, and takes UTF-8."""
    for name in ("NO_COLOR", "COLORFGBG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr(sys, "__stdout__", io.TextIOWrapper(io.BytesIO(), "utf-8"))


def test_what_is_asked_for() -> None:
    assert (appearance().depth, appearance().theme, appearance().table) == ("256", "dark", None)
    assert appearance("truecolor").depth == "truecolor"
    assert appearance("never").depth == "mono"
    assert appearance(theme="light").theme == "light"
    assert appearance(ascii_only=True).table is ASCII


def test_what_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLORFGBG", "0;15")
    assert appearance().theme == "light"
    assert appearance(theme="dark").theme == "dark"
    monkeypatch.setenv("NO_COLOR", "")
    assert appearance("truecolor").depth == "mono"
    monkeypatch.setenv("TERM", "linux")
    assert appearance().table is HALVES
    monkeypatch.setattr(sys, "__stdout__", io.TextIOWrapper(io.BytesIO(), "latin-1"))
    assert appearance().table is ASCII


@pytest.mark.parametrize(
    ("value", "ground"),
    [("15;0", "dark"), ("0;15", "light"), ("0;default;7", "light"), ("12;8", "dark"),
     ("0;default", None), ("", None)],
)  # fmt: skip
def test_the_ground_that_a_terminal_names(value: str, ground: str | None) -> None:
    assert ground_of({"COLORFGBG": value}) == ground
    assert ground_of({}) is None


def test_never_more_than_the_terminal_has() -> None:
    assert appearance("truecolor").for_terminal("standard").depth == "16"
    assert appearance("never").for_terminal("standard").depth == "mono"
    assert appearance().for_terminal(None).depth == "mono"
    assert appearance().for_terminal("truecolor").depth == "256"


def test_heat_is_drawn_in_characters_where_colours_are_not_sure() -> None:
    assert appearance().heat_in_colour
    assert not appearance(theme="ansi").heat_in_colour
    assert not appearance(ascii_only=True).heat_in_colour
    assert not appearance("never").heat_in_colour


def test_true_colours_are_sent_as_such_and_others_as_indices() -> None:
    exact, index = styles("truecolor", "dark")[Ink.COMPUTE], styles("256", "dark")[Ink.COMPUTE]

    assert exact.color is not None
    assert exact.color.triplet == (95, 95, 255)
    assert index.color is not None
    assert (index.color.number, index.color.triplet) == (63, None)


def test_the_ground_behind_everything() -> None:
    assert appearance().ground == "#121212"
    assert appearance(theme="light").ground == "#ffffff"
    assert appearance(theme="ansi").ground == "ansi_default"
    assert appearance("16").ground == "ansi_black"
    assert appearance("16", "light").ground == "ansi_bright_white"
    assert appearance("never").ground == "ansi_default"


@pytest.mark.parametrize("theme", ["light", "ansi"])
async def test_a_theme_reaches_every_cell(start: Start, settle: Settle, theme: str) -> None:
    app = start(theme=theme)
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot)
        await pilot.press("2", "]")
        await pilot.pause()

        allowed = set(styles("256", "light" if theme == "light" else "ansi"))
        strips = app.screen._compositor.render_strips()
        used = {part.style for strip in strips for part in strip if part.style is not None}
        heat = {style for style in used if style in styles("256", "light")[HEAT:BOX]}

    assert used <= allowed
    assert bool(heat) == (theme == "light")
