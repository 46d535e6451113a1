"""The first and last bytes of a file's text; nothing here blocks on a device."""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Generator
from contextlib import closing
from hashlib import blake2b
from pathlib import Path

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


def open_regular(path: str) -> io.FileIO:
    """Open a regular file for reading; OSError when it is anything else by now."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
    descriptor = os.open(path, flags)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError("not a regular file")
        return io.FileIO(descriptor)
    except BaseException:
        os.close(descriptor)
        raise


def read_head(path: str, limit: int = HEAD_BYTES) -> Head:
    """The first ``limit`` bytes of text; OSError when the file cannot be read."""
    with open_regular(path) as file:
        return head_of(file, path, limit)


def head_of(file: io.FileIO, path: str, limit: int = HEAD_BYTES) -> Head:
    """The first ``limit`` bytes of text of an open file; OSError when it cannot be read."""
    chunks = TextChunks(Path(path), limit + 1, opened=file)
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
        with open_regular(path) as file:
            return _last_bytes(file, os.fstat(file.fileno()).st_size, limit)
    except (OSError, ValueError):
        return b""


class RawEnds(Struct, frozen=True):
    """Size, time of the last change, and the first and last bytes of a file as it is stored."""

    size_bytes: int
    mtime_ns: int
    first: bytes
    last: bytes

    @property
    def digest(self) -> str:
        """What distinguishes the content of the file from others without reading all of it.

        The time, to the nanosecond, stands for the bytes between. The path is not part of it.
        """
        found = blake2b(digest_size=16)
        found.update(repr((self.size_bytes, self.mtime_ns)).encode())
        found.update(self.first)
        found.update(self.last)
        return found.hexdigest()


def ends_of(file: io.FileIO) -> RawEnds:
    """The ends of a file that is open at its beginning. Raises OSError."""
    status = os.fstat(file.fileno())
    first = file.read(HEAD_BYTES)
    last = _last_bytes(file, status.st_size, TAIL_BYTES)
    return RawEnds(status.st_size, status.st_mtime_ns, first, last)


def read_ends(path: str) -> RawEnds:
    """The ends of the file of a path. Raises OSError."""
    with io.FileIO(path) as file:
        return ends_of(file)


def _last_bytes(file: io.FileIO, size_bytes: int, limit: int) -> bytes:
    file.seek(max(0, size_bytes - limit))
    return file.read(limit)


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
