"""Cut the text of a trace into batches of events and the few other members that matter.

Fast way: a chunk is cut before its last ``}, {`` and decoded whole. A prefix of a list
that decodes is a list of complete values, so a wrong cut (inside a string or a nested
list) cannot pass. What does not decode is walked token by token, event by event.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from parsers.columns import Note
from parsers.kineto.event import (
    DECODE_ERRORS,
    Event,
    batch_decoder,
    decode_lenient,
    event_decoder,
)
from parsers.kineto.tokens import Extent, ValueSkipper, object_extent

if TYPE_CHECKING:
    from parsers.kineto.accelerator import Scanner

MAX_EVENT_BYTES = 64 << 20
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
_SPACE = b" \t\r\n"
_SEPARATORS = re.compile(rb"[ \t\r\n,]*")
_BETWEEN = re.compile(rb"\}[ \t\r\n]*,[ \t\r\n]*\{")
_EVENT_START = re.compile(rb'\{\s*(?:"name"\s*:\s*"(?:[^"\\]|\\.)*"\s*,\s*)?"ph"\s*:')
_CUT_ATTEMPTS = 3
_PATIENCE_BYTES = 4 << 20  # text without a border between events: read on up to here
_MARGIN_BYTES = 4096  # kept while searching, so that a start cut by a chunk is still found


@dataclass(frozen=True, slots=True)
class Batch:
    """Complete events in file order; ``text`` starts at byte ``offset`` of the document."""

    events: list[Event]
    offset: int
    text: bytes
    offsets: list[int] | None = None  # known where the events were cut one by one
    ordinals: list[int] | None = None  # place of the events among those that were scanned

    def offset_of(self, index: int) -> int:
        """Byte of the document where event ``index`` starts."""
        if self.offsets is not None:
            return self.offsets[index]
        position = self.text.index(b"{")
        for _ in range(index):
            end = object_extent(self.text, position).end
            position = self.text.index(b"{", end)
        return self.offset + position


@dataclass(frozen=True, slots=True)
class Member:
    """A wanted top-level member of the document, as text."""

    key: str
    text: bytes


class Notebook:
    """Counts what was dropped or repaired, with the place nearest to the start of each kind."""

    def __init__(self) -> None:
        self._notes: dict[str, Note] = {}

    def add(self, code: str, message: str, offset: int | None, count: int = 1) -> None:
        """``count`` more of ``code``, the first of them at ``offset``."""
        known = self._notes.get(code)
        if known is not None:
            count += known.count
            if offset is None or (known.offset is not None and known.offset <= offset):
                message, offset = known.message, known.offset
        self._notes[code] = Note(code=code, message=message, offset=offset, count=count)

    @property
    def notes(self) -> tuple[Note, ...]:
        """All notes in the order of their places; those of the whole file come last."""
        notes = self._notes.values()
        return tuple(sorted(notes, key=lambda n: (n.offset is None, n.offset or 0, n.code)))


class Document:
    """Pull parser over text chunks. Iterate for :class:`Batch` and :class:`Member`."""

    def __init__(
        self, chunks: Iterator[bytes], notebook: Notebook, scanner: Scanner | None = None
    ) -> None:
        self._chunks = chunks
        self._notebook = notebook
        self._scanner = scanner
        self._text = b""
        self._base = 0  # offset of _text[0] in the document
        self.truncated = False
        self.found_events = False

    def __iter__(self) -> Iterator[Batch | Member]:
        self._strip_byte_order_mark()
        first = self._peek()
        if first == b"[":
            self._drop(1)
            yield from self._events()
        elif first == b"{":
            self._drop(1)
            yield from self._members()
        elif first:
            self._notebook.add("not_json", "the text is not a JSON object or list", self._base)
            return
        if not self.truncated and self._peek():
            self._notebook.add(
                "trailing_data", "text after the end of the document is ignored", self._base
            )

    # the buffer ---------------------------------------------------------------

    def _more(self, at_least: int = 1) -> bool:
        """Append chunks until ``at_least`` more bytes are there; False at the end of the text."""
        parts = [self._text]
        gained = 0
        while gained < at_least:
            chunk = next(self._chunks, None)
            if chunk is None:
                break
            parts.append(chunk)
            gained += len(chunk)
        if gained:
            self._text = b"".join(parts)
        return gained > 0

    def _drop(self, count: int) -> None:
        self._text = self._text[count:]
        self._base += count

    def _peek(self) -> bytes:
        """Next byte that is not white space (b"" at the end), everything before it dropped."""
        while True:
            stripped = self._text.lstrip(_SPACE)
            self._drop(len(self._text) - len(stripped))
            if stripped:
                return stripped[:1]
            if not self._more():
                return b""

    def _strip_byte_order_mark(self) -> None:
        while len(self._text) < 3 and self._more():
            pass
        if self._text.startswith(b"\xef\xbb\xbf"):
            self._drop(3)

    # top level ----------------------------------------------------------------

    def _members(self) -> Iterator[Batch | Member]:
        while True:
            mark = self._peek()
            if mark == b",":
                self._drop(1)
            elif mark == b"}":
                self._drop(1)
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
        text = self._value(MAX_MEMBER_BYTES)
        if text is None or self._peek() != b":":
            if self._text:
                self._damaged_top_level()
            else:
                self._cut_off()
            return None
        self._drop(1)
        return text[1:-1].decode("utf-8", "replace")

    def _member(self, key: str) -> Iterator[Batch | Member]:
        mark = self._peek()
        if key == "traceEvents" and mark == b"[":
            self._drop(1)
            yield from self._events()
            return
        limit = MAX_MEMBER_BYTES if key in WANTED else 0
        start = self._base
        text = self._value(limit)
        if text is None:
            self._cut_off()
        elif len(text) > limit and key in WANTED:
            self._notebook.add("large_member", f"{key} is too large and was skipped", start)
        elif key in WANTED:
            yield Member(key, text)

    def _value(self, limit: int) -> bytes | None:
        """Text of the value that comes next (its first ``limit`` + 1 bytes), None if cut."""
        skipper = ValueSkipper()
        kept = b""
        position = 0
        while True:
            position, done = skipper.feed(self._text, position)
            if len(kept) <= limit:
                kept += self._text[:position]
            self._drop(position)
            position = 0
            if done:
                return kept
            if not self._more():
                return None

    def _cut_off(self) -> None:
        if not self.truncated:  # several levels meet the one end
            self._notebook.add(
                "truncated_trace", "the file ends in the middle of the document", self._base
            )
        self.truncated = True

    def _damaged_top_level(self) -> None:
        self.truncated = True
        self._notebook.add(
            "corrupt_document", "the document is not valid JSON from here on", self._base
        )

    # events -------------------------------------------------------------------

    def _events(self) -> Iterator[Batch]:
        self.found_events = True
        while True:
            mark = self._peek()
            if mark == b",":
                self._drop(1)
            elif mark == b"]":
                self._drop(1)
                return
            elif mark == b"":
                self._cut_off()
                return
            elif mark == b"{":
                batch = self._next_batch()
                if batch is not None:
                    yield batch
            else:
                self._skip_foreign()

    def _next_batch(self) -> Batch | None:
        if self._scanner is not None:
            return self._scanned_batch(self._scanner)
        cut = len(self._text)
        for _ in range(_CUT_ATTEMPTS):
            cut = _last_border(self._text, cut)
            if cut < 0:
                break
            text = self._text[: cut + 1]
            try:
                events = batch_decoder.decode(b"[%b]" % text)
            except DECODE_ERRORS:
                continue
            batch = Batch(events, self._base, text)
            self._drop(cut + 1)
            return batch
        no_border = cut < 0 and len(self._text) < _PATIENCE_BYTES
        if no_border and self._more(len(self._text)):
            return None
        return self._walk()

    def _scanned_batch(self, scanner: Scanner) -> Batch | None:
        """What the compiled scanner takes, and the events it leaves to the decoder."""
        done = scanner.scan(self._text)
        if done:
            spans = scanner.take_spans()
            events, offsets, ordinals = self._decode_spans(spans)
            batch = Batch(events, self._base, b"", offsets, ordinals)
            self._drop(done)
            return batch
        small = len(self._text) <= MAX_EVENT_BYTES
        if scanner.ended_inside and small and self._more(len(self._text)):
            return None
        return self._walk(limit=1)

    def _decode_spans(
        self, spans: list[tuple[int, int, int]]
    ) -> tuple[list[Event], list[int], list[int]]:
        """Events of spans of the buffer, their offsets and their places among the scanned."""
        texts = [self._text[start:end] for start, end, _ in spans]
        decoded: list[Event | None]
        try:
            decoded = list(batch_decoder.decode(b"[%b]" % b",".join(texts)))
        except DECODE_ERRORS:
            decoded = [
                self._decode_single(text, start)
                for text, (start, _, _) in zip(texts, spans, strict=True)
            ]
        kept = [
            (event, self._base + start, ordinal)
            for event, (start, _, ordinal) in zip(decoded, spans, strict=True)
            if event is not None
        ]
        return [e for e, _, _ in kept], [o for _, o, _ in kept], [n for _, _, n in kept]

    def _walk(self, limit: int | None = None) -> Batch | None:
        """Complete events of the buffer, one by one, up to ``limit``, damage or the list's end."""
        events: list[Event] = []
        offsets: list[int] = []
        position = 0
        extent = Extent()
        while True:
            position = _SEPARATORS.match(self._text, position).end()  # type: ignore[union-attr]
            if self._text[position : position + 1] != b"{" or len(offsets) == limit:
                break
            extent = object_extent(self._text, position)
            if extent.end is None:
                break
            event = self._decode_single(self._text[position : extent.end], position)
            if event is not None:
                events.append(event)
                offsets.append(self._base + position)
            position = extent.end
        batch = Batch(events, self._base, self._text[:position], offsets)
        damage = None if extent.damaged_at is None else extent.damaged_at - position
        self._drop(position)
        if damage is not None:
            self._resynchronise(damage)
        elif position == 0 and self._peek() == b"{":
            self._complete_event(extent)
        return batch if events else None

    def _decode_single(self, text: bytes, position: int) -> Event | None:
        try:
            return event_decoder.decode(text)
        except DECODE_ERRORS:
            event = decode_lenient(text)
        offset = self._base + position
        if event is None:
            self._notebook.add("malformed_event", "an event is not valid JSON", offset)
        else:
            self._notebook.add(
                "repaired_event", "an event is not strict JSON and was read leniently", offset
            )
        return event

    def _complete_event(self, extent: Extent) -> None:
        """The buffer holds the beginning of one event: read on, or see that it never ends."""
        if len(self._text) > MAX_EVENT_BYTES:
            self._resynchronise(1)
        elif not self._more(len(self._text)):
            opened = extent.open_string_at
            swallowed = None if opened is None else _EVENT_START.search(self._text, opened)
            if swallowed is not None:
                self._resynchronise(swallowed.start())
            else:
                self._cut_off()
                self._drop(len(self._text))

    def _resynchronise(self, damage: int) -> None:
        """Drop text, at least up to ``damage``, until something looks like an event again."""
        message = "text that is no valid event was skipped"
        self._notebook.add("malformed_event", message, self._base + damage)
        self._drop(max(damage, 1))
        while True:
            found = _EVENT_START.search(self._text)
            if found is not None:
                self._drop(found.start())
                return
            self._drop(max(len(self._text) - _MARGIN_BYTES, 0))
            if not self._more():
                self._drop(len(self._text))
                return

    def _skip_foreign(self) -> None:
        message = "an element of the event list is no object"
        self._notebook.add("not_an_event", message, self._base)
        before = self._base
        self._value(0)
        if self._base == before:
            self._drop(1)


def _last_border(text: bytes, before: int) -> int:
    """Index of the last ``}`` of a ``}, {`` that lies wholly before ``before``, -1 if none."""
    window = 4096
    start = before
    while start > 0:
        start = max(start - window, 0)
        last = None
        for match in _BETWEEN.finditer(text, start, before):
            last = match
        if last is not None:
            return last.start()
        window *= 4
    return -1
