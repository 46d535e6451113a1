"""JSON tokens, just enough to find where a value ends without decoding it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*+"|[{}\[\],:]|[^ \t\r\n"{}\[\],:]++|"', re.DOTALL)
"""A string, a mark, a literal; a lone quote is a string that the text cuts."""

_STRUCTURE = re.compile(rb'["{}\[\]]')
_STRING_REST = re.compile(rb'(?:[^"\\]|\\.)*+"', re.DOTALL)
_LITERAL = re.compile(rb"-?[0-9][0-9.eE+-]*|true|false|null|NaN|-?Infinity")
_SIGNS = frozenset(b'",:')
_OPEN = {ord("{"): ord("}"), ord("["): ord("]")}


@dataclass(frozen=True, slots=True)
class Extent:
    """Outcome of :func:`object_extent`: ``end`` (past the object), or the place of damage.

    Both None: the text ends inside the object, perhaps in a string that opened at
    ``open_string_at``.
    """

    end: int | None = None
    damaged_at: int | None = None
    open_string_at: int | None = None


def object_extent(text: bytes, start: int) -> Extent:
    """Where the object that opens at ``start`` ends, checking that its brackets pair.

    An object that opens where a key must stand, or a bare word, is damage at that place:
    that is how two writers in one file look.
    """
    expected: list[int] = []
    previous = b""
    for match in TOKEN.finditer(text, start):
        token = match[0]
        first = token[0]
        if first in _OPEN:
            if expected and expected[-1] == ord("}") and previous != b":":
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
    """``text`` without commas that stand before a closing bracket, strings untouched."""
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
    """Finds the end of any JSON value that comes in pieces, keeping nothing of it."""

    depth: int = 0
    in_string: bool = False
    started: bool = field(default=False)

    def feed(self, text: bytes, position: int) -> tuple[int, bool]:
        """Scan from ``position``: (next position, whether the value ended there)."""
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
    """End of ``text``, or just before a backslash that the piece cuts from its character."""
    cut = len(text)
    backslashes = cut - len(text.rstrip(b"\\"))
    return cut - 1 if backslashes % 2 and cut - 1 >= position else cut
