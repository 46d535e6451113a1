"""The Files pane: captures and files of the directory, each with its state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ccltui.draw.palette import Ink
from ccltui.draw.text import Line
from ccltui.parsers import numbers
from ccltui.parsers.window import ranges_text
from ccltui.tui.panes.list_pane import Column, ListPane, name_column
from ccltui.tui.state.pane_states import FILES as NAME
from ccltui.tui.state.scene import Scene

if TYPE_CHECKING:
    from ccltui.parsers.discovery.discover import FoundFile
    from ccltui.parsers.job import Job
    from ccltui.tui.state.session import FileRow, FileState, Session

_WITHOUT_NAME: Final = 54
"""Cells of a line that names leave: 34 for kind, rank and size, and 20 of the state."""


class FilesPane(ListPane["FileRow"]):
    """The directory file by file, and captures to switch to."""

    name = NAME
    key = "5"
    title = "Files"
    short_title = "Files"
    about = (
        "What lies in the directory: captures to switch to, then every file and its state. "
        "x: cannot be read, and why; !: read in part, and what is missing."
    )
    is_of_traces = False
    noun = "file"
    waiting = "files appear here as soon as the directory is read"
    nothing = "no file here"
    columns = (
        name_column(
            "file",
            lambda row: row.cells[0],
            key="file",
            widest=lambda width: max(width - _WITHOUT_NAME, 22),
        ),
        Column("kind", lambda row: row.cells[1], key="kind", align="left", widest=lambda width: 16),
        Column(
            "rank",
            lambda row: row.rank,
            text=lambda row, _: row.cells[2],
            key="rank",
            widest=lambda width: 9,
        ),
        Column(
            "size",
            lambda row: row.size_bytes,
            text=lambda row, _: row.cells[3],
            key="size_bytes",
        ),
        Column("state", lambda row: row.cells[4], key="state", align="left", takes_rest=True),
    )

    def found_rows(self, scene: Scene) -> Sequence[FileRow] | None:
        """Return captures, then files, None before the directory is read."""
        session = scene.session
        return None if session.job is None else self.made_from("files", file_rows, session)

    def words(self, row: FileRow) -> tuple[str, ...]:
        """Return all cells."""
        return row.cells

    def ink(self, row: FileRow) -> Ink:
        """Return the style of the state of a file."""
        return row.ink

    def counted(self, scene: Scene) -> str:
        """Return the number of files and captures."""
        job = scene.session.job
        if job is None:
            return ""
        files, captures = len(job.discovery.files), len(job.discovery.captures)
        return f"{numbers.counted(files, 'file')}  {numbers.counted(captures, 'capture')}"

    def status(self, scene: Scene, width: int) -> tuple[Line, Line]:
        """Return the full name and the state of the selected file."""
        row = self.chosen(scene)
        if row is None:
            return [], []
        name, kind, _, size, state = row.cells
        return [(f" {name}   {kind}   {size}", Ink.TEXT)], [(f" {state}", Ink.DIM)]


FILES: Final = FilesPane()


def file_rows(session: Session) -> list[FileRow]:
    """Return all rows; captures are only listed where there is a choice."""
    from ccltui.tui.state.session import FileRow, capture_rows

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


def _is_of_other(found: FoundFile, job: Job) -> bool:
    """Return whether a file belongs to a capture that is not open."""
    captures = {capture.name for capture in job.discovery.captures}
    here = {file.path for file in job.capture.files}
    return found.path not in here and found.capture in captures - {job.capture.name}


def _state(
    found: FoundFile, state: FileState | None, notes: dict[str, list[str]], job: Job
) -> tuple[str, Ink]:
    """Return the loading state of a file, or the reason why it is not read."""
    from ccltui.parsers.found_files import LEFT_OUT, NO_RANK

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
    return "read beside traces", Ink.DIM


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


def chosen_capture(scene: Scene) -> str | None:
    """Return the capture that enter opens, None where the selected row opens none."""
    chosen = FILES.chosen(scene)
    return None if chosen is None else chosen.capture


def why_no_capture(scene: Scene) -> str | None:
    """Return the reason when the selected row opens no capture."""
    if FILES.chosen(scene) is None:
        return "nothing is found yet"
    if chosen_capture(scene) is None:
        return "this file is not in another capture"
    return None
