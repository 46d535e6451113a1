"""Read a trace document: its list of events in batches of complete, decoded events, and notes.

With the compiled scanner a batch is what one scan of the buffer leaves to the general decoder.
Without it, the buffer is cut before its last ``}, {`` and decoded whole. A prefix of a list that
decodes is a list of complete values, so a cut at a wrong place (inside a string or a nested list)
fails to decode. Text that does not decode is read token by token, event by event.

Hand-written because json, orjson and msgspec need the whole document in memory. ijson with yajl
streams as well, but on a 56 MB trace it takes 1.2 times the CPU time of this reader, columns
included, and 8 times that of the compiled scanner, only to build dictionaries.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from ccltui.parsers.columns import Note
from ccltui.parsers.kineto.scanner.typed_event import (
    DECODE_ERRORS,
    NODE,
    Event,
    batch_decoder,
    decode_lenient,
    event_decoder,
    reads_nodes,
)
from ccltui.parsers.text.json_text import Extent, TextBuffer, object_extent

if TYPE_CHECKING:
    from ccltui.parsers.kineto.scanner.typed_event import Scanner


TRUNCATED: Final = ("truncated_trace", "the file ends in the middle of the document")


class NoteLog:
    """Notes by code: a count, and the smallest offset at which the code occurred."""

    def __init__(self) -> None:
        self._notes: dict[str, Note] = {}

    def add(self, code: str, message: str, offset: int | None, count: int = 1) -> None:
        """Add ``count`` occurrences of ``code``, the first at byte ``offset`` (None: unknown)."""
        known = self._notes.get(code)
        if known is not None:
            count += known.count
            if offset is None or (known.offset is not None and known.offset <= offset):
                message, offset = known.message, known.offset
        self._notes[code] = Note(code=code, message=message, offset=offset, count=count)

    @property
    def notes(self) -> tuple[Note, ...]:
        """All notes by offset; those without an offset come last."""
        notes = self._notes.values()
        return tuple(sorted(notes, key=lambda n: (n.offset is None, n.offset or 0, n.code)))


MAX_EVENT_BYTES = 64 << 20
_SEPARATORS = re.compile(rb"[ \t\r\n,]*")
_EVENT_BORDER = re.compile(rb"\}[ \t\r\n]*,[ \t\r\n]*\{")
_EVENT_START = re.compile(rb'\{\s*+(?:"name"\s*+:\s*+"(?:[^"\\]|\\.)*+"\s*+,\s*+)?"ph"\s*+:')
_CUT_ATTEMPTS = 3
_MAX_BORDERLESS_BYTES = 4 << 20  # how much text without a border between events is buffered
_MARGIN_BYTES = 4096  # kept while searching, to find the start of an event cut by a chunk


class Batch(Struct):
    """Complete events in file order.

    Attributes:
        events: The decoded events.
        offset: Byte of the document where ``text`` starts.
        text: The text of the events.
        offsets: Byte of the document where each event starts; None where the batch was decoded
            whole.
        ordinals: Index of each event among all events of the scan; None without the scanner.
    """

    events: list[Event]
    offset: int
    text: bytes
    offsets: list[int] | None = None
    ordinals: list[int] | None = None

    def offset_of(self, index: int) -> int:
        """Return the byte of the document where event ``index`` starts."""
        if self.offsets is None:
            self.offsets = list(self._starts())
        return self.offsets[index]

    def _starts(self) -> Iterator[int]:
        end: int | None = 0
        for _ in self.events:
            position = self.text.index(b"{", end)
            yield self.offset + position
            end = object_extent(self.text, position).end


class EventList:
    """Iterator of `Batch` over a list whose ``[`` was consumed; it consumes the ``]`` too.

    ``truncated`` is set when the text ends before the list does.
    """

    _decoded_singly_up_to = 0  # byte of the document: the text before it holds no batch

    def __init__(self, buffer: TextBuffer, note_log: NoteLog, scanner: Scanner | None) -> None:
        self._buffer = buffer
        self._note_log = note_log
        self._scanner = scanner
        self._reads_nodes = scanner is None or reads_nodes()
        self.truncated = False

    def __iter__(self) -> Iterator[Batch]:
        while True:
            mark = self._buffer.peek()
            if mark == b",":
                self._buffer.drop(1)
            elif mark == b"]":
                self._buffer.drop(1)
                return
            elif mark == b"":
                self._note_truncation()
                return
            elif mark == b"{":
                batch = self._next_batch()
                if batch is not None:
                    yield batch
            else:
                self._skip_non_object()

    def _next_batch(self) -> Batch | None:
        if self._scanner is not None and not self._has_unread_nodes():
            return self._scanned_batch(self._scanner)
        if self._buffer.offset < self._decoded_singly_up_to:
            return self._decode_one_by_one()
        start = self._buffer.start
        cut = len(self._buffer.text)
        for _ in range(_CUT_ATTEMPTS):
            cut = _last_event_end(self._buffer.text, start, cut)
            if cut < 0:
                break
            text = self._buffer.text[start : cut + 1]
            try:
                events = batch_decoder.decode(b"[%b]" % text)
            except DECODE_ERRORS:
                continue
            batch = Batch(events, self._buffer.offset, text)
            self._buffer.drop(len(text))
            return batch
        unread = self._buffer.unread
        if cut < 0 and unread < _MAX_BORDERLESS_BYTES and self._buffer.more(unread):
            return None
        # What fails to decode must not be tried again as a whole after each of its events.
        self._decoded_singly_up_to = self._buffer.offset + self._buffer.unread
        return self._decode_one_by_one()

    def _has_unread_nodes(self) -> bool:
        """Whether the buffer has nodes of graphs, and the compiled scanner is too old for them."""
        return not self._reads_nodes and self._buffer.text.find(NODE, self._buffer.start) >= 0

    def _scanned_batch(self, scanner: Scanner) -> Batch | None:
        """Run the compiled scanner; return the events that it leaves to the decoder."""
        done = scanner.scan(self._buffer.text, self._buffer.start)
        if done:
            spans = scanner.take_spans()
            events, offsets, ordinals = self._decode_spans(spans)
            batch = Batch(events, self._buffer.offset, b"", offsets, ordinals)
            self._buffer.drop(done)
            return batch
        unread = self._buffer.unread
        if scanner.ended_inside and unread <= MAX_EVENT_BYTES and self._buffer.more(unread):
            return None
        return self._decode_one_by_one(limit=1)

    def _decode_spans(
        self, spans: list[tuple[int, int, int]]
    ) -> tuple[list[Event], list[int], list[int]]:
        """Decode spans of the unread text.

        Returns:
            The events, their byte offsets in the document, and their ordinals in the scan.
        """
        base = self._buffer.start
        texts = [self._buffer.text[base + start : base + end] for start, end, _ in spans]
        decoded: list[Event | None]
        try:
            decoded = list(batch_decoder.decode(b"[%b]" % b",".join(texts)))
        except DECODE_ERRORS:
            decoded = [
                self._decode_single(text, start)
                for text, (start, _, _) in zip(texts, spans, strict=True)
            ]
        kept = [
            (event, self._buffer.offset + start, ordinal)
            for event, (start, _, ordinal) in zip(decoded, spans, strict=True)
            if event is not None
        ]
        return [e for e, _, _ in kept], [o for _, o, _ in kept], [n for _, _, n in kept]

    def _decode_one_by_one(self, limit: int | None = None) -> Batch | None:
        """Decode complete events one by one, up to ``limit``, damage or the end of the list."""
        events: list[Event] = []
        offsets: list[int] = []
        text, start, offset = self._buffer.text, self._buffer.start, self._buffer.offset
        position = start
        extent = Extent()
        while True:
            position = _SEPARATORS.match(text, position).end()  # type: ignore[union-attr]
            if text[position : position + 1] != b"{" or len(offsets) == limit:
                break
            extent = object_extent(text, position)
            if extent.end is None:
                break
            event = self._decode_single(text[position : extent.end], position - start)
            if event is not None:
                events.append(event)
                offsets.append(offset + position - start)
            position = extent.end
        batch = Batch(events, offset, text[start:position], offsets)
        damage = None if extent.damaged_at is None else extent.damaged_at - position
        self._buffer.drop(position - start)
        if damage is not None:
            self._resynchronise(damage)
        elif position == start and self._buffer.peek() == b"{":
            self._read_rest_of_event(extent)
        return batch if events else None

    def _decode_single(self, text: bytes, position: int) -> Event | None:
        try:
            return event_decoder.decode(text)
        except DECODE_ERRORS:
            event = decode_lenient(text)
        offset = self._buffer.offset + position
        if event is None:
            self._note_log.add("malformed_event", "an event is not valid JSON", offset)
        else:
            self._note_log.add(
                "repaired_event", "an event is not strict JSON and was read leniently", offset
            )
        return event

    def _read_rest_of_event(self, extent: Extent) -> None:
        """Read more of an event that the buffer cuts, or note that the event never ends."""
        if self._buffer.unread > MAX_EVENT_BYTES:
            self._resynchronise(1)
        elif not self._buffer.more(self._buffer.unread):
            opened = extent.open_string_at
            next_event = None if opened is None else _EVENT_START.search(self._buffer.text, opened)
            if next_event is not None:
                self._resynchronise(next_event.start() - self._buffer.start)
            else:
                self._note_truncation()
                self._buffer.drop(self._buffer.unread)

    def _resynchronise(self, damage: int) -> None:
        """Drop text, at least up to ``damage``, up to the next possible start of an event."""
        message = "text that is not a valid event was skipped"
        self._note_log.add("malformed_event", message, self._buffer.offset + damage)
        self._buffer.drop(max(damage, 1))
        while True:
            found = _EVENT_START.search(self._buffer.text, self._buffer.start)
            if found is not None:
                self._buffer.drop(found.start() - self._buffer.start)
                return
            self._buffer.drop(max(self._buffer.unread - _MARGIN_BYTES, 0))
            if not self._buffer.more():
                self._buffer.drop(self._buffer.unread)
                return

    def _skip_non_object(self) -> None:
        message = "an element of the event list is not an object"
        self._note_log.add("not_an_event", message, self._buffer.offset)
        before = self._buffer.offset
        self._buffer.value(0)
        if self._buffer.offset == before:
            self._buffer.drop(1)

    def _note_truncation(self) -> None:
        if not self.truncated:  # the end of the text cuts an event and its list: one note
            self._note_log.add(*TRUNCATED, self._buffer.offset)
        self.truncated = True


def _last_event_end(text: bytes, first: int, before: int) -> int:
    """Return the index of the ``}`` of the last ``}, {`` from ``first`` to ``before``, or -1."""
    window = 4096
    start = before
    while start > first:
        start = max(start - window, first)
        last = None
        for match in _EVENT_BORDER.finditer(text, start, before):
            last = match
        if last is not None:
            return last.start()
        window *= 4
    return -1


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


class Member(Struct, frozen=True):
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
