"""What setting one suspect back would save, in the replay of its own rung.

There other faults do not hide it: a gain is the drop of the step time over the loss.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ccltui.metrics.arrays.reductions import distinct_rows, distinct_values, median_along
from ccltui.metrics.arrays.statistics import students_t
from ccltui.metrics.findings.replay.ladder import Ladder
from ccltui.metrics.findings.replay.lines.call_table import Segments
from ccltui.metrics.findings.replay.lines.pass_units import BACKWARD_PASS, FORWARD_PASS, WHOLE
from ccltui.metrics.findings.replay.unit_targets import STANDARD_ERRORS
from ccltui.parsers.array_types import F64, I64, Bool

MAX_SUSPECTS: Final = 6
"""So many of those with most excess are set back, one at a time."""
LEAST_EXCESS: Final = 0.05
"""Share by which a step of a worker must exceed its centre to count as a hit."""


class Suspect(Struct, frozen=True):
    """Something to set back: ranks (indices), a stage, a group or a pair, and the steps.

    ``gain`` is the share of the loss that goes with it, ``factor`` its time over that of its like.
    """

    gain: float
    factor: float | None
    ranks: tuple[int, ...] = ()
    stage: int | None = None
    group: int | None = None
    pair: tuple[int, int] | None = None
    host: str | None = None
    steps: tuple[int, ...] | None = None


class Gains(Struct, frozen=True, dict=True):
    """Suspects of each rung of a ladder, those that gain most first."""

    ladder: Ladder

    def _gain(self, before: F64, changed: F64) -> float:
        """Drop of the step times of a rung over the loss."""
        drop = float((before - changed).mean())
        return drop / self.ladder.loss_ns if self.ladder.loss_ns else 0.0

    def _gains(self, rung: int, changed: Iterable[tuple[Segments, F64]]) -> list[float]:
        """Gains on a rung of other times of segments and instances, replayed some at a time."""
        return [self._gain(self.ladder.rungs[rung], ends) for ends in self._ends(changed)]

    def _ends(self, changed: Iterable[tuple[Segments, F64]]) -> F64:
        return self.ladder.job.replay.many(changed)

    @cached_property
    def stages(self) -> list[Suspect]:
        """Every stage, with the work that it has beyond the others shared out over all of them."""
        return _ordered(self._stages())

    def _stages(self) -> list[Suspect]:
        job, targets = self.ladder.job, self.ladder.targets
        place = targets.place[job.worker]
        found, levelled = [], []
        for stage in range(job.stages.count):
            mine = place == stage
            if not mine.any():
                continue
            level = self._level(mine)
            if targets.stage[mine].sum() <= level[mine].sum():
                continue  # it has less than the others
            levelled.append(level + targets.shared_out(targets.stage - level, mine))
            ranks = tuple(np.flatnonzero(job.stages.stage == stage).tolist())
            factor = _ratio(targets.stage[mine].sum(), level[mine].sum())
            found.append(Suspect(0.0, factor, ranks=ranks, stage=stage))
        gains = self._gains(1, ((job.segment_times(one), targets.transfer) for one in levelled))
        return [replace(one, gain=gain) for one, gain in zip(found, gains, strict=True)]

    def stages_alike(self, ranks: Sequence[int]) -> Suspect:
        """Return the gain of all stages of some ranks at the level of the other stages."""
        job, targets = self.ladder.job, self.ladder.targets
        mine = np.isin(job.worker, list(ranks))
        target = self._level(mine)
        (gain,) = self._gains(1, [(job.segment_times(target), targets.transfer)])
        factor = _ratio(targets.stage[mine].sum(), target[mine].sum())
        return Suspect(gain, factor, ranks=tuple(ranks))

    def _level(self, mine: Bool) -> F64:
        """Times of units with those in a mask at the median over the other stages, by kind."""
        job, targets = self.ladder.job, self.ladder.targets
        place = targets.place[job.worker]
        found = targets.stage.copy()
        for kind in distinct_values(targets.kind[mine]):
            alike = targets.kind == kind
            others = alike & ~mine
            stages = distinct_values(place[others])
            if len(stages):
                typical = [targets.stage[others & (place == one)][0] for one in stages]
                found[alike & mine] = float(median_along(typical))
        return found

    @cached_property
    def worker_excess(self) -> F64:
        """Time by which the centre of each rank exceeds its stage's, summed over its units."""
        job, targets = self.ladder.job, self.ladder.targets
        excess = targets.worker - targets.stage
        found = np.bincount(job.worker, weights=excess, minlength=len(job.labels))
        return found.astype(np.float64)

    def workers(self, ranks: Sequence[int]) -> Suspect:
        """Some ranks at once, at the centre of their stage."""
        return self._workers([ranks])[0]

    def _workers(self, several: Sequence[Sequence[int]]) -> list[Suspect]:
        job, targets = self.ladder.job, self.ladder.targets
        masks = [np.isin(job.worker, list(ranks)) for ranks in several]
        changed = (np.where(mine, targets.stage, targets.worker) for mine in masks)
        gains = self._gains(2, ((job.segment_times(one), targets.transfer) for one in changed))
        return [
            Suspect(
                gain,
                _ratio(targets.worker[mine].sum(), targets.stage[mine].sum()),
                ranks=tuple(ranks),
            )
            for ranks, mine, gain in zip(several, masks, gains, strict=True)
        ]

    def saved_ns(self, ranks: Sequence[int]) -> float:
        """What setting ranks back saves if their devices then idle for their hosts like others.

        Never more than without idle times, which the rungs leave out.
        """
        job, targets, idle = self.ladder.job, self.ladder.targets, self.ladder.idle
        mine, usual = np.isin(job.worker, list(ranks)), idle.lines_beyond()
        as_others = usual | np.isin(job.table.rank, list(ranks))
        healed = np.where(mine, targets.stage, targets.worker)
        before = job.segments(targets.worker) + idle.host_with_typical(usual)
        after = job.segments(healed) + idle.host_with_typical(as_others)
        ends = self._ends((one, targets.transfer) for one in (before, after))
        drop = float((ends[0] - ends[1]).mean())
        return min(max(drop, 0.0), self.workers(ranks).gain * self.ladder.loss_ns)

    @cached_property
    def single_workers(self) -> list[Suspect]:
        """The ranks with most excess, one at a time."""
        return _ordered(self._workers([[rank] for rank in _worst(self.worker_excess)]))

    @cached_property
    def main_ns(self) -> F64:
        """Time of the passes of each rank in each step, float64 [ranks, steps]."""
        job, own = self.ladder.job, self.ladder.targets.own
        main = np.isin(job.units.type, (FORWARD_PASS, BACKWARD_PASS, WHOLE))
        found = np.zeros((len(job.labels), job.num_steps))
        np.add.at(found, (job.worker[main], job.step[main]), own[main])
        return found

    @cached_property
    def hits(self) -> Bool:
        """Steps in which the mean pass of a rank exceeds its centre, bool [ranks, steps]."""
        job, targets = self.ladder.job, self.ladder.targets
        main = np.isin(job.units.type, (FORWARD_PASS, BACKWARD_PASS, WHOLE))
        shape = (len(job.labels), job.num_steps)
        cell = job.worker * job.num_steps + job.step
        size = shape[0] * shape[1]

        def summed(values: F64) -> F64:
            found = np.bincount(cell[main], weights=values[main], minlength=size)
            return found.astype(np.float64)

        centre = np.maximum(summed(targets.worker), 1e-9)
        ratio = summed(targets.own) / centre
        rest = summed(targets.scatter**2)
        count = np.bincount(cell[main], minlength=size)
        # Inside a step from the scatter of its passes; over steps from the usual deviation of all.
        error = np.sqrt(rest) / centre * np.sqrt(count / np.maximum(count - 1, 1))
        here = count > 0
        spread = 1.4826 * float(median_along(np.abs(ratio[here] - 1))) if here.any() else 0.0
        # One value of each rank is its centre.
        spread *= students_t(STANDARD_ERRORS, int(here.sum()) - len(distinct_values(job.worker)))
        least = np.maximum(np.maximum(STANDARD_ERRORS * error, spread), LEAST_EXCESS)
        hit = here & (ratio - 1 > least)
        return np.asarray(hit.reshape(shape))

    def is_always(self, rank: int) -> bool:
        """Whether a rank exceeds its centre in every step in which it has passes."""
        job = self.ladder.job
        here = np.zeros(job.num_steps, np.bool_)
        here[job.step[job.worker == rank]] = True
        return bool(self.hits[rank][here].all() and here.sum() > 1)

    @cached_property
    def occasional(self) -> list[Suspect]:
        """The ranks with most excess in single steps, set back to their centre in these."""
        job, targets = self.ladder.job, self.ladder.targets
        hit = self.hits[job.worker, job.step]
        excess = np.bincount(
            job.worker,
            weights=np.where(hit, targets.own - targets.worker, 0),
            minlength=len(job.labels),
        )
        ranks = _worst(excess.astype(np.float64))
        masks = [hit & (job.worker == rank) for rank in ranks]
        gains = self._gains(4, map(self._without_hits, masks))
        found = []
        for rank, mine, gain in zip(ranks, masks, gains, strict=True):
            steps = tuple(job.table.step_ids[np.flatnonzero(self.hits[rank])].tolist())
            factor = _ratio(targets.own[mine].sum(), targets.worker[mine].sum())
            found.append(Suspect(gain, factor, ranks=(rank,), steps=steps))
        return _ordered(found)

    def _without_hits(self, mine: Bool) -> tuple[F64, F64]:
        """Times of segments and instances with the units in a mask at their centre."""
        operations, targets = self.ladder.job.operations, self.ladder.targets
        target = np.where(mine, targets.worker, targets.own)
        scale = np.append(target / np.where(targets.own > 0, targets.own, 1), 1)
        return operations.compute_ns * scale[operations.unit], targets.transfer

    @cached_property
    def links(self) -> list[Suspect]:
        """Pairs and groups with most excess of transfer time, at that of their like."""
        job, targets = self.ladder.job, self.ladder.targets
        table, own = job.table, self.ladder.recorded_transfer
        if not len(own):
            return []
        pair = np.sort(table.pair, axis=1)
        keys, number = distinct_rows(self._group_of_ranks, pair[:, 0], pair[:, 1])
        excess = np.bincount(number, weights=own - targets.transfer)
        worst, found = _worst(excess.astype(np.float64)), []
        masks = [number == one for one in worst]
        usual = ((self.ladder.compute(5), np.where(one, targets.transfer, own)) for one in masks)
        for one, mine, gain in zip(worst, masks, self._gains(5, usual), strict=True):
            group, low, high = keys[:, one].tolist()
            factor = _ratio(own[mine].sum(), targets.transfer[mine].sum())
            found.append(
                Suspect(
                    gain,
                    factor,
                    ranks=(low, high) if low >= 0 else self._members(mine),
                    group=None if low >= 0 else group,
                    pair=(low, high) if low >= 0 else None,
                )
            )
        return _ordered(found)

    @cached_property
    def _group_of_ranks(self) -> I64:
        """Group of each instance: the first of the groups of the same ranks, which share links."""
        table = self.ladder.job.table
        groups, example = np.unique(table.group, return_index=True)  # all have the same members
        of_example = np.full(len(table.group) + 1, -1)
        of_example[example] = np.arange(len(groups))
        calls = np.flatnonzero(of_example[table.instance] >= 0)
        place, rank = of_example[table.instance[calls]], table.rank[table.line[calls]]
        ranks: list[list[int]] = [[] for _ in groups]
        for one, member in zip(place.tolist(), rank.tolist(), strict=True):
            ranks[one].append(member)
        first: dict[tuple[int, ...], int] = {}
        same = [
            first.setdefault(tuple(sorted(members)), int(group)) if group >= 0 else -1
            for group, members in zip(groups, ranks, strict=True)
        ]
        return np.array(same, np.int64)[np.searchsorted(groups, table.group)]

    def instances_of(self, link: Suspect) -> Bool:
        """Mask of the instances of a pair or group."""
        table = self.ladder.job.table
        if link.pair is None:
            return np.asarray((self._group_of_ranks == link.group) & (table.pair[:, 0] < 0))
        pair = np.sort(table.pair, axis=1)
        return np.asarray((pair == np.array(link.pair)).all(axis=1))

    def _members(self, mine: Bool) -> tuple[int, ...]:
        table = self.ladder.job.table
        inside = np.append(mine, False)[table.instance]
        return tuple(distinct_values(table.rank[table.line[inside]]).tolist())

    @cached_property
    def hosts_idle(self) -> list[Suspect]:
        """Ranks whose devices idle longest for the host, each with the delays of the typical."""
        ladder = self.ladder
        worst = _worst(ladder.idle.excess_ns)
        without = ladder.each_without_idle([[one] for one in worst])
        gains = (self._gain(ladder.delayed, ends) for ends in without)
        return _ordered(
            [Suspect(gain, None, ranks=(one,)) for one, gain in zip(worst, gains, strict=True)]
        )


def _worst(excess: F64) -> list[int]:
    """Return the places with most excess, at most `MAX_SUSPECTS`."""
    return [one for one in np.argsort(-excess)[:MAX_SUSPECTS].tolist() if excess[one] > 0]


def _ordered(found: Sequence[Suspect]) -> list[Suspect]:
    return sorted(found, key=lambda one: -one.gain)


def _ratio(one: float, other: float) -> float | None:
    return float(one / other) if other > 0 else None
