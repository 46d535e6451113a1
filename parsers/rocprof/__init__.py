"""Tables of rocprof and rocprofv3 in csv: kernels of AMD devices, and what lies beside them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

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
    read=imported("ccltui.parsers.rocprof.kernel_trace", "read_kernel_trace"),
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
