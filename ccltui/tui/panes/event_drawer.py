"""Draw in the drawer one event, or the chain of events behind a late collective, row by row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from ccltui.draw.palette import Ink
from ccltui.draw.planes import Planes
from ccltui.draw.text import GAP, fit, fit_middle, wrap
from ccltui.parsers import numbers
from ccltui.parsers.numbers import percent
from ccltui.tui.moves import drawer
from ccltui.tui.moves.loss_list import sure_of_late_rank
from ccltui.tui.panes.chart_pane import as_many
from ccltui.tui.state.pane import drawer_has_keys
from ccltui.tui.state.scene import Scene, rank_name

if TYPE_CHECKING:
    from ccltui.metrics.findings.causes.instance_report import (
        CausalChain,
        ChainEvent,
        ChainRank,
        Role,
    )
    from ccltui.metrics.inspection.event_facts import EventReport, Fact, Link

_MOST_LINES: Final = 3
"""Most lines of one fact; the whole text is in the export."""
_LONG: Final = 40
"""Characters from which on a value has a line of its own."""
_INSTANT_NS: Final = 1_000
_RELATION: Final = 18
_TIMES: Final = 20
_LEAST_LINK_NAME: Final = 16

_LINKS_SHARE: Final = 3
"""Links have at least this part of the room."""

Row = tuple[str, Ink]


def paint_event(scene: Scene, height: int, width: int) -> Planes:
    """Draw the facts, and below them a page of links that contains the chosen one."""
    planes = Planes.blank(height, width, Ink.TEXT)
    found, focused = drawer.event_report(scene), drawer_has_keys(scene)
    title = _event_title(scene, found)
    planes.put_fitted(0, 0, title.ljust(width, "─"), Ink.STRONG if focused else Ink.RULER)
    if found is None:
        why = drawer.event_problem(scene) or "reading what is recorded of this event…"
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


def _event_title(scene: Scene, found: EventReport | None) -> str:
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
        note = (
            f"  {link.note}" if link.note and len(link.note) + 2 <= room - _LEAST_LINK_NAME else ""
        )
        name = fit_middle(link.name, max(room - len(note), _LEAST_LINK_NAME))
        lines.append(fit(f"{label} {times.ljust(_TIMES)}  {name}{note}", width))
    return lines


_NAMES: Final[dict[Role, str]] = {
    "arrival": "arrived",
    "kernel": "kernel",
    "launch": "launched by",
    "operator": "operator",
    "before": "work before",
    "idle": "device idle",
    "host": "host",
    "work": "costs more",
    "wait": "waited in",
    "since": "together",
}
_GAPS: Final[dict[Role, str]] = {
    "arrival": "{} after the first",
    "launch": "{} to the kernel",
    "operator": "{} to the launch",
    "before": "{} to the kernel",
    "idle": "{} of it in all",
    "host": "{} of the idle time",
    "work": "{} over the peers",
}
_INKS: Final[dict[Role, Ink]] = {
    "arrival": Ink.WARNING,
    "kernel": Ink.TRANSFER,
    "launch": Ink.HOST,
    "operator": Ink.HOST,
    "before": Ink.COMPUTE,
    "idle": Ink.BLOCKED,
    "host": Ink.HOST,
    "work": Ink.COMPUTE,
    "wait": Ink.TRANSFER,
    "since": Ink.DIM,
}
_MOMENTS: Final = ("arrival", "since")
_ROLE, _TIME, _GAP = 12, 10, 24
_HEADING_LINES: Final = 3
_LEAST_NAME, _MOST_NAME, _LEAST_AXIS = 16, 44, 16


class _Row(Struct, frozen=True):
    """A line of the picture: the heading of a rank, or ``event`` with its number ``index``."""

    text: str
    ink: Ink
    index: int = -1
    event: ChainEvent | None = None


def paint_chain(scene: Scene, height: int, width: int) -> Planes:
    """Draw as many lines as fit, the selected event among them."""
    planes = Planes.blank(height, width, Ink.TEXT)
    chain = drawer.causal_chain(scene)
    title = "── chain of events " if chain is None else _title(chain, width)
    planes.put_fitted(0, 0, title.ljust(width, "─"), Ink.STRONG)
    why = _why_nothing(scene, chain)
    if chain is None or why:
        planes.put_wrapped(1, why, Ink.DIM)
        return planes
    name, axis = _widths(width)
    rows = list(_rows(scene, chain, name, width))
    at = next((y for y, row in enumerate(rows) if row.index == drawer.row(scene)), 0)
    room = max(height - 1, 1)
    room -= len(rows) > room
    first = at // max(room, 1) * room
    for y, row in enumerate(rows[first : first + room], 1):
        on = row.index == drawer.row(scene)
        text = ("▶" if on else " ") + row.text
        planes.put_fitted(y, 0, text.ljust(width - axis), Ink.LABEL_ON if on else row.ink)
        if row.event is not None and axis:
            _put_bar(planes, y, width - axis, row.event, _span(chain.events))
        if row.index >= 0:
            planes.listed[y] = row.index
    if len(rows) > room:
        left = len(rows) - first - room
        text = (
            f"… {numbers.counted(left, 'more line')}: j"
            if left > 0
            else "the last lines: k goes back"
        )
        planes.put(height - 1, 1, text, Ink.DIM)
    return planes


def _why_nothing(scene: Scene, chain: CausalChain | None) -> str:
    if scene.disproved:
        return f"nobody can be blamed: {scene.disproved}"
    if chain is None:
        return drawer.chain_problem(scene) or "following the chain…"
    if not chain.ranks and chain.lag_ns is None:
        return "the collective is not matched on all ranks: nobody is blamed"
    if not chain.ranks:
        return "no rank is late by more than the error of the clocks: nobody is blamed"
    return ""


def _title(chain: CausalChain, width: int) -> str:
    parts = [
        f"── why late: {chain.group} {chain.kind} #{numbers.count(chain.row)}",
        "" if chain.step is None else f"it {chain.step}",
        "" if chain.lag_ns is None else f"lag {numbers.duration(chain.lag_ns)}",
        "times from the last arrival",
    ]
    return f"{as_many(parts, width - 1)} "


def _widths(width: int) -> tuple[int, int]:
    """Columns of the names and of the time axis, 0 where there is no room for one."""
    left = width - 1 - _ROLE - 2 * _TIME - _GAP - 4
    axis = left // 2
    if axis < _LEAST_AXIS:
        return max(left, _LEAST_NAME), 0
    name = min(left - axis, _MOST_NAME)
    return name, left - name - 1


def _rows(scene: Scene, chain: CausalChain, name: int, width: int) -> Iterator[_Row]:
    origin, index = _origin(chain), 0
    heads = _Row(_cells(("", "time", "took", "", "gap"), name)[1:], Ink.DIM)
    for place, rank in enumerate(chain.ranks):
        for line in wrap(_heading(scene, rank, place), width - 2, most=_HEADING_LINES, indent="  "):
            yield _Row(line, Ink.STRONG)
        if not rank.is_recorded:
            yield _Row("  no trace of it was read: what it did is unknown", Ink.DIM)
        if rank.events and not place:
            yield heads
        for event in rank.events:
            yield _Row(_event_text(event, origin, name, place), Ink.TEXT, index, event)
            index += 1


def _origin(chain: CausalChain) -> int:
    """Return the time of the last arrival, which the others are before."""
    events = chain.ranks[0].events
    return events[0].start_ns if events else 0


def _heading(scene: Scene, rank: ChainRank, place: int) -> str:
    name, late = rank_name(rank.label), numbers.duration(rank.lag_ns)
    cause, share = "cause unknown", ""
    if rank.cause != "unknown":
        sure = sure_of_late_rank(scene, rank.label, rank.sure)
        cause, share = rank.meaning, f" ({percent(rank.share)} of it; confidence: {sure})"
    where = f"{rank.group} {rank.kind}"
    if not place:
        return f"{name} arrived last at {where}, {late} late: {cause}{share}"
    return f"← {name} at {where}, waited for {late}: {cause}{share}"


def _event_text(event: ChainEvent, origin_ns: int, name: int, place: int) -> str:
    took = "" if event.role in _MOMENTS else numbers.duration(event.end_ns - event.start_ns)
    awaited = event.role == "arrival" and place > 0
    gap = "{} waited for it" if awaited else _GAPS.get(event.role, "")
    known = event.gap_ns is not None and gap
    between = gap.format(numbers.duration(event.gap_ns)) if known and event.gap_ns else ""
    at = numbers.signed_duration(event.start_ns - origin_ns)
    return _cells((_NAMES[event.role], at, took, event.name, between), name)[1:]


def _cells(texts: tuple[str, str, str, str, str], name: int) -> str:
    """Return a line of role, time, length, name in so many cells, and gap."""
    role, time, took, text, gap = texts
    times = (fit(one, _TIME, align="right") for one in (time, took))
    return " " + " ".join((fit(role, _ROLE), *times, fit(text, name), fit(gap, _GAP)))


def _span(events: Sequence[tuple[str, ChainEvent]]) -> tuple[int, int]:
    start = min(event.start_ns for _, event in events)
    return start, max(start + 1, *(event.end_ns for _, event in events))


def _put_bar(planes: Planes, y: int, x: int, event: ChainEvent, span: tuple[int, int]) -> None:
    """Draw an event on an axis of time that all rows share; every event takes a cell or more."""
    start, length, cells = span[0], span[1] - span[0], planes.width - x
    left = min((event.start_ns - start) * cells // length, cells - 1)
    right = max(min(-(-(event.end_ns - start) * cells // length), cells), left + 1)
    glyph = "│" if event.role in _MOMENTS else "█"
    text = glyph if event.role in _MOMENTS else glyph * (right - left)
    planes.put(y, x + left, text, _INKS[event.role])
