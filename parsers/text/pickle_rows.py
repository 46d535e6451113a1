"""Dictionaries of equal form in a pickle, one after the other, as rows of a few of their values.

A list of a million events is a million dictionaries with the same keys. Built one opcode after the
other they cost some 20 us and 400 bytes each; matched by a regular expression that is made of the
form of one of them, 2 us and nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

from msgspec import Struct

Take = Callable[[tuple[Any, ...]], None]
"""Takes the values of the fields of one dictionary; None for those that it lacks."""
_GET: Final = rb"(?:h.|j.{4})"
_LONG: Final = rb"|".join(rb"\x%02x.{%d}" % (size, size) for size in range(1, 9))
_INTEGER: Final = rb"(?:K.|M..|J.{4}|\x8a(?:" + _LONG + rb"))"
_GETS: Final = rb"\((?:h.|j.{4})+e"
_FORMS: Final = tuple(
    (re.compile(form, re.DOTALL), puts)
    for form, puts in (
        (_GET, 0),
        (_INTEGER + _INTEGER + rb"\x86\x94", 1),
        (_INTEGER + _INTEGER + rb"\x86", 0),
        (_INTEGER, 0),
        (rb"[N\x88\x89]", 0),
        (rb"G.{8}", 0),
        (rb"\]\x94" + _GETS, 1),
        (rb"\]" + _GETS, 0),
        (rb"\]\x94" + _GET + rb"a", 1),
        (rb"\]" + _GET + rb"a", 0),
        (rb"\]\x94", 1),
        (rb"\]", 0),
    )
)
"""Forms of a value, and how many values each puts into the memo: one from the memo, a pair of
integers, an integer, a constant, a float, a list of values from the memo. The first that fits is
taken: what follows a value is a key from the memo, with which no longer form begins."""
_START: Final = re.compile(rb"\}(\x94?)\(", re.DOTALL)
_KEY: Final = re.compile(_GET, re.DOTALL)
_MOST_KEYS: Final = 32


class Rows(Protocol):
    """What a reader does with the dictionaries of some lists, instead of keeping them."""

    @property
    def key(self) -> str:
        """Key of the outermost dictionary; of its value, a list of lists, the inner are taken."""

    @property
    def fields(self) -> tuple[str, ...]:
        """Fields of a row, in its order."""

    def begin(self, target: list[Any]) -> Take:
        """Return what takes the rows of a list, which itself stays empty."""


class Layout(Struct, frozen=True):
    """The form of a dictionary: what matches one, its groups in the order of the fields.

    ``places`` has the group of each field, None where there is none; ``puts`` is the number of
    values that it puts into the memo.
    """

    pattern: re.Pattern[bytes]
    places: tuple[int | None, ...]
    puts: int


def layout_of(raw: bytes, memo: Mapping[int, Any], fields: Sequence[str]) -> Layout | None:
    """Return the form of one dictionary, None where it holds anything but the forms of values.

    Args:
        raw: The bytes of one dictionary and of nothing else.
        memo: Values by memo index; the keys are among them.
        fields: Fields that are to be taken.
    """
    start = _START.match(raw)
    if start is None:
        return None
    parts, puts, at = [re.escape(start[0])], len(start[1]), start.end()
    groups: dict[str, int] = {}
    keys: set[Any] = set()
    while raw[at : at + 1] != b"u":
        found = _KEY.match(raw, at)
        key = None if found is None else memo.get(index_of(found[0]))
        if found is None or not isinstance(key, str) or key in keys or len(keys) == _MOST_KEYS:
            return None
        keys.add(key)
        parts.append(re.escape(found[0]))
        at = found.end()
        matches = ((form.match(raw, at), num_puts) for form, num_puts in _FORMS)
        value, num_puts = next((one for one in matches if one[0] is not None), (None, 0))
        if value is None:
            return None
        pattern, at, puts = value.re.pattern, value.end(), puts + num_puts
        if key in fields:
            groups[key] = len(groups) + 1
            pattern = b"(" + pattern + b")"
        parts.append(pattern)
    if at + 1 != len(raw):
        return None
    places = tuple(groups.get(field) for field in fields)
    return Layout(re.compile(b"".join([*parts, b"u"]), re.DOTALL), places, puts)


def index_of(get: bytes) -> int:
    """Return the memo index of an opcode that takes a value from the memo."""
    return get[1] if get[0] == _BINGET else int.from_bytes(get[1:], "little")


def value_of(raw: bytes | None, memo: Mapping[int, Any]) -> Any:
    """Return an integer or a value from the memo; None for other forms, and for values skipped."""
    if raw is None:
        return None
    code = raw[0]
    if code == _BINGET:
        return memo.get(raw[1])
    if code in _SIGNED:
        return int.from_bytes(raw[_SIGNED[code] :], "little", signed=True)
    if code in _UNSIGNED:
        return int.from_bytes(raw[1:], "little")
    return memo.get(index_of(raw)) if code == _LONG_BINGET else None


_BINGET: Final = 0x68
_LONG_BINGET: Final = 0x6A
_SIGNED: Final = {0x4A: 1, 0x8A: 2}
"""BININT and LONG1, and where their digits begin."""
_UNSIGNED: Final = frozenset({0x4B, 0x4D})
