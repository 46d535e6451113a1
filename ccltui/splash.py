"""Draw the frame of the explorer in plain escape sequences before Textual is imported.

Textual takes ten times as long to import as Python takes to start. Until it paints, the user sees
the title and the panes in their final places, keys are not echoed, and a signal still restores the
terminal. There are no colours, because nothing is known of the terminal yet.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import termios
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Final

from ccltui.draw.text import clean, fit_middle
from ccltui.verbs import VERBS

Command = Callable[[Sequence[str]], int]
Attributes = list[int | list[bytes | int]]

PANES: Final = ("Summary", "Alignment", "Timeline", "Events", "Files", "Steps")
PANES_SHORT: Final = ("Sum", "Align", "Time", "Events", "Files", "Steps")
NARROW: Final = 100
_HEADLESS: Final = (
    *("--metric", "--fail-if", "--format", "--output", "-o", "--detail", "--list-metrics"),
    *("--keys", "--serve", "--help", "-h", "--version"),
)
_ENTER: Final = "\x1b[?1049h\x1b[?25l\x1b[2J"
_LEAVE: Final = "\x1b[?25h\x1b[?1049l"
_ENDING: Final = (signal.SIGTERM, signal.SIGHUP)


class Splash:
    """The frame on the terminal until the explorer paints; made and ended by one process."""

    def __init__(self) -> None:
        self._attributes: Attributes | None = None
        self._shown = False
        self.explored = False
        """Whether the explorer has taken over the terminal."""

    @contextmanager
    def shown(self, arguments: Sequence[str]) -> Iterator[None]:
        """Show the frame if these arguments open the explorer; restore the terminal at the end."""
        if opens_explorer(arguments):
            self._start(arguments)
        try:
            yield
        finally:
            self._stop()

    def restoring_terminal(self, command: Command) -> Command:
        """Return the command, which restores the terminal when it ends.

        So its last messages stay readable.
        """

        def run(arguments: Sequence[str]) -> int:
            try:
                return command(arguments)
            finally:
                self._stop()

        return run

    def release_terminal(self) -> None:
        """Leave the terminal to the explorer, which restores it."""
        self._shown = False
        self.explored = True
        gc.freeze()  # imported objects stay: no collection has to visit them again
        gc.enable()

    def _start(self, arguments: Sequence[str]) -> None:
        try:
            width, height = os.get_terminal_size(1)
            if not width:  # a terminal without a size
                return
            self._attributes = termios.tcgetattr(0)
            quiet = termios.tcgetattr(0)
            quiet[3] &= ~termios.ECHO
            termios.tcsetattr(0, termios.TCSANOW, quiet)
        except (OSError, termios.error):
            return
        for number in _ENDING:
            signal.signal(number, _leave)
        self._shown = True
        gc.disable()  # imports make a hundred thousand objects, all of which stay
        sys.stdout.write(_ENTER + frame(arguments, width, height))
        sys.stdout.flush()

    def _stop(self) -> None:
        if self._shown:
            self._shown = False
            gc.enable()
            sys.stdout.write(_LEAVE)
            sys.stdout.flush()
        if self._attributes is not None:
            attributes, self._attributes = self._attributes, None
            for number in _ENDING:
                signal.signal(number, signal.SIG_DFL)
            termios.tcsetattr(0, termios.TCSANOW, attributes)


SPLASH: Final = Splash()
"""The splash of this process: there is one terminal."""


def _leave(number: int, _: FrameType | None) -> None:
    raise SystemExit(128 + number)


def opens_explorer(arguments: Sequence[str]) -> bool:
    """Whether these arguments open the explorer on a terminal, unless they are wrong."""
    if not arguments or os.environ.get("TERM", "dumb") == "dumb":
        return False
    if arguments[0] in VERBS or any(word.partition("=")[0] in _HEADLESS for word in arguments):
        return False
    streams = (sys.stdin, sys.stdout)
    return _name(arguments) != "" and all(s is not None and s.isatty() for s in streams)


def _name(arguments: Sequence[str]) -> str:
    """Return the name of the path to open: the first word, or the last; empty if none exists."""
    for word in (arguments[0], arguments[-1]):
        if not word.startswith("-") and os.path.exists(word):  # noqa: PTH110  (pathlib is slow)
            return os.path.basename(os.path.normpath(word)) or word  # noqa: PTH119
    return ""


def frame(arguments: Sequence[str], width: int, height: int) -> str:
    """Return the first two lines of the explorer as it opens, and at the bottom how to quit."""
    title, tabs = frame_lines(_name(arguments), width)
    return f"\x1b[1;1H\x1b[1m{title}\x1b[m\x1b[2;1H{tabs}\x1b[{max(height, 2)};1H ctrl+c quits"


def frame_lines(name: str, width: int) -> tuple[str, str]:
    """Return the lines of title and panes, in exactly ``width`` cells each."""
    right = " opening "
    title = f" ccltui {fit_middle(name, width // 3)}"[: max(width - len(right), 0)]
    tabs = " "
    for number, pane in enumerate(PANES_SHORT if width < NARROW else PANES, 1):
        tabs += f"[{number} {pane}]" if number == 1 else f" {number} {pane} "
    return (title.ljust(width - len(right)) + right)[:width], clean(tabs)[:width].ljust(width)
