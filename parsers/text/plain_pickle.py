"""Read pickles of plain values, without loading them: a pickle can run any code when it is loaded.

A loop over the bytes knows the opcodes that build None, bool, int, float, text, bytes, lists,
tuples, dictionaries and sets. Every other opcode, among them all that name a class or call a
function, ends the reading. Lengths are compared with the bytes that are left before anything is
taken, and depth and numbers of values are bounded: a file costs memory in proportion to its size.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct

from ccltui.parsers.columns import Note
from ccltui.parsers.errors import TraceError

MOST_DEPTH: Final = 64
"""Containers in one another; dumps of PyTorch have 5."""
MOST_OPCODES: Final = 32_000_000
"""A dump of 200,000 entries with stacks of 30 frames has 25 million."""
MOST_CONTAINERS: Final = 4_000_000
"""Such a dump has 2 million; the smallest takes one byte of the file and 64 of memory."""

_MARK: Final = 0x28
_STOP: Final = 0x2E
_BINGET: Final = 0x68
_BINGET_RUN: Final = re.compile(rb"(?:h.){1,4096}", re.DOTALL)
_LONG_BINGET_RUN: Final = re.compile(rb"(?:j.{4}){1,4096}", re.DOTALL)
_RUNS: Final = {_BINGET: _BINGET_RUN, 0x6A: _LONG_BINGET_RUN}
_LONG_INDEX: Final = struct.Struct("<BI")
_REFUSED: Final = {
    0x63: "GLOBAL",
    0x93: "STACK_GLOBAL",
    0x52: "REDUCE",
    0x62: "BUILD",
    0x69: "INST",
    0x6F: "OBJ",
    0x81: "NEWOBJ",
    0x92: "NEWOBJ_EX",
    0x82: "EXT1",
    0x83: "EXT2",
    0x84: "EXT4",
    0x50: "PERSID",
    0x51: "BINPERSID",
    0x97: "NEXT_BUFFER",
    0x98: "READONLY_BUFFER",
}
"""Opcodes that name or call something outside of the file."""
_CONSTANTS: Final = {0x4E: None, 0x88: True, 0x89: False}
_FLOAT: Final = struct.Struct(">d")
_LONGEST_INTEGER: Final = 8
_MARKED: Final = -1
"""In place of a number of values: all since the last mark."""
_NEW: Final = {0x7D: dict, 0x5D: list, 0x29: tuple, 0x8F: set}
_CONTAINERS: Final = frozenset({dict, list, tuple, set})
_EMPTY: Final[tuple[object, ...]] = ({}, [])
_NOTHING: Final = object()
_NOT_PUT: Final = "a value is taken from the memo that was not put there"


class PlainPickle(Struct, frozen=True):
    """The value of a pickle, and what is to be said about it.

    ``cut``: the bytes end before the pickle does; the value is what was complete.
    """

    value: Any
    cut: bool = False
    notes: tuple[Note, ...] = ()


def is_pickle(data: bytes) -> bool:
    """Whether bytes begin as pickles of protocol 2 to 5 do."""
    return len(data) > 2 and data[0] == 0x80 and 2 <= data[1] <= 5


def read_plain_pickle(data: bytes, *, shown: str) -> PlainPickle:
    """Return the value of a pickle.

    Of a pickle that is cut off it is what was complete on the two outer levels: the pairs of the
    outermost dictionary, and the items of its last value. Text that is not UTF-8 keeps its bytes
    as surrogates.

    Raises:
        TraceError: It holds anything but plain values, or is damaged; with the byte.
    """
    return _Reading(data, shown).run()


class _CutError(Exception):
    """The bytes end where more are needed."""


class _Reading:
    """State of one reading: the stacks of open containers, and the memo."""

    def __init__(self, data: bytes, shown: str) -> None:
        self._data = data
        self._shown = shown
        self._at = 0  # of the opcode
        self._next = 0
        self._levels: list[list[Any]] = [[]]  # values between marks; the last is the open one
        self._memo: dict[int, Any] = {}
        self._depths: dict[int, int] = {}  # by id; every container lives until the end
        self._placed: set[int] = set()  # ids of containers that are inside another
        self._num_containers = 0

    def run(self) -> PlainPickle:
        """Read up to STOP, or to the end of the bytes."""
        if not is_pickle(self._data):
            raise self._error("not a pickle of protocol 2 to 5")
        try:
            value = self._loop()
        except _CutError as error:
            note = Note("truncated", f"the file ends inside its pickle{error}", offset=self._at)
            return PlainPickle(self._complete(), cut=True, notes=(note,))
        rest = len(self._data) - self._next
        message = f"{rest:,} bytes after the end of the pickle are ignored"
        return PlainPickle(value, notes=(Note("trailing_bytes", message),) if rest else ())

    def _loop(self) -> Any:
        """Read opcodes up to STOP; those that make up nearly all of a dump without a call each."""
        data, size, memo = self._data, len(self._data), self._memo
        stack = self._levels[-1]
        left = MOST_OPCODES
        while left > 0:
            left -= 1
            at = self._at = self._next
            if at + 1 >= size:  # no opcode but STOP is the last byte
                return self._last(at)
            code = data[at]
            if code == _BINGET and data[at + 2 : at + 3] != b"h":
                self._next = at + 2
                value = memo.get(data[at + 1], _NOTHING)
                if value is _NOTHING:
                    raise self._error(_NOT_PUT)
                stack.append(value)
            elif code in _RUNS:
                left -= self._get_run(_RUNS[code], stack)
            elif code == 0x4B:  # BININT1
                self._next = at + 2
                stack.append(data[at + 1])
            elif code in _CONSTANTS:
                self._next = at + 1
                stack.append(_CONSTANTS[code])
            elif code in _NEW:
                self._next = at + 1
                self._count_container()
                stack.append(_NEW[code]())
            elif code == _MARK:
                self._next = at + 1
                if len(self._levels) > MOST_DEPTH:
                    raise self._error(f"more than {MOST_DEPTH} containers in one another")
                stack = []
                self._levels.append(stack)
            elif code == _STOP:
                return self._last(at)
            else:
                self._next = at + 1
                self._rarer(code)
                stack = self._levels[-1]
        raise self._error(f"more than {MOST_OPCODES:,} operations")

    def _get_run(self, run: re.Pattern[bytes], stack: list[Any]) -> int:
        """Take values from the memo by opcodes that follow one another; return how many.

        The keys of entries and the frames of stacks are such runs: ten times as fast.
        """
        found = run.match(self._data, self._at)
        if found is None:
            raise _CutError
        self._next = found.end()
        taken = found[0]
        indices = taken[1::2] if run is _BINGET_RUN else [
            index for _, index in _LONG_INDEX.iter_unpack(taken)
        ]  # fmt: skip
        try:
            stack += [self._memo[index] for index in indices]
        except KeyError:
            raise self._error(_NOT_PUT) from None
        return len(indices)

    def _last(self, at: int) -> Any:
        """Return the value at STOP."""
        if at >= len(self._data) or self._data[at] != _STOP:
            raise _CutError
        self._next = at + 1
        return self._stopped()

    def _rarer(self, code: int) -> None:
        action = _ACTIONS.get(code)
        if action is not None:
            action[0](self, action[1])
        elif code in _REFUSED:
            raise self._error(f"opcode {_REFUSED[code]}, which names or calls code")
        else:
            raise self._error(f"opcode 0x{code:02x}, which no pickle of plain values needs")

    def _error(self, message: str) -> TraceError:
        return TraceError(message, path=self._shown, offset=self._at)

    def _take(self, count: int) -> bytes:
        end = self._next + count
        if end > len(self._data):
            raise _CutError(f": {len(self._data) - self._next:,} of the {count:,} bytes of a value")
        taken = self._data[self._next : end]
        self._next = end
        return taken

    def _number(self, size: int) -> int:
        return int.from_bytes(self._take(size), "little")

    def _push_integer(self, size: int) -> None:
        is_signed = size == 4
        self._levels[-1].append(int.from_bytes(self._take(size), "little", signed=is_signed))

    def _push_long(self, size: int) -> None:
        length = self._number(size)
        if length > _LONGEST_INTEGER:
            raise self._error(f"an integer of {length} bytes")
        self._levels[-1].append(int.from_bytes(self._take(length), "little", signed=True))

    def _push_float(self, size: int) -> None:
        self._levels[-1].append(_FLOAT.unpack(self._take(size))[0])

    def _push_text(self, size: int) -> None:
        taken = self._take(self._number(size))
        self._levels[-1].append(taken.decode("utf-8", "surrogateescape"))

    def _push_bytes(self, size: int) -> None:
        self._levels[-1].append(self._take(self._number(size)))

    def _skip(self, size: int) -> None:
        """Skip the version of the pickle, or the length of what follows."""
        if size == 1 and self._at:
            raise self._error("opcode PROTO inside the pickle")
        self._take(size)

    def _put(self, size: int) -> None:
        """Keep the last value; an index beyond the number of puts is of no writer."""
        index = self._number(size) if size else len(self._memo)
        if not self._levels[-1]:
            raise self._error("nothing is there to put into the memo")
        if index > len(self._memo):
            raise self._error(f"memo index {index:,} after {len(self._memo):,} values")
        self._memo[index] = self._levels[-1][-1]

    def _popped(self, count: int) -> list[Any]:
        """Take the last values off, or all since the last mark."""
        if count == _MARKED:
            if len(self._levels) < 2:
                raise self._error("a mark is missing")
            return self._levels.pop()
        stack = self._levels[-1]
        if len(stack) < count:
            raise self._error("a value is missing")
        items = stack[-count:]
        del stack[-count:]
        return items

    def _count_container(self) -> None:
        self._num_containers += 1
        if self._num_containers > MOST_CONTAINERS:
            raise self._error(f"more than {MOST_CONTAINERS:,} lists, tuples and dictionaries")

    def _new_tuple(self, count: int) -> None:
        items = self._popped(count)
        self._count_container()
        made = tuple(items)
        self._placed_inside(made, items)
        self._levels[-1].append(made)

    def _open(self, kind: type) -> Any:
        """Return the container that is to be filled, the last value.

        Writers fill a container before they put it into another. One that is filled later could
        hold itself.
        """
        stack = self._levels[-1]
        if not stack or type(stack[-1]) is not kind:
            raise self._error(f"items for a {kind.__name__}, and there is none")
        if id(stack[-1]) in self._placed:
            raise self._error("a container is filled after it was put into another")
        return stack[-1]

    def _fill_dictionary(self, count: int) -> None:
        items = self._popped(count)
        target = self._open(dict)
        keys, values = items[::2], items[1::2]
        if len(keys) != len(values):
            raise self._error("a key without a value")
        if any(type(key) is not str and type(key) is not int for key in keys):
            raise self._error("a key that is neither text nor an integer")
        before = len(target)
        self._placed_inside(target, values)
        target.update(zip(keys, values, strict=True))
        if len(target) != before + len(keys):
            raise self._error("a key that occurs twice")

    def _fill_list(self, count: int) -> None:
        items = self._popped(count)
        target = self._open(list)
        self._placed_inside(target, items)
        target.extend(items)

    def _fill_set(self, count: int) -> None:
        items = self._popped(count)
        target = self._open(set)
        if any(type(item) in _CONTAINERS for item in items):
            raise self._error("a container in a set")
        target.update(items)

    def _placed_inside(self, target: Any, items: list[Any]) -> None:
        """Note which containers are inside another, and how deep that is by now."""
        depths = self._depths
        deepest = 0
        for item in items:
            if type(item) in _CONTAINERS:
                if item is target:
                    raise self._error("a container in itself")
                self._placed.add(id(item))
                deepest = max(deepest, depths.get(id(item), 1))
        if deepest:
            depth = depths[id(target)] = max(depths.get(id(target), 1), deepest + 1)
            if depth > MOST_DEPTH:
                raise self._error(f"more than {MOST_DEPTH} containers in one another")

    def _stopped(self) -> Any:
        if len(self._levels) != 1 or len(self._levels[0]) != 1:
            raise self._error("the pickle ends with more than one value, or with none")
        return self._levels[0][0]

    def _complete(self) -> Any:
        """Return what was complete when the bytes ended, on the two outer levels."""
        if not self._levels[0]:
            return None
        top, inner = self._levels[0][-1], self._levels[1:]
        if not inner or id(top) in self._placed:
            return top
        items, deeper = inner[0], inner[1:]
        last = items.pop() if deeper and items else None
        if type(last) is list and id(last) not in self._placed:
            # its last item is open itself where there is a further level, or nothing in it yet
            is_open = len(deeper) > 1 or (deeper[0] and deeper[0][-1] in _EMPTY)
            complete = deeper[0][:-1] if is_open else deeper[0]
            last.extend(item for item in complete if item is not last)
        if type(top) is list:
            top.extend(item for item in items if item is not top)
        elif type(top) is dict:
            pairs = zip(items[::2], [*items[1::2], last], strict=False)
            top.update((key, value) for key, value in pairs if type(key) in (str, int))
        return top


_ACTIONS: Final[dict[int, tuple[Callable[[_Reading, int], None], int]]] = {
    0x65: (_Reading._fill_list, _MARKED),  # APPENDS
    0x61: (_Reading._fill_list, 1),  # APPEND
    0x75: (_Reading._fill_dictionary, _MARKED),  # SETITEMS
    0x73: (_Reading._fill_dictionary, 2),  # SETITEM
    0x90: (_Reading._fill_set, _MARKED),  # ADDITEMS
    0x74: (_Reading._new_tuple, _MARKED),  # TUPLE
    **{0x84 + count: (_Reading._new_tuple, count) for count in (1, 2, 3)},  # TUPLE1 to TUPLE3
    0x4D: (_Reading._push_integer, 2),  # BININT2
    0x4A: (_Reading._push_integer, 4),  # BININT
    0x8A: (_Reading._push_long, 1),  # LONG1
    0x47: (_Reading._push_float, 8),  # BINFLOAT
    **{code: (_Reading._push_text, size) for code, size in ((0x58, 4), (0x8C, 1), (0x8D, 8))},
    **{code: (_Reading._push_bytes, size) for code, size in ((0x42, 4), (0x43, 1), (0x8E, 8))},
    0x71: (_Reading._put, 1),  # BINPUT
    0x72: (_Reading._put, 4),  # LONG_BINPUT
    0x94: (_Reading._put, 0),  # MEMOIZE
    0x80: (_Reading._skip, 1),  # PROTO
    0x95: (_Reading._skip, 8),  # FRAME
}
"""What an opcode does, and the size of what follows it or the number of values that it takes.

Texts are BINUNICODE, SHORT_BINUNICODE and BINUNICODE8, bytes BINBYTES and the like.
"""
