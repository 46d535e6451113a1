"""From key presses to actions, with keys of two strokes; pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ccltui.tui.actions import ACTIONS, Action
from ccltui.tui.viewstate import Pane

_SHOWN: Final = {
    "left": "←",
    "right": "→",
    "up": "↑",
    "down": "↓",
    "escape": "esc",
    "pageup": "pgup",
    "pagedown": "pgdn",
}


@dataclass(frozen=True, slots=True)
class Pressed:
    """What a key press led to: an action, or why there is none."""

    action: Action | None = None
    problem: str = ""


class Keymap:
    """Looks keys up in the registry, pane by pane."""

    def __init__(self, actions: Sequence[Action] = ACTIONS) -> None:
        self._actions = actions
        self._bound = {
            pane: {key: action for action in actions if pane in action.panes for key in action.keys}
            for pane in Pane
        }

    def press(self, pane: Pane, before: str, key: str) -> Pressed:
        """A key, after another one where it takes two strokes."""
        bound = self._bound[pane]
        typed = f"{before} {key}" if before else key
        if typed in bound:
            return Pressed(action=bound[typed])
        elsewhere = [other for other in Pane if typed in self._bound[other]]
        if elsewhere:
            panes = " and ".join(f"{other.value} {other.title}" for other in elsewhere)
            return Pressed(problem=f"{shown(typed)} works in {panes}")
        return Pressed(problem=f"{shown(typed)} is not a key here: ? lists them")


def shown(key: str) -> str:
    """A key as the help writes it: ``gg`` for two strokes, arrows as arrows."""
    if " " in key:
        return "".join(shown(part) for part in key.split(" "))
    modifiers, _, name = key.rpartition("+") if len(key) > 1 else ("", "", key)
    name = _SHOWN.get(name, name)
    return f"{modifiers}+{name}" if modifiers else name
