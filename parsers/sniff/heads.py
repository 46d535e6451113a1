"""The first and last bytes of a file, decompressed; nothing here ever waits on a device."""

from __future__ import annotations

import os
import stat
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, BinaryIO, cast

import zstandard
from isal import igzip, isal_zlib

from parsers.found import Compression

HEAD_BYTES = 1 << 16
LONG_HEAD_BYTES = 1 << 22
TAIL_BYTES = 1 << 16

_GZIP_MAGIC = b"\x1f\x8b"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_ZSTD_SKIPPABLE = tuple(bytes([0x50 + n, 0x2A, 0x4D, 0x18]) for n in range(16))
_LARGEST_ZSTD_WINDOW = 1 << 27
_HIGHEST_RATIO = 1100  # gzip cannot exceed 1032; beyond it a zstd stream is a bomb
_STEP = 1 << 20

DECOMPRESSION_ERRORS: tuple[type[Exception], ...] = (
    OSError,
    EOFError,
    ValueError,
    zlib.error,
    cast(type[Exception], isal_zlib.IsalError),
    zstandard.ZstdError,
)


@dataclass(frozen=True, slots=True)
class Head:
    """The first bytes of a file's text.

    ``whole``: there is no more text. ``error``: why decompression stopped, None when it did not.
    """

    data: bytes
    raw: bytes
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


def compression_of(raw: bytes) -> Compression:
    """Compression by magic bytes, whatever the name says."""
    if raw.startswith(_GZIP_MAGIC):
        return "gzip"
    if raw.startswith((_ZSTD_MAGIC, *_ZSTD_SKIPPABLE)):
        return "zstd"
    return "none"


def text_of(handle: BinaryIO, compression: Compression) -> BinaryIO:
    """A reader of the decompressed text; several members or frames are one text."""
    if compression == "gzip":
        open_gzip: Any = igzip.IGzipFile  # untyped
        return cast(BinaryIO, open_gzip(fileobj=handle, mode="rb"))
    if compression == "zstd":
        decompressor = zstandard.ZstdDecompressor(max_window_size=_LARGEST_ZSTD_WINDOW)
        reader = decompressor.stream_reader(handle, read_across_frames=True, closefd=False)
        return cast(BinaryIO, reader)
    return handle


def read_head(path: str, limit: int = HEAD_BYTES) -> Head:
    """The first ``limit`` bytes of text; OSError when the file cannot be opened."""
    with open_regular(path) as handle:
        raw = handle.read(512)
        handle.seek(0)
        compression = compression_of(raw)
        reader = text_of(handle, compression)
        data, error = _read_up_to(reader, limit + 1)
    return Head(data[:limit], raw, compression, len(data) <= limit and error is None, error)


def _read_up_to(reader: BinaryIO, limit: int) -> tuple[bytes, str | None]:
    parts: list[bytes] = []
    missing = limit
    try:
        while missing > 0 and (part := reader.read(min(missing, _STEP))):
            parts.append(part)
            missing -= len(part)
    except DECOMPRESSION_ERRORS as error:
        return b"".join(parts), str(error) or type(error).__name__
    return b"".join(parts), None


def read_tail(path: str, compression: Compression, limit: int = TAIL_BYTES) -> bytes:
    """The last ``limit`` bytes of text, b"" when it cannot be reached undamaged.

    A compressed file is decompressed from its start, so ask this of small ones only.
    """
    try:
        with open_regular(path) as handle:
            if compression == "none":
                handle.seek(max(0, os.fstat(handle.fileno()).st_size - limit))
                return handle.read(limit)
            tail = b""
            for part in _parts(handle, compression):
                tail = (tail + part)[-limit:]
            return tail
    except DECOMPRESSION_ERRORS:
        return b""


def content_digest(path: str, compression: Compression) -> bytes | None:
    """Digest of the whole decompressed text, None when it cannot be read to its end."""
    digest = blake2b(digest_size=16)
    try:
        with open_regular(path) as handle:
            for part in _parts(handle, compression):
                digest.update(part)
    except DECOMPRESSION_ERRORS:
        return None
    return digest.digest()


def _parts(handle: BinaryIO, compression: Compression) -> Iterator[bytes]:
    """The text in parts; ValueError when it grows beyond what honest compression yields."""
    allowed = os.fstat(handle.fileno()).st_size * _HIGHEST_RATIO + _STEP
    reader = text_of(handle, compression)
    while part := reader.read(_STEP):
        allowed -= len(part)
        if allowed < 0:
            raise ValueError("decompresses to far more than its size allows")
        yield part
