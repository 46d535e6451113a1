"""Mouse actions: functions of a scene, a picture and a place in the picture.

The picture defines where its rows are: charts have rank names at their left, lists record the row
of each line. A click therefore selects what is drawn under the pointer, in every pane.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from ccltui.draw.palette import Ink
from ccltui.tui.moves import row_moves, view_moves
from ccltui.tui.moves.cursor import to_collective, to_time
from ccltui.tui.state.pane import Axis, pane_in_view
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
        return to_time(here, time_at(scene, x))
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
