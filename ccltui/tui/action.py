"""An action with its keys as text, and the actions that work without a trace."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from ccltui.tui.state.pane import Pane, pane_named

if TYPE_CHECKING:
    from ccltui.tui.moves.view_moves import Move
    from ccltui.tui.state.scene import Scene


WhyNot = Callable[["Scene"], str | None]
"""Reason why an action is unavailable, as a sentence for the user; None where it is available."""
Where = Callable[[Pane], bool]
"""Condition on the pane in view under which an action acts."""
Bindings = Mapping[str, tuple[str, ...]]
"""Keys by action id, where they differ from the registry."""

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
    """Effect of an action on the application, apart from another view."""

    PROMPT_WINDOW = auto()
    PROMPT_ROWS = auto()
    PROMPT_SEARCH = auto()
    PROMPT_GOTO = auto()
    PROMPT_RANKS = auto()
    PROMPT_EXPORT = auto()
    PICK = auto()
    PICK_COMMUNICATOR = auto()
    PROMPT_MARK = auto()
    PROMPT_RETURN = auto()
    PROMPT_KERNELS = auto()
    PROMPT_VERSUS = auto()
    PROMPT_COLUMNS = auto()
    STEP_HERE = auto()
    COPY_ROWS = auto()
    VIEW_BACK = auto()
    WINDOW_HERE = auto()
    COPY = auto()
    SCREENSHOT = auto()
    VIEW_FORWARD = auto()
    CLEAR_WINDOW = auto()
    OPEN_CAPTURE = auto()
    OPEN_ROW = auto()
    OPEN_RUN = auto()
    BACK = auto()
    COMMANDS = auto()
    SUSPEND = auto()
    HELP = auto()
    INTERRUPT = auto()
    REPAINT = auto()
    QUIT = auto()


def anywhere(_: Pane) -> bool:
    """Return True: the action acts in every pane."""
    return True


def only(*names: str) -> Where:
    """Return a condition that holds in the panes of these names."""
    return lambda pane: pane.name in names


def possible(_: Scene) -> str | None:
    """Return None: the action is always available."""
    return None


class Action(Struct, frozen=True):
    """Action of the user. ``why_not`` returns the reason where the action is unavailable.

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
        """Return whether the action acts in the pane of that name."""
        return self.where(pane_named(pane))


def keys_of(action: Action, bindings: Bindings) -> tuple[str, ...]:
    """Return the keys of an action under the user's key bindings."""
    return bindings.get(action.id, action.keys)


def first_key(action: Action, bindings: Bindings) -> str:
    """Return the key to show for an action; an action without keys is in the command line only."""
    keys = keys_of(action, bindings)
    return shown(keys[0]) if keys else ":"


def shown(key: str) -> str:
    """Return a key in the notation of the help: ``gg`` for two strokes, arrow signs for arrows."""
    if " " in key:
        return "".join(shown(part) for part in key.split(" "))
    modifiers, _, name = key.rpartition("+") if len(key) > 1 else ("", "", key)
    name = _SHOWN.get(name, name)
    return f"{modifiers}+{name}" if modifiers else name


GENERAL: Final[tuple[Action, ...]] = (
    Action("app.help", ("?",), "this help", "app", Effect.HELP, hint="help"),
    Action("app.commands", (":", "ctrl+p"), "command by name; place", "app", Effect.COMMANDS,
           hint="command"),
    Action("app.suspend", ("ctrl+z",), "to the shell; fg comes back", "app", Effect.SUSPEND),
    Action("app.repaint", ("ctrl+l",), "repaint the screen", "app", Effect.REPAINT),
    Action("app.interrupt", ("ctrl+c",), "stop loading; then quit", "app", Effect.INTERRUPT),
    Action("app.quit", ("q",), "quit", "app", Effect.QUIT, hint="quit"),
)  # fmt: skip
