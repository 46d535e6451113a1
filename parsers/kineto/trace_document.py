"""Parse the top level of a trace: its list of events and the few other members that are used."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ccltui.parsers.kineto.event_list import Batch, EventList
from ccltui.parsers.kineto.json_text.text_buffer import TextBuffer
from ccltui.parsers.kineto.read_notes import TRUNCATED, NoteLog

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
        "displayTimeUnit",
    }
)


@dataclass(frozen=True, slots=True)
class Member:
    """One of the top-level members in ``WANTED``, as JSON text."""

    key: str
    text: bytes


class Document:
    """Pull parser over text chunks: an iterator of :class:`Batch` and :class:`Member`.

    Attributes:
        rest: The text after the document, where another one may begin; None without any.
        truncated: Whether the text ended, or was corrupt, before the end of the document.
        found_events: Whether the document has a list of events.
    """

    def __init__(
        self, text: Iterator[bytes] | TextBuffer, note_log: NoteLog, scanner: Scanner | None = None
    ) -> None:
        self._buffer = text if isinstance(text, TextBuffer) else TextBuffer(text)
        self.rest: TextBuffer | None = None
        self._note_log = note_log
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
            self._note_log.add(
                "not_json", "the text is not a JSON object or list", self._buffer.offset
            )
            return
        if not self.truncated and (mark := self._buffer.peek()):
            self.rest = self._buffer if mark in (b"{", b"[") else None
            self._note_log.add(
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
                self._note_truncation()
                return

    def _key(self) -> str | None:
        text = self._buffer.value(MAX_MEMBER_BYTES)
        if text is None or self._buffer.peek() != b":":
            if self._buffer.unread:
                self._damaged_top_level()
            else:
                self._note_truncation()
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
            self._note_truncation()
        elif len(text) > limit and key in WANTED:
            self._note_log.add("large_member", f"{key} is too large and was skipped", start)
        elif key in WANTED:
            yield Member(key, text)

    def _events(self) -> Iterator[Batch]:
        self.found_events = True
        events = EventList(self._buffer, self._note_log, self._scanner)
        yield from events
        self.truncated |= events.truncated

    def _note_truncation(self) -> None:
        self._note_log.add(*TRUNCATED, self._buffer.offset)
        self.truncated = True

    def _damaged_top_level(self) -> None:
        self.truncated = True
        self._note_log.add(
            "corrupt_document", "the document is not valid JSON from here on", self._buffer.offset
        )
