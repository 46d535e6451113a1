"""The beginning of a large trace, for who cannot wait until all of it is read.

Profilers write what the host did before what the device did, so the first megabytes hold no
kernel. Of a plain file two pieces are read: its head, and where the first kernels are.
"""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import BinaryIO, Final

from parsers.columns import RankTrace
from parsers.compression import TextChunks
from parsers.errors import TraceError
from parsers.kineto.document import last_border
from parsers.kineto.reader import read_pieces

PIECE_BYTES: Final = 2 << 20
_PROBE_BYTES: Final = 64 << 10
_PREFACE_BYTES: Final = 64 << 10
"""What stands before the events is taken apart member by member: in a piece of its own, since
what follows in the same piece is moved with every one of them."""
_KERNEL: Final = re.compile(rb'"cat"\s*:\s*"[Kk]ernel"')
_BETWEEN: Final = re.compile(rb"\}\s*,\s*(?=\{)")
_BASE: Final = re.compile(rb'"baseTimeNanoseconds"\s*:\s*[0-9]+')
_BASE_FROM_END: Final = 4096


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
    cut = last_border(head, len(head)) + 1
    if not cut or len(head) == size:
        return (head,)
    with path.open("rb", buffering=0) as file:
        pieces = [head[: min(cut, _PREFACE_BYTES)], head[_PREFACE_BYTES:cut]]
        if _KERNEL.search(head) is None:
            pieces += _with_kernels(file, len(head), size)
        base = _BASE.search(_at(file, max(size - _BASE_FROM_END, 0), _BASE_FROM_END))
    pieces.append(b"]," + base[0] + b"}" if base else b"]}")
    return tuple(pieces)


def _with_kernels(file: BinaryIO, start: int, size: int) -> list[bytes]:
    """A comma, and whole events from about where the first kernels are; nothing without any."""
    before, behind, step = start, size, _PROBE_BYTES
    while before + step < size:
        if _KERNEL.search(_at(file, before + step, _PROBE_BYTES)):
            behind = before + step
            break
        before, step = before + step, 2 * step
    while behind - before > _PROBE_BYTES:
        middle = (before + behind) // 2
        if _KERNEL.search(_at(file, middle, _PROBE_BYTES)):
            behind = middle
        else:
            before = middle
    text = _at(file, behind, start)
    opened = _BETWEEN.search(text)
    cut = last_border(text, len(text)) + 1
    if opened is None or cut <= opened.end():
        return []
    return [b",", text[opened.end() : cut]]


def _at(file: BinaryIO, offset: int, count: int) -> bytes:
    file.seek(offset)
    return file.read(count)
