"""Read JSON that is cut, damaged or larger than memory: where values end, and lenient decoding.

Hand-written because JSON libraries decode a value only when its end is known or in memory: these
functions find the end of an event that does not decode, the place of damage in it, and the end of
members that are skipped. `TextBuffer` holds the unread text of a file that arrives in chunks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from typing import Any

from msgspec import Struct, field

TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*+"|[{}\[\],:]|[^ \t\r\n"{}\[\],:]++|"', re.DOTALL)
"""A string, a structural character or a literal; a lone quote opens a string that the text cuts."""

_MOST_NESTED = 10_000
"""Levels of an event that is walked token by token; no decoder accepts as many."""

_STRUCTURE = re.compile(rb'["{}\[\]]')
_STRING_REST = re.compile(rb'(?:[^"\\]|\\.)*+"', re.DOTALL)
_LITERAL = re.compile(rb"-?[0-9][0-9.eE+-]*|true|false|null|NaN|-?Infinity")
_SIGNS = frozenset(b'",:')
_OPEN = {ord("{"): ord("}"), ord("["): ord("]")}


class Extent(Struct, frozen=True):
    """Result of :func:`object_extent`.

    Attributes:
        end: Index after the object; None if the text ends inside it or it is damaged.
        damaged_at: Index of the damage, None without any.
        open_string_at: Index of the quote of a string that the text cuts, None without any.
    """

    end: int | None = None
    damaged_at: int | None = None
    open_string_at: int | None = None


def object_extent(text: bytes, start: int) -> Extent:
    """Return where the object that opens at ``start`` ends, checking that its brackets pair.

    An object that opens in place of a key, or a unresolved word, is damage: text that two processes
    wrote into one file looks like that. So is a value nested deeper than any decoder reads.
    """
    expected: list[int] = []
    previous = b""
    for match in TOKEN.finditer(text, start):
        token = match[0]
        first = token[0]
        if first in _OPEN:
            if expected and expected[-1] == ord("}") and previous != b":":
                return Extent(damaged_at=match.start())
            if len(expected) == _MOST_NESTED:
                return Extent(damaged_at=match.start())
            expected.append(_OPEN[first])
        elif first in (ord("}"), ord("]")):
            if expected.pop() != first:
                return Extent(damaged_at=match.start())
            if not expected:
                return Extent(end=match.end())
        elif token == b'"':
            return Extent(open_string_at=match.start())
        elif first not in _SIGNS and match.end() < len(text) and not _LITERAL.fullmatch(token):
            return Extent(damaged_at=match.start())
        previous = token
    return Extent()


def drop_trailing_commas(text: bytes) -> bytes:
    """Return ``text`` without commas before closing brackets; strings are not changed."""
    kept: list[bytes] = []
    position = 0
    comma: int | None = None
    for match in TOKEN.finditer(text):
        token = match[0]
        if token in (b"}", b"]") and comma is not None:
            kept.append(text[position:comma])
            position = comma + 1
        comma = match.start() if token == b"," else None
    return b"".join(kept) + text[position:]


class ValueSkipper(Struct):
    """State machine that finds the end of a JSON value in pieces of text and stores no text."""

    depth: int = 0
    in_string: bool = False
    started: bool = field(default=False)

    def feed(self, text: bytes, position: int) -> tuple[int, bool]:
        """Scan a piece of text from ``position``.

        Returns:
            The position to continue at, and whether the value ended there.
        """
        while True:
            if self.in_string:
                rest = _STRING_REST.match(text, position)
                if rest is None:
                    return _before_escape(text, position), False
                position, self.in_string = rest.end(), False
                if self.depth == 0:
                    return position, True
            elif self.depth == 0 and not self.started:
                position, done = self._start(text, position)
                if done or position >= len(text):
                    return position, done
            elif self.depth == 0:
                return self._literal(text, position)
            else:
                found = _STRUCTURE.search(text, position)
                if found is None:
                    return len(text), False
                position = found.end()
                if self._mark(found[0]):
                    return position, True

    def _start(self, text: bytes, position: int) -> tuple[int, bool]:
        while position < len(text) and text[position] in b" \t\r\n":
            position += 1
        if position < len(text):
            self.started = True
            first = text[position]
            if first == ord('"'):
                self.in_string = True
                position += 1
            elif first in _OPEN:
                self.depth = 1
                position += 1
        return position, False

    def _literal(self, text: bytes, position: int) -> tuple[int, bool]:
        while position < len(text) and text[position] not in b",}] \t\r\n":
            position += 1
        return position, position < len(text)

    def _mark(self, mark: bytes) -> bool:
        if mark == b'"':
            self.in_string = True
        elif mark in (b"{", b"["):
            self.depth += 1
        else:
            self.depth -= 1
        return self.depth == 0 and not self.in_string


def _before_escape(text: bytes, position: int) -> int:
    """Return the end of ``text``, or the index of a last backslash whose character is missing."""
    cut = len(text)
    backslashes = cut - len(text.rstrip(b"\\"))
    return cut - 1 if backslashes % 2 and cut - 1 >= position else cut


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


LIMIT_NS = 1 << 61
"""Largest time accepted, so that the sum of a time and the base time fits into int64."""


def nanoseconds(microseconds: object) -> int | None:
    """Return the nanoseconds of a JSON number (int, or the text of a float), None if unusable.

    More than three decimals round half away from zero. The text is never converted to a double,
    which would be off by up to 253 ns at today's epoch.
    """
    value: int | None
    if isinstance(microseconds, int):
        value = None if isinstance(microseconds, bool) else microseconds * 1000
    elif isinstance(microseconds, str):
        whole, _, fraction = microseconds.partition(".")
        try:
            value = int(whole + fraction) if len(fraction) == 3 else _rounded(microseconds)
        except ValueError:
            value = _rounded(microseconds)
    else:
        return None
    return value if value is not None and -LIMIT_NS < value < LIMIT_NS else None


def is_late(microseconds: object) -> bool:
    """Whether a value is a number of microseconds beyond ``LIMIT_NS``, as nanoseconds are."""
    if isinstance(microseconds, bool) or not isinstance(microseconds, int | str):
        return False
    try:
        return Decimal(microseconds) * 1000 >= LIMIT_NS
    except (InvalidOperation, ValueError):
        return False


def _rounded(text: str) -> int | None:
    try:
        number = Decimal(text)
        if not number.is_finite() or number.adjusted() > 25:
            return None
        return int((number * 1000).quantize(Decimal(1), rounding=ROUND_HALF_UP))
    except InvalidOperation:
        return None


_SURROGATE = re.compile("[\ud800-\udfff]")
_REPLACEMENT = "\ufffd"


def lenient_json(text: bytes) -> Any:
    """Decode ``text``; floats, NaN and integers too long for Python are returned as text.

    Bytes that are not UTF-8 and lone surrogates become U+FFFD.

    Raises:
        ValueError: The text cannot be decoded.
        RecursionError: The text is nested too deeply.
    """
    decoded = drop_trailing_commas(text).decode("utf-8", "replace")
    value = json.loads(
        decoded, strict=False, parse_float=str, parse_int=_integer, parse_constant=str
    )
    return _with_valid_text(value)


def _integer(text: str) -> int | str:
    """Return an integer, or its text where it has more digits than Python converts."""
    try:
        return int(text)
    except ValueError:
        return text


def _with_valid_text(value: Any) -> Any:
    """Return ``value`` with lone surrogates replaced, so that every string can be encoded."""
    if isinstance(value, str):
        return _SURROGATE.sub(_REPLACEMENT, value)
    if isinstance(value, list):
        return [_with_valid_text(item) for item in value]
    if isinstance(value, dict):
        return {_with_valid_text(key): _with_valid_text(item) for key, item in value.items()}
    return value
