"""The one place that talks to the terminal: Textual's driver, sending changed cells only."""

from __future__ import annotations

import curses
import os
import signal
from types import FrameType
from typing import Any

from textual import events
from textual.drivers.linux_driver import LinuxDriver
from textual.message import Message

from ccltui.tui.terminal import compat
from ccltui.tui.terminal.screen_cells import Shift
from ccltui.tui.terminal.screen_model import ScreenModel


def can_shift() -> bool:
    """Whether the terminal moves cells within a row: named in terminfo, and not GNU screen.

    Where COLUMNS overrides the width, moved cells would not stop at the edge of the picture.
    """
    term = os.environ.get("TERM", "")
    if "COLUMNS" in os.environ:
        return False
    if term.startswith("screen") and "TMUX" not in os.environ:
        return False
    try:
        curses.setupterm(term or None)
    except curses.error:
        return False
    return bool(curses.tigetstr("dch") and curses.tigetstr("ich"))


class SlimDriver(LinuxDriver):
    """Sends what differs from the model of the screen; see :class:`ScreenModel`."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._model = ScreenModel(0, 0)
        self._stale = False
        self.shifts = can_shift()

    def write(self, data: str) -> None:
        """Send the difference that ``data`` makes."""
        size = compat.terminal_size(self)
        if size != (self._model.width, self._model.height):
            self._model = ScreenModel(*size)
        elif self._stale:
            self._model.forget()
        self._stale = False
        try:
            changed = self._model.feed(data)
        except (IndexError, KeyError, ValueError):
            # A mistake in the model may cost bytes, never the picture.
            self._model = ScreenModel(*size)
            changed = data
        if changed:
            super().write(changed)

    def write_past(self, data: str) -> None:
        """Send what does not touch the screen, and is not for the model to understand."""
        super().write(data)

    def _enable_mouse_support(self) -> None:
        """Ask for buttons and drags only: a pointer that just moves means nothing here."""
        if self._mouse:
            self.write("\x1b[?1000h\x1b[?1002h\x1b[?1006h")
            self.flush()

    def _disable_mouse_support(self) -> None:
        if self._mouse:
            self.write("\x1b[?1006l\x1b[?1002l\x1b[?1000l")
            self.flush()

    def forget(self) -> None:
        """Trust nothing about the screen from the next write on. Safe in a signal handler."""
        self._stale = True

    def expect(self, shift: Shift) -> None:
        """Say that the next frame is mostly the last one, moved."""
        if self.shifts:
            self._model.expect(shift)

    def process_message(self, message: Message) -> None:
        """Whoever comes back to the terminal may have left something on it."""
        if isinstance(message, events.AppFocus):
            self.forget()
        super().process_message(message)

    def start_application_mode(self) -> None:
        """Start, and watch for resizes: a terminal moves its cells when its size changes."""
        super().start_application_mode()  # type: ignore[no-untyped-call]
        resized = signal.getsignal(signal.SIGWINCH)

        def handler(number: int, frame: FrameType | None) -> None:
            self.forget()
            if callable(resized):
                resized(number, frame)

        signal.signal(signal.SIGWINCH, handler)
