"""Move between rows of the pane in view, or of the drawer when it has the keys; sort, fold them."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from ccltui.tui.moves import compare_ranks, drawer
from ccltui.tui.state.pane import drawer_has_keys, drawer_shows, pane_in_view
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.view_state import Shown, ViewState

PAGE = 9  # tenths of a page


def count(scene: Scene) -> int:
    """Return the number of rows."""
    return drawer.count(scene) if drawer_has_keys(scene) else pane_in_view(scene).count(scene)


def current(scene: Scene) -> int:
    """Return the row of the cursor."""
    return drawer.row(scene) if drawer_has_keys(scene) else pane_in_view(scene).row(scene)


def to_row(scene: Scene, row: int) -> ViewState:
    """Put the cursor on a row, or on the nearest one that exists."""
    rows = count(scene)
    if not rows:
        return scene.state
    row = max(min(row, rows - 1), 0)
    if drawer_has_keys(scene):
        return drawer.to_row(scene, row)
    return pane_in_view(scene).to_row(scene, row)


def down(rows: int) -> Callable[[Scene], ViewState]:
    """Return a move by some rows down (negative: up)."""

    def move(scene: Scene) -> ViewState:
        return to_row(scene, current(scene) + rows)

    return move


def page_down(direction: int) -> Callable[[Scene], ViewState]:
    """Return a move by 90 % of a page down or up."""

    def move(scene: Scene) -> ViewState:
        return down(direction * max(scene.state.rows * PAGE // 10, 1))(scene)

    return move


def first_row(scene: Scene) -> ViewState:
    """Move to the first row."""
    return to_row(scene, 0)


def last_row(scene: Scene) -> ViewState:
    """Move to the last row."""
    return to_row(scene, count(scene) - 1)


def why_none(scene: Scene) -> str | None:
    """Return the reason when there is no row."""
    return None if count(scene) else pane_in_view(scene).why_no_rows(scene)


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


def next_kind(scene: Scene) -> ViewState:
    """List the next kind of rows."""
    return pane_in_view(scene).with_next_kind(scene)


def fold(scene: Scene) -> ViewState:
    """Fold or unfold the selected row."""
    return pane_in_view(scene).with_fold(scene)
