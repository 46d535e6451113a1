"""Files of any age become columns: discovery, readers, the column store and ingest.

Nothing in this package knows a metric or a screen. :func:`open_job` opens a directory of traces
and returns a :class:`Job`, whose ranks are of :class:`RankTrace`; the data model is in
:mod:`ccltui.parsers.columns`. The names are imported on first use, as they need numpy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ccltui.parsers.columns import RankTrace as RankTrace
    from ccltui.parsers.job import Job as Job
    from ccltui.parsers.job import open_job as open_job

__all__ = ["Job", "RankTrace", "open_job"]


def __getattr__(name: str) -> object:
    if name == "RankTrace":
        from ccltui.parsers.columns import RankTrace  # noqa: PLC0415

        return RankTrace
    if name in ("Job", "open_job"):
        from ccltui.parsers import job  # noqa: PLC0415

        return getattr(job, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
