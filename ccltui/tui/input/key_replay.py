"""Presses recorded keys again, each once everything that came before it is on the screen."""

from __future__ import annotations

from collections.abc import Callable

from textual import events

from ccltui.tui.input.recording import Recording, Stroke

PERIOD_S = 0.02
_CALM = 2
"""So many looks in a row at which nothing was going on, before the next key."""
_KINDS: dict[str, type[events.MouseEvent]] = {
    "down": events.MouseDown,
    "up": events.MouseUp,
    "move": events.MouseMove,
    "scroll_up": events.MouseScrollUp,
    "scroll_down": events.MouseScrollDown,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}


class Replay:
    """Strokes that are still to come; ``step`` is to be called from time to time."""

    def __init__(self, recording: Recording, busy: Callable[[], bool]) -> None:
        self._strokes = list(reversed(recording.strokes))
        self._busy = busy
        self._calm = 0
        self.count = len(recording.strokes)

    @property
    def done(self) -> bool:
        """Whether nothing is left."""
        return not self._strokes

    def step(self) -> events.InputEvent | events.Paste | None:
        """The next event, or None while something still goes on."""
        self._calm = 0 if self._busy() else self._calm + 1
        if self._calm < _CALM or not self._strokes:
            return None
        self._calm = 0
        return event_of(self._strokes.pop())


def event_of(stroke: Stroke) -> events.InputEvent | events.Paste:
    """What a driver would tell."""
    if stroke.paste:
        return events.Paste(stroke.paste)
    kind = _KINDS.get(stroke.mouse)
    if kind is None:
        return events.Key(stroke.key, stroke.character)
    x, y = stroke.x, stroke.y
    return kind(None, x, y, 0, 0, stroke.button, stroke.shift, False, False, x, y)


def stroke_of(event: events.Event, at_ms: int) -> Stroke | None:
    """An event as a line of a recording; None for one that is not kept."""
    if isinstance(event, events.Key):
        return Stroke(at_ms=at_ms, key=event.key, character=event.character)
    if isinstance(event, events.Paste):
        return Stroke(at_ms=at_ms, paste=event.text)
    name = _NAMES.get(type(event)) if isinstance(event, events.MouseEvent) else None
    if name is None or not isinstance(event, events.MouseEvent):
        return None
    return Stroke(
        at_ms=at_ms,
        mouse=name,
        x=event.screen_x,
        y=event.screen_y,
        button=event.button,
        shift=event.shift,
    )
