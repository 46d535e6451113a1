"""The top-level keys of a JSON text that may be cut off or damaged, without loading values."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Literal

from msgspec import Struct

from ccltui.parsers.system.quick_dataclass import dataclass

_BLANK = re.compile(rb"[ \t\r\n]*+")
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_SCALAR = re.compile(rb"[^\s,:\[\]{}\"]++")
# A quote that does not close is a match of its own: the text ends inside that string.
# All between is skipped by one match: foreign documents have thousands of strings.
_STRUCTURE = re.compile(
    rb'[^"{}\[\]]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"[^"{}\[\]]*+)*+(["{}\[\]])', re.DOTALL
)
_INTEGER = re.compile(rb'"?\s*([0-9]{1,7})(?:\.0*)?\s*"?')
_OPENING, _CLOSING = b"{[", b"}]"

State = Literal["complete", "cut", "broken"]


@dataclass(frozen=True, slots=True)
class Member:
    """A key and the bytes of its value; ``end`` is None when the text stops inside it."""

    key: str
    start: int
    end: int | None


class Shape(Struct, frozen=True):
    """Members of one object in order, and where and why the walk ended."""

    members: tuple[Member, ...]
    state: State
    end: int

    def find(self, key: str) -> Member | None:
        """The first member of that name."""
        return next((member for member in self.members if member.key == key), None)

    @property
    def keys(self) -> frozenset[str]:
        """The names of all members seen."""
        return frozenset(member.key for member in self.members)


def skip_blank(text: bytes, start: int = 0) -> int:
    """Index of the first byte that is no JSON white space (nor a byte order mark)."""
    if start == 0 and text.startswith(b"\xef\xbb\xbf"):
        start = 3
    match = _BLANK.match(text, start)
    return match.end() if match else start


def object_shape(text: bytes, start: int = 0, stop_at: Collection[str] = ()) -> Shape:
    """Walk the object that opens at ``start``; stop before the value of a key in ``stop_at``.

    "cut": the text ends before the object does (also after such a stop). "broken": what follows
    is no JSON object; the members before it are kept.
    """
    members: list[Member] = []
    position = skip_blank(text, start)
    if text[position : position + 1] != b"{":
        return Shape((), "broken" if position < len(text) else "cut", position)
    position += 1
    while True:
        position = skip_blank(text, position)
        token = text[position : position + 1]
        if token == b"}":
            return Shape(tuple(members), "complete", position + 1)
        if token == b",":
            position += 1
            continue
        if not token:
            return Shape(tuple(members), "cut", position)
        key = _STRING.match(text, position)
        if key is None:
            return Shape(tuple(members), "cut" if token == b'"' else "broken", position)
        position = skip_blank(text, key.end())
        if text[position : position + 1] != b":":
            return Shape(tuple(members), "broken" if position < len(text) else "cut", position)
        position = skip_blank(text, position + 1)
        name = key.group()[1:-1].decode("utf-8", "replace")
        end = None if name in stop_at else value_end(text, position)
        members.append(Member(name, position, end))
        if end is None:
            return Shape(tuple(members), "cut", position)
        if end == position:
            return Shape(tuple(members), "broken", position)
        position = end


def value_end(text: bytes, start: int) -> int | None:
    """One past the value that opens at ``start``, None when the text stops inside it."""
    first = text[start : start + 1]
    if not first:
        return None
    if first == b'"':
        string = _STRING.match(text, start)
        return string.end() if string else None
    if first in _OPENING:
        return _container_end(text, start)
    scalar = _SCALAR.match(text, start)
    if scalar is None:
        return start
    return scalar.end() if scalar.end() < len(text) else None


def _container_end(text: bytes, start: int) -> int | None:
    depth = 0
    for match in _STRUCTURE.finditer(text, start):
        token = match[1]
        if token in _OPENING:
            depth += 1
        elif token in _CLOSING:
            depth -= 1
            if depth == 0:
                return match.end()
        elif token == b'"':
            return None
    return None


def integer_at(text: bytes, member: Member | None) -> int | None:
    """A whole number that is not negative, bare or in quotes; None for anything else."""
    if member is None or member.end is None:
        return None
    match = _INTEGER.fullmatch(text, member.start, member.end)
    return int(match.group(1)) if match else None
