"""What results of replays leave out: steps, and device work that a file lacks.

Device work is known to be lost where its launch is recorded: profilers drop full buffers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from ccltui.metrics.arrays.intervals import union
from ccltui.metrics.arrays.reductions import median_along
from ccltui.metrics.model.classify import any_name, distinct
from ccltui.metrics.model.rank_steps import launched_before_recording
from ccltui.metrics.result import Reason
from ccltui.parsers.array_types import I64
from ccltui.parsers.columns import UNTIMED
from ccltui.parsers.names import listed

if TYPE_CHECKING:
    from ccltui.metrics.attribution.lines.job_lines import JobLines
    from ccltui.metrics.model.rank_facts import RankFacts
    from ccltui.metrics.view.job_view import View


@dataclass(frozen=True, slots=True)
class Tail:
    """Work of one rank behind the end of its line in a step whose following step is not recorded.

    ``beyond_ns`` is what is beyond the median of the same in the other steps of the rank.
    """

    label: str
    step: int
    beyond_ns: float


def longest_tail(view: View, job: JobLines) -> Tail | None:
    """Return the longest work behind a line, None without step markers or where there is none."""
    if not job.marked:
        return None
    last = np.flatnonzero(np.diff(job.table.step_ids, append=job.table.step_ids[-1:] + 2) != 1)
    longest = None
    for rank, label in enumerate(job.labels):
        lines = np.flatnonzero(job.table.rank == rank)
        work = view.facts.ranks[label].work
        ends = {step.id: end for step, end in zip(work.steps, work.end_ns.tolist(), strict=True)}
        if not len(lines):
            continue
        steps = job.table.step_ids[job.table.step[lines]].tolist()
        tails = [
            max(ends.get(step, 0) - end, 0)
            for step, end in zip(steps, job.own_end_ns[lines].tolist(), strict=True)
        ]
        usual = float(median_along(tails))
        for line, step, tail in zip(lines.tolist(), steps, tails, strict=True):
            beyond = tail - usual
            if job.table.step[line] in last and beyond > (longest.beyond_ns if longest else 0.0):
                longest = Tail(label, step, beyond)
    return longest


LEAST_LOST: Final = 0.002
"""Share of the launches of kernels without a kernel from which device work counts as lost: single
launches fail."""
_LAUNCHES: Final = re.compile(r"Launch(?:Cooperative)?Kernel")
_BEGINS, _ENDS = re.compile("StreamBeginCapture"), re.compile("StreamEndCapture")


def lost_records(view: View) -> dict[str, tuple[int, int]]:
    """Return launches without their kernel, and all launches, by label of ranks that lack some.

    Nothing is known of ranks without launch records, nor of very large jobs, of which looking it up
    takes more than the replays. Labels are in ascending order.
    """
    if view.facts.is_large:
        return {}
    found = {}
    labels = (item.label for item in view.match_inputs)
    for label in sorted(labels, key=lambda one: (len(one), one)):
        lost, launched = _launches_without_kernel(view.facts.ranks[label])
        if lost > LEAST_LOST * launched:
            found[label] = lost, launched
    return found


def lost_reasons(lost: Mapping[str, tuple[int, int]]) -> list[Reason]:
    """Return why a result covers only a part of the device work, one reason for each rank."""
    return [
        Reason(
            "damaged_trace",
            f"{count} of {launched} kernels that rank {label} launched are not in its file: their "
            "time looks idle",
            rank=label,
        )
        for label, (count, launched) in lost.items()
    ]


def steps_left_out(job: JobLines) -> list[Reason]:
    """Return why steps are not compared, an empty list where all are."""
    if not job.partly:
        return []
    steps = listed([str(step) for step in job.partly])
    text = f"steps {steps} are left out: some ranks recorded only a part of their collectives"
    if len(job.partly) == 1:
        text = f"step {steps} is left out: some ranks recorded only a part of its collectives"
    return [Reason("unmatched_collectives", text)]


def _launches_without_kernel(facts: RankFacts) -> tuple[int, int]:
    """Count the launches between the first and the last that have a kernel, and those without.

    Those that are captured have none. Device work that names no launch may be of any of them.
    """
    runtime, launching = facts.trace.group("runtime"), facts.launch_row
    rows = _named(facts, _LAUNCHES)
    has_kernel = np.zeros(len(runtime), np.bool_)
    has_kernel[launching[launching >= 0]] = True
    present = np.flatnonzero(has_kernel.take(rows))
    if not len(present):
        return 0, 0
    starts = runtime.start_ns.take(rows)
    known = starts.take(present)
    inside = (starts >= known.min()) & (starts <= known.max())
    lost = starts[inside & ~has_kernel.take(rows)]
    unknown = launching < 0
    unknown &= ~launched_before_recording(facts.trace.group("gpu"), unknown)
    missing = len(lost) - _captured(facts, lost) - int(unknown.sum())
    missing -= len(facts.trace.group(UNTIMED))  # recorded, with times that are not believed
    return max(missing, 0), int(inside.sum())


def _captured(facts: RankFacts, times: I64) -> int:
    """Count the launches that are recorded into a graph instead of run."""
    if not len(times):
        return 0
    starts = facts.trace.group("runtime").start_ns
    begins, ends = (np.sort(starts.take(_named(facts, one))) for one in (_BEGINS, _ENDS))
    count = min(len(begins), len(ends))
    return int(union(begins[:count], ends[:count]).contains(times).sum())


def _named(facts: RankFacts, pattern: re.Pattern[str]) -> I64:
    """Rows of ``runtime`` whose name has a pattern."""
    names = facts.trace.group("runtime").name
    chosen = [one for one in distinct(names) if pattern.search(facts.trace.text(one))]
    return np.flatnonzero(any_name(facts.trace.strings, names, chosen))
