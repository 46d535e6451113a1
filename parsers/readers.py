"""Which reader a file is for. One that is not needed is not imported."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from parsers.columns import RankTrace
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
) -> tuple[RankTrace, ...]:
    """Columns of one file, one trace a rank; a Kineto file holds one.

    ``scratch`` are directories to try in turn for what must be converted first. Raises
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

    return read_nsys(path, shown=shown, progress=progress, cancelled=cancelled)
