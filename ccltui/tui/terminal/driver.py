"""Textual's driver for Linux, reduced to the cells that change on the screen.

Textual writes changed regions of widgets whole, and on a slow connection each byte delays the
frame. This driver writes only the cells that differ, and moves cells where a chart is panned.
Measured with 64 ranks at 120×40, bytes of a key against Textual's driver: 8 to 9 times fewer for a
pan of the timeline (1.6 to 1.9 instead of 15 KB), 5 for a zoom of the alignment, 1.3 to 4.6 for
other keys; 2.3 for 14 kinds of keys together (54 instead of 124 KB). ``--driver plain`` selects
Textual's driver. Keys are read here too: Textual's own loop decodes strictly, and its parser takes
any number for a character, so that a byte that is not UTF-8 (a paste in Latin-1, a mouse in the
oldest encoding) or a key code above Unicode ends its thread, and with it the application, with a
traceback and status 0.
"""

from __future__ import annotations

import codecs
import contextlib
import errno
import os
import re
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from types import FrameType
from typing import Any, Final

from msgspec import Struct
from textual import events
from textual._xterm_parser import XTermParser
from textual.drivers.linux_driver import LinuxDriver
from textual.keys import Keys
from textual.message import Message

from ccltui.report.output import LOG
from ccltui.tui.terminal import compat
from ccltui.tui.terminal.screen_model import ScreenModel, Shift

_POLL_S: Final = 0.1
_READ_BYTES: Final = 4096
_FARTHEST: Final = 65_535
"""Last column or row of any terminal: the kernel keeps its size as unsigned 16-bit numbers."""
_MOST_CELLS: Final = 1 << 20
"""Largest screen that is believed: a 4K monitor with letters of 4×6 pixels has 345,600 cells."""
_OLD_MOUSE: Final = re.compile(rb"\x1b\[M[\x20-\xff]{3}")
"""A mouse event in the encoding before SGR: its three bytes are a button and a place, not text."""


class TolerantParser(XTermParser):
    """Textual's parser, which ignores keys, places and sizes that cannot be."""

    def _sequence_to_key_events(self, sequence: str, alt: bool = False) -> Iterable[events.Key]:
        try:
            keys = list(super()._sequence_to_key_events(sequence, alt))
        except (ValueError, OverflowError):  # a code that is no character
            return [events.Key(Keys.Ignore, sequence)]
        if all(_is_text(key.key) and _is_text(key.character or "") for key in keys):
            return keys
        return [events.Key(Keys.Ignore, sequence)]

    def parse_mouse_code(self, code: str) -> Message | None:
        """Return the event of a mouse sequence, None where there is none on any screen."""
        sizes = self.terminal_size, self.terminal_pixel_size
        if any(size is not None and 0 in tuple(size) for size in sizes):
            self.mouse_pixels = False  # the size of a cell would be a division by zero
        found = super().parse_mouse_code(code)
        if isinstance(found, events.MouseEvent) and max(found.x, found.y) > _FARTHEST:
            return None
        return found


class TerminalInput:
    """Messages of what a terminal sends."""

    def __init__(self, *, debug: bool = False) -> None:
        self._debug = debug
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._parser = TolerantParser(debug)

    def messages(self, data: bytes) -> Iterator[Message]:
        """Return the keys, mouse events and pasted texts in some bytes."""
        text = self._decode(_OLD_MOUSE.sub(b"", data))
        return self._believed(lambda parser: parser.feed(text)) if text else iter(())

    def late_messages(self) -> Iterator[Message]:
        """Return what is known only after a while: an escape that begins no sequence."""
        return self._believed(TolerantParser.tick)

    def _believed(self, parsed: Callable[[TolerantParser], Iterable[Message]]) -> Iterator[Message]:
        try:
            for message in parsed(self._parser):
                if not isinstance(message, events.Resize) or _is_possible(message):
                    yield message
        except Exception as error:
            LOG.add_traceback(error)
            self._parser = TolerantParser(self._debug)  # the old one has ended with the error


def read_terminal(
    descriptor: int, ended: threading.Event, post: Callable[[Message], None], *, debug: bool
) -> None:
    """Post the messages of a terminal until ``ended`` is set. Raises OSError where it is gone."""
    source = TerminalInput(debug=debug)
    terminal = select.poll()
    terminal.register(descriptor, select.POLLIN)
    is_last = False
    while not is_last:
        # Once more after the end: answers of the terminal would be typed into the user's shell.
        is_last = ended.is_set()
        if terminal.poll(_POLL_S * 1000):
            data = os.read(descriptor, _READ_BYTES)
            for message in source.messages(data):
                post(message)
            if not data:  # closed, which `compat.leave_at_hangup` handles
                ended.wait(_POLL_S)
        for message in source.late_messages():
            post(message)


def _is_text(text: str) -> bool:
    """Whether a text has no half of a surrogate pair, which no terminal and no file can take."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _is_possible(event: events.Resize) -> bool:
    width, height = event.size
    return 0 < width <= _FARTHEST and 0 < height <= _FARTHEST and width * height <= _MOST_CELLS


_STDOUT: Final = 1
_FAREWELL: Final = (
    b"\x1b[?2004l\x1b[?7h\x1b[?2048l\x1b[?1006l\x1b[?1002l\x1b[?1000l"
    b"\x1b[<u\x1b[?1049l\x1b[?25h\x1b[?1004l"
)
"""Undoes all that is requested of the terminal, where the process cannot end in order."""


class Abilities(Struct, frozen=True):
    """What a terminal can do besides text, colours and moves of the cursor.

    Attributes:
        shifts: Moves cells within a row.
        erases: Erases a number of characters, and fills them with the background.
    """

    shifts: bool = False
    erases: bool = False


def abilities() -> Abilities:
    """Return what terminfo lists for the terminal; GNU screen does neither as it lists it.

    Where COLUMNS overrides the width, moved cells would not stop at the edge of the screen that
    Textual draws.
    """
    term = os.environ.get("TERM", "")
    if term.startswith("screen") and "TMUX" not in os.environ:
        return Abilities()
    import curses  # noqa: PLC0415  (after the first paint)

    try:
        curses.setupterm(term or None, _STDOUT)  # Textual has replaced sys.stdout
    except curses.error:
        return Abilities()
    return Abilities(
        shifts=bool(curses.tigetstr("dch") and curses.tigetstr("ich"))
        and "COLUMNS" not in os.environ,
        erases=bool(curses.tigetstr("ech")) and curses.tigetflag("bce") == 1,
    )


class _TerminalOutput:
    """Standard output; what is written after the terminal has closed is discarded.

    An error would end Textual's thread, and the next frames would wait for it without end:
    `compat.leave_at_hangup` ends the program where the terminal has closed, ``failed`` else.
    """

    def __init__(self, failed: Callable[[Exception], None]) -> None:
        self._failed = failed

    def fileno(self) -> int:
        """Return the descriptor of the terminal."""
        return _STDOUT

    def write(self, text: str) -> int:
        """Write to the terminal; a question mark where its encoding lacks a character."""
        with self._errors_reported():
            output = sys.__stdout__
            assert output is not None  # has_terminal() saw it
            try:
                output.write(text)
            except UnicodeEncodeError:
                output.write(text.encode(output.encoding, "replace").decode(output.encoding))
        return len(text)

    def flush(self) -> None:
        """Send what is written."""
        with self._errors_reported():
            sys.__stdout__.flush()  # type: ignore[union-attr]  # as above

    @contextlib.contextmanager
    def _errors_reported(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError) as error:
            if not isinstance(error, OSError) or error.errno != errno.EIO:
                self._failed(error)


class PlainDriver(LinuxDriver):
    """Textual's driver, but on standard output, which is a terminal: standard error may be a file.

    The screen would end in that file, and the terminal would stay as the first frame left it.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._file: Any = _TerminalOutput(self._fail)

    def run_input_thread(self) -> None:
        """Post what the user types until the application ends."""
        ended, post = self.exit_event, self.process_message
        try:
            read_terminal(self.fileno, ended, post, debug=self._debug)
        except OSError:  # the terminal is gone
            self._app.call_later(self._app.exit, 128 + signal.SIGHUP)
        except Exception as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        compat.end_with(self._app, error)


class SlimDriver(PlainDriver):
    """Writes the differences from the model of the screen; see :class:`ScreenModel`."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._model = ScreenModel(0, 0)
        self._stale = False
        self._abilities: Abilities | None = None

    @property
    def shifts(self) -> bool:
        """Whether the terminal moves cells within a row; looked up after the first frame."""
        if self._abilities is None:
            self._abilities = abilities()
        return self._abilities.shifts

    def write(self, data: str) -> None:
        """Write the changes of the screen that ``data`` makes."""
        size = compat.terminal_size(self)
        if size != (self._model.width, self._model.height):
            self._model = ScreenModel(*size)
        elif self._stale:
            self._model.forget()
        self._stale = False
        self._model.erases = self._abilities is not None and self._abilities.erases
        try:
            changed = self._model.feed(data)
        except (IndexError, KeyError, ValueError):
            # A defect of the model costs bytes: everything is written, so the screen stays right.
            self._model = ScreenModel(*size)
            changed = data
        if changed:
            super().write(changed)

    def write_past(self, data: str) -> None:
        """Write a sequence that does not change the screen, bypassing the model."""
        super().write(data)

    def _enable_mouse_support(self) -> None:
        """Request buttons and drags only: a pointer that moves without a button has no effect."""
        if self._mouse:
            self.write("\x1b[?1000h\x1b[?1002h\x1b[?1006h")
            self.flush()

    def _disable_mouse_support(self) -> None:
        if self._mouse:
            self.write("\x1b[?1006l\x1b[?1002l\x1b[?1000l")
            self.flush()

    def forget(self) -> None:
        """Treat every cell as unknown from the next write on. Safe in a signal handler."""
        self._stale = True

    def expect(self, shift: Shift) -> None:
        """Hint that the next frame is mostly the last one, moved."""
        if self.shifts:
            self._model.expect(shift)

    def process_message(self, message: Message) -> None:
        """Repaint when the terminal gets the focus back: other programs may have written to it."""
        if isinstance(message, events.AppFocus):
            self.forget()
        super().process_message(message)

    def start_application_mode(self) -> None:
        """Start, and forget the screen at a resize, at which a terminal moves its cells."""
        with contextlib.suppress(ImportError):  # not compiled
            from ccltui.parsers.store._cut_files import restore_terminal  # noqa: PLC0415

            restore_terminal(self.fileno, _FAREWELL)
        super().start_application_mode()  # type: ignore[no-untyped-call]
        resized = signal.getsignal(signal.SIGWINCH)

        def handler(number: int, frame: FrameType | None) -> None:
            self.forget()
            if callable(resized):
                resized(number, frame)

        signal.signal(signal.SIGWINCH, handler)
