"""Recognize tables of rocprofv3 by the names of their columns."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ccltui.parsers.format import Match

if TYPE_CHECKING:
    from ccltui.parsers.text.file_sample import FileSample

NEEDED: Final = ("Kernel_Name", "Agent_Id", "Start_Timestamp", "End_Timestamp")
_BESIDE: Final = re.compile(
    r'^"?(?:Guid"?,"?)?(?:Domain"?,"?Function|Kind"?,"?(?:Direction|Operation)|Node_Id"?,"?)'
    r'|^"?Name"?,"?Calls"?,"?TotalDurationNs'
)


def kernel_table(sample: FileSample) -> Match | None:
    """Return a match where the first line names the columns of kernel_trace.csv."""
    line = _first_line(sample)
    if "Kernel_Name" not in line:
        return None
    names = {cell.strip().strip('"') for cell in line.split(",")}
    return Match() if set(NEEDED) <= names and "Counter_Name" not in names else None


def other_table(sample: FileSample) -> Match | None:
    """Return a match where the first line names the columns of a table beside kernel_trace.csv."""
    line = _first_line(sample)
    if not _BESIDE.match(line):
        return None
    return Match() if any(word in line for word in ("_Timestamp", "Durat", "Agent")) else None


def _first_line(sample: FileSample) -> str:
    text = sample.plain
    return "" if text is None else text.lstrip("\n").partition("\n")[0]
