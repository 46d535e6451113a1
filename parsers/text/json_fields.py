"""Values of a JSON document of unknown origin by path; wrong types are noted."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from ccltui.parsers.columns import Note
from ccltui.parsers.errors import TraceError
from ccltui.parsers.safe_text import printable
from ccltui.parsers.text.compression import TextChunks

MAX_BYTES: Final = 1 << 29
"""Text beyond it is no side file of a job: such a file is refused, not read."""


def read_documents(path: Path, *, shown: str, max_bytes: int = MAX_BYTES) -> list[Any]:
    """The documents of a file, plain or compressed: one, or one a line (JSONL).

    NaN and Infinity, which Python writes for statistics of nothing, are None. Raises TraceError
    for a file that cannot be read, is damaged, too large, or holds no JSON.
    """
    text = read_text(path, shown, max_bytes)
    try:
        return [msgspec.json.decode(text)]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    documents, problem = _documents(text)
    if problem is not None or not documents:
        raise TraceError(f"not valid JSON: {problem or 'no document'}", path=shown)
    return documents


def read_text(path: Path, shown: str, max_bytes: int = MAX_BYTES) -> bytes:
    """The text of a file, plain or compressed. Raises TraceError as `read_documents` does."""
    chunks, parts, size = TextChunks(path), [], 0
    try:
        for part in chunks:
            size += len(part)
            if size > max_bytes:
                raise TraceError(f"more than {max_bytes:,} bytes of text", path=shown)
            parts.append(part)
    except OSError as error:
        raise TraceError(f"cannot be read: {error.strerror or error}", path=shown) from error
    if chunks.notes:
        raise TraceError(chunks.notes[0].message, path=shown)
    return b"".join(parts)


def _documents(text: bytes) -> tuple[list[Any], str | None]:
    """Documents one after the other, whatever blanks are between, and what ends them early."""
    import json  # noqa: PLC0415  (few files need it, and most commands read none)

    source = text.decode("utf-8", "replace").lstrip("\ufeff")
    decoder = json.JSONDecoder(parse_constant=lambda _: None)
    documents: list[Any] = []
    position = _skip(source, 0)
    while position < len(source):
        try:
            document, position = decoder.raw_decode(source, position)
        except (ValueError, RecursionError) as error:
            message = "nested too deeply"
            if isinstance(error, json.JSONDecodeError):
                message = error.msg.removesuffix(" starting at")
            return documents, f"{message} in line {source.count(chr(10), 0, position) + 1}"
        documents.append(document)
        position = _skip(source, position)
    return documents, None


def _skip(source: str, position: int) -> int:
    while position < len(source) and source[position] in " \t\r\n":
        position += 1
    return position


MAX_DOCUMENT_BYTES: Final = 1 << 26
_LONGEST_TEXT: Final = 4096


class Fields:
    """A document and the notes on what in it could not be used."""

    def __init__(self, document: Mapping[str, Any], prefix: str = "") -> None:
        self.document = document
        self.notes: list[Note] = []
        self._prefix = prefix

    def raw(self, path: str) -> Any:
        """The value under dotted keys as it is, None where it is absent."""
        value: Any = self.document
        for key in path.split("."):
            if not isinstance(value, Mapping):
                return None
            value = value.get(key)
        return value

    def number(self, path: str) -> float | None:
        """A finite number; text that is one counts."""
        value = self.raw(path)
        if value is None:
            return None
        found = finite(value)
        if found is None:
            self._refuse(path, value, "a number")
        return found

    def count(self, path: str) -> int | None:
        """A whole number that is not negative; text that is one counts."""
        value = self.raw(path)
        if value is None:
            return None
        found = whole(value)
        if found is None:
            self._refuse(path, value, "a whole number")
        return found

    def text(self, path: str) -> str:
        """Text, "" where it is absent; numbers are text too."""
        value = self.raw(path)
        if value is None:
            return ""
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            self._refuse(path, value, "text")
            return ""
        return str(value)[:_LONGEST_TEXT]

    def flag(self, path: str) -> bool | None:
        """Yes or no, None where it is not stated."""
        value = self.raw(path)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int | str) and str(value).lower() in _FLAGS:
            return _FLAGS[str(value).lower()]
        self._refuse(path, value, "true or false")
        return None

    def texts(self, path: str) -> dict[str, str]:
        """A mapping of scalars as text, {} where it is absent."""
        value = self.raw(path)
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            self._refuse(path, value, "a mapping")
            return {}
        return {
            str(key): str(item)[:_LONGEST_TEXT]
            for key, item in value.items()
            if isinstance(item, str | int | float) and not isinstance(item, bool)
        }

    def numbers(self, path: str) -> list[float] | None:
        """A list of numbers with NaN for what is none of them, None where there is no list.

        One number is a list of one.
        """
        value = self.raw(path)
        if value is None:
            return None
        if not isinstance(value, list):
            one = self.number(path)
            return None if one is None else [one]
        found = [finite(item) for item in value]
        bad = sum(item is None for item in found)
        if bad:
            self.note(f"{path}: {bad} of {len(value)} values are no numbers")
        return [math.nan if item is None else item for item in found]

    def read(self, table: Any) -> dict[str, Any]:
        """Return the fields of a dataclass that `stated` declares."""
        found = {}
        for one in dataclasses.fields(table):
            for path in one.metadata.get("paths", ()):
                found[one.name] = one.metadata["read"](self, path)
                if found[one.name] not in (None, ""):
                    break
        return found

    def note(self, message: str) -> None:
        """Add a note about the document."""
        self.notes.append(Note("run_file", message))

    def _refuse(self, path: str, value: Any, wanted: str) -> None:
        self.note(f"{self._prefix}{path} is {printable(repr(value)[:40])}, not {wanted}")


def stated(
    read: Callable[[Fields, str], Any], *paths: str, empty: Callable[[], Any] | None = None
) -> Any:
    """Declare a field of a dataclass that `Fields.read` fills.

    Args:
        read: Method of `Fields` that reads it.
        paths: Dotted keys that may hold it; the first that does counts.
        empty: Type of its value where none does, which is then empty; None for None.
    """
    metadata = {"read": read, "paths": paths}
    if empty is None:
        return dataclasses.field(default=None, metadata=metadata)
    return dataclasses.field(default_factory=empty, metadata=metadata)


_FLAGS: Final = {"true": True, "false": False, "1": True, "0": False, "yes": True, "no": False}


LARGEST_NUMBER: Final = 1e290
"""Largest magnitude of a number from a file: sums of any number of them stay finite."""


def finite(value: Any) -> float | None:
    """A number of at most ``LARGEST_NUMBER``, also one written as text; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if abs(number) <= LARGEST_NUMBER else None


def finite_or_nan(value: Any) -> float:
    """A number as of `finite`, NaN for anything else."""
    number = finite(value)
    return math.nan if number is None else number


def whole(value: Any) -> int | None:
    """A whole number from 0, also one written as text; None for anything else."""
    number = finite(value)
    if number is None or number < 0 or not number.is_integer():
        return None
    return int(value) if isinstance(value, int) else int(number)


def read_object(path: Path, *, shown_path: str) -> dict[str, Any]:
    """The one JSON object of a file. Raises TraceError where it is none, or is cut off."""
    documents = read_documents(path, shown=shown_path, max_bytes=MAX_DOCUMENT_BYTES)
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise TraceError("not one JSON object", path=shown_path)
    return documents[0]
