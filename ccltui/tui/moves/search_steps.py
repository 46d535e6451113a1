"""Stepping through the hits of a search."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from ccltui.draw import numbers
from ccltui.tui.moves import row_moves
from ccltui.tui.moves.cursor import to_collective, to_time
from ccltui.tui.moves.kernel_at import running_at_cursor
from ccltui.tui.state.queries import hit_query
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.view_state import Pane, ViewState


def place(scene: Scene) -> int:
    """Where the cursor is, in the measure of the hits; -1 where it is nowhere."""
    selection = scene.state.selection
    if scene.state.pane is Pane.EVENTS:
        return row_moves.current(scene)
    found = selection.k if scene.state.pane is Pane.ALIGNMENT else selection.time_ns
    return -1 if found is None else found


def next_hit(step: int) -> Callable[[Scene], ViewState]:
    """The next or previous hit; after the last comes the first."""

    def move(scene: Scene) -> ViewState:
        if scene.hits is None or not len(scene.hits.places):
            return scene.state
        places, here = scene.hits.places, place(scene)
        if step > 0:
            at = int(places.searchsorted(here, side="right"))
        else:
            at = int(places.searchsorted(here, side="left")) - 1
        return _to(scene, int(places[at % len(places)]))

    return move


def _to(scene: Scene, found: int) -> ViewState:
    if scene.state.pane is Pane.EVENTS:
        return row_moves.to_row(scene, found)
    if scene.state.pane is Pane.ALIGNMENT:
        return to_collective(scene, found)
    return to_time(scene, found)


def why_not_next(scene: Scene) -> str | None:
    """What keeps :func:`next_hit` from leading anywhere."""
    if not scene.state.search:
        return "nothing is searched for: / begins"
    found = scene.hits
    if found is None or found.query != hit_query(scene):
        return "still searching"
    if len(found.places):
        return None
    seen = ", ".join(found.seen) or "no name at all"
    return f"no name matches {scene.state.search!r}; seen: {seen}"


def name_at_cursor(scene: Scene) -> str | None:
    """What ``#`` looks for: the name under the cursor."""
    communicator, k = scene.communicator, scene.state.selection.k
    if scene.state.pane is Pane.EVENTS:
        table = scene.events
        if table is None or not len(table):
            return None
        return table.name_of(int(table.order[table.at(scene)]))
    if scene.state.pane is Pane.TIMELINE:
        running = running_at_cursor(scene)
        return None if running is None else running.name
    if communicator is None or k is None or k >= len(communicator):
        return None
    return communicator.type_of(k)


def why_not_like_this(scene: Scene) -> str | None:
    """What keeps :func:`like_this` from searching."""
    return None if name_at_cursor(scene) else "nothing with a name is under the cursor"


def like_this(scene: Scene) -> ViewState:
    """Search for what is called like the thing under the cursor."""
    name = name_at_cursor(scene)
    if name is None:
        return scene.state
    end = r"( |$)" if scene.state.pane is Pane.ALIGNMENT else "$"
    return replace(scene.state, search=f"^{re.escape(name)}{end}")


def count_text(scene: Scene) -> str:
    """The search and the place among its hits, "" without one."""
    found = scene.hits
    if not scene.state.search or hit_query(scene) is None:
        return ""
    pattern = f"/{scene.state.search[:20]}/"
    if found is None or found.query != hit_query(scene):
        return f"{pattern} …"
    at = int(found.places.searchsorted(place(scene), side="right"))
    return f"{pattern} {numbers.count(at)}/{numbers.count(len(found.places))}"
