"""Values of entries as columns hold them: numbers within int64, sizes, types and stacks as ids.

A hostile dump may share one long list among many entries. Everything that is made of a list is made
once for the list, and the text that is made is bounded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ccltui.parsers.errors import TraceError
from ccltui.parsers.flight_recorder.dump import NONE, Frame

_MOST_TEXT: Final = 1 << 26
"""Characters of different names, sizes and types in a dump; 200,000 entries have 20 million."""
_LONGEST: Final = 4096
_SHOWN_SHAPES: Final = 16
_MOST_DIMENSIONS: Final = 64
_MOST_FRAMES: Final = 512
_HIGHEST: Final = (1 << 63) - 1
_BYTES: Final = {
    "bool": 1, "byte": 1, "char": 1, "short": 2, "int": 4, "long": 8, "uint16": 2, "uint32": 4,
    "uint64": 8, "half": 2, "bfloat16": 2, "float": 4, "double": 8, "complexhalf": 4,
    "complexfloat": 8, "complexdouble": 16,
}  # fmt: skip
"""Bytes of an element by the name that ATen gives its type."""


def integer(value: Any, missing: int = NONE) -> int:
    """Return a number, also one that JSON has as text; ``missing`` for everything else."""
    if type(value) is str and len(value) < 20 and value.removeprefix("-").isdecimal():
        value = int(value)
    return value if type(value) is int and -_HIGHEST <= value <= _HIGHEST else missing


def element_bytes(dtype: str) -> int | None:
    """Return the bytes of an element, None for a type that is not known."""
    name = dtype.lower()
    return 1 if name.startswith("float8") else _BYTES.get(name)


class Texts:
    """Different texts of a dump, and their ids. Raises TraceError beyond a limit."""

    def __init__(self, shown: str) -> None:
        self._shown = shown
        self._ids: dict[str, int] = {"": 0}
        self._length = 0

    def id(self, text: Any) -> int:
        """Return the id of a text; that of "" for what is none."""
        if type(text) is not str:
            return 0
        text = text[:_LONGEST]
        found = self._ids.get(text)
        if found is None:
            found = self._ids[text] = len(self._ids)
            self._length += len(text)
            if self._length > _MOST_TEXT:
                raise TraceError(
                    f"more than {_MOST_TEXT:,} characters of different names and sizes",
                    path=self._shown,
                )
        return found

    def all(self) -> tuple[str, ...]:
        """Return all texts in the order of their ids."""
        return tuple(self._ids)


class Sizes:
    """Shapes and types of tensors: elements, bytes, and texts."""

    def __init__(self, texts: Texts) -> None:
        self._texts = texts
        self._shapes: dict[int, tuple[str, int]] = {}
        self._lists: dict[int, tuple[int, int]] = {}
        self._types: dict[int, str] = {}
        self._bytes: dict[tuple[int, int], int] = {}

    def of(self, sizes: Any) -> tuple[int, int]:
        """Return the id of the text of a list of shapes, and the elements of all."""
        if type(sizes) not in (list, tuple):
            return 0, NONE
        found = self._lists.get(id(sizes))
        if found is None:
            shapes = [self._shape(one) for one in sizes]
            text = ", ".join([text for text, _ in shapes[:_SHOWN_SHAPES]])
            numbers = [number for _, number in shapes]
            total = sum(numbers) if min(numbers, default=0) >= 0 else NONE
            if len(shapes) > _SHOWN_SHAPES:
                text += f" and {len(shapes) - _SHOWN_SHAPES} more, {total:,} elements in all"
            found = self._texts.id(text), total if total <= _HIGHEST else NONE
            self._lists[id(sizes)] = found
        return found

    def _shape(self, shape: Any) -> tuple[str, int]:
        found = self._shapes.get(id(shape))
        if found is None:
            found = self._shapes[id(shape)] = _shape(shape)
        return found

    def bytes(self, sizes: Any, dtypes: Any) -> int:
        """Return the bytes of all tensors, -1 where a size or type is not known."""
        if type(sizes) not in (list, tuple) or type(dtypes) not in (list, tuple):
            return NONE
        if len(sizes) != len(dtypes):
            return NONE
        key = (id(sizes), id(dtypes))
        found = self._bytes.get(key)
        if found is None:
            found = self._bytes[key] = self._count(sizes, dtypes)
        return found

    def _count(self, sizes: Sequence[Any], dtypes: Sequence[Any]) -> int:
        total = 0
        for shape, dtype in zip(sizes, dtypes, strict=True):
            number = self._shape(shape)[1]
            each = element_bytes(dtype) if type(dtype) is str else None
            if each is None or number < 0:
                return NONE
            total += number * each
        return total if total <= _HIGHEST else NONE

    def types(self, dtypes: Any) -> str:
        """Return the types of a list as a text, one that all have once."""
        if type(dtypes) not in (list, tuple):
            return ""
        found = self._types.get(id(dtypes))
        if found is None:
            different = dict.fromkeys(one[:64] for one in dtypes if type(one) is str)
            found = self._types[id(dtypes)] = ", ".join(list(different)[:_SHOWN_SHAPES])
        return found


def _shape(shape: Any) -> tuple[str, int]:
    """Return a shape as a text, and its elements: -1 for what is no shape."""
    if type(shape) not in (list, tuple) or len(shape) > _MOST_DIMENSIONS:
        return "?", NONE
    number = 1
    for one in shape:
        if type(one) is not int or not 0 <= one <= _HIGHEST:
            return "?", NONE
        number *= one
    return str(list(shape)), number if number <= _HIGHEST else NONE


class Stacks:
    """Different stacks of a dump, and their indices; frames are shared."""

    def __init__(self) -> None:
        self._frames: dict[Frame, int] = {}
        self._frame_of: dict[int, int] = {}
        self._stacks: dict[tuple[int, ...], int] = {(): 0}
        self._stack_of: dict[int, int] = {}

    def index(self, frames: Any) -> int:
        """Return the index of a stack; 0 where there is none."""
        if type(frames) is not list:
            return 0
        found = self._stack_of.get(id(frames))
        if found is None:
            key = tuple([self._frame(one) for one in frames[:_MOST_FRAMES]])
            found = self._stack_of[id(frames)] = self._stacks.setdefault(key, len(self._stacks))
        return found

    def _frame(self, frame: Any) -> int:
        found = self._frame_of.get(id(frame))
        if found is None:
            made = Frame("", "", NONE)
            if isinstance(frame, Mapping):
                name, file = frame.get("name"), frame.get("filename")
                made = Frame(
                    name[:_LONGEST] if type(name) is str else "",
                    file[:_LONGEST] if type(file) is str else "",
                    integer(frame.get("line")),
                )
            found = self._frames.setdefault(made, len(self._frames))
            self._frame_of[id(frame)] = found
        return found

    def all(self) -> tuple[tuple[Frame, ...], ...]:
        """Return all stacks in the order of their indices."""
        frames = list(self._frames)
        return tuple(tuple(frames[one] for one in key) for key in self._stacks)
