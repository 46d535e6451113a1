"""The text of a file as it comes in chunks, looked at from where it was not yet read."""

from __future__ import annotations

from collections.abc import Iterator

from ccltui.parsers.kineto.json_text.json_tokens import ValueSkipper

_SPACE = b" \t\r\n"


class TextBuffer:
    """What is in memory of a text, ``text``; it starts at byte ``offset`` of the document."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self.text = b""
        self.offset = 0

    def more(self, at_least: int = 1) -> bool:
        """Append chunks until ``at_least`` more bytes are there; False at the end of the text."""
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
        """Be done with the first ``count`` bytes."""
        self.text = self.text[count:]
        self.offset += count

    def peek(self) -> bytes:
        """Next byte that is not white space (b"" at the end), everything before it dropped."""
        while True:
            stripped = self.text.lstrip(_SPACE)
            self.drop(len(self.text) - len(stripped))
            if stripped:
                return stripped[:1]
            if not self.more():
                return b""

    def drop_byte_order_mark(self) -> None:
        """Drop the mark with which some editors begin a text."""
        while len(self.text) < 3 and self.more():
            pass
        if self.text.startswith(b"\xef\xbb\xbf"):
            self.drop(3)

    def value(self, limit: int) -> bytes | None:
        """Text of the value that comes next (its first ``limit`` + 1 bytes), None if cut."""
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
