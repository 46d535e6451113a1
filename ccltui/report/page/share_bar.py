"""Pictures of shares that sum to one: the step, and the time of one rank."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from xml.etree.ElementTree import Element, SubElement

from ccltui.parsers.numbers import percent_cell
from ccltui.parsers.safe_text import safe_text
from ccltui.report.page import svg_elements as draw


class Share(NamedTuple):
    """One part: its name, the class of its colour, and its share of the whole."""

    name: str
    kind: str
    share: float


_WIDTH, _HEIGHT = 960, 46
_LEAST_LABEL = 0.06
"""Share below which a part is too narrow for its percentage."""


def step_bar(shares: Sequence[Share], title: str) -> Element:
    """Return one bar over the whole width, with percentages in the wide parts."""
    words = "; ".join(f"{one.name} {percent_cell(one.share)}" for one in shares)
    picture = draw.svg("step-bar", _WIDTH, _HEIGHT, title, words)
    x = 0.0
    for one in shares:
        width = one.share * _WIDTH
        part = draw.rect(picture, x, 0, width, _HEIGHT, kind=f"part {one.kind}")
        SubElement(part, "title").text = safe_text(f"{one.name}: {percent_cell(one.share)}")
        if one.share >= _LEAST_LABEL:
            draw.label(
                picture,
                x + width / 2,
                _HEIGHT / 2 + 5,
                percent_cell(one.share),
                f"label on {one.kind}",
            )
        x += width
    return picture


def small_bar(name: str, shares: Sequence[Share], title: str) -> Element:
    """Return a bar for a cell of a table, whose row has the numbers."""
    words = ", ".join(f"{one.name} {percent_cell(one.share)}" for one in shares)
    picture = draw.svg(name, 120, 12, title, words)
    picture.set("class", "picture small")
    picture.set("preserveAspectRatio", "none")
    x = 0.0
    for one in shares:
        draw.rect(picture, x, 0, one.share * 120, 12, kind=one.kind)
        x += one.share * 120
    return picture
