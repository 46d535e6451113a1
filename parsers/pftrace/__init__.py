"""Read Perfetto traces: those that PyTorch writes, and those of `ccltui export --to perfetto`.

`wire` decodes protocol buffers, `trace_state` what events refer to, `packet_scan` the events
(`_packet_scanner` does it in compiled code); `slice_pairs` joins begins and ends, `pftrace_reader`
fills the columns of a rank with the builder of Kineto traces, whose arguments these files have, and
`rank_columns` has the columns that our exports hold beside their slices.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ccltui.parsers.format import Format, Match, Priority, Rule, imported

if TYPE_CHECKING:
    from ccltui.parsers.text.file_sample import FileSample

PFTRACE_VERSION: Final = 1
"""Raised whenever the same bytes would give other columns: stored columns become invalid."""

_PACKET: Final = 0x0A  # the first byte of each packet of a trace
_LONGEST: Final = 10  # bytes of a number
_LOOKED_AT: Final = 8
"""Packets whose first field is checked: text that begins with a line feed has none of these."""
_FIELDS: Final = frozenset((6, 8, 10, 11, 12, 13, 41, 42, 52, 53, 58, 59, 60, 79, 87, 1777))
"""Fields with which packets of these traces begin; those that Perfetto itself adds come later."""
_MARK: Final = b"\x0a\x03\x8a\x6f\x00"
"""First packet of an export: field 1777 without content."""
_RANK: Final = re.compile(rb"\x0a.{0,8}\xe2\x03.{0,24}rank ", re.DOTALL)
"""First packet of an export of ccltui before 0.3: the track of a process with this name."""
_OLD_EXPORT: Final = (
    "an export of an earlier ccltui, which has no columns of the ranks in it: export the job again"
)


def is_export(sample: FileSample) -> Match | None:
    """Match what `ccltui export --to perfetto` wrote."""
    if sample.data.startswith(_MARK):
        return Match()
    is_old = _RANK.match(sample.data) is not None and is_pftrace(sample) is not None
    return Match(_OLD_EXPORT) if is_old else None


def is_pftrace(sample: FileSample) -> Match | None:
    """Match packets one after the other, which begin with what packets of events have."""
    data = sample.data
    at = found = 0
    while at < len(data) and found < _LOOKED_AT:
        if data[at] != _PACKET:
            return None
        size, begin = _number(data, at + 1)
        if begin == 0 or size == 0:
            break
        tag, _ = _number(data, begin)
        if begin < len(data) and (tag >> 3 not in _FIELDS or tag & 7 not in (0, 2)):
            return None
        at, found = begin + size, found + 1
    return Match() if found else None


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Return a varint and the byte after it, (0, 0) where the data ends before it does."""
    value = 0
    for place in range(at, min(at + _LONGEST, len(data))):
        value |= (data[place] & 0x7F) << 7 * (place - at)
        if data[place] < 0x80:
            return value, place + 1
    return 0, 0


PFTRACE: Final = Format(
    kind="pftrace",
    description="a Perfetto trace of PyTorch (.pftrace)",
    sniff=(Rule(Priority.BINARY, is_pftrace),),
    source="torch",
    profiler="torch",
    read=imported("ccltui.parsers.pftrace.pftrace_reader", "read_pftrace"),
    version=PFTRACE_VERSION,
    family="pftrace",
    rank_in_name=True,
    compares_content=True,
    add_companion=imported("ccltui.parsers.kineto.execution_join", "with_execution_trace"),
    gives_way="folder",  # JSON of the same recording has what this format leaves out
)
PERFETTO_EXPORT: Final = Format(
    kind="perfetto_export",
    description="all ranks of a job, as ccltui exported them for Perfetto",
    sniff=(Rule(Priority.BINARY, is_export),),
    source="torch",
    read=imported("ccltui.parsers.pftrace.pftrace_reader", "read_pftrace"),
    version=PFTRACE_VERSION,
    family="perfetto_export",
    several_ranks=True,
    compares_content=True,
    gives_way="all",  # the traces that it was made from
)
