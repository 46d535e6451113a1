"""Device work of a step behind the end of its line, which no replay of the lines has.

A line ends with the last kernel of the main stream or the last call. What other streams do behind
it, as the copies of a checkpoint, delays the step after it, and is part of that one: unless that
step is not recorded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from ccltui.metrics.attribution.lines.job_lines import JobLines
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
        usual = float(np.median(tails))
        for line, step, tail in zip(lines.tolist(), steps, tails, strict=True):
            beyond = tail - usual
            if job.table.step[line] in last and beyond > (longest.beyond_ns if longest else 0.0):
                longest = Tail(label, step, beyond)
    return longest
