"""Which reader a file is for. One that is not needed is not imported."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from parsers.columns import Events, RankTrace
from parsers.found import Kind
from parsers.kineto import read_kineto
from parsers.kineto.reader import PARSER_VERSION

Report = Callable[[int], None]


def version_of(kind: Kind) -> int:
    """Version of the columns that a file of this kind gives."""
    if kind == "kineto":
        return PARSER_VERSION
    from parsers.nsys.reader import NSYS_VERSION  # noqa: PLC0415

    return NSYS_VERSION


def read_file(
    path: Path,
    kind: Kind,
    *,
    shown: str,
    scratch: Sequence[Path] = (),
    progress: Report | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Sequence[RankTrace]:
    """Columns of one file, one trace a rank; a Kineto file holds one.

    Columns of nsys stay on disk, each read whenever it is asked for: see `in_memory`.
    ``scratch`` are directories to try in turn for what must be written first. Raises
    :class:`parsers.errors.TraceError` where the file gives nothing, and CancelledError.
    """
    if kind == "kineto":
        return (read_kineto(path, shown=shown, progress=progress, cancelled=cancelled),)
    if kind == "nsys_report":
        from parsers.nsys.report import read_report  # noqa: PLC0415

        return read_report(
            path, shown=shown, scratch=scratch, progress=progress, cancelled=cancelled
        )
    from parsers.nsys.reader import read_nsys  # noqa: PLC0415

    directory = next((one for one in scratch if os.access(one, os.W_OK)), None)
    return read_nsys(path, shown=shown, progress=progress, cancelled=cancelled, scratch=directory)


def in_memory(trace: RankTrace) -> RankTrace:
    """The same rank with all of its columns read."""
    names = [name for name, _ in (*Events.COLUMNS, *Events.SPARSE)]
    events = {
        group: Events(**{name: getattr(rows, name) for name in names})
        for group, rows in trace.events.items()
    }
    return dataclasses.replace(trace, events=events)
