"""Dictionaries of simple values in a pickle, cut by a regular expression, or read as rows.

A list of a million events is a million dictionaries with the same keys. Built one opcode after the
other they cost some 20 us and 400 bytes each; matched by a regular expression that is made of the
form of one of them, 2 us and nothing.

An entry of a flight recorder has some 100 opcodes, a third of them the frames of its stack. Read
one by one they take 175 us; matched whole, with the pairs that occurred before taken by their
bytes, 28 us.
"""

from __future__ import annotations

import re
import struct
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


_SIMPLE: Final = rb"[hK].|[jJ].{4}|M..|[N\x88\x89]|\x8a\x08.{8}|G.{8}"
"""From the memo, an integer, a constant or a float, as PyTorch writes them."""
_ITEM: Final = _SIMPLE + rb"|\]\((?:" + _SIMPLE + rb"){0,64}+e"
_VALUE: Final = (
    rb"(?>(?:" + _SIMPLE + rb")(?:(?:" + _SIMPLE + rb")\x86)?+"
    rb"|\]\((?:" + _ITEM + rb"){0,1024}+e)"
)
"""A simple value, a pair of these, or a list of these and of lists of them.

No form can be taken for another one, and none is tried twice: a match takes a time in proportion to
its bytes, whatever these are. The repetitions are limited because the matcher keeps some 100 bytes
for each; a list of more values is read one by one.
"""
_PAIR: Final = rb"(?>h.|j.{4})" + _VALUE
_DICTIONARY: Final = re.compile(rb"\}\((?:" + _PAIR + rb"){1,64}+u", re.DOTALL)
_PAIRS: Final = re.compile(_PAIR, re.DOTALL)
_ITEMS: Final = re.compile(_ITEM, re.DOTALL)
_MOST_PAIRS: Final = 1 << 16
"""Kept at once; those of one dump of 2,000 entries are 3,971."""

_LIST: Final = 0x5D

_LONG1: Final = 0x8A
_BINFLOAT: Final = 0x47
_LENGTHS: Final = {
    **{_BINGET: 2, 0x6A: 5, 0x4B: 2, 0x4D: 3, 0x4A: 5, _LONG1: 10},
    **{0x4E: 1, 0x88: 1, 0x89: 1, _BINFLOAT: 9},
}
"""Bytes of a simple value, by its opcode."""
_DIGITS: Final = {0x4B: (1, False), 0x4D: (1, False), 0x4A: (1, True), _LONG1: (2, True)}
"""Where the digits of an integer begin, and whether it is signed."""
_CONSTANTS: Final = {0x4E: None, 0x88: True, 0x89: False}
_CONTAINERS: Final = frozenset({list, tuple, dict, set})
_FLOAT: Final = struct.Struct(">d")


class Dictionaries:
    """Reads dictionaries of simple values with the pairs of those before.

    Values of pairs of equal bytes are one object: nothing that is inside a container is changed.
    """

    def __init__(
        self,
        memo: Mapping[int, Any],
        made: Callable[[Any, Sequence[Any]], None],
        placed: Callable[[Any], int],
    ) -> None:
        """Take the memo, and what is told of containers.

        Args:
            memo: Values by their index.
            made: Is given each list or pair that is made, and its items.
            placed: Is given each value of a pair that is a container; returns its depth.
        """
        self._pairs = _Pairs(memo, made, placed)

    @property
    def deepest(self) -> int:
        """Depth of the deepest container that is a value; 0 where none is."""
        return self._pairs.deepest

    def take(self, data: bytes, at: int) -> tuple[int, dict[Any, Any]] | None:
        """Return where the dictionary that begins at a byte ends, and its value.

        None where it is to be read opcode by opcode: it holds anything else, or is damaged.
        """
        found = _DICTIONARY.match(data, at)
        if found is None:
            return None
        end, pairs = found.end(), self._pairs
        tokens = _PAIRS.findall(data, at + 2, end - 1)
        if len(pairs) > _MOST_PAIRS:
            pairs.clear()
        try:
            value = dict([pairs[one] for one in tokens])
        except KeyError:  # not in the memo, or no key
            return None
        return (end, value) if len(value) == len(tokens) else None

    def forget(self) -> None:
        """Forget all pairs: a value in the memo was replaced."""
        self._pairs.clear()


class _Pairs(dict[bytes, tuple[Any, Any]]):
    """Keys and values by the bytes of their opcodes; the lookup of known ones is one step."""

    def __init__(
        self,
        memo: Mapping[int, Any],
        made: Callable[[Any, Sequence[Any]], None],
        placed: Callable[[Any], int],
    ) -> None:
        super().__init__()
        self.deepest = 0
        self._memo = memo
        self._made = made
        self._placed = placed
        self._kept: list[Any] = []  # lists and pairs: their ids must not be used again

    def __missing__(self, token: bytes) -> tuple[Any, Any]:
        """Return a pair and remember it, but no time: it does not occur again.

        Raises KeyError where it has no key, or a value that is not in the memo.
        """
        is_short = token[0] == _BINGET
        key = self._memo[token[1] if is_short else index_of(token[:5])]
        if type(key) is not str and type(key) is not int:
            raise KeyError
        raw = token[2:] if is_short else token[5:]
        pair = key, self._value_of(raw)
        if raw[0] != _LONG1:
            self[token] = pair
        if type(pair[1]) in _CONTAINERS:
            self.deepest = max(self.deepest, self._placed(pair[1]))
        return pair

    def _value_of(self, token: bytes) -> Any:
        code = token[0]
        if code == _LIST:
            items = [self._value_of(one) for one in _ITEMS.findall(token, 2, len(token) - 1)]
            return self._new(items, items)
        if len(token) != _LENGTHS[code]:
            items = [self._value_of(one) for one in _ITEMS.findall(token, 0, len(token) - 1)]
            return self._new(tuple(items), items)
        if code in _DIGITS:
            begin, is_signed = _DIGITS[code]
            return int.from_bytes(token[begin:], "little", signed=is_signed)
        if code in _CONSTANTS:
            return _CONSTANTS[code]
        return _FLOAT.unpack(token[1:])[0] if code == _BINFLOAT else self._memo[index_of(token)]

    def _new(self, value: Any, items: Sequence[Any]) -> Any:
        self._kept.append(value)
        self._made(value, items)
        return value
