"""Read YAML of unknown origin as a tree with positions: no tags, duplicates or alias bombs.

The tree is built from parser events. ``yaml.compose`` is not used: it drops the position of
aliases, which error messages give, and its C version crashes on 200,000 open brackets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import yaml
from msgspec import Struct
from msgspec import field as struct_field

from ccltui.parsers.errors import CardError
from ccltui.parsers.safe_text import printable

MAX_BYTES = 1 << 20
MAX_NODES = 20_000
MAX_DEPTH = 40
_LONGEST_INT = 400

# The C parser is ten times faster; not every build of PyYAML has it.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_STANDARD_TAG = re.compile(r"tag:yaml\.org,2002:(str|int|float|bool|null|map|seq)")
_FORBIDDEN = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

Value = str | int | float | bool | None


class Mark(Struct, frozen=True):
    """1-based line and column."""

    line: int
    column: int


class Scalar(Struct, frozen=True):
    """A leaf: its YAML 1.1 value (dates stay text), and the text as written."""

    value: Value
    text: str
    mark: Mark
    size: int = 1
    depth: int = 1


class Pair(Struct, frozen=True):
    """A key, as written, and its value."""

    key: str
    mark: Mark
    node: Node


class Mapping(Struct, frozen=True):
    """Pairs in the order of the file, merge keys (``<<``) already applied."""

    pairs: tuple[Pair, ...]
    mark: Mark
    size: int = 1
    depth: int = 1


class Sequence(Struct, frozen=True):
    """Items in order."""

    items: tuple[Node, ...]
    mark: Mark
    size: int = 1
    depth: int = 1


Node = Scalar | Mapping | Sequence


class Limits(Struct, frozen=True):
    """Size limits of a document, and the noun that messages call it by."""

    noun: str = "card"
    max_bytes: int = MAX_BYTES
    max_nodes: int = MAX_NODES


_CARD = Limits()


def load_yaml(data: bytes, path: str, limits: Limits = _CARD) -> Node | None:
    """The one document in ``data`` (None when there is none).

    Raises CardError with line and column for text that is no YAML, a second document, a tag
    beyond the standard types, a duplicate key, an alias to itself, and a document that is larger
    or deeper than the limits allow, aliases counted at their full size.
    """
    text = _decode(data, path, limits)
    builder = _Builder(path, limits)
    try:
        for event in _events(text):
            builder.take(event)
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(error, path) from None
    except (yaml.YAMLError, ValueError, RecursionError, MemoryError) as error:
        if isinstance(error, CardError):
            raise
        raise CardError("not valid YAML", path=path) from None
    return builder.root


def _events(text: str) -> Iterator[Any]:
    yield from yaml.parse(text, Loader=_LOADER)


def _decode(data: bytes, path: str, limits: Limits) -> str:
    if len(data) > limits.max_bytes:
        message = f"larger than {limits.max_bytes:,} bytes: this is no {limits.noun}"
        raise CardError(message, path=path)
    utf16 = data.startswith((b"\xff\xfe", b"\xfe\xff"))
    try:
        text = data.decode("utf-16" if utf16 else "utf-8-sig")
    except UnicodeDecodeError as error:
        line, column = _place(data[: error.start].decode("utf-8", "replace"))
        raise CardError("not valid UTF-8", path=path, line=line, column=column) from None
    bad = _FORBIDDEN.search(text)
    if bad:
        line, column = _place(text[: bad.start()])
        what = f"the character {printable(bad.group())} is not allowed in YAML"
        raise CardError(what, path=path, line=line, column=column)
    return text


def _place(before: str) -> tuple[int, int]:
    return before.count("\n") + 1, len(before) - before.rfind("\n")


def _syntax_error(error: yaml.MarkedYAMLError, path: str) -> CardError:
    # Only the parser's own message: its context would quote the file, with contact details.
    problem = error.problem or error.context or "not valid YAML"
    if "mapping values are not allowed" in problem:
        problem += " (put text that holds a colon in quotes)"
    mark = error.problem_mark or error.context_mark
    if mark is None:
        return CardError(problem, path=path)
    return CardError(problem, path=path, line=mark.line + 1, column=mark.column + 1)


class _Open(Struct):
    """A collection whose end event has not come."""

    is_mapping: bool
    mark: Mark
    anchor: str | None
    pairs: list[Pair] = struct_field(default_factory=list)
    items: list[Node] = struct_field(default_factory=list)
    lines_of_keys: dict[str, int] = struct_field(default_factory=dict)
    merged: list[Mapping] = struct_field(default_factory=list)
    key: Scalar | None = None


class _Builder:
    def __init__(self, path: str, limits: Limits) -> None:
        self.path = path
        self._limits = limits
        self.root: Node | None = None
        self._documents = 0
        self._open: list[_Open] = []
        self._anchors: dict[str, Node | None] = {}
        self._nodes = 0
        self._resolver = yaml.resolver.Resolver()
        self._constructor = yaml.constructor.SafeConstructor()

    def take(self, event: Any) -> None:
        """Add one event of the parser."""
        mark = Mark(event.start_mark.line + 1, event.start_mark.column + 1)
        if isinstance(event, yaml.DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                self._fail(f"a second document begins; a {self._limits.noun} is one", mark)
        elif isinstance(event, yaml.AliasEvent):
            self._add(self._anchored(str(event.anchor), mark), mark)
        elif isinstance(event, yaml.ScalarEvent):
            self._check_tag(event.tag, mark)
            node = Scalar(self._value(event, mark), event.value, mark)
            self._name(event.anchor, node)
            self._add(node, mark)
        elif isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
            self._begin(event, mark)
        elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            self._end()

    def _begin(self, event: Any, mark: Mark) -> None:
        self._check_tag(event.tag, mark)
        if len(self._open) >= MAX_DEPTH:
            self._fail(f"nested more than {MAX_DEPTH} levels deep", mark)
        is_mapping = isinstance(event, yaml.MappingStartEvent)
        if self._open and self._open[-1].is_mapping and self._open[-1].key is None:
            self._fail("a key must be plain text", mark)
        self._name(event.anchor, None)
        self._open.append(_Open(is_mapping, mark, event.anchor))

    def _end(self) -> None:
        frame = self._open.pop()
        node: Node
        if frame.is_mapping:
            pairs = tuple(frame.pairs) + self._inherited(frame)
            inner: tuple[Node, ...] = tuple(pair.node for pair in pairs)
            node = Mapping(pairs, frame.mark, *_measure(inner))
        else:
            inner = tuple(frame.items)
            node = Sequence(inner, frame.mark, *_measure(inner))
        self._name(frame.anchor, node)
        self._add(node, frame.mark)

    def _inherited(self, frame: _Open) -> tuple[Pair, ...]:
        """Merged pairs whose keys are not given; the first mapping to name a key wins."""
        own = set(frame.lines_of_keys)
        inherited: list[Pair] = []
        for mapping in frame.merged:
            for pair in mapping.pairs:
                if pair.key not in own:
                    own.add(pair.key)
                    inherited.append(pair)
        return tuple(inherited)

    def _add(self, node: Node, mark: Mark) -> None:
        # A collection's parts were counted one by one; an alias repeats all of them.
        self._nodes += node.size if isinstance(node, Scalar) or mark != node.mark else 1
        limits = self._limits
        if self._nodes > limits.max_nodes or len(self._open) + node.depth > MAX_DEPTH + 1:
            self._fail(f"more than {limits.max_nodes:,} values: this is no {limits.noun}", mark)
        if not self._open:
            self.root = node
            return
        frame = self._open[-1]
        if not frame.is_mapping:
            frame.items.append(node)
        elif frame.key is None:
            self._take_key(frame, node, mark)
        else:
            self._take_value(frame, frame.key, node)

    def _take_key(self, frame: _Open, node: Node, mark: Mark) -> None:
        if not isinstance(node, Scalar):
            self._fail("a key must be plain text", mark)
        first = frame.lines_of_keys.get(node.text)
        if first is not None:
            self._fail(
                f"duplicate key {printable(node.text[:60])!r}, first given in line {first}", mark
            )
        frame.lines_of_keys[node.text] = mark.line
        frame.key = Scalar(node.value, node.text, mark)

    def _take_value(self, frame: _Open, key: Scalar, node: Node) -> None:
        frame.key = None
        if key.text != "<<":
            frame.pairs.append(Pair(key.text, key.mark, node))
            return
        merged = node.items if isinstance(node, Sequence) else (node,)
        for mapping in merged:
            if not isinstance(mapping, Mapping):
                self._fail("only mappings can be merged with `<<`", key.mark)
            frame.merged.append(mapping)

    def _anchored(self, anchor: str, mark: Mark) -> Node:
        if anchor not in self._anchors:
            self._fail("an alias to an anchor that does not exist", mark)
        node = self._anchors[anchor]
        if node is None:
            self._fail("an alias to the value that holds it", mark)
        return node

    def _name(self, anchor: str | None, node: Node | None) -> None:
        if anchor is not None:
            self._anchors[anchor] = node

    def _check_tag(self, tag: str | None, mark: Mark) -> None:
        if tag is not None and tag != "!" and not _STANDARD_TAG.fullmatch(tag):
            self._fail(f"the tag {printable(tag[:80])} is not allowed", mark)

    def _value(self, event: Any, mark: Mark) -> Value:
        tag = event.tag if event.tag not in (None, "!") else self._implied_tag(event)
        kind = tag.rpartition(":")[2]
        if kind == "null":
            return None
        construct = getattr(self._constructor, f"construct_yaml_{kind}", None)
        if kind not in ("int", "float", "bool") or construct is None:
            return str(event.value)
        if kind == "int" and len(event.value) > _LONGEST_INT:
            self._fail("not a usable int", mark)  # one in base 16 could not be shown
        try:
            value: Value = construct(yaml.ScalarNode(tag, event.value))
        except (ValueError, KeyError, IndexError, OverflowError):
            self._fail(f"not a usable {kind}", mark)
        return value

    def _implied_tag(self, event: Any) -> str:
        resolver: Any = self._resolver  # untyped
        return str(resolver.resolve(yaml.ScalarNode, event.value, event.implicit))

    def _fail(self, message: str, mark: Mark) -> NoReturn:
        raise CardError(message, path=self.path, line=mark.line, column=mark.column)


def _measure(inner: tuple[Node, ...]) -> tuple[int, int]:
    """Number of values and of levels, with all repetitions."""
    return 1 + sum(node.size for node in inner), 1 + max((node.depth for node in inner), default=0)


def read_bytes(path: Path, shown_path: str, limits: Limits = _CARD) -> bytes:
    """The file's bytes, at most one more than is allowed; CardError when it cannot be read."""
    try:
        with path.open("rb") as handle:
            return handle.read(limits.max_bytes + 1)
    except OSError as error:
        raise CardError(f"cannot be read: {error.strerror}", path=shown_path) from error
