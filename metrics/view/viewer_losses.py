"""What other viewers leave out of the traces of a job, each rule counted on these files.

The rules are those that issues of these tools, and their source, state; ``source`` names them. All
of it is kept here: events that overlap have lanes of their own, work without a launch record counts
in the likeliest step, and times are whole nanoseconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.reductions import rows_by_value
from ccltui.metrics.model.classify import COMM
from ccltui.metrics.model.rank_steps import OUTSIDE, launched_before_recording
from ccltui.parsers.device_times import lost_times
from ccltui.parsers.formats import format_of_trace
from ccltui.parsers.numbers import counted

if TYPE_CHECKING:
    from ccltui.metrics.model.rank_facts import RankFacts
    from ccltui.metrics.view.job_view import View
    from ccltui.parsers.array_types import I64
    from ccltui.parsers.columns import RankTrace

PERFETTO: Final = "Perfetto"
HTA: Final = "HTA"


class ViewerLoss(Struct, frozen=True):
    """What one viewer leaves out or changes: the rule, how often it applies here, and of how many.

    Attributes:
        viewer: Name of the tool.
        hides: The rule, in words.
        count: Number of events, or files, that it applies to.
        total: Number of all of them.
        unit: What is counted: "device event", "collective kernel", "file".
        source: Issues that describe it.
    """

    viewer: str
    hides: str
    count: int
    total: int
    unit: str
    source: str

    @property
    def here(self) -> str:
        """The count in words: ``12 of 555 device events``."""
        return f"{self.count:,} of {counted(self.total, self.unit)}"


def overlapping(trace: RankTrace) -> int:
    """Return how many device events overlap one of their stream without lying inside it.

    Of two such events the later one is what a viewer of nested slices cannot draw. Streams of some
    profilers are no order of execution, and are not looked at.
    """
    gpu = trace.group("gpu")
    if len(gpu) < 2 or not format_of_trace(trace).streams_are_serial:
        return 0
    return sum(
        _misplaced(gpu.start_ns[rows], gpu.end_ns[rows]) for _, rows in rows_by_value(gpu.track)
    )


def _misplaced(start_ns: I64, end_ns: I64) -> int:
    """Count events of one stream that neither follow those kept before nor lie inside of one."""
    reach = np.maximum.accumulate(end_ns)
    touched = np.flatnonzero(start_ns[1:] < reach[:-1]) + 1  # begin before another has ended
    starts, ends = start_ns[touched].tolist(), end_ns[touched].tolist()
    count, last = 0, -1
    open_ends: list[int] = []
    for row, start, end in zip(touched.tolist(), starts, ends, strict=True):
        if row - 1 != last:  # the event before it begins when nothing else runs
            open_ends = [int(end_ns[row - 1])]
        last = row
        while open_ends and open_ends[-1] <= start:
            open_ends.pop()
        if open_ends and end > open_ends[-1]:
            count += 1
        else:
            open_ends.append(end)
    return count


def viewer_losses(view: View) -> list[ViewerLoss]:
    """Return what viewers of PyTorch traces leave out of a job, without rules that hide nothing."""
    ranks = [rank.facts for rank in view.ranks if rank.trace.source.format == "kineto"]
    if not ranks:
        return []
    found = [*_of_perfetto(ranks), *_of_hta(ranks)]
    return [one for one in found if one.count]


def _of_perfetto(ranks: list[RankFacts]) -> list[ViewerLoss]:
    events = sum(len(one.trace.group("gpu")) for one in ranks)
    return [
        ViewerLoss(
            f"{PERFETTO} 49 and newer",
            "events that overlap another of their stream without lying inside it, as kernels do "
            "with programmatic dependent launch",
            sum(overlapping(one.trace) for one in ranks),
            events,
            "device event",
            "perfetto #4280 #503 #432, pytorch #174555, sglang #10109, kineto PR #1186",
        ),
        ViewerLoss(
            PERFETTO,
            "durations that overflow: it clips them",
            sum(lost_times(one.trace) for one in ranks),
            events,
            "device event",
            "TraceLens #669",
        ),
    ]


def _of_hta(ranks: list[RankFacts]) -> list[ViewerLoss]:
    traces = [one.trace for one in ranks]
    alone = [trace for trace in traces if trace.source.parts == 1]
    events = sum(len(trace.group("gpu")) for trace in traces)
    collectives = sum(int((one.classes == COMM).sum()) for one in ranks)
    before = sum(
        int(launched_before_recording(one.trace.group("gpu"), one.launch_row < 0).sum())
        for one in ranks
    )
    early = f" ({before:,} of them were launched before the recording began)" if before else ""
    return [
        ViewerLoss(
            HTA,
            "the last step, and what was launched outside of the steps",
            sum(map(_outside_or_last, ranks)),
            events,
            "device event",
            "HTA 0.6.1 (its code)",
        ),
        ViewerLoss(
            HTA,
            f"device events without a launch record{early}",
            sum(int((one.launch_row < 0).sum()) for one in ranks),
            events,
            "device event",
            "HTA 0.6.1 (its code)",
        ),
        ViewerLoss(
            HTA,
            "fractions of a microsecond: it rounds times",
            sum(map(_fractional, traces)),
            events,
            "device event",
            "HTA 0.6.1 (its code)",
        ),
        ViewerLoss(
            f"{HTA}, stragglers",
            "collective kernels whose names do not begin with ncclKernel",
            sum(map(_newer_names, ranks)),
            collectives,
            "collective kernel",
            "HTA #360 #208 #247 #109",
        ),
        ViewerLoss(
            HTA,
            "files that state no rank: it does not open them",
            sum(trace.rank_source != "distributedInfo" for trace in alone),
            len(alone),
            "file",
            "HTA #104 #107 #17 #16 #233",
        ),
    ]


def _outside_or_last(facts: RankFacts) -> int:
    """Count the device work of the last profiler step, and that launched in none."""
    steps, marker = facts.marked_steps
    if marker != "ProfilerStep":
        return 0  # without its markers HTA takes all
    last = max(range(len(steps)), key=lambda place: steps[place].start_ns)
    index = facts.work.index
    return int(((index == last) | (index == OUTSIDE)).sum())


def _fractional(trace: RankTrace) -> int:
    gpu = trace.group("gpu")
    return int((((gpu.start_ns - trace.base_ns) % 1000 != 0) | (gpu.dur_ns % 1000 != 0)).sum())


def _newer_names(facts: RankFacts) -> int:
    gpu = facts.trace.group("gpu")
    rows = np.flatnonzero(facts.classes == COMM)
    names = {i: facts.trace.text(i) for i in np.unique(gpu.name[rows]).tolist()}
    newer = [i for i, name in names.items() if not name.startswith("ncclKernel")]
    return int(np.isin(gpu.name[rows], newer).sum())
