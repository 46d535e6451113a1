"""Draw the inspector: all that is recorded of one event, and links to related events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ccltui.draw.palette import Ink
from ccltui.draw.planes import Planes
from ccltui.draw.text import fit, fit_middle, wrap
from ccltui.parsers import numbers
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
_TIMES: Final = 20
_LEAST_NAME: Final = 16

_LINKS_SHARE: Final = 3
"""Links have at least this part of the room."""

Row = tuple[str, Ink]


def paint(scene: Scene, height: int, width: int) -> Planes:
    """Draw the facts, and below them a page of links that contains the chosen one."""
    planes = Planes.blank(height, width, Ink.TEXT)
    found, focused = inspector.report(scene), drawer_has_keys(scene)
    title = _title(scene, found)
    planes.put_fitted(0, 0, title.ljust(width, "─"), Ink.STRONG if focused else Ink.RULER)
    if found is None:
        why = inspector.problem(scene) or "reading what is recorded of this event…"
        planes.put_wrapped(1, why, Ink.DIM)
        return planes
    facts, links = _facts(found, width - 2, len(title)), _links(found.links, width - 2)
    room = max(height - 1, 2)
    page = min(len(links), max(room - len(facts), room // _LINKS_SHARE, 2))
    chosen = drawer.row(scene) if focused else -1
    scrolled = min(max(chosen - len(links) + 1, 0), max(len(facts) - (room - page) + 1, 0))
    shown = facts[scrolled : scrolled + room - page]
    for y, (text, ink) in enumerate(shown, 1):
        planes.put(y, 1, fit(text, width - 1), ink)
    hidden = len(facts) - scrolled - len(shown)
    if hidden > 0:
        more = f" … {hidden + 1} more lines: j below the links, x the whole screen "
        planes.put_fitted(len(shown), 0, more.ljust(width), Ink.DIM)
    top = min(room - page, len(facts)) + 1
    _put_links(planes, links, top, page, min(chosen, len(links)))
    return planes


def _put_links(planes: Planes, links: Sequence[str], top: int, page: int, chosen: int) -> None:
    first = min(max(chosen, 0), max(len(links) - 1, 0)) // max(page, 1) * page
    for y, text in enumerate(links[first : first + page], top):
        planes.put_row(y, text, Ink.TEXT, on=first + y - top == chosen)
    last = min(first + page, len(links))
    if page and page < len(links):
        count = f" {first + 1}-{last} of {len(links)} links "
        planes.put_fitted(top - 1, max(planes.width - len(count), 0), count, Ink.DIM)


def _title(scene: Scene, found: EventReport | None) -> str:
    event = scene.state.event
    rank = "" if event is None else f"{rank_name(event.rank)} "
    name = "" if found is None else f"{found.name} "
    return f"── {rank}{name}"


def _facts(found: EventReport, width: int, title: int) -> list[Row]:
    """Return the name where the title has no room for it, short facts side by side, long alone."""
    name = wrap(found.name, width, indent="  ") if title > width else []
    rows: list[Row] = [(line, Ink.STRONG) for line in name]
    line = ""
    for fact in found.facts:
        if fact.value is None:
            continue
        text = f"{fact.name} {_value(fact)}"
        if line and (len(text) > _LONG or len(line) + len(GAP) + len(text) > width):
            rows.append((line, Ink.TEXT))
            line = ""
        if len(text) > _LONG:
            lines = wrap(text, width, most=_MOST_LINES, indent="  ")
            rows += [(one, Ink.TEXT) for one in lines]
        else:
            line = f"{line}{GAP}{text}" if line else text
    rows += [(line, Ink.TEXT)] if line else []
    return rows + [(one, Ink.DIM) for one in _missing(found.facts, width)]


def _missing(facts: Sequence[Fact], width: int) -> list[str]:
    """Return what is not recorded, one sentence for each reason."""
    by_reason: dict[str, list[str]] = {}
    for fact in facts:
        if fact.value is None:
            by_reason.setdefault(fact.why, []).append(fact.name)
    lines = []
    for why, names in by_reason.items():
        text = f"not recorded: {', '.join(names)}: {why}"
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


def _links(links: Sequence[Link], width: int) -> list[str]:
    lines = []
    for link in links:
        of = rank_name(link.event.rank) if link.relation == "peer" else ""
        times = f"{numbers.instant(link.start_ns, _INSTANT_NS)} {numbers.duration(link.dur_ns)}"
        label = f"{link.relation} {of}".ljust(_RELATION)
        room = width - _RELATION - max(len(times), _TIMES) - 3
        note = f"  {link.note}" if link.note and len(link.note) + 2 <= room - _LEAST_NAME else ""
        name = fit_middle(link.name, max(room - len(note), _LEAST_NAME))
        lines.append(fit(f"{label} {times.ljust(_TIMES)}  {name}{note}", width))
    return lines
