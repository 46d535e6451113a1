"""Uses of private names of Textual; a test of the same folder (`test_private_names`) lists them.

Besides these, `driver` replaces methods of Textual's driver and of its parser. Public
replacements that upstream would need: a hook for errors of an application that keeps the exception
(`_handle_exception`), the size of the terminal from the driver (`_get_terminal_size`), and a way
for a driver to write past the model of the screen and to move cells.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import re
import select
import signal
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from textual.app import App
from textual.driver import Driver
from textual.geometry import Region, Size
from textual.screen import Screen

from ccltui.tui.terminal.screen_model import Shift

if TYPE_CHECKING:
    from textual.drivers.linux_driver import LinuxDriver

_FONT_FACES: Final = re.compile(r"\s*@font-face \{.*?\}(?=\n)", re.DOTALL)


def screen_picture(app: App[Any], title: str | None = None) -> str:
    """Return Textual's screenshot without its fonts, which a viewer would load from another host.

    The fonts of the machine that shows it take their place; the width of each text is stated in it.
    """
    return _FONT_FACES.sub("", app.export_screenshot(title=title))


_SCREEN_CHUNK: Final = 700  # GNU screen drops longer strings


def osc52(text: str, environ: Mapping[str, str]) -> str:
    """Return the sequence that puts ``text`` on the clipboard.

    tmux handles the sequence itself if it is configured to set clipboards, and forwards a wrapped
    one if it is configured to let sequences pass. The configuration cannot be seen from here, so
    both are sent; tmux ignores what it does not allow. GNU screen only forwards, in pieces.
    """
    plain = f"\x1b]52;c;{base64.b64encode(text.encode()).decode('ascii')}\x07"
    if "TMUX" in environ:
        return plain + f"\x1bPtmux;{plain.replace(chr(27), chr(27) * 2)}\x1b\\"
    if environ.get("TERM", "").startswith("screen"):
        pieces = [plain[at : at + _SCREEN_CHUNK] for at in range(0, len(plain), _SCREEN_CHUNK)]
        return "".join(f"\x1bP{piece}\x1b\\" for piece in pieces)
    return plain


_HANGUP_CHECK_S = 1.0
_ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


class FirstScreen(Screen[None], inherit_bindings=False):
    """A screen that is laid out once for its first size: Textual states that three times.

    ``is_painted`` is set by the application. From then on the same size is laid out again: a
    terminal that reports one may have lost its cells.
    """

    is_painted = False

    def _screen_resized(self, size: Size) -> None:
        if self.is_painted or size != self._size:
            super()._screen_resized(size)


class ErrorKeepingApp(App[int], inherit_bindings=False):
    """An application that ends at an error and keeps it, instead of printing a long traceback."""

    def __init__(self, driver_class: type[Driver] | None) -> None:
        super().__init__(driver_class=driver_class, ansi_color=True)
        # Widgets for what is not shown here; both delay the first frame.
        self._disable_tooltips = self._disable_notifications = True
        self.broken_by: Exception | None = None

    def get_default_screen(self) -> FirstScreen:
        """Return the screen of the panes."""
        return FirstScreen(id="_default")

    def _handle_exception(self, error: Exception) -> None:
        if self._exception is None:
            self.broken_by = self._exception = error
            self._exception_event.set()
        self._return_code = 1
        self._close_messages_no_wait()


def is_painted(app: App[Any]) -> None:
    """Say that the first frame is painted."""
    if isinstance(app.screen, FirstScreen):
        app.screen.is_painted = True


def end_with(app: App[Any], error: Exception) -> None:
    """End an application at an error of another thread, as at one of its own."""
    app.call_later(app._handle_exception, error)


def terminal_size(driver: LinuxDriver) -> tuple[int, int]:
    """Return columns and rows of the terminal, also before the layout has adopted a new size."""
    return driver._get_terminal_size()


@contextlib.contextmanager
def left_on_signals(app: App[Any], loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Exit, with the terminal restored, at signals of a scheduler and when the terminal closes.

    The loop handles them from before the application starts: the exception of a handler amid its
    start would leave threads and the terminal as they are, or be lost.
    """
    before = {number: signal.getsignal(number) for number in _ENDING}
    with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):  # not the main thread
        for number in before:
            loop.add_signal_handler(number, app.exit, 128 + number)
    try:
        yield
    finally:
        with contextlib.suppress(NotImplementedError, ValueError):
            for number, handler in before.items():
                loop.remove_signal_handler(number)
                signal.signal(number, handler)


def leave_at_hangup(app: App[Any]) -> None:
    """Exit as at SIGHUP when the terminal is gone.

    The signal reaches only the session of the terminal, and may be ignored. Textual takes the end
    of its input for a pipe that is empty and reads again at once; only writing would fail.
    """
    if sys.__stdin__ is None or not sys.__stdin__.isatty():
        return
    terminal = select.poll()
    terminal.register(sys.__stdin__.fileno(), 0)  # reports a hang-up, not input

    def check() -> None:
        if terminal.poll(0):
            app.exit(128 + signal.SIGHUP)

    app.set_interval(_HANGUP_CHECK_S, check)


def copy(app: App[Any], text: str) -> None:
    """Put a text on the clipboard of the user's terminal, bypassing the model of its screen."""
    app._clipboard = text
    write = getattr(app._driver, "write_past", None) or getattr(app._driver, "write", None)
    if write is not None:
        write(osc52(text, os.environ))


def forget_screen(app: App[Any]) -> None:
    """Make the driver send every cell again."""
    forget = getattr(app._driver, "forget", None)
    if forget is not None:
        forget()


def can_shift(app: App[Any], region: Region) -> bool:
    """Whether the terminal can move cells within ``region``.

    Terminals move all cells up to the right edge of the screen, so the region must end there.
    """
    shifts: bool = getattr(app._driver, "shifts", False)
    return shifts and region.right == app.size.width


def expect_shift(app: App[Any], region: Region, left: int, columns: int) -> None:
    """Hint that the cells of ``region`` from column ``left`` on have moved by ``columns``.

    Does nothing where the terminal cannot move them.
    """
    expect = getattr(app._driver, "expect", None)
    if expect is None or not can_shift(app, region):
        return
    if 0 < abs(columns) < region.width - left:
        expect(Shift(region.y, region.bottom, region.x + left, columns))
