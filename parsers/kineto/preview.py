"""Read a preview of a large trace: a few megabytes, shown while the whole file is being read.

Profilers write host events before device events, so the first megabytes hold no kernel. Of an
uncompressed file two pieces are read: its head, and the text around the first kernels.
"""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import BinaryIO, Final

from msgspec import structs

from ccltui.parsers.columns import RankTrace
from ccltui.parsers.errors import TraceError
from ccltui.parsers.kineto.kineto_reader import read_pieces
from ccltui.parsers.kineto.scanner.typed_event import DECODE_ERRORS, event_decoder
from ccltui.parsers.text.compression import TextChunks
from ccltui.parsers.text.json_text import object_extent

PIECE_BYTES: Final = 2 << 20
_PROBE_BYTES: Final = 64 << 10
_PREFACE_BYTES: Final = 64 << 10
"""Size of the first piece. The members before the list of events are parsed one by one, and each
step copies the rest of its piece, so that piece is kept small."""
_KERNEL: Final = re.compile(rb'"cat"\s*:\s*"[Kk]ernel"')
_EVENT_BORDER: Final = re.compile(rb"\}\s*,\s*(?=\{)")
_BASE: Final = re.compile(rb'"baseTimeNanoseconds"\s*:\s*[0-9]+')
_BASE_FROM_END: Final = 4096
_MARGIN_BYTES: Final = 4096  # read before a kernel's category, to include the start of its event
_TRIES: Final = 200  # borders tested; ``}, {`` inside an event counts as one


def read_preview(path: Path, *, shown: str, piece_bytes: int = PIECE_BYTES) -> RankTrace | None:
    """Read columns of the beginning of a file.

    Returns:
        The columns, with the share of the file that was read in ``read_share``; None where the
        pieces hold no events or are the whole file.

    Raises:
        OSError: The file cannot be read.
    """
    size = path.stat().st_size
    chunks = TextChunks(path, piece_bytes)
    head = next(iter(chunks), b"")
    if chunks.compression == "none":
        pieces = _plain_pieces(path, head, size)
        used = sum(map(len, pieces))
    else:
        pieces, used = (head,), chunks.raw_bytes
    if used >= size:
        return None
    try:
        trace = read_pieces(pieces, chunks, path, shown=shown)
    except TraceError:
        return None
    # Notes are dropped: the text ends here because reading stopped. Reading the whole file
    # reports any real damage.
    return structs.replace(trace, read_share=used / size, truncated=False, notes=())


def _plain_pieces(path: Path, head: bytes, size: int) -> tuple[bytes, ...]:
    """Return the head up to the end of an event, a piece with kernels, and the base time.

    The base time is a member at the end of the file; the last piece also closes the document.
    """
    border = _last_event_end(head)
    if border is None or len(head) == size:
        return (head,)
    pieces = [head[: min(border, _PREFACE_BYTES)], head[_PREFACE_BYTES:border]]
    with path.open("rb", buffering=0) as file:
        if _KERNEL.search(head) is None:
            pieces += _kernel_piece(file, len(head), size)
        base = _BASE.search(_at(file, max(size - _BASE_FROM_END, 0), _BASE_FROM_END))
    pieces.append(b"]," + base[0] + b"}" if base else b"]}")
    return tuple(pieces)


def _kernel_piece(file: BinaryIO, start: int, size: int) -> list[bytes]:
    """Return a comma and whole events from about the first kernel; nothing without kernels."""
    kernels = _first_kernel(file, start, size)
    if kernels is None:
        return []
    text = _at(file, max(kernels - _MARGIN_BYTES, start), start)
    first, last = _first_event(text), _last_event_end(text)
    return [] if first is None or last is None or first >= last else [b",", text[first:last]]


def _first_kernel(file: BinaryIO, start: int, size: int) -> int | None:
    """Return about where the first kernel after ``start`` is, None if none is found.

    Probes at doubling distances find a kernel; bisection finds where the kernels before it begin.
    In files that repeat host and device parts these are the kernels of the first part.
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
    """Return where the first whole event after a border begins."""
    borders = itertools.islice(_EVENT_BORDER.finditer(text), _TRIES)
    return next((found.end() for found in borders if _is_whole_event(text, found.end())), None)


def _last_event_end(text: bytes) -> int | None:
    """Return the end of an event that another whole event follows, near the end of the text."""
    borders = list(_EVENT_BORDER.finditer(text, max(len(text) - _PROBE_BYTES, 0)))[
        : -_TRIES - 1 : -1
    ]
    return next(
        (found.start() + 1 for found in borders if _is_whole_event(text, found.end())), None
    )


def _is_whole_event(text: bytes, start: int) -> bool:
    """Return whether a whole event begins at ``start``; objects nested in one have no phase."""
    end = object_extent(text, start).end
    try:
        return end is not None and event_decoder.decode(text[start:end]).ph is not None
    except DECODE_ERRORS:
        return False


def _at(file: BinaryIO, offset: int, count: int) -> bytes:
    file.seek(offset)
    return file.read(count)
