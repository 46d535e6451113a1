"""Step times if no rank were slower than those that run its program, between the same two calls.

Host delays and transfers stay as recorded. Positions of calls are those of the program and not when
they were seen to begin: where receives are posted ahead on streams of their own, how much a rank
computes between two posts differs from step to step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from ccltui.metrics.arrays.reductions import joint_inverse
from ccltui.metrics.arrays.typical import slow_ones, typical_of_groups
from ccltui.metrics.attribution.ladder import Ladder
from ccltui.metrics.attribution.lines.call_table import is_receive
from ccltui.metrics.attribution.lines.job_lines import JobLines
from ccltui.metrics.attribution.recorded_replay import RecordedReplay
from ccltui.metrics.attribution.savings import LEAST_APART, MAX_APART
from ccltui.parsers.array_types import F64, I64, Bool

AHEAD_SHARE: Final = 0.1
"""Share of the receives posted before the pass that needs them, from which passes count."""


def posts_ahead(job: JobLines) -> bool:
    """Return whether the ranks of a pipeline post receives before they need them."""
    receives = is_receive(job.table)
    if not receives.any():
        return False
    ahead = job.positions.posted[receives] < job.positions.resumed[receives]
    return bool(ahead.mean() > AHEAD_SHARE)


@dataclass(frozen=True)
class WithinProgram:
    """Replays of a job with passes at the typical time of their like; float64 ns by step."""

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
        operations = self.ladder.job.operations
        mine = np.repeat(changed, np.diff(operations.first))
        compute = np.where(mine, self._typical_segments, operations.compute_ns)
        kept = np.where(changed & self._unlaunched, self.ladder.host.kept, 1.0)
        return self._replay.ends(compute, kept=kept if (kept < 1).any() else None)

    @cached_property
    def _unlaunched(self) -> Bool:
        """Lines of ranks without a record of launches.

        Nothing tells that their gaps are those of their hosts: as well they may wait for others in
        calls that are not recorded.
        """
        table = self.ladder.job.table
        launched = np.bincount(
            table.rank[table.line], weights=table.launched, minlength=len(self.ladder.job.labels)
        )
        return np.asarray(launched[table.rank] == 0)

    @property
    def has_launches(self) -> bool:
        """Whether a launch of any rank is recorded."""
        return not self._unlaunched.all()

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

    def bounds(self, taken: I64, saved_ns: float) -> tuple[float, float] | None:
        """Return what two replays say is saved, ns, if they contradict each other, else None.

        The other makes all times between two posts alike, those of idle devices too: it saves as
        much as this one, and at most what single hosts cost beyond that.

        Args:
            taken: ids of the steps.
            saved_ns: what the other saves, mean over these steps.
        """
        mine = np.isin(self.ladder.job.table.step_ids, taken)
        if not mine.any():
            return None
        least = float((self.recorded - self.even)[mine].mean())
        most = least + max(float(self.ladder.uneven_host[mine].mean()), 0.0)
        apart = max(
            MAX_APART * max(least, saved_ns), LEAST_APART * float(self.recorded[mine].mean())
        )
        if least - apart <= saved_ns <= most + apart:
            return None
        return min(least, saved_ns), max(least, saved_ns)

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
        """Ranks whose passes exceed their like the most, those first that do so most."""
        job, own = self.ladder.job, self.ladder.targets.own
        excess = np.bincount(
            job.worker, weights=np.maximum(own - self._typical, 0), minlength=len(job.labels)
        )
        order = np.argsort(-excess, kind="stable")[:most]
        return [int(rank) for rank in order if excess[rank] > 0]

    @cached_property
    def alone(self) -> Sequence[str]:
        """Ranks that are the only ones of their stage."""
        job, place = self.ladder.job, self.ladder.targets.place
        here = np.unique(job.table.rank)
        counts = np.bincount(place[here])
        return [job.labels[rank] for rank in here if counts[place[rank]] == 1]
