"""How long the hosts of a job need at least to launch the work of each step.

A device cannot take less: however fast it becomes, its kernels wait for their launches then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from ccltui.metrics.attribution.lines.job_lines import JobLines
from ccltui.parsers.array_types import F64, I64

if TYPE_CHECKING:
    from ccltui.metrics.model.rank_facts import RankFacts
    from ccltui.metrics.view.job_view import View

PAUSE_NS: Final = 200_000
"""Time between two launches from which the host may have waited for its device, for data or for
another host: whether it needs that time is not known, and it does not count."""
_NEVER: Final = np.iinfo(np.int64).min


def host_needs(view: View, job: JobLines) -> F64:
    """Return the time that each host needs for each step, float64 ns [ranks, steps]; NaN: unknown.

    That is the time from launch to launch, without pauses in which the host may have waited.
    """
    found = np.full((len(job.labels), job.num_steps), np.nan)
    if view.facts.is_large:  # a launch time of every kernel takes more than the replays
        return found
    for rank in np.unique(job.table.rank).tolist():
        lines = np.flatnonzero(job.table.rank == rank)
        needs = _needs(view.facts.ranks[job.labels[rank]], job, lines)
        found[rank, job.table.step[lines]] = np.where(
            needs > 0, needs + job.begin_ns[lines], np.nan
        )
    return found


def _needs(facts: RankFacts, job: JobLines, lines: I64) -> F64:
    """Time that one host needs for each of its lines."""
    found = np.zeros(len(lines))
    launched, index = facts.launched_ns, facts.work.index
    known = np.flatnonzero((launched != _NEVER) & (index >= 0))
    count = len(facts.work.steps)
    if not len(known) or not count:
        return found
    order = known[np.lexsort((launched.take(known), index.take(known)))]
    times, steps = launched.take(order), index.take(order)
    apart = np.diff(times)
    busy = (steps[1:] == steps[:-1]) & (apart <= PAUSE_NS)
    need = np.bincount(steps[1:][busy], weights=apart[busy], minlength=count)
    place_of = {step.id: place for place, step in enumerate(facts.work.steps)}
    for number, line in enumerate(lines.tolist()):
        place = place_of.get(int(job.table.step_ids[job.table.step[line]]), -1)
        found[number] = need[place] if place >= 0 else 0.0
    return found
