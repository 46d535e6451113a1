"""Findings from rules of ``nsys analyze``: their rows are events with a start and a duration."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.intervals import Intervals
from ccltui.metrics.confidence import Sure
from ccltui.metrics.findings.finding import Finding, Kind
from ccltui.metrics.view.words import sentence
from ccltui.parsers.array_types import I64
from ccltui.parsers.nsys.text_reports.typed_table import NumberColumn
from ccltui.parsers.numbers import counted, duration

if TYPE_CHECKING:
    from ccltui.parsers.nsys.text_reports.typed_table import Section


class Rule(Struct, frozen=True):
    """What the rows of a rule are, what they do, and what to do about them."""

    kind: Kind
    rows: str
    does: str
    do: str


RULES: Final = {
    "cuda_memcpy_async": Rule(
        "copies",
        "asynchronous copy of pageable memory|asynchronous copies of pageable memory",
        "run synchronously, for",
        "Pin the host's memory (pin_memory=True, cudaMallocHost).",
    ),
    "cuda_memcpy_sync": Rule(
        "copies",
        "synchronous copy|synchronous copies",
        "block the host for",
        "Copy with non_blocking=True (cudaMemcpyAsync) from pinned memory.",
    ),
    "cuda_memset_sync": Rule(
        "copies",
        "synchronous memset|synchronous memsets",
        "block the host for",
        "Use cudaMemsetAsync.",
    ),
    "cuda_api_sync": Rule(
        "host_synchronisation",
        "synchronising call|synchronising calls",
        "block the host for",
        "Avoid calls that wait for the device: .item(), .cpu(), torch.cuda.synchronize().",
    ),
    "gpu_gaps": Rule(
        "idle_unknown",
        "gap of the device|gaps of the device",
        "last",
        "Look at what the host does in the gaps: mark its work with NVTX and record it.",
    ),
    "gpu_time_util": Rule(
        "idle_unknown",
        "stretch in which the device is little used|stretches in which the device is little used",
        "last",
        "Look at what the host does in them: mark its work with NVTX and record it.",
    ),
}
"""Rules whose rows state when each began and how long it took."""
_NO_DATA: Final = "does not contain"
_NAMED: Final = ("API Name", "Name", "Operation")


def rule_findings(sections: Sequence[Section]) -> Iterator[Finding]:
    """Yield a finding for each rule with rows, the one with most time first."""
    found = [one for section in sections if (one := _finding(section)) is not None]
    yield from sorted(found, key=lambda one: -(one.cost_ms or 0.0))


def nothing_found(sections: Sequence[Section]) -> Finding:
    """Return the finding that no rule has a row; rules without data say nothing."""
    ran = sum(_NO_DATA not in (section.absent or "") for section in sections)
    text = f"{counted(ran, 'rule')} of nsys analyze found no problem"
    return Finding(
        kind="nothing",
        text=sentence(text if ran else "the rules of nsys analyze had no data to look at"),
        sure=Sure(what="high"),
        do="To see who waits for whom, when and why, export the times: nsys export -t sqlite.",
    )


def _finding(section: Section) -> Finding | None:
    rule = RULES[section.report]
    events = _events(section)
    if events is None:
        return None
    start_ns, dur_ns, rows = events
    whole_ns = Intervals.of(start_ns, start_ns + dur_ns).total_ns
    one, several = rule.rows.split("|")
    longest = int(np.argmax(dur_ns))
    named = next((column for name in _NAMED if (column := section.column(name))), None)
    name = f" ({named.cell(int(rows[longest]))})" if named is not None else ""
    does = rule.does if len(rows) > 1 else _SINGULAR[rule.does]
    return Finding(
        kind=rule.kind,
        text=sentence(
            f"{counted(len(rows), one, several)} {does} {duration(whole_ns)}"
            f"{' in all' if len(rows) > 1 else ''} (nsys analyze)"
        ),
        more=sentence(
            f"the longest{name} takes {duration(int(dur_ns[longest]))} and begins "
            f"{duration(int(start_ns[longest]))} after the start of the recording"
        ),
        cost_ms=whole_ns / 1e6,
        saves_why="rules list single events, which do not show what else ran at the same time",
        sure=Sure(what="high"),
        do=rule.do,
    )


_SINGULAR: Final = {
    "run synchronously, for": "runs synchronously, for",
    "block the host for": "blocks the host for",
    "last": "lasts",
}


def _events(section: Section) -> tuple[I64, I64, I64] | None:
    """Return starts, durations (int64 ns) and row numbers of the rows that state both."""
    start, dur = section.column("Start"), section.column("Duration")
    if not isinstance(start, NumberColumn) or not isinstance(dur, NumberColumn):
        return None
    if not start.unit or not dur.unit:
        return None
    begin, length = start.ns(), dur.ns()
    rows = np.flatnonzero((begin >= 0) & (length >= 0))
    return (begin[rows], length[rows], rows) if len(rows) else None
