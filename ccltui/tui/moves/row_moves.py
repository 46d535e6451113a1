"""Move between rows of the pane in view, or of the drawer when it has the keys."""

from __future__ import annotations

from collections.abc import Callable

from ccltui.tui.moves import drawer
from ccltui.tui.state.pane import drawer_has_keys, pane_in_view
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.view_state import ViewState

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
