"""The top level of a trace: its list of events, and the few other members that matter."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ccltui.parsers.kineto.event_list import Batch, EventList
from ccltui.parsers.kineto.json_text.text_buffer import TextBuffer
from ccltui.parsers.kineto.read_notes import CUT_OFF, Notebook

if TYPE_CHECKING:
    from ccltui.parsers.kineto.scanner.accelerator import Scanner

MAX_MEMBER_BYTES = 64 << 20
WANTED = frozenset(
    {
        "distributedInfo",
        "deviceProperties",
        "computeProperties",
        "baseTimeNanoseconds",
        "host_name",
    }
)


@dataclass(frozen=True, slots=True)
class Member:
    """A wanted top-level member of the document, as text."""

    key: str
    text: bytes


class Document:
    """Pull parser over text chunks. Iterate for :class:`Batch` and :class:`Member`."""

    def __init__(
        self, chunks: Iterator[bytes], notebook: Notebook, scanner: Scanner | None = None
    ) -> None:
        self._buffer = TextBuffer(chunks)
        self._notebook = notebook
        self._scanner = scanner
        self.truncated = False
        self.found_events = False

    def __iter__(self) -> Iterator[Batch | Member]:
        self._buffer.drop_byte_order_mark()
        first = self._buffer.peek()
        if first == b"[":
            self._buffer.drop(1)
            yield from self._events()
        elif first == b"{":
            self._buffer.drop(1)
            yield from self._members()
        elif first:
            self._notebook.add(
                "not_json", "the text is not a JSON object or list", self._buffer.offset
            )
            return
        if not self.truncated and self._buffer.peek():
            self._notebook.add(
                "trailing_data",
                "text after the end of the document is ignored",
                self._buffer.offset,
            )

    def _members(self) -> Iterator[Batch | Member]:
        while True:
            mark = self._buffer.peek()
            if mark == b",":
                self._buffer.drop(1)
            elif mark == b"}":
                self._buffer.drop(1)
                return
            elif mark == b'"':
                key = self._key()
                if key is None:
                    return
                yield from self._member(key)
                if self.truncated:
                    return
            elif mark:
                self._damaged_top_level()
                return
            else:
                self._cut_off()
                return

    def _key(self) -> str | None:
        text = self._buffer.value(MAX_MEMBER_BYTES)
        if text is None or self._buffer.peek() != b":":
            if self._buffer.text:
                self._damaged_top_level()
            else:
                self._cut_off()
            return None
        self._buffer.drop(1)
        return text[1:-1].decode("utf-8", "replace")

    def _member(self, key: str) -> Iterator[Batch | Member]:
        mark = self._buffer.peek()
        if key == "traceEvents" and mark == b"[":
            self._buffer.drop(1)
            yield from self._events()
            return
        limit = MAX_MEMBER_BYTES if key in WANTED else 0
        start = self._buffer.offset
        text = self._buffer.value(limit)
        if text is None:
            self._cut_off()
        elif len(text) > limit and key in WANTED:
            self._notebook.add("large_member", f"{key} is too large and was skipped", start)
        elif key in WANTED:
            yield Member(key, text)

    def _events(self) -> Iterator[Batch]:
        self.found_events = True
        events = EventList(self._buffer, self._notebook, self._scanner)
        yield from events
        self.truncated |= events.truncated

    def _cut_off(self) -> None:
        self._notebook.add(*CUT_OFF, self._buffer.offset)
        self.truncated = True

    def _damaged_top_level(self) -> None:
        self.truncated = True
        self._notebook.add(
            "corrupt_document", "the document is not valid JSON from here on", self._buffer.offset
        )
