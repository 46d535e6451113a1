"""Files of rocprof and rocprofv3: kernels of AMD devices in csv tables, and databases (rocpd)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ccltui.parsers.errors import TraceError
from ccltui.parsers.format import Format, Match, Priority, Rule, imported

if TYPE_CHECKING:
    from ccltui.parsers.text.file_sample import FileSample

NEEDED: Final = ("Kernel_Name", "Agent_Id", "Start_Timestamp", "End_Timestamp")
OLD_NAMES: Final = {
    "KernelName": "Kernel_Name",
    "gpu-id": "Agent_Id",
    "BeginNs": "Start_Timestamp",
    "EndNs": "End_Timestamp",
    "queue-id": "Queue_Id",
    "pid": "Guid",
    "tid": "Thread_Id",
    "grd": "Grid_Size_X",
    "wgr": "Workgroup_Size_X",
}
"""Columns of rocprof before version 3, and what they are called since."""
_BESIDE: Final = re.compile(
    r'^"?(?:Guid"?,"?)?(?:Domain"?,"?Function|Kind"?,"?(?:Direction|Operation)|Node_Id"?,"?)'
    r'|^"?Index"?,"?KernelName"?,"?gpu-id\b'
)


def kernel_table(sample: FileSample) -> Match | None:
    """Return a match where the first line names the columns of kernel_trace.csv."""
    line = _first_line(sample)
    if "Kernel_Name" not in line and "KernelName" not in line:
        return None
    cells = (cell.strip().strip('"') for cell in line.split(","))
    names = {OLD_NAMES.get(cell, cell) for cell in cells}
    return Match() if set(NEEDED) <= names and "Counter_Name" not in names else None


def other_table(sample: FileSample) -> Match | None:
    """Return a match where the first line names the columns of a table beside kernel_trace.csv."""
    line = _first_line(sample)
    if not _BESIDE.match(line):
        return None
    return Match() if any(word in line for word in ("_Timestamp", "Agent", "gpu-id")) else None


def kernel_name(symbol: str) -> str:
    """Return the name of a kernel without what marks its descriptor, mangled or not."""
    return symbol.removesuffix(" [clone .kd]").removesuffix(".kd")


def _first_line(sample: FileSample) -> str:
    text = sample.plain
    return "" if text is None else text.lstrip("\n").partition("\n")[0]


ROCPROF_VERSION: Final = 2
"""Raised whenever the same bytes would give other columns: stored columns become invalid."""


ROCPROF_TRACE: Final = Format(
    kind="rocprof_trace",
    description="kernel_trace.csv of rocprofv3, or results.csv of rocprof: kernels of a process",
    sniff=(Rule(Priority.TEXT_BANNER, kernel_table),),
    source="nsys",  # device work and host calls without metadata, as the exports of nsys
    read=imported("ccltui.parsers.rocm.kernel_trace", "read_kernel_trace"),
    version=ROCPROF_VERSION,
    family="rocprof",
    several_ranks=True,
    rank_in_name=True,
    read_by_line=True,
)
ROCPROF_TABLE: Final = Format(
    kind="rocprof_table",
    description="another csv of rocprof: calls, copies and markers belong to kernel_trace.csv",
    sniff=(Rule(Priority.TEXT_BANNER, other_table),),
)


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
    read=imported("ccltui.parsers.rocm.rocpd_reader", "read_rocpd"),
    version=ROCPROF_VERSION,
    family="rocprof",
    several_ranks=True,
    rank_in_name=True,
    unfinished=imported("ccltui.parsers.nsys.sqlite.database", "unfinished"),
    memory_form="export",
)
