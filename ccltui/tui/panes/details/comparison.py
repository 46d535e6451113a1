"""Draw the comparison of two ranks or steps: parts that add up to the difference, and kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from ccltui.draw.glyphs import HEIGHTS
from ccltui.draw.palette import KIND_INKS, Ink, filled, style_of
from ccltui.draw.planes import Planes
from ccltui.draw.table import Column, table
from ccltui.draw.text import fit
from ccltui.draw.timeline_chart import merged_row, shaded_row
from ccltui.metrics.compare.step_diff import ADDED, MATCHED, MISSING_HERE
from ccltui.parsers import numbers
from ccltui.report.overview_text import part_name
from ccltui.tui.moves import compare_ranks, drawer
from ccltui.tui.state.pane import drawer_has_keys
from ccltui.tui.state.scene import Scene, rank_name

if TYPE_CHECKING:
    from ccltui.draw.planes import Planes
    from ccltui.metrics.compare.step_diff import StepDiff, Waterfall
    from ccltui.parsers.array_types import I64


MOST_ROWS: Final = 10
_LEAST_BAR: Final = 12
_GAP: Final = "  "


def waterfall_line(found: Waterfall, width: int) -> str:
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
    name = part[1] if part[0] == "waiting" else _part_name(part)
    return f"{name} {numbers.signed_duration(change_ns)}"


def _rest(count: int, change_ns: int) -> str:
    return f"{count} more {numbers.signed_duration(change_ns)}"


def _part_name(part: tuple[str, str]) -> str:
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
        _cells(_part_name(part), found.one.get(part, 0), found.other.get(part, 0))
        for part, _ in changes
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


_SIGN: Final = {MATCHED: "=", ADDED: "+", MISSING_HERE: "-"}
_INK: Final = {MATCHED: Ink.TEXT, ADDED: Ink.WARNING, MISSING_HERE: Ink.ERROR}
_FIXED = 56
"""Width of all columns except the names."""
_GUTTER = 14
_LEAST_FOR_CHART = 9
_LEAST_FOR_TABLE = 24
"""Least height at which the parts of the difference are a table, and not one line."""


def paint(scene: Scene, height: int, width: int) -> Planes:
    """Draw both sides from one zero, then their kernels row by row."""
    planes = Planes.blank(height, width, Ink.TEXT)
    found, parts = compare_ranks.versus(scene), compare_ranks.waterfall(scene)
    planes.put(0, 0, _title(scene).ljust(width, "─"), Ink.STRONG)
    top = 1
    if parts is not None and height >= _LEAST_FOR_TABLE:
        top = put_table(planes, 1, parts, colour=scene.colour) + 1
    elif parts is not None:
        planes.put(1, 1, waterfall_line(parts, width - 2), Ink.STRONG)
        top = 2
    if found is None:
        why = compare_ranks.problem(scene) or "matching the kernels of both…"
        planes.put_wrapped(top, why, Ink.DIM)
        return planes
    planes.put(top, 1, fit(_summary(found), width - 2).rstrip(), Ink.TEXT)
    y = top + 1
    if height - top >= _LEAST_FOR_CHART:
        y = _put_chart(planes, y, scene, found)
    _put_rows(planes, y, scene, found)
    return planes


def _name(side: tuple[str, int | None]) -> str:
    label, step = side
    return rank_name(label) + ("" if step is None else f" it {step}")


def _title(scene: Scene) -> str:
    versus = scene.state.versus
    if versus is None:
        return "── nothing is compared "
    return f"── {_name(versus.other)} against {_name(versus.one)} "


def _summary(found: StepDiff) -> str:
    """Describe the number of equal and unequal kernels, and the total time of each."""
    lengths = found.extent_ns(1) - found.extent_ns(0)
    return "   ".join(
        (
            f"length {numbers.signed_duration(lengths)}, kernels:",
            f"= {numbers.count(found.count(MATCHED))} matched "
            f"{numbers.signed_duration(found.total_ns(MATCHED))}",
            f"+ {numbers.count(found.count(ADDED))} added "
            f"{numbers.signed_duration(found.total_ns(ADDED))}",
            f"- {numbers.count(found.count(MISSING_HERE))} missing "
            f"{numbers.signed_duration(found.total_ns(MISSING_HERE))}",
        )
    )


def _put_chart(planes: Planes, y: int, scene: Scene, found: StepDiff) -> int:
    """Draw both sides from their first work on, and their differences; return the next row."""
    cells = planes.width - _GUTTER
    most = max(found.extent_ns(0), found.extent_ns(1), 1)
    edges = np.arange(cells + 1, dtype=np.int64) * most // cells
    for side, one in enumerate(found.sides):
        lane = scene.findings.lanes[one.label]
        planes.put(y + side, 0, f" {_name((one.label, one.step))}"[: _GUTTER - 1], Ink.LABEL)
        own = lane.own(edges + found.origin_ns[side])
        if not scene.colour:
            planes.glyph[y + side, _GUTTER:] = shaded_row(lane, own)
            continue
        glyph, style = merged_row(lane, own)
        planes.glyph[y + side, _GUTTER:], planes.style[y + side, _GUTTER:] = glyph, style
    _put_changes(planes, y + 2, found, edges)
    return y + 3


def _put_changes(planes: Planes, y: int, found: StepDiff, edges: I64) -> None:
    """Draw the extra time of the second side by position, and marks of one-sided kernels."""
    cells, width = len(edges) - 1, max(int(edges[-1]), 1)
    start = np.where(found.dur_ns[0] >= 0, found.start_ns[0], found.start_ns[1])
    place = np.clip(start * cells // width, 0, cells - 1)
    longer = np.bincount(place, np.maximum(found.change_ns, 0), cells)
    planes.put(y, 1, "longer"[: _GUTTER - 2], Ink.DIM)
    if longer.max(initial=0) > 0:
        heights = np.ceil(longer * 8 / longer.max()).astype(np.int64)
        planes.glyph[y, _GUTTER:] = HEIGHTS[heights]
        planes.style[y, _GUTTER:] = Ink.WARNING
    for op in (MISSING_HERE, ADDED):
        for x in np.unique(place[found.op == op]).tolist():
            planes.put(y, _GUTTER + x, _SIGN[op], _INK[op])


def _put_rows(planes: Planes, y: int, scene: Scene, found: StepDiff) -> None:
    """Draw a page of kernels that contains the selected one."""
    columns = (
        Column("", widest=1),
        Column("kernel", widest=max(planes.width - _FIXED, 18)),
        Column("change", "right"),
        Column("first", "right"),
        Column("second", "right"),
        Column("stream", "right"),
        Column("at", "right"),
    )
    order, at = compare_ranks.rows(scene), drawer.row(scene)
    room = max(planes.height - y - 1, 1)
    first = at // room * room
    shown = order[first : first + room]
    lines = table(columns, [_row(found, row) for row in shown], planes.width - 2)
    planes.put(y, 1, lines[0], Ink.DIM)
    for offset, (row, line) in enumerate(zip(shown, lines[1:], strict=True)):
        on = first + offset == at and drawer_has_keys(scene)
        planes.put_row(y + 1 + offset, line, _INK[int(found.op[row])], on=on)


def _row(found: StepDiff, row: int) -> list[str]:
    durs = found.dur_ns[:, row].tolist()
    side = 0 if durs[0] >= 0 else 1
    return [
        _SIGN[int(found.op[row])],
        found.names[found.name[row]],
        numbers.signed_duration(int(found.change_ns[row])),
        *("" if dur < 0 else numbers.duration(dur) for dur in durs),
        found.streams[found.stream[row]],
        numbers.instant(int(found.start_ns[side, row]), 1_000),
    ]
