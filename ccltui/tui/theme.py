"""Style ids as Rich styles for the depth of this terminal."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, replace
from functools import cache

from rich.color import Color
from rich.style import Style

from ccltui.draw.palette import Depth, Look, looks
from ccltui.draw.text import ASCII


@dataclass(frozen=True, slots=True)
class Appearance:
    """Colours and characters that this terminal can show."""

    depth: Depth
    ascii_table: dict[int, int] | None

    @classmethod
    def before_start(cls, color: str) -> Appearance:
        """What the user and the environment ask for; Textual takes NO_COLOR away when it starts."""
        asked: dict[str, Depth] = {"never": "mono", "16": "16"}
        depth: Depth = "mono" if "NO_COLOR" in os.environ else asked.get(color, "256")
        encoding = getattr(sys.__stderr__, "encoding", None) or "utf-8"
        return cls(depth, None if encoding.lower().startswith("utf") else ASCII)

    def for_terminal(self, color_system: str | None) -> Appearance:
        """The same, no richer than the terminal."""
        if color_system is None:
            return replace(self, depth="mono")
        poor = color_system in ("standard", "windows") and self.depth == "256"
        return replace(self, depth="16") if poor else self

    @property
    def styles(self) -> tuple[Style, ...]:
        """Rich style of every style id."""
        return styles(self.depth)


@cache
def styles(depth: Depth) -> tuple[Style, ...]:
    """Rich style of every style id. Indices stay indices: no colour is ever converted."""
    return tuple(_style(look) for look in looks(depth))


def _style(look: Look) -> Style:
    return Style(
        color=_colour(look.foreground),
        bgcolor=_colour(look.background),
        bold=look.bold or None,
        reverse=look.reverse or None,
    )


def _colour(index: int | None) -> Color:
    return Color.default() if index is None else Color.from_ansi(index)
