"""Rows of captures to switch to, in Files and on the first screen."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from msgspec import Struct

from ccltui.draw.palette import Ink
from ccltui.parsers import numbers

if TYPE_CHECKING:
    from ccltui.parsers.discovery.discover import Capture
    from ccltui.parsers.job import Job
    from ccltui.tui.state.session import Session


class FileRow(Struct, frozen=True):
    """Cells of a row (name, kind, rank, size, state), and the capture that enter opens.

    ``rank`` is the number of the rank, or of the ranks of a capture.
    """

    cells: tuple[str, str, str, str, str]
    capture: str | None
    rank: int | None
    size_bytes: int
    ink: Ink = Ink.TEXT
    kind_of_files: str = ""  # of a capture: that of most of its files
    files: str = ""  # of a capture: their number in words


def capture_rows(session: Session) -> list[FileRow]:
    """Return the rows of captures, none where there is no choice."""
    job = session.job
    captures = () if job is None else job.discovery.captures
    if job is None or len(captures) < 2:
        return []
    return [_capture_row(job, capture) for capture in captures]


def _capture_row(job: Job, capture: Capture) -> FileRow:
    """Return the row of a capture: number of loaded ranks, and whether it is the open one."""
    name = capture.name or "(the directory itself)"
    of = "" if capture.world_size is None else f" of {capture.world_size}"
    size_bytes = sum(file.size_bytes for file in capture.files)
    size = numbers.decimal_size(size_bytes)
    opened = capture.name == job.capture.name
    state = "open" if opened else "enter opens it"
    if not capture.complete:
        state += ", ranks are missing"
    cells = (name, "capture", f"{len(capture.ranks)}{of}", size, state)
    target, ink = (None, Ink.STRONG) if opened else (capture.name, Ink.TEXT)
    kinds = Counter(file.kind.replace("_", " ") for file in capture.files).most_common(1)
    kind = kinds[0][0] if kinds else ""
    files = numbers.counted(len(capture.files), "file")
    return FileRow(cells, target, len(capture.ranks), size_bytes, ink, kind, files)
