"""Send a rank to another process: its facts without columns, and the file to map.

The other process maps the same file. Nothing is read again, and no column is copied.
"""

from __future__ import annotations

import contextlib
import dataclasses
from dataclasses import dataclass

from ccltui.parsers.column_file import ColumnFile, OpenFile
from ccltui.parsers.columns import CollectiveArgs, RankTrace, Samples, Strings, later
from ccltui.parsers.store.layout import StoredColumns, columns_of


@dataclass(frozen=True, slots=True)
class TransferredRank:
    """``facts`` is the rank without its columns; ``place`` is the file that holds them."""

    facts: RankTrace
    place: ColumnFile


def keep_open(trace: RankTrace) -> RankTrace:
    """Return the rank with its file kept open for when its name is removed, if it still exists."""
    if trace.place is None:
        return trace
    with contextlib.suppress(OSError):
        kept = OpenFile.opened(trace.place.path)
        return dataclasses.replace(trace, place=dataclasses.replace(trace.place, kept=kept))
    return trace


def detach_columns(trace: RankTrace) -> TransferredRank | None:
    """Return the rank for another process, None where its columns are in no file.

    The descriptor of a file that is kept open has to be sent along.
    """
    if trace.place is None:
        return None
    none = StoredColumns(Strings.of(()), {}, CollectiveArgs.empty(), Samples.empty())
    facts = dataclasses.replace(trace, **columns_of(none), place=None)
    return TransferredRank(facts, dataclasses.replace(trace.place, kept=None))


def attach_columns(handed: TransferredRank, columns: StoredColumns) -> RankTrace:
    """Return a received rank with the mapped ``columns`` of its file."""
    found = columns_of(columns)
    if handed.facts.added_ns:
        found["events"] = later(columns.events, handed.facts.added_ns)
    return dataclasses.replace(handed.facts, **found, place=handed.place)
