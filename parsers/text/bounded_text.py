"""Read the beginning and the end of a text of any size: at most 64 MB of a log of a gigabyte."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Final

from msgspec import Struct

from ccltui.parsers.columns import Note
from ccltui.parsers.errors import TraceError
from ccltui.parsers.text.compression import TextChunks, detect, open_regular
from ccltui.parsers.text.file_sample import ANSI
from ccltui.parsers.text.line_prefixes import Prefixes

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
