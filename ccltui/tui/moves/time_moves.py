"""Move along time: to events, edges of work, iterations and hits of a search; the measured area."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from ccltui.parsers import numbers
from ccltui.tui.moves.cursor import in_view, show_communicator, to_time
from ccltui.tui.moves.view_moves import Move, step_collective
from ccltui.tui.state.answers import Span
from ccltui.tui.state.pane import Axis, pane_in_view
from ccltui.tui.state.scene import Scene, rank_name
from ccltui.tui.state.view_state import Area, ViewState
from ccltui.tui.state.wanted_queries import hit_query

if TYPE_CHECKING:
    from ccltui.tui.state.event_table import Hits


def place(scene: Scene) -> int:
    """Return the place of the cursor in the unit of the hits; -1 where it has none."""
    return pane_in_view(scene).hit_place(scene)


def _hits(scene: Scene) -> Hits | None:
    """Return the hits of the search in view, None while they are not known."""
    return scene.answers.answer(hit_query(scene))


def next_hit(step: int) -> Callable[[Scene], ViewState]:
    """Return a move to the next or previous hit; after the last comes the first."""

    def move(scene: Scene) -> ViewState:
        hits = _hits(scene)
        if hits is None or not len(hits.places):
            return scene.state
        places, here = hits.places, place(scene)
        if step > 0:
            at = int(places.searchsorted(here, side="right"))
        else:
            at = int(places.searchsorted(here, side="left")) - 1
        return pane_in_view(scene).to_hit(scene, int(places[at % len(places)]))

    return move


def why_not_next(scene: Scene) -> str | None:
    """Return the reason when :func:`next_hit` has no effect."""
    if not scene.state.search:
        return "no search yet: / begins one"
    found = _hits(scene)
    if found is None:
        return "still searching"
    if len(found.places):
        return None
    seen = ", ".join(found.seen) or "there are no names here"
    return f"no name matches {scene.state.search!r}; seen: {seen}"


def name_at_cursor(scene: Scene) -> str | None:
    """Return the name under the cursor, which ``#`` searches for."""
    return pane_in_view(scene).name_at_cursor(scene)


def why_not_like_this(scene: Scene) -> str | None:
    """Return the reason when :func:`like_this` has nothing to search for."""
    return None if name_at_cursor(scene) else "nothing with a name is under the cursor"


def like_this(scene: Scene) -> ViewState:
    """Search for the name under the cursor."""
    name = name_at_cursor(scene)
    if name is None:
        return scene.state
    end = pane_in_view(scene).name_end
    return replace(scene.state, search=f"^{re.escape(name)}{end}")


def count_text(scene: Scene) -> str:
    """Return the search and the place among its hits, "" without a search."""
    found = _hits(scene)
    if not scene.state.search or hit_query(scene) is None:
        return ""
    pattern = f"/{scene.state.search[:20]}/"
    if found is None:
        return f"{pattern} …"
    at = int(found.places.searchsorted(place(scene), side="right"))
    return f"{pattern} {numbers.count(at)}/{numbers.count(len(found.places))}"


def measure(scene: Scene) -> ViewState:
    """Begin an area at the cursor; the second time end it, the third time begin again."""
    area, at = scene.state.area, scene.state.selection.time_ns
    at = scene.state.time.left_ns if at is None else at
    if area is None or area.end_ns is not None:
        return replace(scene.state.select(time_ns=at), area=Area(at))
    return replace(scene.state, area=Area(area.start_ns, at))


def next_edge(scene: Scene, direction: int) -> int | None:
    """Return the next start or end of work of the selected rank, ns since the origin."""
    at, lane = (
        scene.state.selection.time_ns,
        scene.findings.lanes.get(scene.state.selection.rank or ""),
    )
    if at is None or lane is None:
        return None
    now = int(lane.own(np.array(at + scene.findings.origin_ns, np.int64)))
    found = []
    for track in (lane.compute, lane.network):
        for times in (track.start_ns, track.end_ns):
            row = int(times.searchsorted(now, side="right" if direction > 0 else "left"))
            row -= direction < 0
            if 0 <= row < len(times):
                found.append(int(times[row]))
    if not found:
        return None
    there = lane.shared(min(found) if direction > 0 else max(found)) - scene.findings.origin_ns
    return max(there, at + 1) if direction > 0 else min(there, at - 1)


def span(scene: Scene) -> Span | None:
    """Return the measured span, up to the cursor while it is open; None without an area."""
    area, at = scene.state.area, scene.state.selection.time_ns
    if area is None:
        return None
    other = area.end_ns if area.end_ns is not None else area.start_ns if at is None else at
    return Span(min(area.start_ns, other), max(area.start_ns, other))


def text(scene: Scene) -> str:
    """Describe length, shares of the rank's time, and data exchanged; "" without an area."""
    found, lane = span(scene), scene.findings.lanes.get(scene.state.selection.rank or "")
    if found is None or lane is None:
        return ""
    length = found.end_ns - found.start_ns
    parts = [f"area {numbers.duration(length)}"]
    if length:
        edges = lane.own(np.array([found.start_ns, found.end_ns]) + scene.findings.origin_ns)
        tracks = {"compute": lane.compute, "net": lane.network, "both": lane.both}
        shares = [
            f"{name} {numbers.percent_cell(track.sample(edges).covered_ns[0] / length)}"
            for name, track in tracks.items()
        ]
        parts += [rank_name(lane.label), *shares, _exchanged(scene, lane.label, found)]
    return "  ".join(parts)


def _exchanged(scene: Scene, label: str, found: Span) -> str:
    """Describe the matched collectives that the rank began in the area, with bytes where known."""
    calls, communicators = scene.findings.calls.get(label), scene.findings.communicators or ()
    if calls is None:
        return ""
    first, last = np.searchsorted(calls.start_ns, [found.start_ns, found.end_ns]).tolist()
    rows = range(first, last)
    sizes = [
        int(communicators[calls.communicator[row]].message_bytes[calls.k[row]]) for row in rows
    ]
    known = sum(size for size in sizes if size > 0)
    text = numbers.counted(len(rows), "collective")
    return f"{text} {numbers.binary_size(known)}" if known else text


def window(scene: Scene) -> Span | None:
    """Return the window that ``T`` sets: the area, else the view; None where nothing is in view."""
    chosen, limits = span(scene), scene.findings.span
    axis = pane_in_view(scene).axis
    if axis is Axis.TIME and chosen is not None:
        return chosen if chosen.end_ns > chosen.start_ns else None
    if axis is Axis.TIME and limits is not None:
        view = scene.state.time
        return Span(max(view.left_ns, limits.start_ns), min(view.right_ns, limits.end_ns))
    communicator, columns = scene.communicator, scene.state.columns
    if axis is not Axis.COLLECTIVES or communicator is None or not len(communicator):
        return None
    first, past = columns.first, columns.first + columns.shown
    end = limits.end_ns if limits is not None else int(communicator.first_ns[-1]) + 1
    if past < len(communicator):
        end = int(communicator.first_ns[past])
    return Span(int(communicator.first_ns[first]), end)


def why_no_window(scene: Scene) -> str | None:
    """Return the reason when ``T`` cannot set a window."""
    if window(scene) is not None:
        return None
    return "the area is empty: move the cursor" if scene.state.area else "nothing is in view"


def event(direction: int) -> Move:
    """Return a move to the rank's next or previous collective, of any communicator.

    The moving edge of an area snaps to where work begins and ends.
    """

    def move(scene: Scene) -> ViewState:
        if pane_in_view(scene).axis is not Axis.TIME:
            return step_collective(direction)(scene)
        if is_measuring(scene):
            edge = _next_edge(scene, direction)
            return scene.state if edge is None else to_time(scene, edge)
        row = _event_row(scene, direction)
        if row is None:
            return scene.state
        calls = scene.findings.calls[str(scene.state.selection.rank)]
        owner, k = int(calls.communicator[row]), int(calls.k[row])
        state = scene.state
        if owner != state.selection.communicator:
            state = show_communicator(scene, owner)
        state = state.select(k=k, time_ns=int(calls.start_ns[row]))
        return in_view(replace(state, worst=None))

    return move


def is_measuring(scene: Scene) -> bool:
    """Return whether an edge of an area moves with the cursor."""
    area = scene.state.area
    return pane_in_view(scene).axis is Axis.TIME and area is not None and area.end_ns is None


def _next_edge(scene: Scene, direction: int) -> int | None:

    return next_edge(scene, direction)


def _event_row(scene: Scene, direction: int) -> int | None:
    selection = scene.state.selection
    calls = scene.findings.calls.get(selection.rank or "")
    if calls is None:
        return None
    at = scene.state.time.left_ns if selection.time_ns is None else selection.time_ns
    return calls.after(at) if direction > 0 else calls.before(at)


def why_no_event(scene: Scene, direction: int) -> str | None:
    """Return the reason when :func:`event` has no target in a direction, None where it has one."""
    where = "later" if direction > 0 else "earlier"
    if is_measuring(scene):
        at_end = _next_edge(scene, direction) is None
        return f"no {where} work on this rank" if at_end else None
    return None if _has_event(scene, direction) else f"no {where} matched collective on this rank"


def _has_event(scene: Scene, direction: int) -> bool:
    if pane_in_view(scene).axis is Axis.TIME:
        return _event_row(scene, direction) is not None
    return True


def iteration(direction: int) -> Move:
    """Return a move to the start of the next or previous iteration."""

    def move(scene: Scene) -> ViewState:
        at = next_iteration(scene, direction)
        return scene.state if at is None else to_time(scene, at)

    return move


def next_iteration(scene: Scene, direction: int) -> int | None:
    """Return the target of :func:`iteration`, ns since the origin; None when there is none."""
    at = scene.state.selection.time_ns
    at = scene.state.time.left_ns - 1 if at is None else at
    starts = [step.start_ns for step in scene.findings.steps]
    if direction > 0:
        return next((start for start in starts if start > at), None)
    return next((start for start in reversed(starts) if start < at), None)
