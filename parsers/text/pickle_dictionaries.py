"""Dictionaries of simple values in a pickle, each found and cut by a regular expression.

An entry of a flight recorder has some 100 opcodes, a third of them the frames of its stack. Read
one by one they take 175 us; matched whole, with the pairs that occurred before taken by their
bytes, 28 us.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from ccltui.parsers.text.pickle_rows import index_of

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
_BINGET: Final = 0x68
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
