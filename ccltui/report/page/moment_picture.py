"""Picture of what the ranks do around a late arrival."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final
from xml.etree.ElementTree import Element

from ccltui.parsers.numbers import duration, instant
from ccltui.report.page import svg_elements as draw

if TYPE_CHECKING:
    from ccltui.metrics.arrays.intervals import Intervals
    from ccltui.metrics.findings.causes.worst_moments import Lane, Moment

_LEFT: Final = 76
_RIGHT: Final = 64
_WIDTH: Final = 960
_TOP: Final = 22
_SMALL_ROW: Final = 12
_BOTTOM: Final = 24
_TICKS: Final = 6


def moment_picture(name: str, moment: Moment) -> Element:
    """Return one lane for each rank: computation above, communication below, waiting marked."""
    found = moment.instance
    row = _row_height(len(moment.lanes))
    height = _TOP + len(moment.lanes) * row + _BOTTOM
    words = f"The last to arrive is rank {moment.last}; "
    waits = [lane for lane in moment.lanes if lane.until_ns is not None]
    words += f"{len(waits)} of the {len(moment.lanes)} ranks shown are members."
    title = f"Ranks around {found.kind} {found.row} of {found.group}"
    picture = draw.svg(name, _WIDTH, height, title, words)
    scale = (_WIDTH - _LEFT - _RIGHT) / max(moment.end_ns - moment.start_ns, 1)

    def x_of(time_ns: int) -> float:
        return _LEFT + min(max(time_ns - moment.start_ns, 0) * scale, _WIDTH - _LEFT - _RIGHT)

    size = "label" if row > _SMALL_ROW else "label tiny"
    for number, lane in enumerate(moment.lanes):
        y = _TOP + number * row
        _lane(picture, lane, x_of, y, row)
        is_last = lane.label == moment.last
        middle = y + row / 2 + 4
        weight = f"{size} strong" if is_last else size
        draw.label(picture, _LEFT - 8, middle, lane.label, f"{weight} end")
        if is_last:
            draw.label(picture, _WIDTH - _RIGHT + 8, middle, "◂ latest", weight)
    _axis(picture, moment, height)
    return picture


def _row_height(lanes: int) -> int:
    """Return the height of a lane; many lanes are lower, so that they fit on a page."""
    return 22 if lanes <= 16 else 16 if lanes <= 32 else _SMALL_ROW


def _lane(picture: Element, lane: Lane, x_of: Callable[[int], float], y: float, row: float) -> None:
    """Draw a lane, the wait of a member below it, and its arrival."""
    upper, lower = (row - 4) * 0.58, (row - 4) * 0.42
    middle = y + 1 + upper + lower / 2
    draw.rect(picture, _LEFT, y + 1, _WIDTH - _LEFT - _RIGHT, row - 4, kind="idle")
    for part, kind in ((lane.compute, "compute"), (lane.copies, "copies")):
        pieces = _strokes(part, x_of, y + 1 + upper / 2)
        draw.path(picture, pieces, f"wide {kind}", width=upper)
    pieces = _strokes(lane.communication, x_of, middle)
    draw.path(picture, pieces, "slim communication", width=lower)
    if lane.arrival_ns is None or lane.until_ns is None:
        return
    begin, end = x_of(lane.arrival_ns), x_of(lane.until_ns)
    if end > begin:
        draw.rect(picture, begin, y + 1 + upper, end - begin, lower, kind="waiting")
    draw.line(picture, begin, y - 0.5, begin, y + row - 2, kind="mark")


def _strokes(part: Intervals, x_of: Callable[[int], float], y: float) -> list[str]:
    """Return intervals as horizontal strokes, which take half of the bytes of boxes."""
    ends = zip(part.start_ns.tolist(), part.end_ns.tolist(), strict=True)
    return [f"M{x_of(a):.1f} {draw.short(y)}h{max(x_of(b) - x_of(a), 0.1):.1f}" for a, b in ends]


def _axis(picture: Element, moment: Moment, height: float) -> None:
    span = moment.end_ns - moment.start_ns
    draw.label(picture, _LEFT - 8, 14, "rank", "label end quiet")
    draw.label(picture, _LEFT, 14, f"{duration(span)} shown", "label quiet")
    for tick in range(_TICKS):
        x = _LEFT + (_WIDTH - _LEFT - _RIGHT) * tick / (_TICKS - 1)
        draw.line(picture, x, _TOP - 3, x, height - _BOTTOM, kind="rule")
        text = instant(moment.start_ns + span * tick // (_TICKS - 1), max(span // 100, 1))
        side = "middle" if tick else ""
        draw.label(picture, x, height - 7, text, f"label quiet {side}".rstrip())
