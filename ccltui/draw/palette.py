"""What a style id looks like: one explicit table for each colour depth, never downgraded.

The 256-colour indices were found by a search that keeps the smallest CIE76 distance large in
normal, protan, deutan and tritan vision; the lag ramp rises in luminance for all but tritan.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Literal

Depth = Literal["256", "16", "mono"]


class Ink(IntEnum):
    """Style ids below the blocks of merged cells and of heat."""

    TEXT = 0
    DIM = 1
    STRONG = 2
    HEADER = 3
    HEADER_DIM = 4
    TAB = 5
    TAB_ON = 6
    LABEL = 7
    LABEL_ON = 8
    RULER = 9
    CURSOR = 11
    WARNING = 12
    ERROR = 13
    KEY = 14
    HIT = 15
    AREA = 16
    COMPUTE = 17
    EXPOSED = 18
    OVERLAPPED = 19


CLASSES: Final = 4
MERGED: Final = 32
"""First id of merged cells: ``MERGED + foreground class * 4 + background class``."""
LEVELS: Final = 8
HEAT: Final = 64
"""First id of heat cells: ``HEAT + upper level * 8 + lower level``."""
STYLES: Final = HEAT + LEVELS * LEVELS


@dataclass(frozen=True, slots=True)
class Look:
    """Indices into the terminal's palette (None: the terminal's own colour) and attributes."""

    foreground: int | None = None
    background: int | None = None
    bold: bool = False
    reverse: bool = False


@dataclass(frozen=True, slots=True)
class _Colours:
    text: int
    dim: int
    strong: int
    ground: int
    raised: int
    selected: int
    warning: int
    error: int
    classes: tuple[int, int, int, int]
    ramp: tuple[int, ...]


_COLOURS: Final[dict[Depth, _Colours]] = {
    "256": _Colours(
        text=252,
        dim=245,
        strong=231,
        ground=233,
        raised=235,
        selected=237,
        warning=214,
        error=203,
        classes=(234, 63, 208, 86),  # idle, compute, exposed, overlapped
        ramp=(234, 53, 127, 132, 203, 211, 223, 231),
    ),
    "16": _Colours(
        text=7,
        dim=8,
        strong=15,
        ground=0,
        raised=0,
        selected=8,
        warning=11,
        error=9,
        classes=(0, 12, 3, 14),
        ramp=(0, 8, 5, 13, 1, 9, 11, 15),
    ),
}


def looks(depth: Depth) -> tuple[Look, ...]:
    """Look of every style id at one colour depth."""
    table = [Look()] * STYLES
    for ink, look in (_mono() if depth == "mono" else _inks(_COLOURS[depth])).items():
        table[ink] = look
    if depth != "mono":
        colours = _COLOURS[depth]
        _fill_pairs(table, MERGED, colours.classes)
        _fill_pairs(table, HEAT, colours.ramp)
    return tuple(table)


def _fill_pairs(table: list[Look], first: int, colours: tuple[int, ...]) -> None:
    for upper, foreground in enumerate(colours):
        for lower, background in enumerate(colours):
            table[first + upper * len(colours) + lower] = Look(foreground, background)


def _inks(colours: _Colours) -> dict[Ink, Look]:
    idle, compute, exposed, overlapped = colours.classes
    ground, raised = colours.ground, colours.raised
    return {
        Ink.TEXT: Look(colours.text, ground),
        Ink.DIM: Look(colours.dim, ground),
        Ink.STRONG: Look(colours.strong, ground, bold=True),
        Ink.HEADER: Look(colours.strong, raised, bold=True),
        Ink.HEADER_DIM: Look(colours.text, raised),
        Ink.TAB: Look(colours.dim, ground),
        Ink.TAB_ON: Look(colours.strong, ground, bold=True, reverse=True),
        Ink.LABEL: Look(colours.text, ground),
        Ink.LABEL_ON: Look(colours.strong, colours.selected, bold=True),
        Ink.RULER: Look(colours.dim, ground),
        Ink.CURSOR: Look(colours.strong, ground, bold=True, reverse=True),
        Ink.WARNING: Look(colours.warning, ground),
        Ink.ERROR: Look(colours.error, ground),
        Ink.KEY: Look(colours.strong, ground, bold=True),
        Ink.HIT: Look(colours.warning, ground, bold=True),
        Ink.AREA: Look(colours.strong, colours.selected),
        Ink.COMPUTE: Look(compute, idle),
        Ink.EXPOSED: Look(exposed, idle),
        Ink.OVERLAPPED: Look(overlapped, idle),
    }


def _mono() -> dict[Ink, Look]:
    return {
        Ink.STRONG: Look(bold=True),
        Ink.HEADER: Look(bold=True),
        Ink.TAB_ON: Look(bold=True, reverse=True),
        Ink.LABEL_ON: Look(bold=True),
        Ink.CURSOR: Look(reverse=True),
        Ink.KEY: Look(bold=True),
        Ink.HIT: Look(bold=True),
        Ink.AREA: Look(reverse=True),
    }
