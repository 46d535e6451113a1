"""The Files pane: captures and files of the directory, each with its state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ccltui.draw.palette import Ink
from ccltui.parsers.numbers import counted
from ccltui.tui.panes.list_pane import Column, ListPane, name_column
from ccltui.tui.state.own.pane_names import FILES as NAME
from ccltui.tui.state.scene import Scene
from ccltui.tui.styled_text import Line

if TYPE_CHECKING:
    from ccltui.tui.state.file_rows import FileRow
    from ccltui.tui.state.session import Session

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
        return None if session.job is None else self.made_from("files", _rows, session)

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
        found = job.discovery
        return f"{counted(len(found.files), 'file')}  {counted(len(found.captures), 'capture')}"

    def status(self, scene: Scene, width: int) -> tuple[Line, Line]:
        """Return the full name and the state of the selected file."""
        row = self.chosen(scene)
        if row is None:
            return [], []
        name, kind, _, size, state = row.cells
        return [(f" {name}   {kind}   {size}", Ink.TEXT)], [(f" {state}", Ink.DIM)]


FILES: Final = FilesPane()


def _rows(session: Session) -> Sequence[FileRow]:
    from ccltui.tui.state.file_rows import file_rows

    return file_rows(session)


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
