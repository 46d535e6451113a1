"""Draw the difference in time of two ranks or steps as parts that add up to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ccltui.draw.palette import KIND_INKS, Ink, filled, style_of
from ccltui.draw.table import Column, table
from ccltui.parsers import numbers
from ccltui.report.overview_text import part_name

if TYPE_CHECKING:
    from ccltui.draw.planes import Planes
    from ccltui.metrics.compare.step_diff import Waterfall

MOST_ROWS: Final = 10
_LEAST_BAR: Final = 12
_GAP: Final = "  "


def line(found: Waterfall, width: int) -> str:
    """Return the difference and its largest parts; the last figure is the sum of the others."""
    left = sorted(found.changes_ns, key=lambda change: -abs(change[1]))
    text = f"{numbers.signed_duration(found.difference_ns)} ="
    while left:
        term = _term(*left[0])
        rest = sum(ns for _, ns in left[1:])
        ending = f"{_GAP}{_rest(len(left) - 1, rest)}" if left[1:] else ""
        if len(text) + len(term) + len(ending) + 1 > width:
            break
        text += f" {term}" if text.endswith("=") else f"{_GAP}{term}"
        left = left[1:]
    if left:
        text += f"{_GAP}{_rest(len(left), sum(ns for _, ns in left))}"
    return text


def _term(part: tuple[str, str], change_ns: int) -> str:
    name = part[1] if part[0] == "waiting" else _name(part)
    return f"{name} {numbers.signed_duration(change_ns)}"


def _rest(count: int, change_ns: int) -> str:
    return f"{count} more {numbers.signed_duration(change_ns)}"


def _name(part: tuple[str, str]) -> str:
    return part_name({"kind": part[0], "part": part[1]})


def put_table(planes: Planes, y: int, found: Waterfall, *, colour: bool) -> int:
    """Draw one row a part with both times, the change and a bar; return the next row.

    The last row is the whole difference: the sum of the rows above it.
    """
    changes = found.changes_ns
    rest: list[tuple[tuple[str, str], int]] = []
    if len(changes) > MOST_ROWS:
        by_size = sorted(changes, key=lambda change: -abs(change[1]))
        kept = {part for part, _ in by_size[: MOST_ROWS - 1]}
        rest = [change for change in changes if change[0] not in kept]
        changes = [change for change in changes if change[0] in kept]
    cells = [
        _cells(_name(part), found.one.get(part, 0), found.other.get(part, 0)) for part, _ in changes
    ]
    if rest:
        sides = [sum(side.get(part, 0) for part, _ in rest) for side in (found.one, found.other)]
        cells.append(_cells(numbers.counted(len(rest), "more part"), *sides))
    cells.append(_cells("time on the device", *found.total_ns))
    columns = (
        Column("part", widest=36),
        Column("first", "right"),
        Column("second", "right"),
        Column("change", "right"),
    )
    lines = table(columns, cells, planes.width - 2)
    planes.put(y, 1, lines[0], Ink.DIM)
    x = max(map(len, lines)) + 3
    most = max((abs(ns) for _, ns in changes), default=0)
    for index, text in enumerate(lines[1:]):
        last = index == len(lines) - 2
        planes.put(y + 1 + index, 1, text, Ink.STRONG if last else Ink.TEXT)
        if index < len(changes) and most and planes.width - x >= _LEAST_BAR:
            part, change = changes[index]
            ink = KIND_INKS[part[0]]
            size = round(abs(change) * (planes.width - x) / most)
            glyph = filled(ink, colour=colour)
            planes.put(y + 1 + index, x, glyph * size, style_of(glyph, ink))
    return y + 1 + len(cells)


def _cells(name: str, one_ns: int, other_ns: int) -> list[str]:
    return [
        name,
        numbers.duration(one_ns),
        numbers.duration(other_ns),
        numbers.signed_duration(other_ns - one_ns),
    ]
