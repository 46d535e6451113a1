"""Which reader a file is for. One that is not needed is not imported."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from ccltui.parsers.columns import Events, Note, RankTrace
from ccltui.parsers.errors import TraceError, contained
from ccltui.parsers.found_files import Beside, Kind
from ccltui.parsers.kineto import PARSER_VERSION

Report = Callable[[int], None]


def version_of(kind: Kind) -> int:
    """Version of the columns that a file of this kind gives."""
    if kind in ("kineto", "tpu_trace"):
        return PARSER_VERSION
    from ccltui.parsers.nsys.nsys_reader import NSYS_VERSION  # noqa: PLC0415

    return NSYS_VERSION


def read_file(
    path: Path,
    kind: Kind,
    *,
    shown: str,
    beside: Beside | None = None,
    scratch: Sequence[Path] = (),
    progress: Report | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Sequence[RankTrace]:
    """Columns of one file, one trace a rank; a Kineto file holds one.

    ``beside`` adds what a Kineto file lacks. Columns of nsys stay on disk, each read whenever it
    is asked for: see `in_memory`. ``scratch`` are directories to try in turn for what must be
    converted first. Raises TraceError where the file gives nothing, for
    whatever reason, and CancelledError.
    """
    with contained(shown):
        return _read(
            path,
            kind,
            shown=shown,
            beside=beside,
            scratch=scratch,
            progress=progress,
            cancelled=cancelled,
        )


def _read(
    path: Path,
    kind: Kind,
    *,
    shown: str,
    beside: Beside | None,
    scratch: Sequence[Path],
    progress: Report | None,
    cancelled: Callable[[], bool] | None,
) -> Sequence[RankTrace]:
    if kind == "kineto":
        from ccltui.parsers.kineto.kineto_reader import read_kineto  # noqa: PLC0415

        trace = read_kineto(path, shown=shown, progress=progress, cancelled=cancelled)
        return (trace if beside is None else _described(trace, beside),)
    if kind == "tpu_trace":
        from ccltui.parsers.kineto.xla_profile import read_xla  # noqa: PLC0415

        return read_xla(path, shown=shown, progress=progress, cancelled=cancelled)
    if kind == "nsys_report":
        from ccltui.parsers.nsys.report_export import read_report  # noqa: PLC0415

        return read_report(
            path, shown=shown, scratch=scratch, progress=progress, cancelled=cancelled
        )
    if kind == "nsys_tables":
        from ccltui.parsers.nsys.arrow_export import read_tables  # noqa: PLC0415

        return read_tables(
            path, shown=shown, scratch=scratch, progress=progress, cancelled=cancelled
        )
    from ccltui.parsers.nsys.nsys_reader import read_nsys  # noqa: PLC0415

    directory = next((one for one in scratch if os.access(one, os.W_OK)), None)
    return read_nsys(path, shown=shown, progress=progress, cancelled=cancelled, scratch=directory)


def _described(trace: RankTrace, beside: Beside) -> RankTrace:
    """The rank with what its execution trace adds, where it lacks something of its collectives."""
    from ccltui.parsers.execution.collective_join import joined, lacks_metadata  # noqa: PLC0415
    from ccltui.parsers.execution.execution_reader import read_execution_trace  # noqa: PLC0415

    if not lacks_metadata(trace):
        return trace
    try:
        with contained(beside.path):
            return joined(trace, read_execution_trace(Path(beside.real_path), shown=beside.path))
    except TraceError as error:
        note = Note("execution_trace_unread", str(error))
        return dataclasses.replace(trace, notes=(*trace.notes, note))


def in_memory(trace: RankTrace) -> RankTrace:
    """The same rank with all of its columns read."""
    names = [name for name, _ in (*Events.COLUMNS, *Events.SPARSE)]
    events = {
        group: Events(**{name: getattr(rows, name) for name in names})
        for group, rows in trace.events.items()
    }
    return dataclasses.replace(trace, events=events)
