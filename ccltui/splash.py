"""The frame of the explorer before anything heavy is imported, in plain escape sequences.

Textual takes ten times as long to import as Python takes to start. Until it paints, the user sees
the title and the panes where they will be, keys are not echoed, and a signal still gives the
terminal back. No colours: nothing is known of the terminal yet.
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
    """What is on the terminal before the explorer is; made and ended by one process."""

    def __init__(self) -> None:
        self._attributes: Attributes | None = None
        self._shown = False
        self.explored = False
        """Whether the explorer has been on the terminal."""

    @contextmanager
    def shown(self, arguments: Sequence[str]) -> Iterator[None]:
        """Show the frame if these arguments open the explorer; the terminal is as before after."""
        if opens_explorer(arguments):
            self._start(arguments)
        try:
            yield
        finally:
            self._stop()

    def behind(self, command: Command) -> Command:
        """The command, with the terminal as it was when it ends: what is told then can be read."""

        def run(arguments: Sequence[str]) -> int:
            try:
                return command(arguments)
            finally:
                self._stop()

        return run

    def hand_over(self) -> None:
        """The explorer has the terminal from here on, and gives it back."""
        self._shown = False
        self.explored = True
        gc.freeze()  # what was imported stays: no collection has to walk it again
        gc.enable()

    def _start(self, arguments: Sequence[str]) -> None:
        try:
            width, height = os.get_terminal_size(1)
            if not width:  # a terminal that was never told its size
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
        gc.disable()  # imports make a hundred thousand objects, and all of them stay
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
"""That of this process: there is one terminal."""


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
    """The path to open where it is certain: the first word, or the last after options."""
    for word in (arguments[0], arguments[-1]):
        if not word.startswith("-") and os.path.exists(word):  # noqa: PTH110  (pathlib is slow)
            return os.path.basename(os.path.normpath(word)) or word  # noqa: PTH119
    return ""


def frame(arguments: Sequence[str], width: int, height: int) -> str:
    """The first two lines of the explorer as it opens, and how to leave at the bottom."""
    title, tabs = frame_lines(_name(arguments), width)
    return f"\x1b[1;1H\x1b[1m{title}\x1b[m\x1b[2;1H{tabs}\x1b[{max(height, 2)};1H ctrl+c quits"


def frame_lines(name: str, width: int) -> tuple[str, str]:
    """Title and panes in exactly ``width`` cells."""
    right = " opening "
    title = f" ccltui {fit_middle(name, width // 3)}"[: max(width - len(right), 0)]
    tabs = " "
    for number, pane in enumerate(PANES_SHORT if width < NARROW else PANES, 1):
        tabs += f"[{number} {pane}]" if number == 1 else f" {number} {pane} "
    return (title.ljust(width - len(right)) + right)[:width], clean(tabs)[:width].ljust(width)
