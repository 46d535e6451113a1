"""Draw the parts of a whole as stacked bars on one scale, with a legend."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from ccltui.draw.palette import IDLE_INKS, KIND_INKS, SHADES, Ink, filled, style_of
from ccltui.draw.planes import TICK, Planes, round_step, ticks
from ccltui.parsers import numbers


def put_scale(planes: Planes, y: int, x: int, most_ns: int) -> None:
    """Ticks of time from 0 at ``x`` to ``most_ns`` at the right edge."""
    cells = planes.width - x
    if cells < 1:
        return
    for at in ticks(0, most_ns, round_step(most_ns, cells)):
        text = TICK + (numbers.duration(at) if at else "0")
        planes.put(y, x + at * cells // most_ns, text, Ink.RULER)


def put_bar(
    planes: Planes, y: int, x: int, parts_ns: Mapping[str, int], most_ns: int, *, colour: bool
) -> None:
    """Draw kinds of time end to end, each to the nearest cell."""
    if y >= planes.height or x >= planes.width:
        return
    cells, passed, left = planes.width - x, 0, 0
    for kind, part_ns in parts_ns.items():
        passed += part_ns
        right = round(passed * cells / max(most_ns, 1))
        if right > left:
            ink = KIND_INKS[kind]
            glyph = filled(ink, colour=colour)
            style = style_of(glyph, ink)
            planes.put(y, x + left, glyph * (right - left), style)
        left = max(right, left)


def put_difference(
    planes: Planes, y: int, x: int, change: tuple[str, int], most_ns: int, *, colour: bool
) -> None:
    """Draw one difference as a bar from the middle: to the right what is more.

    Args:
        planes: The picture; cells from ``x`` to its right edge are drawn on.
        y: The row.
        x: The first cell.
        change: The kind of time, and the difference in ns.
        most_ns: The difference whose bar reaches an edge.
        colour: Whether colours tell kinds apart; else characters do.
    """
    half = (planes.width - x) // 2
    kind, ns = change
    cells = round(abs(ns) * half / max(most_ns, 1))
    if half < 1 or y >= planes.height:
        return
    planes.put(y, x + half, "│", Ink.RULER)
    ink = KIND_INKS[kind]
    glyph = filled(ink, colour=colour)
    if cells:
        begin = x + half + 1 if ns > 0 else x + half - cells
        planes.put(y, begin, glyph * min(cells, planes.width - begin), style_of(glyph, ink))


_SHADES: Final = "█▓▒░"
"""Parts of one kind in turn: their colour is the same, and fills less of a cell each time."""
_MORE: Final = {"communication": "&$", "idle": "'-_"}
"""Characters without colour of the second and later parts of one kind."""
GAP: Final = "  "
LEAST_NAMED: Final = 0.001
"""Share from which on a part is named in any case: bars have fewer than a thousand cells."""


class Part(Struct, frozen=True):
    """One part: its kind, its name and figures in the legend, and its share of the whole.

    ``cause`` is the cause of idle time, whose colour the part has.
    """

    kind: str
    name: str
    figures: str
    share: float
    cause: str = ""

    @property
    def ink(self) -> Ink:
        """Colour of the part."""
        own = KIND_INKS[self.kind]
        return IDLE_INKS.get(self.cause, own) if self.kind == "idle" else own

    @property
    def text(self) -> str:
        """Text in the legend."""
        return f"{self.name} {self.figures}"


class Cell(Struct, frozen=True):
    """Character and style of a part."""

    glyph: str
    ink: Ink

    @property
    def style(self) -> int:
        """Style id of the character."""
        return style_of(self.glyph, self.ink)


def cells_of(parts: Sequence[Part], *, colour: bool) -> list[Cell]:
    """Return the look of each part: a colour for each kind, a character for each part of it."""
    found, seen = [], Counter[Ink | str]()
    for part in parts:
        look = part.ink if colour else part.kind
        at = seen[look]
        seen[look] += 1
        # Idle time is drawn lighter than work from its first cause on.
        glyphs = (_SHADES[2:] if part.kind == "idle" else _SHADES) if colour else _plain(part.kind)
        found.append(Cell(glyphs[min(at, len(glyphs) - 1)], part.ink))
    return found


def _plain(kind: str) -> str:
    return SHADES[KIND_INKS[kind]] + _MORE.get(kind, "")


def put_composition(
    planes: Planes, y: int, x: int, width: int, parts: Sequence[Part], *, colour: bool
) -> None:
    """Draw the parts end to end in so many cells, each to the nearest cell."""
    passed, left = 0.0, 0
    for part, cell in zip(parts, cells_of(parts, colour=colour), strict=True):
        passed += part.share
        right = min(round(passed * width), width)
        planes.put(y, x + left, cell.glyph * (right - left), cell.style)
        left = max(right, left)


def legend_rows(parts: Sequence[Part], width: int) -> list[list[int]]:
    """Return the indices of the parts on each line of a legend of so many cells.

    Where not all have room on one line, parts that are drawn in no cell of the bar are left out.
    """
    every = [*range(len(parts))]
    named = [at for at in every if parts[at].share >= LEAST_NAMED]
    for chosen in (every, named):
        if _size(parts, chosen, 1) <= width:
            return [chosen]
    rows: list[list[int]] = [[]]
    used = 0
    for index in named:
        part = parts[index]
        size = len(part.text) + 2 + (len(GAP) if rows[-1] else 0)
        if rows[-1] and used + size > width:
            rows.append([])
            used, size = 0, size - len(GAP)
        rows[-1].append(index)
        used += size
    return rows


def _size(parts: Sequence[Part], row: Sequence[int], gap: int) -> int:
    return sum(len(parts[index].text) + 2 for index in row) + gap * max(len(row) - 1, 0)


def put_legend(
    planes: Planes,
    y: int,
    x: int,
    parts: Sequence[Part],
    row: Sequence[int],
    *,
    width: int,
    colour: bool,
) -> None:
    """Draw one line of the legend, with narrower gaps where it needs the room."""
    cells = cells_of(parts, colour=colour)
    gap = GAP if _size(parts, row, len(GAP)) <= width else " "
    for place, index in enumerate(row):
        x = planes.put(y, x, gap if place else "", Ink.TEXT)
        x = planes.put(y, x, cells[index].glyph, cells[index].style)
        x = planes.put(y, x, f" {parts[index].text}", Ink.TEXT)
