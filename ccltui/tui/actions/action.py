"""Actions, and how their keys are written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from ccltui.tui.state.pane import Pane, pane_named

if TYPE_CHECKING:
    from ccltui.tui.actions.unavailable_reasons import WhyNot
    from ccltui.tui.moves.view_moves import Move
    from ccltui.tui.state.scene import Scene

Where = Callable[[Pane], bool]
"""In which panes an action acts."""
Bindings = Mapping[str, tuple[str, ...]]
"""Keys of actions by id, where they are not those of the registry."""

_SHOWN: Final = {
    "left": "←",
    "right": "→",
    "up": "↑",
    "down": "↓",
    "escape": "esc",
    "pageup": "pgup",
    "pagedown": "pgdn",
}


class Effect(Enum):
    """What an action asks of the application beyond another view."""

    PROMPT_WINDOW = auto()
    PROMPT_FILTER = auto()
    PROMPT_SEARCH = auto()
    PROMPT_GOTO = auto()
    PROMPT_RANKS = auto()
    PROMPT_COMMUNICATOR = auto()
    PROMPT_EXPORT = auto()
    PROMPT_MARK = auto()
    PROMPT_RETURN = auto()
    PROMPT_KERNELS = auto()
    PROMPT_VERSUS = auto()
    STEP_HERE = auto()
    COPY_ROWS = auto()
    VIEW_BACK = auto()
    WINDOW_HERE = auto()
    COPY = auto()
    SCREENSHOT = auto()
    VIEW_FORWARD = auto()
    CLEAR_WINDOW = auto()
    OPEN_CAPTURE = auto()
    OPEN_RUN = auto()
    BACK = auto()
    COMMANDS = auto()
    SUSPEND = auto()
    HELP = auto()
    INTERRUPT = auto()
    REPAINT = auto()
    QUIT = auto()


def anywhere(_: Pane) -> bool:
    """In every pane."""
    return True


def only(*names: str) -> Where:
    """In the panes of these names."""
    return lambda pane: pane.name in names


def possible(_: Scene) -> str | None:
    """The action is always available."""
    return None


@dataclass(frozen=True, slots=True)
class Action:
    """One thing the user can do. ``why_not`` gives the reason where it is unavailable.

    ``hint`` puts the action on the key line, together with the key of its ``pair``, the action
    in the other direction; ``pair_help`` is the help of the two in one line.
    """

    id: str
    keys: tuple[str, ...]
    help: str
    group: str
    act: Move | Effect
    where: Where = anywhere
    why_not: WhyNot = possible
    hint: str = ""
    pair: str = ""
    pair_help: str = ""

    def works_in(self, pane: str) -> bool:
        """Whether the action acts in the pane of a name."""
        return self.where(pane_named(pane))


def keys_of(action: Action, bindings: Bindings) -> tuple[str, ...]:
    """The keys of an action as the user has them."""
    return bindings.get(action.id, action.keys)


def first_key(action: Action, bindings: Bindings) -> str:
    """The key to show for an action; without one the command line knows it."""
    keys = keys_of(action, bindings)
    return shown(keys[0]) if keys else ":"


def shown(key: str) -> str:
    """A key as the help writes it: ``gg`` for two strokes, arrows as arrows."""
    if " " in key:
        return "".join(shown(part) for part in key.split(" "))
    modifiers, _, name = key.rpartition("+") if len(key) > 1 else ("", "", key)
    name = _SHOWN.get(name, name)
    return f"{modifiers}+{name}" if modifiers else name
