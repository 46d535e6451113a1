"""Events of NCCL's profiler plug-ins: that of NCCL's own examples, and JSON lines of another."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ccltui.parsers.format import Format, Match, Priority, Rule

if TYPE_CHECKING:
    from ccltui.parsers.text.file_sample import FileSample

_EXAMPLE: Final = re.compile(
    rb'"cat"\s*:\s*"(?:GROUP|COLL|P2P)(?:_API)?"|"cat"\s*:\s*"(?:PROXY(?:_STEP|_CTRL)?|NET(?:_IB'
    rb'|_SOCK)?|KERNEL_LAUNCH|CE_(?:COLL|SYNC|BATCH))"'
)
"""Categories that the profilers of PyTorch do not write; their own begin in lower case."""
_LINES: Final = re.compile(rb'"(?:recordType|type)"\s*:\s*"(?:ProfilerLifecycle|ncclProfile)')


def _events(sample: FileSample) -> Match | None:
    """A list that begins as one of trace events does: Kineto's rules would take it."""
    document = sample.json
    if document is None:
        return None
    if _LINES.search(document.data):
        return Match()
    return Match() if document.is_list and _EXAMPLE.search(document.data) else None


NCCL_PROFILER: Final = Format(
    kind="nccl_profiler",
    description="events of a profiler plug-in of NCCL, which are counted: each process has a clock "
    "of its own",
    sniff=(Rule(Priority.JSON_CONTENT, _events),),
    read_by_line=True,
)
