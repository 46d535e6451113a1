"""Find where JSON values end without decoding them.

Hand-written because JSON libraries decode a value only when its end is known or in memory: these
functions find the end of an event that does not decode, the place of damage in it, and the end of
members that are skipped and may be larger than memory.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*+"|[{}\[\],:]|[^ \t\r\n"{}\[\],:]++|"', re.DOTALL)
"""A string, a structural character or a literal; a lone quote opens a string that the text cuts."""

_MOST_NESTED = 10_000
"""Levels of an event that is walked token by token; no decoder accepts as many."""

_STRUCTURE = re.compile(rb'["{}\[\]]')
_STRING_REST = re.compile(rb'(?:[^"\\]|\\.)*+"', re.DOTALL)
_LITERAL = re.compile(rb"-?[0-9][0-9.eE+-]*|true|false|null|NaN|-?Infinity")
_SIGNS = frozenset(b'",:')
_OPEN = {ord("{"): ord("}"), ord("["): ord("]")}


@dataclass(frozen=True, slots=True)
class Extent:
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


@dataclass(slots=True)
class ValueSkipper:
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
