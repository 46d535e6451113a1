"""Mouse events: find the pane under the pointer, and click, drag or scroll in it."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace
from textual import events

from ccltui.tui.input.host_protocols import Screen
from ccltui.tui.moves import pointer, view_moves
from ccltui.tui.state.pane import Axis, Pane
from ccltui.tui.state.scene import Scene

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
        self._drag = Drag(pointer.time_at(scene, x)) if on_chart else None
        return scene.with_state(pointer.clicked(scene, planes, x, y)), "click"

    def _moved(self, event: events.MouseMove, scene: Scene) -> tuple[Scene, str] | None:
        if self._drag is None or event.button != _LEFT:
            self._drag = None
            return None
        found = self._front.under(event.screen_x, event.screen_y)
        if found is None or found[0].axis is not Axis.TIME or scene.state.pane != found[0].name:
            return None
        return scene.with_state(pointer.dragged(scene, self._drag.start_ns, found[2])), "drag"

    def _turned(self, event: events.MouseEvent, scene: Scene) -> tuple[Scene, str] | None:
        found = self._front.under(event.screen_x, event.screen_y)
        if found is None:
            return None
        pane, _, x, _ = found
        scene = _in_pane(scene, pane)
        up = isinstance(event, events.MouseScrollUp)
        return scene.with_state(pointer.turned(scene, x, up=up, shifted=event.shift)), "wheel"


def _in_pane(scene: Scene, pane: Pane) -> Scene:
    """Return the scene with the key focus in a pane that is on the screen."""
    if scene.state.pane == pane.name:
        return scene
    return scene.with_state(replace(scene.state, pane=pane.name))
