"""Open the explorer: its processes, Textual and the application, in the order that is fastest.

Importing this imports no Textual, no reader and no metric: `run` does. Processes are started before
Textual is imported, while the screen is still being made.

Textual is imported without its palette, toasts and folders, and asyncio without TLS: all unused.
The palette imports a dozen widgets, toasts a dozen containers, asyncio the TLS library, the folder
for downloads compression and temporary files. Without them the first frame, of some 250 CPU-ms,
takes 16 to 20 ms less for the palette, 6 for TLS, and 5 each for toasts and folders.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Final

from ccltui import exit_codes
from ccltui.parsers.ingest.worker_pool import WorkerPool
from ccltui.tui.engine.server import start_server

if TYPE_CHECKING:
    from textual.driver import Driver

    from ccltui.tui.app import Explorer
    from ccltui.tui.engine.client import RemoteAnalyst
    from ccltui.tui.engine.messages import Fact
    from ccltui.tui.options import ExplorerOptions

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
    import_textual()  # slow: the processes start meanwhile
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


class EarlyProcesses:
    """Worker processes and server process, started while the screen is still being made.

    The first load takes the worker processes; a later load starts its own.
    """

    def __init__(self, options: ExplorerOptions) -> None:
        self._pool: WorkerPool | None = WorkerPool.awake(options.jobs)
        self._functions = options.functions
        try:
            self._server = start_server(options.functions)
        except BaseException:  # also a signal: processes must not outlast what they need to start
            self._pool.close(wait=False)
            raise

    def analyst(self) -> RemoteAnalyst:
        """Return the analyst that computes in the server process."""
        from ccltui.tui.engine.client import RemoteAnalyst  # noqa: PLC0415  (after the first paint)

        return RemoteAnalyst(self._server, self._functions)

    def load(
        self,
        path: str,
        options: ExplorerOptions,
        post: Callable[[Fact], object],
        cancelled: Callable[[], bool],
    ) -> None:
        """Call :func:`load_or_follow` with the worker processes, the first time."""
        from ccltui.tui.engine.loader import load_or_follow  # noqa: PLC0415  (after the first paint)

        pool, self._pool = self._pool, None
        load_or_follow(path, options, post, cancelled, pool=pool)

    def close(self) -> None:
        """End the server process, and the worker processes if no load took them."""
        self._server.close()
        if self._pool is not None:
            self._pool.close(wait=False)


_PALETTE: Final = (
    *("CommandListItem", "CommandPalette", "SimpleProvider"),
    *("Provider", "DiscoveryHit", "Hit", "Hits"),
)


def _downloads_path() -> Path:
    """Return the folder for files that an application delivers, as platformdirs knows it."""
    found: Path = importlib.import_module("platformdirs").user_downloads_path()
    return found


def _unused() -> Mapping[str, Mapping[str, object]]:
    """Return modules that Textual imports at its start, and the names that it takes from them."""
    return {
        "textual.command": {name: type(name, (), {}) for name in _PALETTE},
        "textual.widgets._toast": {"ToastRack": type("ToastRack", (), {})},
        "platformdirs": {"user_downloads_path": _downloads_path},
    }


def import_textual() -> None:
    """Import Textual's application without what is never shown, and asyncio without TLS.

    A later import of these modules imports them as usual.
    """
    with _unimportable("ssl"):
        importlib.import_module("asyncio")
    if "textual.app" in sys.modules:
        return
    try:
        with ExitStack() as stack:
            for name, members in _unused().items():
                stack.enter_context(_stub_module(name, members))
            importlib.import_module("textual.app")
    except ImportError:  # another version, which imports more names of them
        importlib.import_module("textual.app")


@contextmanager
def _unimportable(name: str) -> Iterator[None]:
    """Make imports of a module fail within the block, unless it is imported already."""
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]  # None makes an import fail
    try:
        yield
    finally:
        del sys.modules[name]


@contextmanager
def _stub_module(name: str, members: Mapping[str, object]) -> Iterator[None]:
    """Replace a module by one of these members within the block, unless it is imported already."""
    if name in sys.modules:
        yield
        return
    module = ModuleType(name)
    vars(module).update(members)
    sys.modules[name] = module
    try:
        yield
    finally:
        del sys.modules[name]
