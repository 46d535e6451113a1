"""The beginning of a large trace, for who cannot wait until all of it is read.

Profilers write what the host did before what the device did, so the first megabytes hold no
kernel. Of a plain file two pieces are read: its head, and where the first kernels are.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from pathlib import Path
from typing import BinaryIO, Final

from ccltui.parsers.columns import RankTrace
from ccltui.parsers.errors import TraceError
from ccltui.parsers.kineto.json_text.json_tokens import object_extent
from ccltui.parsers.kineto.json_text.typed_event import DECODE_ERRORS, event_decoder
from ccltui.parsers.kineto.kineto_reader import read_pieces
from ccltui.parsers.text.compression import TextChunks

PIECE_BYTES: Final = 2 << 20
_PROBE_BYTES: Final = 64 << 10
_PREFACE_BYTES: Final = 64 << 10
"""What stands before the events is taken apart member by member: in a piece of its own, since
what follows in the same piece is moved with every one of them."""
_KERNEL: Final = re.compile(rb'"cat"\s*:\s*"[Kk]ernel"')
_BETWEEN: Final = re.compile(rb"\}\s*,\s*(?=\{)")
_BASE: Final = re.compile(rb'"baseTimeNanoseconds"\s*:\s*[0-9]+')
_BASE_FROM_END: Final = 4096
_MARGIN_BYTES: Final = 4096  # so that the event that a kernel is in is there from its beginning
_TRIES: Final = 200  # borders that are looked at: those inside of an event count too


def first_look(path: Path, *, shown: str, piece_bytes: int = PIECE_BYTES) -> RankTrace | None:
    """Columns of the beginning of a file, None where it has no events or is no larger.

    ``read_share`` says how much of the file they are of. Raises OSError.
    """
    size = path.stat().st_size
    chunks = TextChunks(path, piece_bytes)
    head = next(iter(chunks), b"")
    if chunks.compression == "none":
        pieces = _of_plain(path, head, size)
        used = sum(map(len, pieces))
    else:
        pieces, used = (head,), chunks.raw_bytes
    if used >= size:
        return None
    try:
        trace = read_pieces(pieces, chunks, path, shown=shown)
    except TraceError:
        return None
    # The rest will tell what is wrong with the file: what ends here ends because it was left.
    return dataclasses.replace(trace, read_share=used / size, truncated=False, notes=())


def _of_plain(path: Path, head: bytes, size: int) -> tuple[bytes, ...]:
    """The head up to the end of an event, a piece with kernels, and what the end says."""
    border = _last_border(head)
    if border is None or len(head) == size:
        return (head,)
    pieces = [head[: min(border, _PREFACE_BYTES)], head[_PREFACE_BYTES:border]]
    with path.open("rb", buffering=0) as file:
        if _KERNEL.search(head) is None:
            pieces += _with_kernels(file, len(head), size)
        base = _BASE.search(_at(file, max(size - _BASE_FROM_END, 0), _BASE_FROM_END))
    pieces.append(b"]," + base[0] + b"}" if base else b"]}")
    return tuple(pieces)


def _with_kernels(file: BinaryIO, start: int, size: int) -> list[bytes]:
    """A comma, and whole events from about where the first kernels are; nothing without any."""
    kernels = _first_kernel(file, start, size)
    if kernels is None:
        return []
    text = _at(file, max(kernels - _MARGIN_BYTES, start), start)
    first, last = _first_event(text), _last_border(text)
    return [] if first is None or last is None or first >= last else [b",", text[first:last]]


def _first_kernel(file: BinaryIO, start: int, size: int) -> int | None:
    """Where about the first kernel behind ``start`` is, None without any.

    Ever longer steps find some, halving leads back to where they begin: in files that repeat the
    two parts to those that belong to the head.
    """
    before, step = start, _PROBE_BYTES
    while not _KERNEL.search(_at(file, before + step, _PROBE_BYTES)):
        before, step = before + step, 2 * step
        if before + step >= size:
            return None
    behind = before + step
    while behind - before > _PROBE_BYTES:
        middle = (before + behind) // 2
        if _KERNEL.search(_at(file, middle, _PROBE_BYTES)):
            behind = middle
        else:
            before = middle
    found = _KERNEL.search(_at(file, behind - _PROBE_BYTES, 2 * _PROBE_BYTES))
    return None if found is None else behind - _PROBE_BYTES + found.start()


def _first_event(text: bytes) -> int | None:
    """Where the first whole event behind a border begins."""
    borders = itertools.islice(_BETWEEN.finditer(text), _TRIES)
    return next((found.end() for found in borders if _is_event(text, found.end())), None)


def _last_border(text: bytes) -> int | None:
    """End of an event behind which another whole one stands, near the end of the text."""
    borders = list(_BETWEEN.finditer(text, max(len(text) - _PROBE_BYTES, 0)))[: -_TRIES - 1 : -1]
    return next((found.start() + 1 for found in borders if _is_event(text, found.end())), None)


def _is_event(text: bytes, start: int) -> bool:
    """Whether a whole event begins there: what is nested in one has no phase."""
    end = object_extent(text, start).end
    try:
        return end is not None and event_decoder.decode(text[start:end]).ph is not None
    except DECODE_ERRORS:
        return False


def _at(file: BinaryIO, offset: int, count: int) -> bytes:
    file.seek(offset)
    return file.read(count)
