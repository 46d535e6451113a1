"""Databases of rocprofv3 (rocpd): kernels, copies, markers and calls of AMD devices."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ccltui.parsers.errors import TraceError
from ccltui.parsers.format import Format, Match, Priority, Rule, imported
from ccltui.parsers.rocprof import ROCPROF_VERSION

if TYPE_CHECKING:
    from ccltui.parsers.text.file_sample import FileSample


TABLE: Final = re.compile(
    r"rocpd_(?P<base>kernel_dispatch|memory_copy|region|string|event|arg|track|timestamp"
    r"|info_(?:node|process|thread|agent|kernel_symbol))(?P<suffix>(?:_[\w-]{0,80})?)"
)
"""Tables of the schema; with the identifier of the recording behind the name since version 3."""


def rocpd_database(sample: FileSample) -> Match | None:
    """Match an SQLite file by its table names; nothing else is read. Raises OSError."""
    if not sample.is_sqlite or sample.head.compression != "none":
        return None
    from ccltui.parsers.nsys.sqlite.database import unfinished  # noqa: PLC0415

    problem = unfinished(sample.path)
    try:
        bases = {match["base"] for name in sample.tables if (match := TABLE.fullmatch(name))}
    except TraceError:
        return None
    if "string" not in bases or not bases & {"kernel_dispatch", "memory_copy", "region"}:
        return None
    return Match(problem)


ROCPD: Final = Format(
    kind="rocpd",
    description="a database of rocprofv3 (*_results.db): devices, markers and calls of a process",
    sniff=(Rule(Priority.BINARY, rocpd_database),),
    source="nsys",  # device work and host calls without metadata, as the exports of nsys
    read=imported("ccltui.parsers.rocpd.rocpd_reader", "read_rocpd"),
    version=ROCPROF_VERSION,
    family="rocprof",
    several_ranks=True,
    rank_in_name=True,
    unfinished=imported("ccltui.parsers.nsys.sqlite.database", "unfinished"),
    memory_form="export",
)
