"""Rich styles by style id, for the colour depth and background of the terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from functools import cache

from msgspec import Struct
from msgspec.structs import replace
from rich.color import Color
from rich.style import Style

from ccltui.draw.palette import Depth, Ink, Look, Theme, looks, rgb
from ccltui.draw.text import ASCII, HALVES
from ccltui.tui.options import ExplorerOptions


class Appearance(Struct, frozen=True):
    """Colours and characters that this terminal can show; ``table`` replaces those it cannot."""

    depth: Depth
    theme: Theme
    table: dict[int, int] | None

    @classmethod
    def before_start(cls, options: ExplorerOptions) -> Appearance:
        """Return what options and environment set; Textual removes NO_COLOR when it starts."""
        asked: dict[str, Depth] = {"never": "mono", "16": "16", "truecolor": "truecolor"}
        depth: Depth = "mono" if "NO_COLOR" in os.environ else asked.get(options.color, "256")
        theme: Theme = "dark" if options.theme == "auto" else options.theme
        if options.theme == "auto" and ground_of(os.environ) == "light":
            theme = "light"
        return cls(depth, theme, _table(options))

    def for_terminal(self, color_system: str | None) -> Appearance:
        """Return the same appearance, limited to the colours of the terminal."""
        if color_system is None:
            return replace(self, depth="mono")
        poor = color_system in ("standard", "windows") and self.depth != "mono"
        return replace(self, depth="16") if poor else self

    @property
    def heat_in_colour(self) -> bool:
        """Whether lag is shown by colours; else by characters, legible on any background."""
        return self.depth != "mono" and self.theme != "ansi" and self.table is not ASCII

    @property
    def styles(self) -> tuple[Style, ...]:
        """Rich style of every style id."""
        return styles(self.depth, self.theme)

    @property
    def ground(self) -> str:
        """Background colour in the notation of a style sheet."""
        index = None if self.depth == "mono" else looks(self.depth, self.theme)[Ink.TEXT].background
        if index is None:
            return "ansi_default"
        if index < 16:
            return "ansi_black" if index < 8 else "ansi_bright_white"
        return "#{:02x}{:02x}{:02x}".format(*rgb(index))


def ground_of(environ: Mapping[str, str]) -> Theme | None:
    """Return the theme that COLORFGBG implies; None where it is unset or malformed."""
    last = environ.get("COLORFGBG", "").rpartition(";")[2]
    if not last.isdigit():
        return None
    return "light" if int(last) in (7, *range(9, 16)) else "dark"


def _table(options: ExplorerOptions) -> dict[int, int] | None:
    encoding = getattr(sys.__stdout__, "encoding", None) or "utf-8"
    if options.ascii or not encoding.lower().startswith("utf"):
        return ASCII
    return HALVES if os.environ.get("TERM") == "linux" else None


@cache
def styles(depth: Depth, theme: Theme) -> tuple[Style, ...]:
    """Return the Rich style of every style id. Palette indices are kept, but for true colours."""
    exact = depth == "truecolor"
    return tuple(_style(look, exact=exact) for look in looks(depth, theme))


def _style(look: Look, *, exact: bool) -> Style:
    return Style(
        color=_colour(look.foreground, exact=exact),
        bgcolor=_colour(look.background, exact=exact),
        bold=look.bold or None,
        reverse=look.reverse or None,
    )


def _colour(index: int | None, *, exact: bool) -> Color:
    if index is None:
        return Color.default()
    return Color.from_rgb(*rgb(index)) if exact and index >= 16 else Color.from_ansi(index)
