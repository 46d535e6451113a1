"""Runs: key figures side by side, loss and throughput in their course, and what is missing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ccltui.draw import numbers
from ccltui.draw.palette import Ink
from ccltui.draw.planes import Planes
from ccltui.draw.spark import spark
from ccltui.draw.table import Column, table
from ccltui.draw.text import clean, fit_middle, wrap
from ccltui.tui.state import side_tables
from ccltui.tui.state.scene import Scene

if TYPE_CHECKING:
    from ccltui.metrics.runs.runs_table import RunRow

_NAME = 24
_WIDE_NAME = 40
_NARROW_SPARK = 8
_SPARK = 12
_WIDE_SPARK = 20
_WIDE = 110
_VERY_WIDE = 150
_DETAIL_LINES = 9
_STATES = {"complete": "complete", "unmarked": "! unmarked", "incomplete": "x incomplete"}
_INKS = {"complete": Ink.TEXT, "unmarked": Ink.WARNING, "incomplete": Ink.ERROR}


def paint(scene: Scene, height: int, width: int) -> Planes:
    """A page of runs, the selected one in it, and everything about that one below."""
    planes = Planes.blank(height, width, Ink.TEXT)
    rows = side_tables.runs(scene)
    if rows is None:
        planes.put(1, 1, "Runs are being read.", Ink.DIM)
        return planes
    if not rows:
        planes.put(1, 1, "No run here: no folder with training_metrics.json or a log.", Ink.DIM)
        return planes
    at = min(scene.state.run, len(rows) - 1)
    below = _detail(rows[at], width - 2)
    below = below[: max(min(_DETAIL_LINES, height - 4), 0)]
    room = max(height - len(below) - 2, 1)
    first = at // room * room
    shown = rows[first : first + room]
    lines = table(_columns(width), [_cells(row, width) for row in shown], width - 2)
    planes.put(0, 1, lines[0], Ink.DIM)
    for index, (row, line) in enumerate(zip(shown, lines[1:], strict=True)):
        on = first + index == at
        ink = Ink.LABEL_ON if on else _INKS[row.completeness.state]
        planes.put(1 + index, 0, (("▶" if on else " ") + line).ljust(width), ink)
        planes.listed[1 + index] = first + index
    for index, (text, ink) in enumerate(below):
        planes.put(height - len(below) + index, 1, text, ink)
    return planes


def _columns(width: int) -> tuple[Column, ...]:
    wide, course = width >= _WIDE, _course(width)
    return (
        Column("run", widest=_WIDE_NAME if wide else _NAME),
        Column("state", widest=12),
        Column("tokens/s", "right"),
        Column("course", widest=course),
        Column("loss", "right"),
        Column("course", widest=course),
        Column("p95 ms", "right"),
        Column("ranks", "right"),
        Column("p50 ms", "right"),
        Column("val loss", "right"),
        Column("AllReduce/bwd", "right"),
        Column("commit", widest=9),
        Column("nsys", widest=4),
    )


def _cells(row: RunRow, width: int) -> tuple[str, ...]:
    wide, course = width >= _WIDE, _course(width)
    doubt = " !" if row.step_caveat else ""
    return (
        fit_middle(clean(row.name), _WIDE_NAME if wide else _NAME).rstrip(),
        _STATES[row.completeness.state],
        numbers.quantity(row.tokens_per_s),
        _curve(row.rate_curve, course),
        numbers.quantity(row.train_loss),
        _curve(row.loss_curve, course),
        f"{numbers.quantity(row.step_p95_ms)}{doubt if row.step_p95_ms is not None else ''}",
        "" if row.world_size is None else str(row.world_size),
        f"{numbers.quantity(row.step_p50_ms)}{doubt if row.step_p50_ms is not None else ''}",
        numbers.quantity(row.val_loss),
        numbers.quantity(row.allreduce_per_backward),
        row.git_commit[:7],
        {True: "on", False: "", None: ""}[row.profiled],
    )


def _course(width: int) -> int:
    if width >= _VERY_WIDE:
        return _WIDE_SPARK
    return _SPARK if width >= _WIDE else _NARROW_SPARK


def _curve(values: Sequence[float | None], width: int) -> str:
    """A course has at least two points."""
    return spark(values, width) if len(values) > 1 else ""


def _detail(row: RunRow, width: int) -> list[tuple[str, Ink]]:
    """What is to be said about a run, the gravest first."""
    done = row.completeness
    said: list[tuple[str, Ink]] = []
    if done.sentence:
        sign, ink = ("x", Ink.ERROR) if done.state == "incomplete" else ("!", Ink.WARNING)
        said.append((f"{sign} {done.sentence}", ink))
    said += [(f"! {remark}", Ink.WARNING) for remark in row.remarks]
    if row.step_caveat:
        said.append((f"! {row.step_caveat}", Ink.WARNING))
    if row.tokens_source:
        said.append((f"throughput: {row.tokens_source}", Ink.DIM))
    if done.present:
        said.append((f"there: {', '.join(done.present)}", Ink.DIM))
    lines = [(clean(row.name).ljust(width)[:width], Ink.STRONG)]
    for text, ink in said:
        lines += [(line, ink) for line in wrap(clean(text), width, most=3, indent="  ")]
    return lines
