"""Yield the uncompressed text of a file in chunks, whatever its suffix, or its first bytes.

The first bytes decide: gzip (any number of members, through isal), zstd, or plain text.
Damage does not raise: what could be decoded is yielded, then a note says where it ended.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import queue
import stat
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from hashlib import blake2b
from pathlib import Path
from typing import Literal, Protocol

from isal import igzip_lib, isal_zlib
from msgspec import Struct

from ccltui.parsers.columns import Note

Compression = Literal["none", "gzip", "zstd"]

GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_CHUNKS_AHEAD = 3
_POLL_S = 0.05
_READ_BYTES = 256 * 1024
_ZSTD_SLICE_BYTES = 4096
_RECOVERY_BYTES = 4  # half of a gzip checksum and length: no text is in the call that fails
_GZIP_WBITS = 31  # gzip header and trailer, 32 KiB window


def detect(head: bytes) -> Compression:
    """Compression named by the first bytes of a file."""
    if head.startswith(GZIP_MAGIC):
        return "gzip"
    if head.startswith(ZSTD_MAGIC):
        return "zstd"
    return "none"


class TextChunks:
    """Iterate over the uncompressed bytes of ``path`` in chunks of at most ``chunk_bytes``.

    After (and during) iteration: ``compression``, ``raw_bytes`` read from the file so far,
    ``text_bytes`` yielded so far, and ``notes`` on damage. Raises ``OSError`` only. ``opened`` is
    the file, where it is open already; it is read from its beginning, and stays open.
    """

    def __init__(
        self,
        path: Path,
        chunk_bytes: int = 1 << 20,
        *,
        progress: Callable[[int], None] | None = None,
        opened: io.RawIOBase | None = None,
    ) -> None:
        self._path = path
        self._opened = opened
        self._chunk_bytes = chunk_bytes
        self._progress = progress
        self.compression: Compression = "none"
        self.raw_bytes = 0
        self.text_bytes = 0
        self.notes: list[Note] = []
        self._produced = 0  # uncompressed bytes so far, those not yet yielded included

    def __iter__(self) -> Iterator[bytes]:
        pieces = self._pieces()
        first = next(pieces, None)
        if first is None:
            return
        # Decompression releases the interpreter's lock: it overlaps with the scan. One chunk
        # needs no thread.
        rest = pieces if self.compression == "none" else ahead(pieces, _CHUNKS_AHEAD)
        for piece in itertools.chain([first], rest):
            self.text_bytes += len(piece)
            yield piece

    def _pieces(self) -> Iterator[bytes]:
        if self._opened is not None:
            self._opened.seek(0)
            yield from self._text_of(self._opened)
            return
        with self._path.open("rb", buffering=0) as file:
            yield from self._text_of(file)

    def _text_of(self, file: io.RawIOBase) -> Iterator[bytes]:
        head = _read_full(file, 4)
        self.compression = detect(head)
        ways = {"none": self._plain, "gzip": self._gzip, "zstd": self._zstd}
        pieces = self._counted(ways[self.compression](file, head))
        yield from _resize(pieces, self._chunk_bytes)

    def _read(self, file: io.RawIOBase, pending: bytes = b"") -> bytes:
        """Next raw bytes of the file, ``pending`` (already read) first."""
        block = pending or file.read(_READ_BYTES) or b""
        self.raw_bytes += len(block)
        if block and self._progress is not None:
            self._progress(self.raw_bytes)
        return block

    def _plain(self, file: io.RawIOBase, head: bytes) -> Iterator[bytes]:
        # Whole chunks, the first one too, so that callers need not join and cut them.
        block = self._read(file, head + _read_full(file, self._chunk_bytes - len(head)))
        while block:
            yield block
            block = self._read(file, _read_full(file, self._chunk_bytes))

    def _gzip(self, file: io.RawIOBase, head: bytes) -> Iterator[bytes]:
        member = isal_zlib.decompressobj(_GZIP_WBITS)
        block = self._read(file, head)
        begin, produced = 0, 0  # of this member: its first byte in the file, its text so far
        while block:
            try:
                piece = member.decompress(block, self._chunk_bytes)
            except igzip_lib.IsalError as error:  # type: ignore[misc]  # a stub says instance
                yield from _text_before_damage(file, begin, produced, self._chunk_bytes)
                self._damaged("corrupt_gzip", f"gzip data is damaged ({error})")
                return
            produced += len(piece)
            yield piece
            block = member.unconsumed_tail or (member.unused_data if member.eof else b"")
            if member.eof:
                while not (block := block.lstrip(b"\0")):  # some media pad files with zeros
                    block = self._read(file)
                    if not block:
                        return
                if not GZIP_MAGIC.startswith(block[:2]):
                    self._damaged("trailing_data", "bytes after the end of the gzip data")
                    return
                member = isal_zlib.decompressobj(_GZIP_WBITS)
                begin, produced = self.raw_bytes - len(block), 0
            elif not block:
                block = self._read(file)
        self._damaged("truncated_trace", "gzip data ends in the middle")

    def _zstd(self, file: io.RawIOBase, head: bytes) -> Iterator[bytes]:
        new_frame, zstd_error = _zstd_library()
        frame = new_frame()
        block = self._read(file, head)
        while block:
            # Output cannot be limited, so small inputs limit what a hostile frame can yield.
            for start in range(0, len(block), _ZSTD_SLICE_BYTES):
                try:
                    yield frame.decompress(block[start : start + _ZSTD_SLICE_BYTES])
                except zstd_error as error:
                    self._damaged("corrupt_zstd", f"zstd data is damaged ({error})")
                    return
                if frame.eof:
                    block = frame.unused_data + block[start + _ZSTD_SLICE_BYTES :]
                    break
            else:
                block = self._read(file)
                continue
            block = block or self._read(file)
            if not block:
                return
            if not ZSTD_MAGIC.startswith(block[:4]):
                self._damaged("trailing_data", "bytes after the end of the zstd data")
                return
            frame = new_frame()
        self._damaged("truncated_trace", "zstd data ends in the middle")

    def _damaged(self, code: str, message: str) -> None:
        place = f"{message} before compressed byte {self.raw_bytes:,}"
        self.notes.append(Note(code=code, message=place, offset=self._produced))

    def _counted(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        for piece in pieces:
            self._produced += len(piece)
            yield piece


def _text_before_damage(
    file: io.RawIOBase, begin: int, skipped: int, limit: int
) -> Iterator[bytes]:
    """Decompress a damaged gzip member again; yield its text but the first ``skipped`` bytes.

    An error discards all text of the call in which it occurs, which may be that of a whole small
    file whose checksum alone is wrong. Inputs of a few bytes confine the loss.
    """
    member = isal_zlib.decompressobj(_GZIP_WBITS)
    file.seek(begin)
    with contextlib.suppress(igzip_lib.IsalError):  # type: ignore[arg-type]  # as above
        while block := file.read(_READ_BYTES):
            for start in range(0, len(block), _RECOVERY_BYTES):
                rest = block[start : start + _RECOVERY_BYTES]
                while rest and not member.eof:
                    piece = member.decompress(rest, limit)
                    rest = member.unconsumed_tail
                    yield piece[skipped:]
                    skipped = max(skipped - len(piece), 0)


def ahead(pieces: Iterator[bytes], depth: int) -> Generator[bytes, None, None]:
    """The same pieces, fetched by a thread that is at most ``depth`` of them ahead.

    An exception of ``pieces`` is raised here, in its place. Leaving early ends the thread.
    """
    ready: queue.Queue[bytes | BaseException | None] = queue.Queue(depth)
    left = threading.Event()

    def offer(item: bytes | BaseException | None) -> bool:
        while not left.is_set():
            try:
                ready.put(item, timeout=_POLL_S)
            except queue.Full:
                continue
            return True
        return False

    def fetch() -> None:
        try:
            for piece in pieces:
                if not offer(piece):
                    return
        except BaseException as error:  # it belongs to the reader
            offer(error)
        else:
            offer(None)

    thread = threading.Thread(target=fetch, name="decompress", daemon=True)
    thread.start()
    try:
        while (item := ready.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        left.set()
        thread.join()


def _read_full(file: io.RawIOBase, size: int) -> bytes:
    """Exactly ``size`` bytes, fewer at the end of the file only."""
    data = b""
    while len(data) < size:
        block = file.read(size - len(data))
        if not block:
            break
        data += block
    return data


def _resize(pieces: Iterator[bytes], size: int) -> Iterator[bytes]:
    """Join and cut ``pieces`` to ``size`` bytes each; the last may be shorter."""
    parts: list[bytes] = []
    held = 0
    for piece in pieces:
        if not held and len(piece) == size:
            yield piece
            continue
        parts.append(piece)
        held += len(piece)
        if held < size:
            continue
        joined = b"".join(parts)
        full = held - held % size
        for start in range(0, full, size):
            yield joined[start : start + size]
        parts = [joined[full:]]
        held -= full
    if held:
        yield b"".join(parts)


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


_WINDOW_LOG = 31  # 2 GiB: the largest window that `zstd --long=31` writes


class _ZstdFrame(Protocol):
    """One frame while it is decompressed."""

    @property
    def eof(self) -> bool:
        """Whether the frame has ended."""

    @property
    def unused_data(self) -> bytes:
        """Bytes after the end of the frame."""

    def decompress(self, data: bytes, /) -> bytes:
        """Return the text of the next bytes. Raises the error of its library."""


def _zstd_library() -> tuple[Callable[[], _ZstdFrame], type[Exception]]:
    """Return what makes a decompressor of one frame, and its error: few files need it.

    From Python 3.14 on it is of the standard library, else of the package zstandard: both take the
    same bytes and give the same text.
    """
    if sys.version_info >= (3, 14):
        from compression import zstd  # noqa: PLC0415

        options = {zstd.DecompressionParameter.window_log_max: _WINDOW_LOG}
        return (lambda: zstd.ZstdDecompressor(options=options)), zstd.ZstdError
    import zstandard  # noqa: PLC0415

    whole = zstandard.ZstdDecompressor(max_window_size=1 << _WINDOW_LOG)
    return whole.decompressobj, zstandard.ZstdError
