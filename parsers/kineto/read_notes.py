"""Collect notes on what was dropped or repaired while a file was read."""

from __future__ import annotations

from typing import Final

from ccltui.parsers.columns import Note

TRUNCATED: Final = ("truncated_trace", "the file ends in the middle of the document")


class NoteLog:
    """Notes by code: a count, and the smallest offset at which the code occurred."""

    def __init__(self) -> None:
        self._notes: dict[str, Note] = {}

    def add(self, code: str, message: str, offset: int | None, count: int = 1) -> None:
        """Add ``count`` occurrences of ``code``, the first at byte ``offset`` (None: unknown)."""
        known = self._notes.get(code)
        if known is not None:
            count += known.count
            if offset is None or (known.offset is not None and known.offset <= offset):
                message, offset = known.message, known.offset
        self._notes[code] = Note(code=code, message=message, offset=offset, count=count)

    @property
    def notes(self) -> tuple[Note, ...]:
        """All notes by offset; those without an offset come last."""
        notes = self._notes.values()
        return tuple(sorted(notes, key=lambda n: (n.offset is None, n.offset or 0, n.code)))
