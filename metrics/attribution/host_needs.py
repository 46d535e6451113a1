"""How long the hosts of a job need at least to launch the work of each step.

A device cannot take less: however fast it becomes, its kernels wait for their launches then. Time
in which a host waits for its device is none that it needs.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import numpy as np

from ccltui.metrics.attribution.lines.job_lines import JobLines
from ccltui.parsers.array_types import F64, I64

if TYPE_CHECKING:
    from ccltui.metrics.model.rank_facts import RankFacts
    from ccltui.metrics.view.job_view import View

WAITING_NS: Final = 50_000
"""Launches, copies and synchronisations that take longer wait for the device: usual ones take less
than 20 us."""
_MAY_WAIT: Final = re.compile(r"(?i)synchronize|launch|memcpy|memset")
_NEVER: Final = np.iinfo(np.int64).min


def host_needs(view: View, job: JobLines) -> F64:
    """Return the time that the slowest host of each step needs, float64 ns; 0 if not recorded.

    From the end of the step before on the device to the last launch; of a host that is ahead of its
    device from the first launch to that of the next step. The time in which a host waited for the
    device does not count.
    """
    found = np.zeros(job.num_steps)
    if view.facts.is_large:  # a launch time of every kernel takes more than the replays
        return found
    for rank in np.unique(job.table.rank).tolist():
        lines = np.flatnonzero(job.table.rank == rank)
        needs = _needs(view.facts.ranks[job.labels[rank]], job, lines)
        np.maximum.at(found, job.table.step[lines], needs + job.begin_ns[lines])
    return found


def _needs(facts: RankFacts, job: JobLines, lines: I64) -> F64:
    """Time that one host needs for each of its lines."""
    found = np.zeros(len(lines))
    launched, index = facts.launched_ns, facts.work.index
    known = np.flatnonzero((launched != _NEVER) & (index >= 0))
    count = len(facts.work.steps)
    if not len(known) or not count:
        return found
    first = np.full(count, np.iinfo(np.int64).max)
    last = np.full(count, _NEVER)
    np.minimum.at(first, index.take(known), launched.take(known))
    np.maximum.at(last, index.take(known), launched.take(known))
    place_of = {step.id: place for place, step in enumerate(facts.work.steps)}
    waits = _waits(facts)
    for number, line in enumerate(lines.tolist()):
        place = place_of.get(int(job.table.step_ids[job.table.step[line]]), -1)
        if place < 0 or last[place] == _NEVER:
            continue
        origin = int(job.own_origin_ns[line])
        begin, end = min(origin, int(first[place])), int(last[place])
        if first[place] < origin and place + 1 < count and last[place + 1] != _NEVER:
            end = max(end, int(first[place + 1]))  # the host is ahead: to its next step
        found[number] = end - begin - _inside(waits, begin, end)
    return found


def _waits(facts: RankFacts) -> tuple[I64, I64]:
    """Begins and ends of the calls in which the host waited for its device, in order."""
    runtime = facts.trace.group("runtime")
    long = np.flatnonzero(runtime.dur_ns[:] > WAITING_NS)
    names = runtime.name.take(long)
    told = {int(one): bool(_MAY_WAIT.search(facts.trace.text(one))) for one in np.unique(names)}
    rows = long[[told[int(one)] for one in names]] if len(long) else long
    begin = runtime.start_ns.take(rows)
    return begin, begin + runtime.dur_ns.take(rows)


def _inside(waits: tuple[I64, I64], begin: int, end: int) -> float:
    """Time of the waits between two times."""
    starts, ends = waits
    return float(np.maximum(np.minimum(ends, end) - np.maximum(starts, begin), 0).sum())
