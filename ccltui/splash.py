"""Splash: the first frame of the explorer, drawn with escape sequences before heavy imports.

Textual takes ten times as long to import as Python takes to start. Until it paints, the splash
shows the title and the panes at their final places, keys are not echoed, and a signal restores the
terminal. It has no colours: the capabilities of the terminal are not known yet.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import termios
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final

from ccltui.draw.text import clean, fit_middle
from ccltui.process import end_at_once
from ccltui.verbs import VERBS

Command = Callable[[Sequence[str]], int]
Attributes = list[int | list[bytes | int]]
_Handler = Callable[[int, FrameType | None], object] | int | signal.Handlers | None

PANES: Final = ("Overview", "Alignment", "Timeline", "Events", "Files", "Steps")
PANES_SHORT: Final = ("Over", "Align", "Time", "Events", "Files", "Steps")
NARROW: Final = 100
_HEADLESS: Final = (
    *("--metric", "--fail-if", "--format", "--output", "-o", "--detail", "--list-metrics"),
    *("--explain-cost", "--keys", "--serve", "--help", "-h", "--version"),
)
_ENTER: Final = "\x1b[?1049h\x1b[?25l\x1b[2J"
_LEAVE: Final = b"\x1b[?25h\x1b[?1049l"
_ENDING: Final[dict[int, _Handler]] = {
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGHUP: signal.SIG_DFL,
    signal.SIGINT: signal.default_int_handler,
}
"""Signals that end the program, and what Python does on them."""


class Splash:
    """Splash screen of this process, from start-up to the first frame of the explorer."""

    def __init__(self) -> None:
        self._attributes: Attributes | None = None
        self._shown = False
        self.explorer_ran = False
        """Whether the explorer, or its splash, has been on the terminal."""

    @contextmanager
    def shown(self, arguments: Sequence[str]) -> Iterator[None]:
        """Show the splash if these arguments open the explorer; restore the terminal afterwards."""
        if opens_explorer(arguments):
            self._start(arguments)
        try:
            yield
        finally:
            self._stop()

    def restoring(self, command: Command) -> Command:
        """Return ``command`` with the terminal restored at its end, before messages are printed."""

        def run(arguments: Sequence[str]) -> int:
            try:
                return command(arguments)
            finally:
                self._stop()

        return run

    def release(self) -> None:
        """Leave the terminal to the explorer, which restores it at its end."""
        self._shown = False
        self.explorer_ran = True
        gc.freeze()  # imported objects live on: exclude them from every collection
        gc.enable()

    def _start(self, arguments: Sequence[str]) -> None:
        try:
            width, height = os.get_terminal_size(1)
            if not width:  # a terminal whose size was never set
                return
            self._attributes = termios.tcgetattr(0)
            quiet = termios.tcgetattr(0)
            quiet[3] &= ~termios.ECHO
            termios.tcsetattr(0, termios.TCSANOW, quiet)
        except (OSError, termios.error):
            return
        for number in _ENDING:
            signal.signal(number, _leave)
        self._shown = self.explorer_ran = True
        gc.disable()  # imports make a hundred thousand objects that live on
        sys.stdout.write(_ENTER + frame(arguments, width, height))
        sys.stdout.flush()

    def _stop(self) -> None:
        self.restore_terminal()
        if self._attributes is not None:
            self._attributes = None
            for number, usual in _ENDING.items():
                signal.signal(number, usual)
        if self._shown:
            self._shown = False
            gc.enable()

    def restore_terminal(self) -> None:
        """Restore screen, cursor and modes. Safe in a handler of signals, and twice."""
        if self._shown:
            with suppress(OSError):  # the terminal was closed
                os.write(1, _LEAVE)
        if self._attributes is not None:
            with suppress(termios.error):
                termios.tcsetattr(0, termios.TCSANOW, self._attributes)


SPLASH: Final = Splash()
"""The splash of this process."""


def _leave(number: int, _: FrameType | None) -> None:
    """End the program here.

    An exception would pass through whatever is being imported, which may lose it or fail otherwise.
    """
    for one in _ENDING:
        signal.signal(one, signal.SIG_DFL)  # a second signal ends it at once
    SPLASH.restore_terminal()
    end_at_once(128 + number)


def opens_explorer(arguments: Sequence[str]) -> bool:
    """Whether these arguments, if valid, open the explorer on a terminal."""
    if not arguments or os.environ.get("TERM", "dumb") == "dumb":
        return False
    if arguments[0] in VERBS or any(word.partition("=")[0] in _HEADLESS for word in arguments):
        return False
    streams = (sys.stdin, sys.stdout)
    return _name(arguments) != "" and all(s is not None and s.isatty() for s in streams)


def _name(arguments: Sequence[str]) -> str:
    """Name of the path to open if it is the first or last argument, else ""."""
    for word in (arguments[0], arguments[-1]):
        if not word.startswith("-") and os.path.exists(word):  # noqa: PTH110  (pathlib is slow)
            return os.path.basename(os.path.normpath(word)) or word  # noqa: PTH119
    return ""


def frame(arguments: Sequence[str], width: int, height: int) -> str:
    """First two lines of the explorer as it opens, and the key to quit on the last line."""
    title, tabs = frame_lines(_name(arguments), width)
    return f"\x1b[1;1H\x1b[1m{title}\x1b[m\x1b[2;1H{tabs}\x1b[{max(height, 2)};1H ctrl+c quits"


def frame_lines(name: str, width: int) -> tuple[str, str]:
    """Title line and line of panes, each exactly ``width`` cells wide."""
    right = " opening "
    title = f" ccltui {fit_middle(name, width // 3)}"[: max(width - len(right), 0)]
    tabs = " "
    for number, pane in enumerate(PANES_SHORT if width < NARROW else PANES, 1):
        tabs += f"[{number} {pane}]" if number == 1 else f" {number} {pane} "
    return (title.ljust(width - len(right)) + right)[:width], clean(tabs)[:width].ljust(width)
