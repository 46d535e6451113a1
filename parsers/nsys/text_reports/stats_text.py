"""Read the text of ``nsys stats``, of any version and format, as typed tables.

A file may have several reports, each after a banner, between progress bars, notices and the output
of the profiled program. Other text gives no section.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ccltui.parsers.columns import Note
from ccltui.parsers.errors import NotFoundError, TraceError
from ccltui.parsers.nsys.text_reports import PARQUET, RECIPES
from ccltui.parsers.nsys.text_reports.sections import SectionReader, is_progress
from ccltui.parsers.nsys.text_reports.typed_table import StatsText
from ccltui.parsers.safe_text import printable
from ccltui.parsers.text.compression import TextChunks
from ccltui.parsers.text.line_prefixes import plain_text

_NAMES: Final[Mapping[str, str]] = {
    **{"Time": "Time (%)", "Total Time": "Total Time (ns)", "Sum": "Total Time (ns)"},
    **{"Avg": "Avg (ns)", "Mean": "Avg (ns)", "Med": "Med (ns)", "Median": "Med (ns)"},
    **{"StdDev": "StdDev (ns)", "Std": "StdDev (ns)"},
    **{name: f"{name} (ns)" for name in ("Q1", "Q3", "Min", "Max")},
}
_FIRST: Final = ("Name", "Text")
_ABSENT: Final = (
    "a table of nsys recipe that needs pyarrow: install ccltui[arrow], or run the recipe with --csv"
)


def with_units(text: str) -> str:
    """Rename the columns of a recipe's csv to those of `nsys stats`, with units.

    Other texts are returned unchanged.
    """
    if not text.startswith(RECIPES):
        return text
    header, end, rest = text.partition("\n")
    return ",".join(_NAMES.get(name, name) for name in header.rstrip("\r").split(",")) + end + rest


def text_of_parquet(data: bytes, shown: str) -> str:
    """Convert a recipe's Parquet file to csv.

    Raises:
        TraceError: pyarrow is absent, or the file is not the table of a known recipe.
    """
    try:
        import pyarrow as pa  # noqa: PLC0415
        import pyarrow.parquet as pq  # noqa: PLC0415
    except ImportError:
        raise TraceError(_ABSENT, path=Path(shown)) from None
    try:
        table = pq.read_table(io.BytesIO(data))
        columns: dict[str, Sequence[Any]] = table.to_pydict()
    except (pa.ArrowException, OSError, ValueError, TypeError) as error:
        why = " ".join(str(error).split())[:200]
        raise TraceError(f"a Parquet file that cannot be read: {why}", path=Path(shown)) from error
    # pandas writes its index, here the names of the rows, after the other columns.
    names = sorted(columns, key=lambda name: name not in _FIRST)
    target = io.StringIO()
    writer = csv.writer(target, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(zip(*(columns[name] for name in names), strict=True))
    text = target.getvalue()
    if not text.startswith(RECIPES):
        raise TraceError("a Parquet file of no recipe that is known here", path=Path(shown))
    return text


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
