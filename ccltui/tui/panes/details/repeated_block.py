"""Draw the repeating block of a kernel: its positions over all repetitions and ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ccltui.draw.palette import Ink
from ccltui.draw.planes import Planes
from ccltui.draw.table import Column, table
from ccltui.draw.text import fit, wrap
from ccltui.parsers import numbers
from ccltui.tui.moves import compare_ranks, drawer
from ccltui.tui.state.pane import drawer_has_keys
from ccltui.tui.state.scene import Scene

if TYPE_CHECKING:
    from ccltui.metrics.device.repetition import Block, Position

_FIXED = 54
"""Width of all columns except the names."""


def paint(scene: Scene, height: int, width: int) -> Planes:
    """Draw a table of positions that contains the selected one."""
    planes = Planes.blank(height, width, Ink.TEXT)
    block = compare_ranks.block(scene)
    planes.put(0, 0, _title(block).ljust(width, "─"), Ink.STRONG)
    if block is None:
        for y, line in enumerate(
            wrap(compare_ranks.problem(scene) or "looking for repetitions…", width - 2), 1
        ):
            planes.put(y, 1, line, Ink.DIM)
        return planes
    planes.put(1, 1, fit(_summary(block), width - 2).rstrip(), Ink.DIM)
    columns = (
        Column("", "right"),
        Column("kernel", widest=max(width - _FIXED, 20)),
        Column("median", "right"),
        Column("p5-p95", "right"),
        Column("gap after", "right"),
        Column("n", "right"),
    )
    lines = table(columns, [_row(i, one) for i, one in enumerate(block.positions)], width - 2)
    planes.put(2, 1, lines[0], Ink.DIM)
    room = max(height - 3, 1)
    at = drawer.row(scene)
    first = at // room * room
    for y, line in enumerate(lines[1 + first : 1 + first + room], 3):
        on = first + y - 3 == at and drawer_has_keys(scene)
        text = ("▶" if on else " ") + line
        planes.put(y, 0, text.ljust(width), Ink.LABEL_ON if on else Ink.TEXT)
    return planes


def _title(block: Block | None) -> str:
    if block is None:
        return "── repeating block "
    length = len(block.positions)
    kernels = f"{numbers.counted(length, 'kernel')}"
    return f"── repeating block of {kernels} on stream {block.stream} "


def _summary(block: Block) -> str:
    ranks = sum(count > 0 for count in block.by_rank.values())
    parts = [
        f"{numbers.counted(block.repetitions, 'repetition')} on {ranks} of "
        f"{numbers.counted(len(block.by_rank), 'rank')}",
        f"one every {numbers.duration(block.period_ns)} (median)",
    ]
    if block.others:
        parts.append(f"{numbers.count(block.others)} begin alike and go on differently")
    return "   ".join(parts)


def _row(place: int, one: Position) -> list[str]:
    return [
        str(place + 1),
        one.name,
        numbers.duration(one.median_ns),
        f"{numbers.duration(one.p5_ns)}-{numbers.duration(one.p95_ns)}",
        numbers.duration(one.gap_ns),
        numbers.count(one.count),
    ]
