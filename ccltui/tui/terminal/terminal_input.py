"""Read keys and mouse events from a terminal, whatever bytes arrive.

Instead of Textual's own loop, which decodes strictly and whose parser takes any number for a
character: a byte that is not UTF-8 (a paste in Latin-1, a mouse in the oldest encoding) or a key
code above Unicode ends its thread, and with it the application, with a traceback and status 0.
"""

from __future__ import annotations

import codecs
import os
import re
import select
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from textual import events
from textual._xterm_parser import XTermParser
from textual.keys import Keys
from textual.message import Message

from ccltui.report.diagnostics.session_log import LOG

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
