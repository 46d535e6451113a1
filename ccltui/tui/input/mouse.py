"""Mouse events: find the pane under the pointer, and click, drag or scroll in its picture.

The picture defines where its rows are: charts have rank names at their left, lists record the row
of each line. A click therefore selects what is drawn under the pointer, in every pane.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace
from textual import events

from ccltui.draw.palette import Ink
from ccltui.tui.input.host_protocols import Screen
from ccltui.tui.moves import row_moves, view_moves
from ccltui.tui.moves.cursor import in_view, select_at, to_collective, to_time
from ccltui.tui.state.pane import Axis, Pane, pane_in_view
from ccltui.tui.state.rank_labels import gutter
from ccltui.tui.state.scene import Scene, rank_name
from ccltui.tui.state.view_state import Area, ViewState

if TYPE_CHECKING:
    from ccltui.draw.planes import Planes


_LABELS = (Ink.LABEL, Ink.LABEL_ON)
_LINES = 3
"""Rows of a list per notch of the wheel."""


def clicked(scene: Scene, planes: Planes, x: int, y: int) -> ViewState:
    """Put the cursor under the pointer, as far as there is anything to select."""
    if not pane_in_view(scene).is_chart:
        return _listed(scene, planes, x, y)
    rank = _rank_at(scene, planes, y)
    state = scene.state if rank is None else scene.state.select(rank=rank)
    if x < gutter(scene):
        return state
    here = scene.with_state(state)
    if pane_in_view(scene).axis is Axis.TIME:
        at = state.time.nearest(time_at(scene, x))
        return in_view(select_at(here, None, at))
    k = collective_at(scene, x)
    if k is None:
        return state
    rank = state.selection.rank
    return to_collective(here, k).select(rank=rank)


def time_at(scene: Scene, x: int) -> int:
    """Return the time at the left edge of a column of the timeline, ns since the origin."""
    view = scene.state.time
    return view.edge_ns(x - gutter(scene))


def collective_at(scene: Scene, x: int) -> int | None:
    """Return the collective in a column of Alignment: the latest of those that share a cell."""
    communicator, view = scene.communicator, scene.state.columns
    first = view.first + (x - gutter(scene)) // view.repeat * view.per_cell
    if communicator is None or not 0 <= first < len(communicator):
        return None
    lags = communicator.lag_ns[first : first + view.per_cell]
    return first + int(lags.argmax())


def dragged(scene: Scene, start_ns: int, x: int) -> ViewState:
    """Measure the time between the place where the button was pressed and the pointer."""
    at = min(max(time_at(scene, x), scene.state.time.left_ns), scene.state.time.right_ns)
    return replace(to_time(scene, at), area=Area(start_ns, at), time=scene.state.time)


def turned(scene: Scene, x: int, *, up: bool, shifted: bool) -> ViewState:
    """Handle the wheel: zoom at the pointer, pan with shift; in a list, move some rows."""
    state = scene.state
    if not pane_in_view(scene).is_chart:
        return row_moves.to_row(scene, row_moves.current(scene) + (-_LINES if up else _LINES))
    if shifted:
        return view_moves.pan(-1 if up else 1)(scene)
    if pane_in_view(scene).axis is Axis.TIME:
        at = time_at(scene, x)
        time = state.time.zoom_in(at) if up else state.time.zoom_out(at)
        return replace(state, time=time)
    k = collective_at(scene, x)
    if k is None:
        return state
    columns = state.columns.zoom_in(k) if up else state.columns.zoom_out(k)
    return replace(state, columns=columns)


def _rank_at(scene: Scene, planes: Planes, y: int) -> str | None:
    """Return the rank at a row of the picture: the nearest name at or above the pointer."""
    names = {rank_name(label): label for label in scene.findings.lanes}
    for row in range(min(y, planes.height - 1), 0, -1):
        if planes.style[row, 1] in _LABELS:
            text = planes.row_text(row)[1 : gutter(scene)].strip().partition(" ")[0]
            first = text.partition("/")[0]
            return names.get(text) or names.get(first) or names.get(text.partition("-")[0])
    return None


def _listed(scene: Scene, planes: Planes, x: int, y: int) -> ViewState:
    """Select the row under the pointer and move the keys to its list; no change without a row."""
    state = scene.state
    row = planes.listed_at(y, x)
    if row is None:
        return state
    if state.drawer is not None:
        scene = scene.with_state(replace(state, drawer=replace(state.drawer, focused=False)))
    return pane_in_view(scene).clicked(scene, row)


_LEFT = 1


class Drag(Struct, frozen=True):
    """A drag on the timeline: the time at which the button was pressed."""

    start_ns: int


class Mouse:
    """Handles mouse events; holds the drag in progress between them."""

    def __init__(self, front: Screen) -> None:
        self._front = front
        self._drag: Drag | None = None

    def take(self, event: events.MouseEvent, scene: Scene) -> tuple[Scene, str] | None:
        """Return the scene after an event and the name of the action; None if it has no effect."""
        if isinstance(event, events.MouseUp):
            self._drag = None
            return None
        if isinstance(event, events.MouseMove):
            return self._moved(event, scene)
        if isinstance(event, events.MouseDown):
            return self._pressed(event, scene)
        if isinstance(event, events.MouseScrollUp | events.MouseScrollDown):
            return self._turned(event, scene)
        return None

    def _pressed(self, event: events.MouseDown, scene: Scene) -> tuple[Scene, str] | None:
        if event.button != _LEFT:
            return None
        tab = self._front.tab_at(scene, event.screen_x, event.screen_y)
        if tab is not None:
            return scene.with_state(view_moves.open_pane(tab.name)(scene)), "pane"
        found = self._front.under(event.screen_x, event.screen_y)
        if found is None:
            return None
        pane, planes, x, y = found
        scene = _in_pane(scene, pane)
        on_chart = pane.axis is Axis.TIME and scene.findings.span is not None and y > 0
        self._drag = Drag(time_at(scene, x)) if on_chart else None
        return scene.with_state(clicked(scene, planes, x, y)), "click"

    def _moved(self, event: events.MouseMove, scene: Scene) -> tuple[Scene, str] | None:
        if self._drag is None or event.button != _LEFT:
            self._drag = None
            return None
        found = self._front.under(event.screen_x, event.screen_y)
        if found is None or found[0].axis is not Axis.TIME or scene.state.pane != found[0].name:
            return None
        return scene.with_state(dragged(scene, self._drag.start_ns, found[2])), "drag"

    def _turned(self, event: events.MouseEvent, scene: Scene) -> tuple[Scene, str] | None:
        found = self._front.under(event.screen_x, event.screen_y)
        if found is None:
            return None
        pane, _, x, _ = found
        scene = _in_pane(scene, pane)
        up = isinstance(event, events.MouseScrollUp)
        return scene.with_state(turned(scene, x, up=up, shifted=event.shift)), "wheel"


def _in_pane(scene: Scene, pane: Pane) -> Scene:
    """Return the scene with the key focus in a pane that is on the screen."""
    if scene.state.pane == pane.name:
        return scene
    return scene.with_state(replace(scene.state, pane=pane.name))
