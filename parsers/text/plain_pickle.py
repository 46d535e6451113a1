"""Read pickles of plain values, without loading them: a pickle can run any code when it is loaded.

A loop over the bytes knows the opcodes that build None, bool, int, float, text, bytes, lists,
tuples, dictionaries and sets. Every other opcode, among them all that name a class or call a
function, ends the reading. Lengths are compared with the bytes that are left before anything is
taken, and depth and numbers of values are bounded: a file costs memory in proportion to its size.
Dictionaries of known form are taken at once (`pickle_rows.py`).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec import Struct

from ccltui.parsers.columns import Note
from ccltui.parsers.errors import TraceError
from ccltui.parsers.text.file_sample import is_pickle
from ccltui.parsers.text.pickle_rows import Dictionaries, Layout, Rows, Take, layout_of, value_of

MOST_DEPTH: Final = 64
"""Containers in one another; dumps of PyTorch have 5."""
MOST_OPCODES: Final = 32_000_000
"""A dump of 200,000 entries with stacks of 30 frames has 25 million."""
MOST_CONTAINERS: Final = 4_000_000
"""Such a dump has 2 million; the smallest takes one byte of the file and 64 of memory."""

MOST_KEPT_BYTES: Final = 1 << 27
"""Of a file that is read in parts, beside its rows: values take some ten times their bytes."""
_CHUNK: Final = 1 << 22
_MARGIN: Final = 16
"""Bytes of the longest opcode with its fixed value, with room."""
_MOST_LAYOUTS: Final = 32
"""Forms of dictionaries in one file; PyTorch writes three, each with or without a new stack."""
_NO_START: Final = -1

_MARK: Final = 0x28
_EMPTY_DICT: Final = 0x7D
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


def read_plain_pickle(
    data: bytes,
    *,
    shown: str,
    more: Callable[[int], bytes] | None = None,
    rows: Rows | None = None,
) -> PlainPickle:
    """Return the value of a pickle.

    Of a pickle that is cut off it is what was complete on the two outer levels: the pairs of the
    outermost dictionary, and the items of its last value. Text that is not UTF-8 keeps its bytes
    as surrogates.

    Args:
        data: The bytes, or the first ones.
        shown: The path of the file in messages.
        more: Returns so many further bytes, fewer at the end of the file.
        rows: What takes the dictionaries of some lists.

    Raises:
        TraceError: It holds anything but plain values, or is damaged; with the byte.
    """
    return _Reading(data, shown, more, rows).run()


class _CutError(Exception):
    """The bytes end where more are needed."""


class _RowLists:
    """The lists whose dictionaries are taken as rows, and the forms of these so far."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._take: Take | None = None
        self.level = 0  # number of levels while a list is filled
        self._layouts: list[Layout] = []
        self._start = _NO_START  # of a dictionary of unknown form in the data
        self._kept: list[Any] = []  # their ids must not be used again

    @property
    def is_open(self) -> bool:
        """Whether a list of rows is being filled."""
        return self._take is not None

    def enter(self, levels: list[list[Any]]) -> None:
        """Find out whether the list that is filled from now on is one of rows.

        It is in a list that is the value of the key; a writer may open that one with a mark of
        its own or not.
        """
        depth = len(levels)
        if depth not in (3, 4) or (self._take is not None and depth > self.level):
            return
        outer = levels[1][depth - 6 :]  # the key, and the lists that are not yet in one another
        target = levels[-2][-1] if levels[-2] else None
        is_key = len(outer) == 6 - depth and type(outer[0]) is str and outer[0] == self._rows.key
        is_meant = is_key and all(type(one) is list for one in outer[1:])
        self._take, self.level = None, depth
        if is_meant and type(target) is list:
            self._take = self._rows.begin(target)
        self._start = _NO_START

    def forget_start(self) -> None:
        """Learn no form from a dictionary whose first bytes are gone."""
        self._start = _NO_START

    def end(self, items: list[Any]) -> None:
        """Take the last dictionaries of a list."""
        self._flush(items)
        self._take, self._start = None, _NO_START

    def take_rows(
        self, stack: list[Any], data: bytes, at: int, memo: dict[int, Any]
    ) -> tuple[int, int]:
        """Take what is in the stack, and the dictionaries of known forms that begin at a byte.

        Returns:
            Where the last one ends, ``at`` where there is none, and how many values they put into
            the memo.
        """
        self._flush(stack)
        if self._start != _NO_START and len(self._layouts) < _MOST_LAYOUTS:
            layout = layout_of(data[self._start : at], memo, self._rows.fields)
            if layout is not None and layout not in self._layouts:
                self._layouts.append(layout)
        begin, puts, before = at, 0, _NO_START
        while before != at:
            before = at
            for layout in self._layouts:
                end, count = self._take_alike(layout, data, at, memo)
                puts += count * layout.puts
                at = end
        self._start = at if at == begin else _NO_START
        return at, puts

    def _take_alike(
        self, layout: Layout, data: bytes, at: int, memo: dict[int, Any]
    ) -> tuple[int, int]:
        """Take dictionaries of one form; return where the last one ends, and how many there are."""
        take, places, count = self._take, layout.places, 0
        match = layout.pattern.scanner(data, at).match  # type: ignore[attr-defined]
        while take is not None and (found := match()) is not None:
            take(
                tuple([None if place is None else value_of(found[place], memo) for place in places])
            )
            at = found.end()
            count += 1
        return at, count

    def _flush(self, items: list[Any]) -> None:
        fields = self._rows.fields
        for item in items:
            if type(item) is dict and self._take is not None:
                self._take(tuple([item.get(field) for field in fields]))
        self._kept += items
        items.clear()


class _Reading:
    """State of one reading: the stacks of open containers, and the memo."""

    def __init__(
        self,
        data: bytes,
        shown: str,
        more: Callable[[int], bytes] | None,
        rows: Rows | None,
    ) -> None:
        self._data = data
        self._more = more
        self._base = 0  # bytes of the file before the data
        self._shown = shown
        self._at = 0  # of the opcode
        self._next = 0
        self._levels: list[list[Any]] = [[]]  # values between marks; the last is the open one
        self._memo: dict[int, Any] = {}
        self._depths: dict[int, int] = {}  # by id; every container lives until the end
        self._placed: set[int] = set()  # ids of containers that are inside another
        self._dictionaries = Dictionaries(self._memo, self._new_inside, self._inside)
        self._num_containers = 0
        self._num_puts = 0
        self._rows = _RowLists(rows) if rows is not None else None
        self._num_skipped = 0  # bytes of dictionaries that were taken as rows

    def run(self) -> PlainPickle:
        """Read up to STOP, or to the end of the bytes."""
        if not is_pickle(self._data):
            raise self._error("not a pickle of protocol 2 to 5")
        try:
            value = self._loop()
        except _CutError as error:
            at = self._base + self._at
            note = Note("truncated", f"the file ends inside its pickle{error}", offset=at)
            return PlainPickle(self._complete(), cut=True, notes=(note,))
        rest = len(self._data) - self._next if self._more is None else 0
        message = f"{rest:,} bytes after the end of the pickle are ignored"
        return PlainPickle(value, notes=(Note("trailing_bytes", message),) if rest else ())

    def _loop(self) -> Any:
        """Read opcodes up to STOP; those that make up nearly all of a dump without a call each."""
        data, edge, memo = self._data, self._edge(), self._memo
        stack = self._levels[-1]
        left = MOST_OPCODES
        while left > 0:
            left -= 1
            at = self._at = self._next
            if at >= edge:
                if self._more is None:  # no opcode but STOP is the last byte
                    return self._last(at)
                self._refill(_CHUNK)
                data, edge = self._data, self._edge()
                continue
            code = data[at]
            if code == _BINGET and data[at + 2 : at + 3] != b"h":
                self._next = at + 2
                value = memo.get(data[at + 1], _NOTHING)
                stack.append(self._missing(data[at + 1]) if value is _NOTHING else value)
            elif code in _RUNS:
                left -= self._get_run(_RUNS[code], stack)
            elif code == 0x4B:  # BININT1
                self._next = at + 2
                stack.append(data[at + 1])
            elif code in _CONSTANTS:
                self._next = at + 1
                stack.append(_CONSTANTS[code])
            elif code in _NEW:
                left -= self._begin(code, stack)
            elif code == _MARK:
                self._next = at + 1
                stack = self._mark()
            elif code == _STOP:
                return self._last(at)
            else:
                self._next = at + 1
                self._rarer(code)
                stack = self._levels[-1]
                if data is not self._data:
                    data, edge = self._data, self._edge()
        raise self._error(f"more than {MOST_OPCODES:,} operations")

    def _begin(self, code: int, stack: list[Any]) -> int:
        """Push an empty container, or the dictionary that begins here where it can be taken whole.

        Returns the number of opcodes beside the first.
        """
        if code == _EMPTY_DICT and self._rows is not None and self._take_rows(stack):
            return 0
        if code == _EMPTY_DICT and self._rows is None:
            found = self._dictionaries.take(self._data, self._at)
            if found is not None:
                self._next, value = found
                self._count_container()
                self._set_depth(value, self._dictionaries.deepest + 1)
                stack.append(value)
                return 2 * len(value)
        self._next = self._at + 1
        self._count_container()
        stack.append(_NEW[code]())
        return 0

    def _mark(self) -> list[Any]:
        """Open a level and return it."""
        if len(self._levels) > MOST_DEPTH:
            raise self._error(f"more than {MOST_DEPTH} containers in one another")
        stack: list[Any] = []
        self._levels.append(stack)
        if self._rows is not None:
            self._rows.enter(self._levels)
        return stack

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
        memo = self._memo
        try:
            stack += [memo[index] for index in indices]
        except KeyError:
            stack += [memo[one] if one in memo else self._missing(one) for one in indices]
        return len(indices)

    def _missing(self, index: int) -> object:
        """Return None for a value that was skipped with a row, and is taken in another row."""
        if self._rows is None or not self._rows.is_open or index >= self._num_puts:
            raise self._error(_NOT_PUT)
        return None

    def _edge(self) -> int:
        """Return the place from which on there may be too few bytes for an opcode and its value."""
        return len(self._data) - (1 if self._more is None else _MARGIN)

    def _refill(self, count: int) -> None:
        """Read so many bytes, or those that are left, behind the opcode that is being read."""
        if self._more is None:
            return
        kept = self._base + self._at - self._num_skipped
        if max(count, kept) > MOST_KEPT_BYTES:
            raise self._error(f"more than {MOST_KEPT_BYTES >> 20} MiB beside its events")
        read = self._more(count)
        self._data = self._data[self._at :] + read
        self._base += self._at
        self._next -= self._at
        self._at = 0
        if len(read) < count:
            self._more = None
        if self._rows is not None:
            self._rows.forget_start()

    def _take_rows(self, stack: list[Any]) -> bool:
        """Take the dictionaries of known forms that begin here; return whether there is any."""
        rows = self._rows
        if rows is None or len(self._levels) != rows.level or not rows.is_open:
            return False
        end, puts = rows.take_rows(stack, self._data, self._at, self._memo)
        self._num_skipped += end - self._at
        self._num_puts += puts
        self._next = end
        return end > self._at

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
        return TraceError(message, path=self._shown, offset=self._base + self._at)

    def _take(self, count: int) -> bytes:
        if self._next + count > len(self._data):
            self._refill(max(count, _CHUNK))
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
        index = self._number(size) if size else self._num_puts
        if not self._levels[-1]:
            raise self._error("nothing is there to put into the memo")
        if index > self._num_puts:
            raise self._error(f"memo index {index:,} after {self._num_puts:,} values")
        if index < self._num_puts:
            self._dictionaries.forget()
        self._memo[index] = self._levels[-1][-1]
        self._num_puts = max(self._num_puts, index + 1)

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
        made = tuple(items)
        self._new_inside(made, items)
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
        is_of_rows = count == _MARKED and self._is_at_rows()
        items = self._popped(count)
        target = self._open(list)
        if is_of_rows and self._rows is not None:
            self._rows.end(items)
            return
        self._placed_inside(target, items)
        target.extend(items)

    def _is_at_rows(self) -> bool:
        rows = self._rows
        return rows is not None and rows.is_open and len(self._levels) == rows.level

    def _fill_set(self, count: int) -> None:
        items = self._popped(count)
        target = self._open(set)
        if any(type(item) in _CONTAINERS for item in items):
            raise self._error("a container in a set")
        target.update(items)

    def _new_inside(self, made: Any, items: Sequence[Any]) -> None:
        """Count a container that was made with its items."""
        self._count_container()
        self._placed_inside(made, items)

    def _placed_inside(self, target: Any, items: Sequence[Any]) -> None:
        """Note which containers are inside another, and how deep that is by now."""
        kinds = set(map(type, items))
        if kinds.isdisjoint(_CONTAINERS):
            return
        inner = items if kinds <= _CONTAINERS else [x for x in items if type(x) in _CONTAINERS]
        ids, depths = set(map(id, inner)), self._depths
        if id(target) in ids:
            raise self._error("a container in itself")
        self._placed |= ids
        deepest = max([depths[one] for one in ids if one in depths], default=1)
        self._set_depth(target, max(depths.get(id(target), 1), deepest + 1))

    def _inside(self, value: Any) -> int:
        """Note that a container is inside another, and return its depth."""
        self._placed.add(id(value))
        return self._depths.get(id(value), 1)

    def _set_depth(self, target: Any, depth: int) -> None:
        if depth > MOST_DEPTH:
            raise self._error(f"more than {MOST_DEPTH} containers in one another")
        self._depths[id(target)] = depth

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
