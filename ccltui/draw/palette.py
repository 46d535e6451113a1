"""Colours of style ids: one explicit table for each theme and colour depth, never downgraded.

The indices were found by a search that maximises the smallest CIE76 distance in normal, protan,
deutan and tritan vision; the lag ramp rises (on a light background: falls) in luminance for all but
tritan. Those of 16 colours were searched with the values that xterm gives them.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, Literal

from msgspec import Struct

Depth = Literal["truecolor", "256", "16", "mono"]
Theme = Literal["dark", "light", "ansi"]


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
    TRANSFER = 18
    OVERLAPPED = 19
    COPY = 20
    WAITING = 21
    IDLE = 22
    HOST = 23
    INPUT = 24
    BLOCKED = 25
    DELAY = 26
    BUBBLE = 27


IDLE_INKS: Final = {
    "data_loading": Ink.INPUT,
    "checkpoint": Ink.HOST,
    "garbage_collection": Ink.HOST,
    "compilation": Ink.HOST,
    "allocation": Ink.BLOCKED,
    "synchronisation": Ink.BLOCKED,
    "operators": Ink.HOST,
    "between_markers": Ink.HOST,
    "host_other": Ink.HOST,
    "launch_latency": Ink.DELAY,
    "launch_call": Ink.HOST,
    "between_kernels": Ink.DELAY,
    "dependency": Ink.DELAY,
    "unknown": Ink.IDLE,
}
"""Colour of each cause of idle time: the host works, waits for input or is blocked, or the device
is late by itself. Events on the host have the colour of the cause that they stand for."""


KIND_INKS: Final = {
    "compute": Ink.COMPUTE,
    "operators": Ink.COMPUTE,
    "waiting": Ink.WAITING,
    "transfer": Ink.TRANSFER,
    "communication": Ink.TRANSFER,
    "collectives": Ink.TRANSFER,
    "bubble": Ink.BUBBLE,
    "overlapped": Ink.OVERLAPPED,
    "other_groups": Ink.OVERLAPPED,
    "copies": Ink.COPY,
    "idle": Ink.IDLE,
}
"""Colour of each kind of time of a rank, on every pane."""

SHADES: Final = {
    Ink.COMPUTE: "█",
    Ink.WAITING: "▓",
    Ink.TRANSFER: "▒",
    Ink.OVERLAPPED: "░",
    Ink.BUBBLE: "~",
    Ink.COPY: "+",
    Ink.IDLE: "·",
}
"""Character for each kind of time without colour."""


def filled(ink: Ink, *, colour: bool) -> str:
    """Return the character that a bar of a kind of time consists of; idle time is lighter."""
    if colour:
        return "▒" if ink is Ink.IDLE else "█"
    return SHADES.get(ink, "▓")


def style_of(glyph: str, ink: Ink) -> int:
    """Return the style of a character of a bar or its legend: a shade has a ground of its own.

    On the ground of the lanes, which is close to the screen's, a shade fades: of a light screen it
    would have a contrast of 2 to the part that is empty.
    """
    return SHADED + ink if glyph in _SHADE_GLYPHS else ink


_SHADE_GLYPHS: Final = frozenset("▓▒░")
CELL_INKS: Final = (
    Ink.IDLE,
    Ink.COMPUTE,
    Ink.TRANSFER,
    Ink.OVERLAPPED,
    Ink.WAITING,
    Ink.BUBBLE,
)
"""Classes of merged cells, which have compute and network of a rank in one row."""
CLASSES: Final = len(CELL_INKS)
MERGED: Final = 32
"""First id of merged cells: ``MERGED + foreground class * CLASSES + background class``."""
LEVELS: Final = 8
HEAT: Final = MERGED + CLASSES * CLASSES
"""First id of heat cells: ``HEAT + upper level * 8 + lower level``."""
USUAL_FLOOR_NS: Final = 100_000
"""Least lag that charts draw unless asked, `MIN_DRAWN_NS` of the metrics, which drawing does not
import. A higher floor is that of doubtful clocks."""
BOX: Final = HEAT + LEVELS * LEVELS
"""First id of text on the colour of an ink: ``BOX + ink``."""
SHADED: Final = BOX + MERGED
"""First id of shaded cells of a bar: ``SHADED + ink``. Their ground differs from the screen's."""
STYLES: Final = SHADED + MERGED


class Look(Struct, frozen=True):
    """Indices into the terminal's palette (None: the terminal's own colour) and attributes."""

    foreground: int | None = None
    background: int | None = None
    bold: bool = False
    reverse: bool = False


class _Colours(Struct, frozen=True):
    """Indices; None is the terminal's own foreground or background."""

    text: int | None
    dim: int
    strong: int | None
    ground: int | None
    raised: int | None
    selected: int | None
    warning: int
    error: int
    classes: tuple[int | None, int, int, int]  # idle, compute, transfer, overlapped
    ramp: tuple[int | None, ...]
    copy: int = 5  # copies and fills
    waiting: int = 9  # for a late rank
    bubble: int = 10  # of a pipeline
    shaded: int = 8  # ground of shades
    host: tuple[int, int, int, int] = (2, 13, 6, 14)  # working, input, blocked; delay of the device


_DARK: Final = _Colours(
    text=252,
    dim=245,
    strong=231,
    ground=233,
    raised=235,
    selected=237,
    warning=214,
    error=203,
    classes=(234, 63, 208, 86),
    ramp=(234, 53, 127, 132, 203, 211, 223, 231),
    copy=140,
    shaded=241,
    waiting=228,
    bubble=36,
    host=(179, 197, 157, 189),
)
_LIGHT: Final = _Colours(
    text=235,
    dim=241,
    strong=16,
    ground=231,
    raised=254,
    selected=252,
    warning=130,
    error=160,
    classes=(254, 18, 166, 31),
    ramp=(254, 216, 207, 198, 160, 89, 52, 16),
    copy=57,
    shaded=246,
    waiting=165,
    bubble=23,
    host=(131, 124, 53, 52),
)
_DARK_16: Final = _Colours(
    text=7,
    dim=8,
    strong=15,
    ground=0,
    raised=0,
    selected=8,
    warning=11,
    error=9,
    classes=(0, 12, 3, 14),
    ramp=(0, 4, 1, 5, 9, 13, 3, 15),
    host=(2, 13, 6, 7),
)
_LIGHT_16: Final = _Colours(
    text=0,
    dim=8,
    strong=0,
    ground=15,
    raised=15,
    selected=7,
    warning=1,
    error=1,
    classes=(15, 4, 1, 10),
    ramp=(15, 3, 13, 9, 5, 1, 4, 0),
    waiting=6,
    bubble=2,
    host=(8, 13, 12, 0),
)
_ANSI: Final = _Colours(
    text=None,
    dim=8,
    strong=None,
    ground=None,
    raised=None,
    selected=None,
    warning=3,
    error=1,
    classes=(None, 4, 3, 6),
    ramp=(None, 4, 1, 5, 9, 13, 3, 7),
)
"""Legible on any background; heat is then drawn with characters."""


def _colours(theme: Theme, depth: Depth) -> _Colours:
    if theme == "ansi":
        return _ANSI
    if depth == "16":
        return _LIGHT_16 if theme == "light" else _DARK_16
    return _LIGHT if theme == "light" else _DARK


def looks(depth: Depth, theme: Theme = "dark") -> tuple[Look, ...]:
    """Colours of every style id at one colour depth, on one kind of background."""
    table = [Look()] * STYLES
    colours = _colours(theme, depth)
    for ink, look in (_mono() if depth == "mono" else _inks(colours)).items():
        table[ink] = look
    if depth != "mono":
        idle, *_ = colours.classes
        busy = (table[ink].foreground for ink in CELL_INKS[1:])
        _fill_pairs(table, MERGED, (idle, *busy))
        _fill_pairs(table, HEAT, colours.ramp)
        for ink in Ink:
            table[BOX + ink] = Look(colours.ground, table[ink].foreground)
            table[SHADED + ink] = Look(table[ink].foreground, colours.shaded)
    return tuple(table)


def _fill_pairs(table: list[Look], first: int, colours: tuple[int | None, ...]) -> None:
    for upper, foreground in enumerate(colours):
        for lower, background in enumerate(colours):
            table[first + upper * len(colours) + lower] = Look(foreground, background)


def _inks(colours: _Colours) -> dict[Ink, Look]:
    idle, compute, transfer, overlapped = colours.classes
    ground, raised = colours.ground, colours.raised
    host, source, blocked, delay = colours.host
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
        Ink.TRANSFER: Look(transfer, idle),
        Ink.OVERLAPPED: Look(overlapped, idle),
        Ink.COPY: Look(colours.copy, idle),
        Ink.WAITING: Look(colours.waiting, idle),
        Ink.IDLE: Look(colours.dim, idle),
        Ink.HOST: Look(host, idle),
        Ink.INPUT: Look(source, idle),
        Ink.BLOCKED: Look(blocked, idle),
        Ink.DELAY: Look(delay, idle),
        Ink.BUBBLE: Look(colours.bubble, idle),
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


def rgb(index: int) -> tuple[int, int, int]:
    """Red, green and blue, 0 to 255, of a colour of the 256 that is not one of the first 16.

    Raises ValueError for those: each terminal has its own.
    """
    if not 16 <= index < 256:
        raise ValueError(index)
    if index >= 232:
        grey = 8 + 10 * (index - 232)
        return grey, grey, grey
    red, rest = divmod(index - 16, 36)
    green, blue = divmod(rest, 6)
    return _CUBE[red], _CUBE[green], _CUBE[blue]


_CUBE: Final = (0, 95, 135, 175, 215, 255)
