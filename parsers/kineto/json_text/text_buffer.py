"""Buffer the unread text of a file that arrives in chunks."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ccltui.parsers.kineto.json_text.json_tokens import ValueSkipper

_SPACE = re.compile(rb"[ \t\r\n]*+")


class TextBuffer:
    """Text in memory: what is unread begins at index ``start`` of ``text``.

    Text that was read stays until a chunk is appended. Removing it at once would copy the rest of
    the chunk for each value, a time quadratic in the size of a chunk where values are short.
    """

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._removed = 0  # bytes of the document before ``text``
        self.text = b""
        self.start = 0

    @property
    def offset(self) -> int:
        """Byte of the document where the unread text begins."""
        return self._removed + self.start

    @property
    def unread(self) -> int:
        """Number of unread bytes in memory."""
        return len(self.text) - self.start

    def more(self, at_least: int = 1) -> bool:
        """Append chunks until ``at_least`` bytes were added; False at the end of the text."""
        parts = [self.text[self.start :]]
        gained = 0
        while gained < at_least:
            chunk = next(self._chunks, None)
            if chunk is None:
                break
            parts.append(chunk)
            gained += len(chunk)
        if gained:
            self._removed += self.start
            self.text = b"".join(parts)
            self.start = 0
        return gained > 0

    def drop(self, count: int) -> None:
        """Take the first ``count`` unread bytes as read."""
        self.start = min(self.start + count, len(self.text))

    def peek(self) -> bytes:
        """Drop white space and return the next byte, b"" at the end of the text."""
        while True:
            self.start = _SPACE.match(self.text, self.start).end()  # type: ignore[union-attr]
            if self.unread:
                return self.text[self.start : self.start + 1]
            if not self.more():
                return b""

    def drop_byte_order_mark(self) -> None:
        """Drop a UTF-8 byte order mark at the start of the text."""
        while self.unread < 3 and self.more():
            pass
        if self.text.startswith(b"\xef\xbb\xbf", self.start):
            self.drop(3)

    def value(self, limit: int) -> bytes | None:
        """Consume the next JSON value.

        Returns:
            Its text, of a value longer than ``limit`` at least the first ``limit`` + 1 bytes;
            None if the text ends before the value does.
        """
        skipper = ValueSkipper()
        kept = b""
        while True:
            position, done = skipper.feed(self.text, self.start)
            if len(kept) <= limit:
                kept += self.text[self.start : position]
            self.start = position
            if done:
                return kept
            if not self.more():
                return None
