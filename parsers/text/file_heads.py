"""The first and last bytes of a file's text; nothing here blocks on a device."""

from __future__ import annotations

import os
import stat
from collections.abc import Generator
from contextlib import closing
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from ccltui.parsers.text.compression import Compression, TextChunks

HEAD_BYTES = 1 << 16
LONG_HEAD_BYTES = 1 << 22
TAIL_BYTES = 1 << 16

_HIGHEST_RATIO = 1100  # gzip cannot exceed 1032; a zstd stream beyond it is a bomb
_STEP = 1 << 20


class Head(Struct, frozen=True):
    """The first bytes of a file's text.

    ``whole``: there is no more text. ``error``: why decompression stopped early, else None.
    """

    data: bytes
    compression: Compression
    whole: bool
    error: str | None = None


def open_regular(path: str) -> BinaryIO:
    """Open a regular file for reading; OSError when it is anything else by now."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
    descriptor = os.open(path, flags)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError("not a regular file")
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_head(path: str, limit: int = HEAD_BYTES) -> Head:
    """The first ``limit`` bytes of text; OSError when the file cannot be read."""
    with open_regular(path) as handle:
        handle.read(1)  # what would block or fail does so here, where it cannot block
    chunks = TextChunks(Path(path), limit + 1)
    with closing(_pieces(chunks)) as pieces:
        data = next(pieces, b"")
    error = chunks.notes[0].message if chunks.notes and len(data) <= limit else None
    return Head(data[:limit], chunks.compression, len(data) <= limit and error is None, error)


def read_tail(path: str, compression: Compression, limit: int = TAIL_BYTES) -> bytes:
    """The last ``limit`` bytes of text, b"" when it cannot be reached undamaged.

    A compressed file is decompressed from its start, so ask this of small ones only.
    """
    try:
        if compression != "none":
            tail = b""
            for part in _whole_text(path):
                tail = (tail + part)[-limit:]
            return tail
        with open_regular(path) as handle:
            handle.seek(max(0, os.fstat(handle.fileno()).st_size - limit))
            return handle.read(limit)
    except (OSError, ValueError):
        return b""


def content_digest(path: str) -> bytes | None:
    """Digest of the whole decompressed text, None when it cannot be read to its end."""
    digest = blake2b(digest_size=16)
    try:
        for part in _whole_text(path):
            digest.update(part)
    except (OSError, ValueError):
        return None
    return digest.digest()


def text_pieces(path: str, size: int) -> Generator[bytes]:
    """The text in pieces of ``size`` bytes, up to its end or the first damage."""
    return _pieces(TextChunks(Path(path), size))


def _pieces(chunks: TextChunks) -> Generator[bytes]:
    yield from chunks


def _whole_text(path: str) -> Generator[bytes]:
    """The text in parts; ValueError when it is damaged, or grows beyond what its size allows."""
    allowed = Path(path).stat().st_size * _HIGHEST_RATIO + _STEP
    chunks = TextChunks(Path(path), _STEP)
    for part in chunks:
        if chunks.text_bytes > allowed:
            raise ValueError("decompresses to far more than its size allows")
        yield part
    if chunks.notes:
        raise ValueError(chunks.notes[0].message)
