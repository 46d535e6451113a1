"""What setting one culprit back would save in the job as it was recorded.

All else stays as recorded: chance variation, transfers, host delays, other faults. In the rungs of
the ladder these are levelled, so that a gain there names the culprit but overstates what mending it
saves: calls of many ranks wait for whoever is late by chance once the culprit no longer is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from ccltui.metrics.arrays.reductions import joint_inverse
from ccltui.metrics.attribution.ladder import Ladder
from ccltui.metrics.attribution.lines.pass_units import BACKWARD_PASS, FORWARD_PASS
from ccltui.metrics.attribution.lower_median import lower_medians
from ccltui.metrics.attribution.recorded_replay import RecordedReplay
from ccltui.parsers.array_types import F64, I64, Bool

MAX_APART: Final = 0.1
"""Share of the saved time by which two replays may differ."""
LEAST_APART: Final = 0.005
"""Share of a step by which they may differ: passes vary by chance as much."""
HIDDEN_WAITS: Final = (
    "some transfers are longer than their like, and whether they are slow themselves or wait for "
    "slow ranks is not told"
)
COPY_WAITS: Final = "devices idle until copies from other ranks have ended"
"""Why the time saved has bounds alone."""


@dataclass(frozen=True)
class Savings:
    """Time saved per step by mending one culprit, float64 ns, mean over steps."""

    ladder: Ladder

    def workers(self, ranks: Sequence[int]) -> float:
        """Ranks (indices) at the speed of their stage, with their own variation.

        Their devices then idle for their hosts as those of the others do.
        """
        return self._saved(self._healed(ranks), healed=ranks)

    def bounds_of_workers(self, ranks: Sequence[int]) -> tuple[float, float] | None:
        """Bounds of the same where transfers hide waits, else None; see `_bounds`."""
        return self._bounds(self._healed(ranks), healed=ranks)

    def _healed(self, ranks: Sequence[int]) -> F64:
        """Times of all units with those of some ranks at the speed of their stage."""
        targets = self.ladder.targets
        mine = np.isin(self.ladder.job.worker, list(ranks))
        return targets.own * np.where(mine, _over(targets.stage, targets.worker), 1.0)

    def in_steps(self, rank: int, hits: Bool) -> float:
        """A rank at its own usual speed in the steps (mask by step) in which it was slower."""
        return self._saved(self._healed_in_steps(rank, hits))

    def bounds_in_steps(self, rank: int, hits: Bool) -> tuple[float, float] | None:
        """Bounds of the same where transfers hide waits, else None; see `_bounds`."""
        return self._bounds(self._healed_in_steps(rank, hits))

    def _healed_in_steps(self, rank: int, hits: Bool) -> F64:
        """Times of all units with those of a rank at its usual speed in some steps."""
        job, targets = self.ladder.job, self.ladder.targets
        mine = (job.worker == rank) & hits[job.step]
        return targets.own * np.where(mine, _over(targets.worker, targets.step), 1.0)

    def stage(self, stage: int) -> float:
        """The work that a stage has beyond the others, shared out over all of them.

        The n-th pass of a direction is the same part of the model on all stages that hold as many.
        """
        job, targets = self.ladder.job, self.ladder.targets
        place, own = targets.place[job.worker], targets.own
        wide = int(job.units.number.max(initial=0)) + 1
        part = targets.kind * wide + job.units.number
        usual = _medians(own, place * (int(part.max(initial=0)) + 1) + part)
        mine = place == stage
        excess = np.zeros(len(own))
        for one in np.unique(part[mine]).tolist():
            alike = part == one
            others = np.unique(place[alike & ~mine])
            if len(others):
                typical = [usual[alike & (place == other)][0] for other in others]
                here = alike & mine
                excess[here] = own[here] * (1 - float(np.median(typical)) / max(usual[here][0], 1))
        shared = np.zeros(len(own))
        for kind in np.unique(targets.kind[mine]).tolist():
            alike = targets.kind == kind
            surplus = float(excess[alike & mine].mean())
            shared[alike] = surplus / len(np.unique(place[alike]))
        return self._saved(np.maximum(own - excess + shared, 0.0))

    def transfers(self, mine: Bool) -> float:
        """Instances in a mask at the usual transfer time of their like, with their variation."""
        table, own = self.ladder.job.table, self.ladder.recorded_transfer
        usual = self.ladder.targets.transfer
        alike = table.alike[mine]
        size = int(table.alike.max(initial=-1)) + 1
        had = np.bincount(alike, weights=own[mine], minlength=size)
        should = np.bincount(alike, weights=usual[mine], minlength=size)
        ratio = _over(should.astype(np.float64), had.astype(np.float64))[table.alike]
        return self._saved(self.ladder.targets.own, np.where(mine, own * ratio, own))

    def balanced(self) -> float:
        """Passes without the part of their time that forward and backward of a batch share.

        Balancing micro-batches moves work and removes none: every pass takes the mean of its kind
        and place, and varies around it as much as its two directions vary on their own.
        """
        job, targets = self.ladder.job, self.ladder.targets
        main = np.isin(job.units.type, (FORWARD_PASS, BACKWARD_PASS))
        place = targets.place[job.worker]
        mean = _means(targets.own, place * (int(targets.kind.max(initial=0)) + 1) + targets.kind)
        target = np.where(main, mean * (1 + self._unshared(mean)), targets.own)
        return self._saved(np.maximum(target, 0.0))

    def experts(self, ranks: Sequence[int] = ()) -> float:
        """The same number of tokens for all ranks: equal work and equal exchanges.

        Between two calls of a step the ranks of a program take the mean of them: ``ranks``
        (indices), or all where there are none, exactly, the others with their own variation. An
        exchange takes as much less as its largest share exceeds the mean.
        """
        job, table, operations = self.ladder.job, self.ladder.job.table, self.ladder.job.operations
        held = np.flatnonzero(operations.unit >= 0)
        line = job.units.line[operations.unit[held]]
        place = held - operations.first[line]
        program = job.units.program[operations.unit[held]]
        _, number = joint_inverse(program, table.step[line], place)
        own = operations.compute_ns[held]
        target = mean = _means(own, number)
        if len(ranks):
            mine = np.isin(table.rank[line], list(ranks))
            target = np.where(mine, mean, own + mean - _medians(own, number))
        segments = operations.compute_ns.copy()
        segments[held] = np.maximum(target, 0.0)
        uneven = np.where(table.group >= 0, table.uneven, 1.0)
        return self._drop(segments, self.ladder.recorded_transfer / uneven)

    def _unshared(self, mean: F64) -> F64:
        """Deviations from the mean such as the two directions of a batch have on their own.

        Deviations of both directions of a batch lie along a line, whose slope is that of their
        scatter. What is left across it varies as much as each direction does on its own. A backward
        pass takes what is left of another batch: of the same, both would cancel each other.
        """
        job, own = self.ladder.job, self.ladder.targets.own
        rest = np.zeros(len(own))
        deviation = _over(own, mean) - 1
        wide = int(job.units.number.max(initial=0)) + 1
        name = job.units.line * wide + job.units.number
        forward = np.flatnonzero(job.units.type == FORWARD_PASS)
        backward = np.flatnonzero(job.units.type == BACKWARD_PASS)
        _, one, other = np.intersect1d(name[forward], name[backward], return_indices=True)
        first, second = forward[one], backward[other]
        if len(first) < 2:
            return rest
        scatter = np.cov(deviation[first], deviation[second])
        _, axes = np.linalg.eigh(scatter)
        left = deviation[first] * axes[0, 0] + deviation[second] * axes[1, 0]
        rest[first], rest[second] = left, np.roll(left, 1)
        return rest

    def hosts(self, ranks: Sequence[int] | None = None) -> float:
        """Idle time for the host beyond the typical one of some ranks; of all ranks all of it.

        No step takes less than the other hosts need to launch it.
        """
        ladder = self.ladder
        if ranks is None:
            saved = ladder.rungs[6] - ladder.rungs[5]
        else:
            ends = np.maximum(ladder.host.ends(ranks), ladder.need_without_ns(ranks))
            saved = ladder.delayed - ends
        return max(float((saved + self._before_first(ranks)).mean()), 0.0)

    def _before_first(self, ranks: Sequence[int] | None) -> F64:
        """Wait for the host before the first work of each step that none precedes, float64 ns.

        Nothing of it is recorded: it is taken to be what every other step waits at least. On a
        common clock ranks are known to begin later than others.
        """
        job = self.ladder.job
        steps = job.table.step_ids
        known = np.diff(steps, prepend=steps[0] - 2) == 1
        found = np.zeros(len(steps))
        if not known.any() or (ranks is not None and job.has_clock):
            return found
        begun = np.full((len(job.labels), len(steps)), np.nan)
        begun[job.table.rank, job.table.step] = job.operations.begun_ns
        begun = begun[np.unique(job.table.rank)]
        if ranks is None:
            waits = begun.max(axis=0)
        else:
            place = np.searchsorted(np.unique(job.table.rank), list(ranks))
            waits = begun[place].max(axis=0) - lower_medians(
                begun.T.ravel(), np.repeat(np.arange(len(steps)), len(begun)), len(steps)
            )
        found[~known] = max(float(waits[known].min()), 0.0)
        return found

    def _bounds(self, unit_ns: F64, *, healed: Sequence[int] = ()) -> tuple[float, float] | None:
        """Return what is saved with transfers as recorded and as is usual, where these differ.

        A transfer that is longer than its like, and costs nothing as long as the culprit is slow,
        is either slow itself, or a wait for the culprit: where a call is divided among several
        groups, or a transfer matched to another, even its last member waits. Only in the second
        case it becomes shorter with the culprit.
        """
        recorded = self.ladder.recorded_transfer
        usual = np.minimum(recorded, self.ladder.targets.transfer)
        least = self._saved(unit_ns, healed=healed)
        most = self._saved(unit_ns, usual, healed=healed)
        step = float(self.ladder.rungs[6].mean())
        unchanged = self._drop(self.ladder.job.operations.compute_ns, usual)
        apart = most - unchanged - least
        if apart <= max(MAX_APART * most, LEAST_APART * step):
            return None
        return least, most

    def _saved(
        self, unit_ns: F64, transfer_ns: F64 | None = None, *, healed: Sequence[int] = ()
    ) -> float:
        """Drop of the step time with other times of units and transfers."""
        operations = self.ladder.job.operations
        scale = np.append(_over(unit_ns, self.ladder.targets.own), 1.0)
        host = self.ladder.host.after_healing_ns(healed) if len(healed) else None
        return self._drop(operations.compute_ns * scale[operations.unit], transfer_ns, host)

    def _drop(
        self, segment_ns: F64, transfer_ns: F64 | None = None, host_ns: F64 | None = None
    ) -> float:
        """Drop of the step time with other times of segments, transfers and host delays."""
        idle = self.ladder.recorded_idle
        idle = idle if host_ns is None else idle._replace(host_ns=host_ns)
        ends = self._replay.ends(segment_ns, transfer_ns, idle)
        return max(float((self.ladder.delayed - ends).mean()), 0.0)

    @cached_property
    def _replay(self) -> RecordedReplay:
        return RecordedReplay(self.ladder)


def _over(one: F64, other: F64) -> F64:
    """Quotient, 1 where there is nothing to divide by."""
    return np.asarray(np.where(other > 0, one / np.where(other > 0, other, 1.0), 1.0))


def _means(values: F64, key: I64) -> F64:
    """Mean of the values of each key, by value."""
    found: F64 = (np.bincount(key, weights=values) / np.maximum(np.bincount(key), 1))[key]
    return found


def _medians(values: F64, key: I64) -> F64:
    """Median of the values of each key, by value."""
    order = np.argsort(key, kind="stable")
    edges = np.flatnonzero(np.diff(key[order], prepend=-1, append=-1))
    found = np.empty(len(values))
    for begin, stop in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        found[order[begin:stop]] = np.median(values[order[begin:stop]])
    return found
