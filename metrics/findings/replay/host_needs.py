"""Time that hosts cost a step: what launching needs at least, and the idle time beyond the typical.

A device cannot take less than its host needs to launch: however fast it becomes, its kernels wait
for their launches then. Every device idles a little between kernels, and some steps hold all ranks
up, as a checkpoint does. That costs time and makes nobody a straggler: only what is beyond the
typical tells one rank from another.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.intervals import union
from ccltui.metrics.arrays.reductions import (
    distinct_values,
    joint_inverse,
    median_along,
    rows_by_value,
)
from ccltui.metrics.arrays.typical import lower_medians, slow_ones
from ccltui.metrics.findings.replay.lines.call_table import Along, Whole, sums_by_line
from ccltui.metrics.findings.replay.lines.job_lines import JobLines
from ccltui.metrics.findings.replay.lines.shared_positions import WAIT
from ccltui.metrics.model.classify import any_name, distinct
from ccltui.parsers.array_types import F64, I32, I64, Bool

if TYPE_CHECKING:
    from ccltui.metrics.findings.replay.lines.job_lines import JobLines
    from ccltui.metrics.model.rank_facts import RankFacts
    from ccltui.metrics.view.job_view import View
    from ccltui.parsers.columns import RankTrace


STEADY: Final = 0.5
"""Share of the idle time beyond the typical that is there in every step where it is steady."""


class Idle(NamedTuple):
    """Idle time for hosts: in each segment, and at calls and begins of lines.

    ``wait_ns`` are delay and gap of calls (see `Operations`), ``begin_ns`` is by line.
    """

    host_ns: Along
    wait_ns: Along
    begin_ns: F64


class HostIdle(Struct, frozen=True, dict=True):
    """Idle time for the hosts of a job.

    Attributes:
        job: the lines.
        place: where the work of each rank is compared, int64 by rank.
    """

    job: JobLines
    place: I64

    @cached_property
    def recorded(self) -> Idle:
        """As recorded."""
        one = self.job.operations
        host, wait = Along(one.host_ns, one.first), Along(one.wait_ns, self.job.table.first_call)
        return Idle(host, wait, self.job.begin_ns)

    @cached_property
    def line(self) -> I32:
        """Line of each segment."""
        lines = np.arange(self.job.table.num_lines, dtype=np.int32)
        return np.repeat(lines, np.diff(self.job.operations.first))

    @cached_property
    def slow(self) -> Bool:
        """Lines that compute longer or shorter than their like in the same step."""
        table = self.job.table
        count, number = joint_inverse(self.place[table.rank], table.step)
        return slow_ones(self.work_ns, number, count)

    @cached_property
    def work_ns(self) -> F64:
        """Compute time of each line."""
        return sums_by_line(self.job.operations.compute_ns, self.job.operations.first)

    @cached_property
    def typical(self) -> Idle:
        """Of the typical rank of each program in the same step.

        Ranks that compute longer hide the gaps that their hosts leave: the others tell these.
        """
        own, table = self.recorded, self.job.table
        wait = self._usual(own.wait_ns)
        # One that begins where it ended the step before follows that end in the replay.
        begin = np.maximum(own.begin_ns, 0)
        usual = lower_medians(begin, table.step, self.job.num_steps)[table.step]
        return Idle(
            self._usual(own.host_ns),
            wait._replace(values=np.rint(wait.values).astype(np.int64)),
            np.minimum(own.begin_ns, usual),
        )

    def _usual(self, own: Along) -> Along:
        """Lower median of numbers at one place of a program in a step, of ranks that are not slow.

        A rank that is alone with its program keeps as much as the typical one of all has. Lines of
        one program in one step share a row.
        """
        _, alike = joint_inverse(self.job.program_of_line, self.job.table.step)
        each = int(np.prod(own.values.shape[1:]))  # not -1, which is no number where there is none
        values = own.values.reshape(len(own.values), each)
        rows, edges = [np.empty((0, values.shape[1]))], [0]
        for _, lines in rows_by_value(alike):
            begin = own.edges[lines]
            size = int(own.edges[lines[0] + 1] - begin[0])
            if len(lines) > 1:
                counted = begin[~self.slow[lines]]
                rows.append(_lower_medians_at(values, counted if len(counted) else begin, size))
            else:
                rows.append(self._kept_alone[lines[0]] * values[begin[0] : begin[0] + size])
            edges.append(edges[-1] + size)
        found = np.concatenate(rows).reshape(-1, *own.values.shape[1:])
        return Along(found, np.array(edges), alike)

    @cached_property
    def _kept_alone(self) -> F64:
        """Share of the idle time of each line that the typical rank has in its step too."""
        step, whole = self.job.table.step, self._sum(self.recorded)
        typical = lower_medians(whole, step, self.job.num_steps)[step]
        return np.minimum(typical / np.maximum(whole, 1.0), 1.0)

    def _sum(self, idle: Idle) -> F64:
        """Idle time of each line, float64 ns."""
        return np.asarray(idle.host_ns.sums() + idle.wait_ns.sums() + np.maximum(idle.begin_ns, 0))

    def host_with_typical(self, lines: Bool) -> F64:
        """Return the idle time in segments with that of some lines (a mask) as is typical."""
        own, typical = self.recorded.host_ns, self.typical.host_ns
        return np.where(lines[self.line], typical.of_all(), own.values)

    def behind_longer(self, longer_ns: F64) -> Idle:
        """Return the idle time as recorded where segments take longer, float64 ns by segment.

        A host that launches its kernels one by one launches them as early as before: what its
        device works longer takes the place of idle time, until it waits for another stage. Ranks
        of its own that it waits for in collectives are as much longer.
        """
        own, operations = self.recorded, self.job.operations
        each, edges = operations.each(self.job.table.first_call), operations.edges
        waits = (each.kind == WAIT) & ~self._inside_stage[each.call]
        line = np.repeat(np.arange(len(edges) - 1), np.diff(edges))
        run = np.cumsum(waits) + line  # neither goes back
        # A line that has less to do in all is behind its launches at the end.
        is_longer = sums_by_line(longer_ns, operations.first) > 0
        added, idle = np.zeros((2, len(run)))
        added[each.of_segment] = np.where(is_longer[self.line], np.maximum(longer_ns, 0.0), 0.0)
        idle[each.of_segment] = own.host_ns.values
        net = np.cumsum(added - idle)
        # Work that is ahead of its launches is never negative: a running maximum gives it.
        least = added - net
        span = float(np.ptp(least)) + 1 if len(least) else 1.0
        ahead = net + np.maximum.accumulate(least + run * span) - run * span
        before = np.append(0.0, ahead[:-1])
        before[np.diff(run, prepend=-1) > 0] = 0.0
        left = np.maximum(idle - before, 0.0)[each.of_segment]
        return own._replace(host_ns=Along(left, operations.first))

    @cached_property
    def _inside_stage(self) -> Bool:
        """Calls whose members are all of one place."""
        table = self.job.table
        linked = np.flatnonzero(table.instance >= 0)
        instance, place = table.instance[linked], self.place[table.rank[table.line[linked]]]
        least, most = np.full((2, len(table.transfer_ns) + 1), place.max(initial=0))
        most[:] = -1  # the last instance is that of calls without any
        np.minimum.at(least, instance, place)
        np.maximum.at(most, instance, place)
        return np.asarray((least == most)[table.instance])

    @cached_property
    def beyond_ns(self) -> F64:
        """Idle time of each line beyond the typical one, float64 ns."""
        return np.maximum(self._sum(self.recorded) - self._sum(self.typical), 0.0)

    @cached_property
    def excess_ns(self) -> F64:
        """Idle time of each rank beyond the typical one, float64 ns by rank."""
        found = np.bincount(self.job.table.rank, self.beyond_ns, minlength=len(self.job.labels))
        return found.astype(np.float64)

    def lines_beyond(self, ranks: Sequence[int] | None = None) -> Bool:
        """Mask of the lines of ranks (indices; None: of all) that idle longer than is typical."""
        beyond = self.beyond_ns > 0
        return beyond if ranks is None else beyond & np.isin(self.job.table.rank, list(ranks))

    def beyond_by_step(self, rank: int) -> F64:
        """Idle time of a rank (index) beyond the typical one in each step, float64 ns."""
        table = self.job.table
        mine = table.rank == rank
        found = np.bincount(table.step[mine], self.beyond_ns[mine], minlength=len(table.step_ids))
        return found.astype(np.float64)

    def is_steady(self, rank: int) -> bool:
        """Whether most of what a rank (index) idles beyond the typical one is in all its steps."""
        step = self.beyond_by_step(rank)
        return float(median_along(step)) * len(step) > STEADY * float(step.sum())


_NUMBERS: Final = 1 << 16
"""Numbers that are looked at together: so many fit into a cache."""


def _lower_medians_at(values: Whole | F64, begin: I64, size: int) -> F64:
    """Lower median over lines of the numbers at each place of them, [places, columns].

    Args:
        values: numbers of all lines, [n, columns].
        begin: first one of each line.
        size: number of places of each line.
    """
    middle, wide = (len(begin) - 1) // 2, max(_NUMBERS // max(len(begin), 1), 8)
    found = np.empty((size, values.shape[1]))
    for first in range(0, size, wide):
        places = np.arange(first, min(first + wide, size))
        some = np.ascontiguousarray(values[begin[:, np.newaxis] + places].transpose(1, 2, 0))
        some.partition(middle, axis=2)
        found[first : first + len(places)] = some[:, :, middle]
    return found


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
    return calls.within(start, end)
