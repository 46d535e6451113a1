"""Buffer the unread text of a file that arrives in chunks."""

from __future__ import annotations

from collections.abc import Iterator

from ccltui.parsers.kineto.json_text.json_tokens import ValueSkipper

_SPACE = b" \t\r\n"


class TextBuffer:
    """Unread text in memory: ``text`` starts at byte ``offset`` of the document."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self.text = b""
        self.offset = 0

    def more(self, at_least: int = 1) -> bool:
        """Append chunks until ``at_least`` bytes were added; False at the end of the text."""
        parts = [self.text]
        gained = 0
        while gained < at_least:
            chunk = next(self._chunks, None)
            if chunk is None:
                break
            parts.append(chunk)
            gained += len(chunk)
        if gained:
            self.text = b"".join(parts)
        return gained > 0

    def drop(self, count: int) -> None:
        """Remove the first ``count`` bytes."""
        self.text = self.text[count:]
        self.offset += count

    def peek(self) -> bytes:
        """Drop white space and return the next byte, b"" at the end of the text."""
        while True:
            stripped = self.text.lstrip(_SPACE)
            self.drop(len(self.text) - len(stripped))
            if stripped:
                return stripped[:1]
            if not self.more():
                return b""

    def drop_byte_order_mark(self) -> None:
        """Drop a UTF-8 byte order mark at the start of the text."""
        while len(self.text) < 3 and self.more():
            pass
        if self.text.startswith(b"\xef\xbb\xbf"):
            self.drop(3)

    def value(self, limit: int) -> bytes | None:
        """Consume the next JSON value.

        Returns:
            Its text, of a value longer than ``limit`` at least the first ``limit`` + 1 bytes;
            None if the text ends before the value does.
        """
        skipper = ValueSkipper()
        kept = b""
        position = 0
        while True:
            position, done = skipper.feed(self.text, position)
            if len(kept) <= limit:
                kept += self.text[:position]
            self.drop(position)
            position = 0
            if done:
                return kept
            if not self.more():
                return None
