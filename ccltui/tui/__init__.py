"""The explorer in the terminal. Importing this imports no Textual: `run` does."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

from ccltui import exit_codes
from ccltui.tui.options import ExplorerOptions

if TYPE_CHECKING:
    from textual.driver import Driver

    from ccltui.tui.app import Explorer
    from ccltui.tui.engine.early_processes import EarlyProcesses

__all__ = ["ExplorerOptions", "run"]

_ENVIRONMENT: Final = {
    "TEXTUAL_ANIMATIONS": "none",
    "TEXTUAL_SMOOTH_SCROLL": "0",
    "TEXTUAL_FPS": "30",
}
_SWITCH_S: Final = 0.001
"""A key waits so long for each of the threads that compute, instead of Python's 5 ms."""
_COLOR_SYSTEMS: Final = {"truecolor": "truecolor", "256": "256", "16": "standard"}


def run(path: str, *, options: ExplorerOptions) -> int:
    """Open the explorer on a directory or file; returns the exit code when the user leaves.

    Raises what broke the explorer, once the terminal is as it was.
    """
    prepare_environment(options)
    from ccltui.tui.engine.early_processes import EarlyProcesses  # noqa: PLC0415

    processes = EarlyProcesses(options)
    try:
        app, code = _run_app(path, options, processes)
    finally:
        processes.close()
    if app.broken_by is not None:
        raise app.broken_by
    if app.scene.followed is not None and app.scene.followed.alerted:
        return exit_codes.ALERT
    return app.return_code or 0 if code is None else code


def _run_app(
    path: str, options: ExplorerOptions, processes: EarlyProcesses
) -> tuple[Explorer, int | None]:
    """Show the explorer until it is left; return it, and its exit status if it has one."""
    from ccltui.tui.terminal.lean_import import import_textual  # noqa: PLC0415  (slow: processes start meanwhile)

    import_textual()
    from ccltui.tui.app import Explorer  # noqa: PLC0415

    if options.against is not None:
        from ccltui.tui.panes.compare_pane import ComparePane  # noqa: PLC0415
        from ccltui.tui.state.pane import register  # noqa: PLC0415

        register(ComparePane(options.against, options))

    from ccltui.tui.plugged_panes import register_plugged_panes  # noqa: PLC0415

    register_plugged_panes()
    sys.setswitchinterval(_SWITCH_S)
    app = Explorer(path, options, _driver(options), processes.load, processes.analyst)
    code = run_until_left(app, mouse=options.mouse)
    if app.key_log is not None:
        app.key_log.close()
    return app, code


def run_until_left(app: Explorer, *, mouse: bool) -> int | None:
    """Run the application until it is left, by a key or a signal; return its exit status if any."""
    import asyncio  # noqa: PLC0415

    from ccltui.tui.terminal.compat import left_on_signals  # noqa: PLC0415

    # A loop of our own: asyncio.run waits for threads, and these compute what nobody sees.
    loop = asyncio.new_event_loop()
    with left_on_signals(app, loop):
        code = app.run(mouse=mouse, loop=loop)
    loop.close()
    return code


def prepare_environment(options: ExplorerOptions) -> None:
    """Say what Textual reads once, when it is imported."""
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    if options.color == "never":
        os.environ["NO_COLOR"] = "1"
    elif options.color in _COLOR_SYSTEMS:
        os.environ["TEXTUAL_COLOR_SYSTEM"] = _COLOR_SYSTEMS[options.color]
        os.environ.pop("NO_COLOR", None)


def _driver(options: ExplorerOptions) -> type[Driver] | None:
    """Return the driver of the options; None for the one that Textual selects."""
    if sys.platform == "win32" or "TEXTUAL_DRIVER" in os.environ:
        return None
    from ccltui.tui.terminal.driver import PlainDriver, SlimDriver  # noqa: PLC0415

    return PlainDriver if options.driver == "plain" else SlimDriver
