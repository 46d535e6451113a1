"""Steps against time: what each was spent on, and the same rank by rank for the chosen one."""

from __future__ import annotations

from collections.abc import Sequence

from ccltui.draw import numbers
from ccltui.draw.bars import put_bar, put_scale
from ccltui.draw.palette import Ink
from ccltui.draw.planes import Planes
from ccltui.metrics.device.step_parts import StepParts, one_per_rank
from ccltui.tui.moves import step_rows
from ccltui.tui.state.queries import steps_told
from ccltui.tui.state.scene import Scene, rank_name

_LABELS = 30
_MOST_STEPS = 0.55
"""Share of the pane that steps take at most; the ranks of one have the rest."""


def paint(scene: Scene, height: int, width: int) -> Planes:
    """Steps above, the ranks of the chosen one below."""
    planes = Planes.blank(height, width, Ink.TEXT)
    parts, order = steps_told(scene), step_rows.order(scene)
    if parts is None or not order:
        planes.put(1, 1, _nothing(scene), Ink.DIM)
        return planes
    at = step_rows.current(scene)
    row = order[at]
    most_ns = max(int(parts.longest_ns.max()), 1)
    room = max(min(len(order), round(height * _MOST_STEPS) - 1), 1)
    put_scale(planes, 0, _LABELS, most_ns)
    planes.put(0, 1, "step   on device  slowest", Ink.DIM)
    first = at // room * room
    first = max(min(first, len(order) - room), 0)
    for y, one in enumerate(order[first : first + room], 1):
        text = _step_text(scene, parts, one, on=one == row)
        planes.put(y, 0, text, Ink.LABEL_ON if one == row else Ink.LABEL)
        planes.listed[y] = first + y - 1
        put_bar(planes, y, _LABELS, parts.mean_ns(one), most_ns, colour=scene.colour)
    left = len(order) - first - room
    y = 1 + room
    if left > 0:
        planes.put(y, 1, f"… {left} more steps", Ink.DIM)
    planes.put(y + 1, 0, f"── {_ranks_title(parts, row)} ".ljust(width, "─"), Ink.RULER)
    _put_ranks(planes, y + 2, scene, one_per_rank(parts, row), most_ns)
    return planes


def _nothing(scene: Scene) -> str:
    why = step_rows.why_none(scene)
    return "no step has device work" if why is None else f"{why[0].upper()}{why[1:]}."


def _step_text(scene: Scene, parts: StepParts, row: int, *, on: bool) -> str:
    """Number, length on the slowest rank, that rank, and whether the window holds the step."""
    window = scene.session.filter.steps
    step = parts.steps[row]
    inside = window is not None and window[0] <= step <= window[1]
    length = numbers.duration(int(parts.longest_ns[row]))
    slowest = rank_name(parts.labels[int(parts.slowest[row])])
    sign = "▶" if on else " "
    return f"{sign}{step:<7}{length:>11}  {slowest[:7]:<7}{'•' if inside else ' '}"


def _ranks_title(parts: StepParts, row: int) -> str:
    return f"step {parts.steps[row]} on the devices rank by rank, the slowest first"


def _put_ranks(
    planes: Planes, y: int, scene: Scene, ranks: Sequence[tuple[str, list[int]]], most_ns: int
) -> None:
    """Length and parts of a step on each rank, as many as fit."""
    room = planes.height - y
    if room < 1:
        return
    hidden = len(ranks) - room
    for offset, (label, one) in enumerate(ranks[: room - (hidden > 0)]):
        on = label == scene.state.selection.rank
        text = f" {rank_name(label)[:7]:<7}{numbers.duration(sum(one)):>11}"
        planes.put(y + offset, 0, text.ljust(_LABELS), Ink.STRONG if on else Ink.TEXT)
        put_bar(planes, y + offset, _LABELS, one, most_ns, colour=scene.colour)
    if hidden > 0:
        planes.put(planes.height - 1, 1, f"… {hidden + 1} more ranks", Ink.DIM)
