"""Draw the inspector: all that is recorded of one event, and links to related events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ccltui.draw import numbers
from ccltui.draw.palette import Ink
from ccltui.draw.planes import Planes
from ccltui.draw.text import fit, fit_middle, wrap
from ccltui.tui.moves import drawer, inspector
from ccltui.tui.state.pane import drawer_has_keys
from ccltui.tui.state.scene import Scene, rank_name
from ccltui.tui.styled_text import GAP

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ccltui.metrics.inspection.event_facts import EventReport, Fact, Link

_MOST_LINES: Final = 3
"""Most lines of one fact; the whole text is in the export."""
_LONG: Final = 40
"""Characters from which on a value has a line of its own."""
_INSTANT_NS: Final = 1_000
_RELATION: Final = 18

Row = tuple[str, Ink, int]
"""Text of a line, its ink, and the link that it is, -1 for none."""


def paint(scene: Scene, height: int, width: int) -> Planes:
    """Draw the facts, then the links, scrolled to the chosen link."""
    planes = Planes.blank(height, width, Ink.TEXT)
    found, focused = inspector.report(scene), drawer_has_keys(scene)
    title = _title(scene, found)
    planes.put_fitted(0, 0, title.ljust(width, "─"), Ink.STRONG if focused else Ink.RULER)
    if found is None:
        why = inspector.problem(scene) or "reading what is recorded of this event…"
        for y, line in enumerate(wrap(why, width - 2), 1):
            planes.put(y, 1, line, Ink.DIM)
        return planes
    rows = [*_facts(found, width - 2), *_links(found.links, width - 2)]
    chosen = drawer.row(scene) if focused and found.links else -1
    room = max(height - 1, 1)
    first = _first(rows, chosen, room)
    for y, (text, ink, link) in enumerate(rows[first : first + room], 1):
        on = 0 <= link == chosen
        line = ("▶" if on else " ") + fit(text, width - 1)
        planes.put(y, 0, line.ljust(width), Ink.LABEL_ON if on else ink)
    hidden = len(rows) - first - room
    if hidden > 0:
        more = f" … {hidden} more lines: {'j' if focused else 'tab, then j'}, x the whole screen "
        planes.put_fitted(height - 1, max(width - len(more), 0), more, Ink.DIM)
    return planes


def _first(rows: Sequence[Row], chosen: int, room: int) -> int:
    """Return the first line to show: the top, unless the chosen link is below the room."""
    at = next((place for place, row in enumerate(rows) if row[2] == chosen >= 0), 0)
    return max(at - room + 1 + (at + 1 < len(rows)), 0)


def _title(scene: Scene, found: EventReport | None) -> str:
    event = scene.state.event
    rank = "" if event is None else f"{rank_name(event.rank)} "
    name = "" if found is None else f"{found.name} "
    return f"── {rank}{name}"


def _facts(found: EventReport, width: int) -> list[Row]:
    """Return the name in full, short facts side by side, long ones in lines of their own."""
    rows: list[Row] = [(line, Ink.STRONG, -1) for line in wrap(found.name, width, indent="  ")]
    line = ""
    for fact in found.facts:
        if fact.value is None:
            continue
        text = f"{fact.name} {_value(fact)}"
        if len(text) > _LONG:
            rows += [(line, Ink.TEXT, -1)] if line else []
            line = ""
            lines = wrap(text, width, most=_MOST_LINES, indent="  ")
            rows += [(one, Ink.TEXT, -1) for one in lines]
        elif line and len(line) + len(GAP) + len(text) > width:
            rows.append((line, Ink.TEXT, -1))
            line = text
        else:
            line = f"{line}{GAP}{text}" if line else text
    rows += [(line, Ink.TEXT, -1)] if line else []
    return rows + [(one, Ink.DIM, -1) for one in _missing(found.facts, width)]


def _missing(facts: Sequence[Fact], width: int) -> list[str]:
    """Return what is not recorded, one sentence for each reason."""
    by_reason: dict[str, list[str]] = {}
    for fact in facts:
        if fact.value is None:
            by_reason.setdefault(fact.why, []).append(fact.name)
    lines = []
    for why, names in by_reason.items():
        text = f"not recorded: {', '.join(names)} ({why})"
        lines += wrap(text, width, most=_MOST_LINES, indent="  ")
    return lines


def _value(fact: Fact) -> str:
    from ccltui.metrics.inspection import event_facts as units

    value = fact.value
    if isinstance(value, tuple):
        return " < ".join(value)
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        unit = "%" if fact.unit == units.PERCENT else f" {fact.unit}".rstrip()
        return f"{numbers.quantity(value)}{unit}"
    if value is None:
        return ""
    if fact.unit == units.NS:
        return numbers.duration(value) if value >= 0 else numbers.signed_duration(value)
    if fact.unit == units.INSTANT:
        return numbers.instant(value, _INSTANT_NS)
    if fact.unit == units.BYTES:
        return numbers.binary_size(value)
    return str(value)


def _links(links: Sequence[Link], width: int) -> list[Row]:
    rows: list[Row] = []
    for place, link in enumerate(links):
        of = rank_name(link.event.rank) if link.relation == "peer" else ""
        times = f"{numbers.instant(link.start_ns, _INSTANT_NS)} {numbers.duration(link.dur_ns)}"
        note = f"  ({link.note})" if link.note else ""
        label = f"{link.relation} {of}".ljust(_RELATION)
        room = max(width - _RELATION - len(times) - len(note) - 4, 12)
        text = f"{label} {fit_middle(link.name, room).ljust(room)}  {times}{note}"
        rows.append((text, Ink.TEXT, place))
    return rows
