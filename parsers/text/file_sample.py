"""Parts of files: the beginning, by which formats are told, and both ends of a text of any size.

The beginning is there in the forms that rules of formats look at, each made once; of an SQLite file
these are the names of its tables, and single values. Of a log of a gigabyte at most 64 MB are read.
"""

from __future__ import annotations

import codecs
import os
import re
import sqlite3
from collections import deque
from collections.abc import Collection, Iterator
from contextlib import closing
from functools import cached_property
from pathlib import Path
from typing import Final, Literal
from urllib.parse import quote

from msgspec import Struct
from msgspec.structs import replace

from ccltui.parsers.columns import Note
from ccltui.parsers.errors import TraceError
from ccltui.parsers.safe_text import printable
from ccltui.parsers.text.compression import (
    LONG_HEAD_BYTES,
    Head,
    TextChunks,
    detect,
    open_regular,
    read_head,
)
from ccltui.parsers.text.line_prefixes import Prefixes, plain_text

_UNREADABLE: Final = (sqlite3.Error, sqlite3.Warning, MemoryError, AttributeError)


def is_pickle(data: bytes) -> bool:
    """Whether bytes begin as pickles of protocol 2 to 5 do."""
    return len(data) > 2 and data[0] == 0x80 and 2 <= data[1] <= 5


def table_names(path: str) -> frozenset[str]:
    """Return the names of tables and views. Raises TraceError where the file is damaged."""
    try:
        with closing(_connection(path)) as connection:
            connection.text_factory = bytes
            query = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') LIMIT 2000"
            rows = connection.execute(query)
            return frozenset(row[0].decode("utf-8", "replace") for row in rows)
    except UnicodeDecodeError as error:  # sqlite3 fails to decode its own error message
        why = "an SQLite file that cannot be read: names in it are not UTF-8"
        raise TraceError(why) from error
    except _UNREADABLE as error:
        why = f"an SQLite file that cannot be read: {printable(str(error)[:200])}"
        raise TraceError(why) from error


def first_integer(path: str, table: str, column: str) -> int | None:
    """Return an integer of the first row of a table, None where there is none."""
    try:
        with closing(_connection(path)) as connection:
            row = connection.execute(f'SELECT "{column}" FROM "{table}" LIMIT 1').fetchone()
    except (*_UNREADABLE, UnicodeDecodeError):
        return None
    return row[0] if row is not None and isinstance(row[0], int) else None


def _connection(path: str) -> sqlite3.Connection:
    # immutable: no lock, and no journal is written next to the user's file.
    uri = f"file:{quote(os.fsencode(path))}?mode=ro&immutable=1"
    return sqlite3.connect(uri, uri=True, timeout=0)


_BLANK = re.compile(rb"[ \t\r\n]*+")
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_SCALAR_BYTES = re.compile(rb"[^\s,:\[\]{}\"]++")
# A quote that does not close is a match of its own: the text ends inside that string.
# All between is skipped by one match: foreign documents have thousands of strings.
_STRUCTURE = re.compile(
    rb'[^"{}\[\]]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"[^"{}\[\]]*+)*+(["{}\[\]]|\Z)', re.DOTALL
)
"""Up to the next bracket, or the quote of a text without end, or the end.

It also matches at the end: else a search would go on from each byte of a long list that is cut.
"""
_INTEGER = re.compile(rb'"?\s*([0-9]{1,7})(?:\.0*)?\s*"?')
_OPENING = b"{["

State = Literal["complete", "cut", "broken"]


class Member(Struct, frozen=True):
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
    scalar = _SCALAR_BYTES.match(text, start)
    if scalar is None:
        return start
    return scalar.end() if scalar.end() < len(text) else None


def _container_end(text: bytes, start: int) -> int | None:
    depth = 0
    for match in _STRUCTURE.finditer(text, start):
        token = match[1]
        if token in (b"", b'"'):
            return None
        if token in _OPENING:
            depth += 1
            continue
        depth -= 1
        if depth == 0:
            return match.end()
    return None


def integer_at(text: bytes, member: Member | None) -> int | None:
    """A whole number that is not negative, bare or in quotes; None for anything else."""
    if member is None or member.end is None:
        return None
    match = _INTEGER.fullmatch(text, member.start, member.end)
    return int(match.group(1)) if match else None


ANSI: Final = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")

SQLITE_MAGIC: Final = b"SQLite format 3\0"
_SCALAR: Final = rb"(?:-?[\d.]++(?:[eE][-+]?\d++)?|true|false|null)"
_JSON_START: Final = re.compile(
    rb"\{\s*+(?:[\"}]|\Z)|\[\s*+(?:[{\[\"\]]|" + _SCALAR + rb"\s*+(?:[,\]]|\Z)|\Z)"
)
"""A log begins with "[2026-01-01 …", "[rank0]: …", "[INFO]" or with a dictionary of Python."""
_LIST_OF_SCALARS: Final = re.compile(
    rb"\[\s*+(?:" + _SCALAR + rb"(?:\s*+,\s*+" + _SCALAR + rb")*+)?\s*+\]"
)
_AFTER_LIST: Final = 64
"""Bytes in which a tag of mpirun, "[1,0]<stdout>: …", goes on, and a JSON document does not."""
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")  # escapes and form feeds occur in logs

# Values that are long in a trace: the keys before them decide the format.
_LONG_VALUES = frozenset({"traceEvents", "nodes"})


class JsonHead(Struct, frozen=True):
    """The beginning of a JSON text.

    Attributes:
        data: The bytes.
        whole: Whether there is no more text.
        is_list: Whether it is a list; otherwise an object.
        item: First byte of the first item of a list.
        shape: Members of the object, or of the first item of a list of objects.
    """

    data: bytes
    whole: bool
    is_list: bool
    item: bytes
    shape: Shape

    @property
    def is_plain_object(self) -> bool:
        """Whether it is an object without trace events."""
        return not self.is_list and self.shape.find("traceEvents") is None

    @property
    def object_keys(self) -> frozenset[str]:
        """Keys of an object without trace events, empty for everything else."""
        return self.shape.keys if self.is_plain_object else frozenset()

    @property
    def is_cut(self) -> bool:
        """Whether a longer piece may have further keys that decide the format."""
        with_keys = self.is_plain_object or (self.is_list and self.item == b"{")
        return with_keys and not self.whole and self.shape.state == "cut"


class FileSample(Struct, frozen=True, dict=True):
    """The beginning of one file. ``json_head`` is longer where ``head`` ends before it decides."""

    path: str
    name: str
    head: Head
    json_head: Head

    @classmethod
    def of(cls, path: str, name: str, head: Head) -> FileSample:
        """The sample of a file whose ``head`` was read."""
        return cls(path, name, head, head)

    def with_longer_json(self) -> FileSample:
        """The same sample with more of its JSON text. Raises OSError."""
        return replace(self, json_head=read_head(self.path, LONG_HEAD_BYTES))

    @property
    def data(self) -> bytes:
        """First bytes of the text, decompressed."""
        return self.head.data

    @cached_property
    def lower_name(self) -> str:
        """The file name in lower case."""
        return self.name.lower()

    @property
    def is_sqlite(self) -> bool:
        """Whether it is an SQLite database."""
        return self.data.startswith(SQLITE_MAGIC)

    @cached_property
    def tables(self) -> frozenset[str]:
        """Names of tables and views of the database. Raises TraceError where it is damaged."""
        return table_names(self.path)

    def first_integer(self, table: str, column: str) -> int | None:
        """Return an integer of the first row of a table of the database, None without one."""
        return first_integer(self.path, table, column)

    @cached_property
    def looks_like_json(self) -> bool:
        """Whether the text opens an object or a list; not so "[rank0]: …" and "{'loss': …}"."""
        start = skip_blank(self.data)
        if self.data[start : start + 1] not in (b"{", b"["):
            return False
        closed = _LIST_OF_SCALARS.match(self.data, start)
        if closed is not None:
            return not self.data[closed.end() : closed.end() + _AFTER_LIST].strip()
        return _JSON_START.match(self.data, start) is not None

    @cached_property
    def json(self) -> JsonHead | None:
        """The beginning as JSON, None where it does not look like it."""
        return _json_head(self.json_head) if self.looks_like_json else None

    @cached_property
    def text(self) -> str | None:
        """The beginning as text, None where it is binary."""
        return _decode(self.data)

    @cached_property
    def readable(self) -> str | None:
        """The text, None where it is binary, blank, or stands for another file."""
        return None if self.text is None or useless_text(self.text) is not None else self.text

    @property
    def is_named_yaml(self) -> bool:
        """Whether the file name says YAML."""
        return self.lower_name.endswith((".yaml", ".yml"))

    @cached_property
    def prose(self) -> str | None:
        """The plain text of a file that is no YAML, None where there is none."""
        return None if self.is_named_yaml else self.plain

    @cached_property
    def plain(self) -> str | None:
        """The readable text without terminal escapes and without prefixes of its lines."""
        text = self.unescaped
        return text if text is None or self.looks_like_json else plain_text(text)

    @cached_property
    def unescaped(self) -> str | None:
        """The readable text without terminal escapes, with the prefixes of its lines."""
        text = self.readable
        return text if text is None or "\x1b" not in text else ANSI.sub("", text)


def useless_text(text: str) -> str | None:
    """Return why a text is unusable whatever its file name, None where it may be usable."""
    start = text.lstrip()[:200].lower()
    if not start:
        return "nothing but blanks"
    if start.startswith(("<!doctype html", "<html")):
        return "an HTML page, perhaps a failed download"
    if start.startswith("version https://git-lfs.github.com/spec/"):
        return "a Git LFS pointer: run `git lfs pull` to get the file itself"
    return None


def _json_head(head: Head) -> JsonHead:
    data = head.data
    start = skip_blank(data)
    if data[start : start + 1] != b"[":
        shape = object_shape(data, start, stop_at=_LONG_VALUES)
        return JsonHead(data, head.whole, is_list=False, item=b"", shape=shape)
    position = skip_blank(data, start + 1)
    item = data[position : position + 1]
    shape = object_shape(data, position) if item == b"{" else Shape((), "complete", position)
    return JsonHead(data, head.whole, is_list=True, item=item, shape=shape)


def _decode(data: bytes) -> str | None:
    """The text, or None where the bytes hold a NUL or many control characters."""
    for mark, encoding in ((codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16")):
        if data.startswith(mark):
            return data.decode(encoding, "replace")
    if b"\0" in data or len(_CONTROL.findall(data)) * 20 > len(data):
        return None
    text = data.decode("utf-8", "replace")
    return None if text.count("�") * 4 > len(text) else text.removeprefix("\ufeff")


HEAD_BYTES: Final = 16_000_000
TAIL_BYTES: Final = 48_000_000
MAX_UNPACKED_BYTES: Final = 1 << 30
"""A compressed text is unpacked up to here: its end cannot be reached otherwise."""


class BoundedText(Struct, frozen=True, dict=True):
    """``head`` is whole lines from the start, ``tail`` whole lines up to the end.

    ``tail`` is empty where the head is everything. ``left_out`` are bytes between them.
    """

    head: str
    tail: str
    left_out: int
    notes: tuple[Note, ...] = ()

    @property
    def parts(self) -> tuple[str, ...]:
        """Head and tail, without an empty one."""
        return tuple(part for part in (self.head, self.tail) if part)

    @cached_property
    def prefixes(self) -> Prefixes:
        """What a launcher put before the lines."""
        return Prefixes(self.head)

    @property
    def plain_parts(self) -> tuple[str, ...]:
        """Head and tail without terminal escapes and without the prefixes of their lines."""
        return tuple(self.prefixes.plain(part) for part in self.plain_of_ansi())

    def plain_of_ansi(self) -> Iterator[str]:
        """Head and tail without terminal escapes."""
        return (ANSI.sub("", part) if "\x1b" in part else part for part in self.parts)

    @property
    def plain_head(self) -> str:
        """The head, as `plain_parts` has it."""
        return next(iter(self.plain_parts), "")

    def lines(self) -> Iterator[tuple[str, str]]:
        """Every line without terminal escapes, as its prefixes and the rest."""
        for part in self.plain_of_ansi():
            yield from self.prefixes.lines(part)

    @property
    def end(self) -> str:
        """The last part."""
        return self.tail or self.head


def read_bounded(
    path: Path, *, shown: str, head_bytes: int = HEAD_BYTES, tail_bytes: int = TAIL_BYTES
) -> BoundedText:
    """A text, plain or compressed; its middle is left out, and noted, where it is longer.

    Bytes that are no UTF-8 become �. Raises TraceError for a file that cannot be read or is
    no text at all.
    """
    try:
        with open_regular(str(path)) as file:
            compressed = detect(file.read(4)) != "none"
            file.seek(0, 2)
            size = file.tell()
            if not compressed:
                file.seek(0)
                head = file.read(head_bytes)
                file.seek(max(size - tail_bytes, len(head)))
                tail = file.read(tail_bytes)
        notes: list[Note] = []
        if compressed:
            head, tail, size, notes = _unpacked(path, head_bytes, tail_bytes)
    except OSError as error:
        raise TraceError(f"cannot be read: {error.strerror or error}", path=shown) from error
    if b"\0" in head[:4096]:
        raise TraceError("binary data, not a text", path=shown, offset=head.index(b"\0"))
    left_out = size - len(head) - len(tail)
    if left_out > 0:
        head, tail = head[: head.rfind(b"\n") + 1], tail[tail.find(b"\n") + 1 :]
        message = f"of {size:,} bytes of text {left_out:,} in the middle are not read"
        notes.append(Note("long_text", message))
    else:
        head, tail = head + tail, b""
    begin, end = (part.decode("utf-8-sig", "replace") for part in (head, tail))
    return BoundedText(begin, end, max(left_out, 0), tuple(notes))


def _unpacked(path: Path, head_bytes: int, tail_bytes: int) -> tuple[bytes, bytes, int, list[Note]]:
    chunks = TextChunks(path)
    head = b""
    kept: deque[bytes] = deque()
    held = size = 0
    notes: list[Note] = []
    for piece in chunks:
        size += len(piece)
        begin = min(max(head_bytes - len(head), 0), len(piece))
        head += piece[:begin]
        kept.append(piece[begin:])
        held += len(piece) - begin
        while kept and held - len(kept[0]) >= tail_bytes:
            held -= len(kept.popleft())
        if size > MAX_UNPACKED_BYTES:
            notes.append(Note("long_text", f"only its first {size:,} bytes are unpacked"))
            break
    return head, b"".join(kept)[-tail_bytes:], size, [*chunks.notes, *notes]
