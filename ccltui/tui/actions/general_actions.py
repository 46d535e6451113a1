"""Actions that work without a trace; the key line shows them until a trace is open."""

from __future__ import annotations

from typing import Final

from ccltui.tui.actions.action import Action, Effect

GENERAL: Final[tuple[Action, ...]] = (
    Action("app.help", ("?",), "this help", "app", Effect.HELP, hint="help"),
    Action("app.commands", (":", "ctrl+p"), "command by name; place", "app", Effect.COMMANDS,
           hint="command"),
    Action("app.suspend", ("ctrl+z",), "to the shell; fg comes back", "app", Effect.SUSPEND),
    Action("app.repaint", ("ctrl+l",), "repaint the screen", "app", Effect.REPAINT),
    Action("app.interrupt", ("ctrl+c",), "stop loading; then quit", "app", Effect.INTERRUPT),
    Action("app.quit", ("q",), "quit", "app", Effect.QUIT, hint="quit"),
)  # fmt: skip
