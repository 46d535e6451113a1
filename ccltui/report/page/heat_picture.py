"""Picture of lateness by rank and time."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final
from xml.etree.ElementTree import Element

import numpy as np

from ccltui.parsers.numbers import duration, instant
from ccltui.report.page import svg_elements as draw

if TYPE_CHECKING:
    from ccltui.metrics.findings.waits.rank_lateness import LateHeat

_LEFT: Final = 76
_RIGHT: Final = 12
_WIDTH: Final = 960
_TOP: Final = 22
_BOTTOM: Final = 26
_TICKS: Final = 6
_STEP_LABEL: Final = 52


def row_label(labels: tuple[str, ...]) -> str:
    """Return the label of a row of one rank or of several neighbours."""
    return labels[0] if len(labels) == 1 else f"{labels[0]}–{labels[-1]}"


def heat_picture(heat: LateHeat) -> Element:
    """Return one row of cells for each rank, darker where it is later."""
    rows, columns = heat.late_ns.shape
    tall = 22 if rows <= 16 else 14 if rows <= 32 else 10
    height = _TOP + rows * tall + _BOTTOM
    wide = (_WIDTH - _LEFT - _RIGHT) / columns
    picture = draw.svg("late-heat", _WIDTH, height, "Lateness by rank and time", _words(heat))
    level = np.searchsorted(heat.levels_ns, heat.late_ns, side="right")
    level = np.minimum(level, max(len(heat.levels_ns) - 1, 0))  # the largest is its own boundary
    level[heat.late_ns < 0] = -1
    for kind in range(-1, int(level.max()) + 1):
        cells = (
            draw.box(_LEFT + column * wide, _TOP + row * tall, wide + 0.3, tall - 1)
            for row, column in np.argwhere(level == kind).tolist()
        )
        draw.path(picture, cells, "none" if kind < 0 else f"heat{kind}")
    shown = max(1, -(-12 * rows // (tall * rows)))  # every label where 12 units of height are free
    for row in range(0, rows, shown):
        middle = _TOP + row * tall + tall / 2 + 4
        draw.label(picture, _LEFT - 8, middle, row_label(heat.labels[row]), "label end")
    _axis(picture, heat, height)
    return picture


def heat_classes(heat: LateHeat) -> list[tuple[str, str]]:
    """Return name and class of every colour."""
    edges = [duration(one) for one in heat.levels_ns.tolist()]
    found = [(f"up to {duration(heat.floor_ns)}: nobody is late", "heat0")]
    for number, (low, high) in enumerate(pairwise(edges)):
        found.append((f"{low} to {high}", f"heat{number + 1}"))
    return [*found, ("in no collective", "none")]


def _words(heat: LateHeat) -> str:
    row, column = np.unravel_index(int(heat.late_ns.argmax()), heat.late_ns.shape)
    if not len(heat.levels_ns):
        return f"No rank is later than {duration(heat.floor_ns)} at any time."
    when = instant(int(heat.edges_ns[column]), int(heat.edges_ns[1] - heat.edges_ns[0]))
    late = duration(int(heat.late_ns[row, column]))
    return f"The largest lateness is that of rank {row_label(heat.labels[row])}: {late}, at {when}."


def _axis(picture: Element, heat: LateHeat, height: float) -> None:
    begin, end = int(heat.edges_ns[0]), int(heat.edges_ns[-1])
    span = max(end - begin, 1)
    scale = (_WIDTH - _LEFT - _RIGHT) / span
    draw.label(picture, _LEFT - 8, 14, "rank", "label end quiet")
    running = [(number, begin) for number, start in heat.steps if start < begin][-1:]
    inside = running + [(number, start) for number, start in heat.steps if begin <= start < end]
    free = 0.0
    for number, start in inside:
        x = _LEFT + (start - begin) * scale
        if x >= free:
            draw.line(picture, x, _TOP - 5, x, height - _BOTTOM, kind="rule")
            draw.label(picture, x + 3, 14, f"step {number}", "label quiet")
            free = x + _STEP_LABEL
    for tick in range(_TICKS):
        x = _LEFT + (_WIDTH - _LEFT - _RIGHT) * tick / (_TICKS - 1)
        text = instant(begin + span * tick // (_TICKS - 1), max(span // 1000, 1))
        side = "middle" if 0 < tick < _TICKS - 1 else ("end" if tick else "")
        draw.label(picture, x, height - 8, text, f"label quiet {side}".rstrip())
