"""Say what the text of nsys stats lacks, where a directory holds nothing else of a profiler."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from ccltui.parsers.discovery.discover import Discovery
from ccltui.parsers.errors import TraceError
from ccltui.parsers.nsys import NSYS_TEXT


def lacking_of_texts(discovery: Discovery) -> str | None:
    """Return what the texts of nsys stats lack to be traces.

    None where there is no such text, or a profiler left something else.
    """
    texts = discovery.files_of(NSYS_TEXT)
    profiled = [f for f in discovery.files if f.format.profiler is not None]
    if not texts or any(file.format.reports != "text" for file in profiled):
        return None
    first = texts[0]
    more = f" and {len(texts) - 1} more" if len(texts) > 1 else ""
    return f"{first.path}{more}: {_lacking(first.real_path, first.size_bytes)}"


@lru_cache(maxsize=16)
def _lacking(path: str, _size_bytes: int) -> str:
    """Return what one text lacks; it is read once for all metrics that refuse."""
    from ccltui.parsers.nsys.text_reports.stats_text import read_stats_text  # noqa: PLC0415
    from ccltui.parsers.nsys.text_trace import lacks_trace  # noqa: PLC0415  (numpy, sqlite)

    try:
        return lacks_trace(read_stats_text(Path(path)))
    except TraceError as error:
        return f"text of nsys stats that cannot be read: {error.message}"
