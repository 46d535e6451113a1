"""Read the text of ``nsys stats``, of any version and format, as typed tables.

A file may have several reports, each after a banner, between progress bars, notices and the output
of the profiled program. Other text gives no section.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from ccltui.parsers.columns import Note
from ccltui.parsers.errors import NotFoundError, TraceError
from ccltui.parsers.names import printable
from ccltui.parsers.nsys.text_reports.banners import is_progress
from ccltui.parsers.nsys.text_reports.first_bytes import PARQUET
from ccltui.parsers.nsys.text_reports.recipes import text_of_parquet, with_units
from ccltui.parsers.nsys.text_reports.sections import SectionReader
from ccltui.parsers.nsys.text_reports.typed_table import StatsText
from ccltui.parsers.text.compression import TextChunks
from ccltui.parsers.text.line_prefixes import plain_text

_LIMIT_MB: Final = 256


def read_stats_text(path: Path, *, shown: str | None = None, unit: str = "") -> StatsText:
    """Read every report in a text file (UTF-8 or UTF-16, plain, gzip or zstd) or recipe Parquet.

    Args:
        path: The file.
        shown: Its path in messages; its name if None.
        unit: Unit of times whose header has none.

    Raises:
        TraceError: A table cannot be read; it has path, line and column. Or the text is longer
            than the limit.
        NotFoundError: There is no such file.
    """
    name = shown or path.name
    chunks = TextChunks(path)
    try:
        data = _whole(chunks, name)
    except FileNotFoundError:
        raise NotFoundError("no such file", path=name) from None
    except OSError as error:
        raise TraceError(error.strerror or str(error), path=name) from None
    if data.startswith(PARQUET):
        return parse_stats_text(text_of_parquet(data, name), path=name, unit=unit)
    text, notes = _decode(data)
    return parse_stats_text(text, path=name, unit=unit, notes=(*chunks.notes, *notes))


def _whole(chunks: TextChunks, name: str) -> bytes:
    """Return the whole text; TraceError beyond the limit, as tables take ten times its memory."""
    stated = os.environ.get("CCLTUI_TEXT_LIMIT_MB", "")
    limit = int(stated) if stated.isdecimal() and len(stated) < 10 else _LIMIT_MB
    parts = []
    for part in chunks:
        if chunks.text_bytes > limit * 1_000_000:
            message = f"its text is longer than {limit:,} MB; CCLTUI_TEXT_LIMIT_MB sets the limit"
            raise TraceError(message, path=name)
        parts.append(part)
    return b"".join(parts)


def parse_stats_text(
    text: str, *, path: str = "", unit: str = "", notes: tuple[Note, ...] = ()
) -> StatsText:
    """Parse every report in a text. Raises TraceError with line and column."""
    try:
        reader = SectionReader(_lines(with_units(plain_text(text))), path, unit)
        return StatsText(path, reader.sections(), (*notes, *reader.notes))
    except TraceError as error:
        raise TraceError(
            printable(error.message), path=path or None, line=error.line, column=error.column
        ) from None


def _decode(data: bytes) -> tuple[str, list[Note]]:
    for mark, encoding in ((b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16")):
        if data.startswith(mark):
            return data.decode(encoding, "replace"), []
    try:
        return data.decode("utf-8-sig"), []
    except UnicodeDecodeError as error:
        note = Note("bad_text", "some bytes are no UTF-8; they are shown as �", error.start)
        return data.decode("utf-8-sig", "replace"), [note]


def _lines(text: str) -> list[tuple[int, str]]:
    """Return numbered lines; a line with carriage returns gives its pieces but progress bars."""
    lines: list[tuple[int, str]] = []
    for number, line in enumerate(text.split("\n"), 1):
        pieces = line.rstrip("\r").split("\r")
        if len(pieces) == 1:
            lines.append((number, pieces[0]))
        else:
            lines += [(number, part) for part in pieces if part.strip() and not is_progress(part)]
    return lines
