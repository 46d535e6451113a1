"""Colours of the page: those of the explorer's palette, as rules of a style sheet.

The class of a part, such as ``compute``, sets ``--own``, its colour, which the rules of `page.css`
use: no colour of a part is stated there.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final, Literal

from msgspec import Struct

from ccltui.draw.palette import HEAT, IDLE_INKS, KIND_INKS, LEVELS, SHADED, Ink, Look, looks, rgb

Theme = Literal["light", "dark"]
Rgb = tuple[int, int, int]

_KINDS: Final = ("compute", "waiting", "bubble", "communication", "copies")
_SHADES: Final = {
    "tp": 0.0,
    "dp": -0.25,
    "pp": 0.25,
    "ep": -0.45,
    "cp": 0.6,
    "world": -0.65,
}
"""Shades of communication by dimension: the share of the page (above 0) or of the strong text
(below 0) that is mixed in. The explorer draws them in one colour, too, with other characters."""
_CURVES: Final = (Ink.TEXT, Ink.WAITING, Ink.TRANSFER)
"""Colours of lag, wait and duration of collectives: the last two are kinds of time."""
_HEAT_LEVELS: Final = (1, 2, 3, 5, 6, 7)
"""Level of the explorer, which has seven, in the middle of each of the six classes of lateness."""
_DOT: Final = 0.2
"""Share of a cell that the dot of idle or punctual time covers. On the dark page the ground alone
has a contrast of 1.1 to the paper, with this share 1.5."""


class Colours(Struct, frozen=True):
    """Colours of one theme.

    Attributes:
        texts: paper, text and rules, by the name of their property.
        parts: what pictures consist of, by the class of the part.
        on: text on the parts of a bar, black or white, whichever has more contrast.
    """

    texts: Mapping[str, Rgb]
    parts: Mapping[str, Rgb]
    on: Mapping[str, Rgb]


def colour_rules(theme: Theme) -> str:
    """Return the rules of a style sheet that state the colours of a theme."""
    found = colours_of(theme)
    texts = " ".join(f"--{name}: {_hex(colour)};" for name, colour in found.texts.items())
    rules = [f":root {{ {texts} }}"]
    rules += [f".{name} {{ --own: {_hex(colour)}; }}" for name, colour in found.parts.items()]
    rules += [f".on.{name} {{ fill: {_hex(colour)}; }}" for name, colour in found.on.items()]
    return "\n".join(rules)


def colours_of(theme: Theme) -> Colours:
    """Return the colours of a theme, all of them made from those of the palette."""
    table = looks("truecolor", theme)
    parts = {kind: _front(table[KIND_INKS[kind]]) for kind in _KINDS}
    paper, strong = _back(table[Ink.TEXT]), _front(table[Ink.STRONG])
    for dim, share in _SHADES.items():
        other = paper if share > 0 else strong
        parts[f"dim-{dim}"] = _mixed(parts["communication"], other, abs(share))
    causes = {f"cause-{cause}": ink for cause, ink in IDLE_INKS.items()}
    for name, ink in ({"idle": Ink.IDLE} | causes).items():
        shaded = table[SHADED + ink]
        parts[name] = _mixed(_back(shaded), _front(shaded), 0.5)  # "▒" in a bar
    on = {name: max(paper, strong, key=partial(contrast, one)) for name, one in parts.items()}
    idle = table[Ink.IDLE]
    parts["lane"] = parts["heat0"] = _mixed(_back(idle), _front(idle), _DOT)
    parts["none"] = paper
    for number, level in enumerate(_HEAT_LEVELS, 1):
        parts[f"heat{number}"] = _back(table[HEAT + level * LEVELS + level])
    parts |= {f"curve{number}": _front(table[ink]) for number, ink in enumerate(_CURVES)}
    texts = {
        "paper": paper,
        "ink": _front(table[Ink.TEXT]),
        "quiet": _front(table[Ink.DIM]),
        "rule": _back(table[Ink.AREA]),
        "warn": _front(table[Ink.WARNING]),
    }
    return Colours(texts, parts, on)


def contrast(one: Rgb, other: Rgb) -> float:
    """Return the contrast ratio of WCAG 2, 1 to 21."""
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: Rgb) -> float:
    """Return the relative luminance of WCAG 2, 0 to 1."""
    parts = [value / 255 for value in colour]
    red, green, blue = (v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _front(look: Look) -> Rgb:
    return _known(look.foreground)


def _back(look: Look) -> Rgb:
    return _known(look.background)


def _known(index: int | None) -> Rgb:
    assert index is not None  # only the theme "ansi" leaves colours to the terminal
    return rgb(index)


def _mixed(one: Rgb, other: Rgb, share: float) -> Rgb:
    """Return one colour with a share, 0 to 1, of another."""
    red, green, blue = (round(a + (b - a) * share) for a, b in zip(one, other, strict=True))
    return red, green, blue


def _hex(colour: Rgb) -> str:
    return "#" + bytes(colour).hex()
