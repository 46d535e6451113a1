"""Step times if no rank were slower than those that run its program, between the same two calls.

Ranks compute and idle as long as is typical, and transfers stay as recorded. Positions of calls are
those of the program and not when they were seen to begin: where receives are posted ahead on
streams of their own, how much a rank computes between two posts differs from step to step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ccltui.metrics.arrays.reductions import joint_inverse
from ccltui.metrics.arrays.typical import slow_ones, typical_of_groups
from ccltui.metrics.attribution.host_delays import Idle
from ccltui.metrics.attribution.ladder import Ladder
from ccltui.metrics.attribution.lower_median import lower_medians
from ccltui.metrics.attribution.recorded_replay import RecordedReplay
from ccltui.metrics.attribution.savings import LEAST_APART, MAX_APART
from ccltui.parsers.array_types import F64, I64, Bool


@dataclass(frozen=True)
class EvenRanks:
    """Replays of a job with ranks that take the typical time of their like; float64 ns by step."""

    ladder: Ladder

    @cached_property
    def _typical(self) -> F64:
        """What is typical of the workers of a stage for each pass of each step."""
        job, targets = self.ladder.job, self.ladder.targets
        count, number = joint_inverse(
            targets.place[job.worker], job.step, targets.kind, job.units.number
        )
        slow = self._slow[job.units.line]
        return typical_of_groups(targets.own, number, count, slow)[number]

    @cached_property
    def _slow(self) -> Bool:
        """Lines that differ from their like in the same step: what they do is not typical."""
        job = self.ladder.job
        table, place = job.table, self.ladder.targets.place
        count, number = joint_inverse(place[table.rank], table.step)
        line = np.repeat(np.arange(table.num_lines), np.diff(job.operations.first))
        work = np.bincount(line, job.operations.compute_ns, table.num_lines).astype(np.float64)
        return slow_ones(work, number, count)

    @cached_property
    def _scaled_segments(self) -> F64:
        """Time of each segment if its pass took the typical time of the stage."""
        targets, operations = self.ladder.targets, self.ladder.job.operations
        scale = self._typical / np.where(targets.own > 0, targets.own, 1)
        scale = np.append(np.where(targets.own > 0, scale, 1.0), 1.0)
        return np.asarray(operations.compute_ns * scale[operations.unit])

    @cached_property
    def _typical_segments(self) -> F64:
        """Time of each segment on the typical rank.

        Of the ranks of its program in the same step; of a rank that is alone with its program as in
        `_scaled_segments`. So are all of them where that would make the job
        longer: then the ranks divide their work differently between calls.
        """
        job, operations = self.ladder.job, self.ladder.job.operations
        found = self._scaled_segments.copy()
        held = np.flatnonzero(operations.unit >= 0)
        line = job.units.line[operations.unit[held]]
        program = job.units.program[operations.unit[held]]
        place = held - operations.first[line]
        count, number = joint_inverse(program, job.table.step[line], place)
        slow = self._slow[line]
        typical = typical_of_groups(operations.compute_ns[held], number, count, slow)[number]
        together = np.bincount(number, minlength=count)[number] > 1
        found[held[together]] = typical[together]
        longer = self._replay.ends(found).sum() > self.recorded.sum()
        return self._scaled_segments if longer else found

    def _ends(self, changed: Bool) -> F64:
        """Return the ends of the steps with the lines in a mask at the typical times."""
        job, own, typical = self.ladder.job, self.ladder.recorded_idle, self._typical_idle
        mine, calls = np.repeat(changed, np.diff(job.operations.first)), changed[job.table.line]
        idle = Idle(
            np.where(mine, typical.host_ns, own.host_ns),
            np.where(calls, typical.delay_ns, own.delay_ns),
            np.where(calls, typical.gap_ns, own.gap_ns),
            np.where(changed, typical.begin_ns, own.begin_ns),
        )
        compute = np.where(mine, self._typical_segments, job.operations.compute_ns)
        return self._replay.ends(compute, idle=idle)

    @cached_property
    def _typical_idle(self) -> Idle:
        """Idle time on the typical rank of each program in the same step.

        Ranks that compute longer hide the gaps that their hosts leave: the others tell these.
        """
        job, own = self.ladder.job, self.ladder.recorded_idle
        table, first = job.table, job.operations.first
        line = np.repeat(np.arange(table.num_lines), np.diff(first))
        call_place = np.arange(len(table.line)) - table.first_call[table.line]
        host = self._usual(own.host_ns, line, np.arange(len(line)) - first[line])
        delay, gap = (
            np.rint(self._usual(one.astype(np.float64), table.line, call_place)).astype(np.int64)
            for one in (own.delay_ns, own.gap_ns)
        )
        begin = own.begin_ns
        # One that begins where it ended the step before follows that end in the replay.
        usual = lower_medians(np.maximum(begin, 0), table.step, job.num_steps)[table.step]
        return Idle(host, delay, gap, np.minimum(begin, usual))

    def _usual(self, values: F64, line: I64, place: I64) -> F64:
        """Lower median of values at one place of a program in a step, over ranks that are not slow.

        A rank that is alone with its program keeps as much as the typical one of all has.
        """
        program, step = self.ladder.job.program_of_line[line], self.ladder.job.table.step[line]
        count, number = joint_inverse(program, step, place)
        slow = self._slow[line]
        some = np.bincount(number[~slow], minlength=count) > 0
        counted = np.flatnonzero(~slow | ~some[number])
        found = lower_medians(values[counted], number[counted], count)[number]
        alone = np.bincount(number, minlength=count)[number] == 1
        return np.where(alone, values * self.ladder.host.kept[line], found)

    @cached_property
    def _replay(self) -> RecordedReplay:
        return RecordedReplay(self.ladder)

    @cached_property
    def recorded(self) -> F64:
        """Steps as recorded."""
        return self.ladder.delayed

    @cached_property
    def even(self) -> F64:
        """Steps with every pass at the typical time of its like."""
        return self._ends(np.ones(self.ladder.job.table.num_lines, np.bool_))

    def without(self, rank: int) -> F64:
        """Return the steps with the passes of one rank (an index) at the typical time."""
        return self._ends(self.ladder.job.table.rank == rank)

    def hidden_waits(self) -> tuple[float, float] | None:
        """Return bounds of the time saved, ns, where transfers hide waits; None elsewhere.

        See `Savings.bounds_of_workers`: transfers that are longer than their like, and cost nothing
        as long as ranks are slow, may become shorter with them.
        """
        recorded, compute = self.ladder.recorded_transfer, self.ladder.job.operations.compute_ns
        usual = np.minimum(recorded, self.ladder.targets.transfer)
        least = float((self.recorded - self.even).mean())
        most = float((self.recorded - self._replay.ends(self._typical_segments, usual)).mean())
        unchanged = float((self.recorded - self._replay.ends(compute, usual)).mean())
        whole = float(self.recorded.mean())
        if most - max(unchanged, 0.0) - least <= max(MAX_APART * most, LEAST_APART * whole):
            return None
        return max(least, 0.0), most

    def free_transfers(self) -> tuple[float, float] | None:
        """Return bounds of the time saved, ns, where ranks that are not recorded may be slow.

        All that the recorded ranks spend in a call together may be a wait for one that is missing:
        the upper bound has transfers that take no time. None where that makes no difference.
        """
        ends = self._replay.ends(
            self._typical_segments, np.zeros(len(self.ladder.recorded_transfer))
        )
        return self._apart(float((self.recorded - ends).mean()))

    def held_by(self, ranks: Sequence[int]) -> tuple[float, float] | None:
        """Return bounds of the time saved, ns, where ranks that have no like hold others up.

        What they could take is not known: the upper bound has them compute nothing. None where that
        makes no difference.
        """
        mine = np.isin(self.ladder.job.table.rank, list(ranks))
        free = np.repeat(mine, np.diff(self.ladder.job.operations.first))
        ends = self._replay.ends(np.where(free, 0.0, self._typical_segments))
        return self._apart(float((self.recorded - ends).mean()))

    def _apart(self, most: float) -> tuple[float, float] | None:
        """Return what is saved at least and at most, ns, None where that is the same."""
        least = float((self.recorded - self.even).mean())
        whole = float(self.recorded.mean())
        if most - least <= max(MAX_APART * most, LEAST_APART * whole):
            return None
        return max(least, 0.0), most

    def suspects(self, most: int) -> Sequence[int]:
        """Ranks that compute and idle longer than their like, those first that do so most."""
        job, table, own = self.ladder.job, self.ladder.job.table, self.ladder.recorded_idle
        typical, operations = self._typical_idle, self.ladder.job.operations
        longer = operations.compute_ns - self._typical_segments + own.host_ns - typical.host_ns
        line = np.repeat(np.arange(table.num_lines), np.diff(operations.first))
        excess = np.bincount(line, np.maximum(longer, 0), table.num_lines)
        delayed = own.delay_ns - typical.delay_ns
        excess += np.bincount(table.line, np.maximum(delayed, 0), table.num_lines)
        excess += np.maximum(own.begin_ns - typical.begin_ns, 0)
        by_rank = np.bincount(table.rank, excess, len(job.labels))
        order = np.argsort(-by_rank, kind="stable")[:most]
        return [int(rank) for rank in order if by_rank[rank] > 0]

    @cached_property
    def alone(self) -> Sequence[str]:
        """Ranks that are the only ones of their stage."""
        job, place = self.ladder.job, self.ladder.targets.place
        here = np.unique(job.table.rank)
        counts = np.bincount(place[here])
        return [job.labels[rank] for rank in here if counts[place[rank]] == 1]
