"""How long the hosts of a job need at least to launch the work of each step.

A device cannot take less: however fast it becomes, its kernels wait for their launches then.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import numpy as np

from ccltui.metrics.arrays.intervals import union
from ccltui.metrics.arrays.reductions import distinct_values
from ccltui.metrics.findings.replay.lines.job_lines import JobLines
from ccltui.metrics.model.classify import any_name, distinct
from ccltui.parsers.array_types import F64, I64, Bool

if TYPE_CHECKING:
    from ccltui.metrics.model.rank_facts import RankFacts
    from ccltui.metrics.view.job_view import View
    from ccltui.parsers.columns import RankTrace

PAUSE_NS: Final = 200_000
"""Time between two launches, or of one runtime call, from which the host may have waited for its
device, for data or for another host. It counts only between steps, where the device had work until
its end, less the runtime calls in it that are long or synchronise."""
_WAITS: Final = re.compile(r"Synchronize$|^(?:cuda|hip)Memcpy(?:2D)?$")
_ALLOCATES: Final = re.compile(
    r"Malloc|Free|Mem(?:Alloc|Create|Map|Unmap|SetAccess|Address)|Module"
)
"""Runtime calls that take long without waiting for the device."""
MAX_LAUNCHING: Final = 0.8
"""Share of the step without stragglers that hosts need to launch it, from which single kernels are
expected to wait for their launches: passes differ by that much in how many launches they need."""
LEAST_SAVED: Final = 0.005
"""Share of a step below which nothing is saved: passes vary by chance as much."""
_NEVER: Final = np.iinfo(np.int64).min


def host_needs(view: View, job: JobLines) -> F64:
    """Return the time that each host needs for each step, float64 ns [ranks, steps]; NaN: unknown.

    That is the time from the last launch of the step before to its own last, without pauses in
    which the host may have waited. Of a first step it is the time since its first launch.
    """
    found = np.full((len(job.labels), job.num_steps), np.nan)
    if view.facts.is_large:  # a launch time of every kernel takes more than the replays
        return found
    for rank in distinct_values(job.table.rank).tolist():
        lines = np.flatnonzero(job.table.rank == rank)
        needs, begun = _needs(view.facts.ranks[job.labels[rank]], job, lines)
        # How late a host began is in its time since the step before, where that is known.
        needs += np.where(begun, 0.0, job.begin_ns[lines])
        found[rank, job.table.step[lines]] = np.where(needs > 0, needs, np.nan)
    return found


def hosts_bind(need_ns: F64, was_ns: F64, ideal_ns: F64) -> bool:
    """Whether hosts need most of the steps that are left where some time of them is saved.

    Args:
        need_ns: how long the typical host needs for each step, float64 ns.
        was_ns: the steps.
        ideal_ns: the same without what is saved.
    """
    saved, whole = float(was_ns.sum() - ideal_ns.sum()), float(was_ns.sum())
    is_most = float(need_ns.sum()) >= MAX_LAUNCHING * float(ideal_ns.sum())
    return is_most and saved >= LEAST_SAVED * whole


def _needs(facts: RankFacts, job: JobLines, lines: I64) -> tuple[F64, Bool]:
    """Time that one host needs for each of its lines, and if that since the step before is in it.

    A step without launches needs nothing.
    """
    found, begun = np.zeros(len(lines)), np.zeros(len(lines), np.bool_)
    launched, index = facts.launched_ns, facts.work.index
    known = np.flatnonzero((launched != _NEVER) & (index >= 0))
    count = len(facts.work.steps)
    if not len(known) or not count:
        return found, begun
    order = known[np.lexsort((launched.take(known), index.take(known)))]
    times, steps = launched.take(order), index.take(order)
    apart = np.diff(times)
    ids = np.array([step.id for step in facts.work.steps])
    inside = steps[1:] == steps[:-1]
    follows = ids[steps[1:]] == ids[steps[:-1]] + 1
    # Inside of a step a host that pauses may have waited for another host.
    is_pause = apart > PAUSE_NS
    pauses = np.flatnonzero(is_pause & follows)
    # A host that launched again before its last kernel had ended cannot have waited for it.
    gpu, last = facts.trace.group("gpu"), order[pauses]
    ahead = gpu.start_ns.take(last) + gpu.dur_ns.take(last) > times[pauses + 1]
    waited = _waited(facts.trace, times[pauses], times[pauses + 1])
    of_host = np.where(ahead, apart[pauses] - waited, 0)
    apart[is_pause] = 0
    apart[pauses] = of_host
    counts = (inside | follows) & (apart > 0)
    need = np.bincount(steps[1:][counts], weights=apart[counts], minlength=count)
    since = np.bincount(steps[1:][follows & counts], minlength=count) > 0
    place_of = {int(step): place for place, step in enumerate(ids.tolist())}
    for number, line in enumerate(lines.tolist()):
        place = place_of.get(int(job.table.step_ids[job.table.step[line]]), -1)
        if place >= 0:
            found[number], begun[number] = need[place], since[place]
    return found, begun


def _waited(trace: RankTrace, start: I64, end: I64) -> I64:
    """Time in [start, end) in calls of the runtime that are long or synchronise, int64 ns."""
    runtime = trace.group("runtime")
    names = distinct(runtime.name)
    waits = [one for one in names if _WAITS.search(trace.text(one))]
    allocates = [one for one in names if _ALLOCATES.search(trace.text(one))]
    is_wait = any_name(trace.strings, runtime.name, waits)
    is_long = (runtime.dur_ns > PAUSE_NS) & ~any_name(trace.strings, runtime.name, allocates)
    rows = np.flatnonzero(is_wait | is_long)
    begins = runtime.start_ns.take(rows)
    calls = union(begins, begins + runtime.dur_ns.take(rows))
    return np.asarray(calls.before(end) - calls.before(start))
