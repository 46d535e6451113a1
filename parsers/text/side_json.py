"""Side files: one JSON document, or one a line, read whole and with a limit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import msgspec

from ccltui.parsers.errors import TraceError
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
