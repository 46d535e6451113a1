"""Sort the rows of the pane in view by a column."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ccltui.tui.moves import compare_ranks, row_moves
from ccltui.tui.state.pane import drawer_shows, pane_in_view
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.view_state import Shown, ViewState


def sort(step: int) -> Callable[[Scene], ViewState]:
    """Return a change to the order by the next column, or the previous for -1."""

    def move(scene: Scene) -> ViewState:
        pane = pane_in_view(scene)
        found = pane.sorting(scene).following(pane.sort_columns(scene), step)
        return pane.with_sorting(scene, found)

    return move


def reverse(scene: Scene) -> ViewState:
    """Turn the order round; of a comparison in the drawer, largest changes first or in order."""
    if drawer_shows(scene, Shown.VERSUS):
        return compare_ranks.sort_rows(scene)
    pane = pane_in_view(scene)
    found = pane.sorting(scene)
    return pane.with_sorting(scene, replace(found, reverse=not found.reverse))


def why_not(scene: Scene) -> str | None:
    """Return the reason when there is no row to sort."""
    return None if row_moves.count(scene) else pane_in_view(scene).why_no_rows(scene)
