"""Group the readers' notes on ranks: one for all files that it is true of."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:
    from ccltui.parsers.columns import Note, RankTrace

FIRST_OF_SEVERAL: Final = " (the first of several; their numbers differ)"
"""Added to a message whose numbers are those of one of the notes that it stands for."""

_NUMBER: Final = re.compile(r"\d[\d,.]*")


class NoteGroup(Struct, frozen=True):
    """A note on the first of several ranks, and all ranks with a note of that kind.

    Notes are of one kind where code and message agree, apart from numbers in the message;
    ``is_uniform``: these agree too.
    """

    note: Note
    traces: tuple[RankTrace, ...]
    count: int
    is_uniform: bool

    @property
    def message(self) -> str:
        """The message of the first, which may state numbers that differ in the others."""
        return self.note.message + ("" if self.is_uniform else FIRST_OF_SEVERAL)


def kind_of(note: Note) -> tuple[str, str]:
    """Return the code and the message without its numbers, which notes of one kind share."""
    return note.code, _NUMBER.sub("#", note.message)


def note_groups(traces: Iterable[RankTrace]) -> list[NoteGroup]:
    """Return the notes on ranks in the order in which their kinds first occur."""
    found: dict[tuple[str, str], list[tuple[RankTrace, Note]]] = {}
    for trace in traces:
        for note in trace.notes:
            found.setdefault(kind_of(note), []).append((trace, note))
    return [
        NoteGroup(
            note=group[0][1],
            traces=tuple({id(trace): trace for trace, _ in group}.values()),
            count=sum(note.count for _, note in group),
            is_uniform=len({note.message for _, note in group}) == 1,
        )
        for group in found.values()
    ]
