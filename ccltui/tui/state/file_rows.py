"""Rows of the Files pane: captures to switch to, then files and their states."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ccltui.draw.palette import Ink
from ccltui.parsers import numbers
from ccltui.parsers.found_files import LEFT_OUT, NO_RANK
from ccltui.parsers.missing_ranks import ranges_text

if TYPE_CHECKING:
    from ccltui.parsers.discovery.discover import Capture, FoundFile
    from ccltui.parsers.job import Job
    from ccltui.tui.state.session import FileState, Session


@dataclass(frozen=True, slots=True)
class FileRow:
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


def file_rows(session: Session) -> list[FileRow]:
    """Return all rows; captures are only listed where there is a choice."""
    job = session.job
    if job is None:
        return []
    rows = capture_rows(session)
    notes: dict[str, list[str]] = {}
    begun = {t.source.path: t.read_share for t in job.ranks if t.read_share < 1}
    for trace in job.ranks:
        notes.setdefault(trace.source.path, []).extend(note.message for note in trace.notes)
    for found in job.discovery.files:
        state, ink = _state(found, session.files.get(found.path), notes, job)
        share = begun.get(found.path)
        if share is not None:
            state, ink = f"! {numbers.percent(share)} is shown; {state}", Ink.WARNING
        ranks = job.ranks_in(found.path)
        rank = "" if found.rank is None else str(found.rank)
        rank = rank if ranks is None else ranges_text(ranks)
        size = numbers.decimal_size(found.size_bytes)
        kind = found.kind.replace("_", " ")
        target = found.capture if _is_of_other(found, job) else None
        cells = (found.path, kind, rank, size, state)
        rows.append(FileRow(cells, target, found.rank, found.size_bytes, ink))
    return rows


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


def _is_of_other(found: FoundFile, job: Job) -> bool:
    """Return whether a file belongs to a capture that is not open."""
    captures = {capture.name for capture in job.discovery.captures}
    here = {file.path for file in job.capture.files}
    return found.path not in here and found.capture in captures - {job.capture.name}


def _state(
    found: FoundFile, state: FileState | None, notes: dict[str, list[str]], job: Job
) -> tuple[str, Ink]:
    """Return the loading state of a file, or the reason why it is not read."""
    if state is not None and job.merged.is_left_out(found.path):
        return LEFT_OUT, Ink.DIM
    if state is not None and job.is_side(found.path):
        return NO_RANK, Ink.DIM
    if state is not None:
        return _loading_state(state, notes.get(found.path, []))
    if found.duplicate_of is not None:
        return f"repeats {found.duplicate_of}", Ink.DIM
    if found.problem is not None:
        return f"x {found.problem}", Ink.ERROR
    if _is_of_other(found, job):
        return f"in capture {found.capture}: enter opens it", Ink.DIM
    return "read beside the traces", Ink.DIM


def _loading_state(state: FileState, notes: list[str]) -> tuple[str, Ink]:
    if state.status == "failed":
        return f"x {state.problem}", Ink.ERROR
    if state.status == "done":
        return (f"! {'; '.join(notes)}", Ink.WARNING) if notes else ("done", Ink.TEXT)
    if state.status == "reading":
        share = state.done_bytes / max(state.total_bytes, 1)
        return (
            f"reading {numbers.percent(share)}, {numbers.decimal_size(state.done_bytes)}",
            Ink.TEXT,
        )
    return "queued", Ink.DIM
