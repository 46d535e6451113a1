"""Move between the hits of a search."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ccltui.parsers import numbers
from ccltui.tui.state.pane import pane_in_view
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.view_state import ViewState
from ccltui.tui.state.wanted_queries import hit_query

if TYPE_CHECKING:
    from ccltui.tui.state.search_hits import Hits


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
