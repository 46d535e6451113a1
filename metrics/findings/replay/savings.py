"""What setting one culprit back would save in the job as it was recorded.

All else stays as recorded: chance variation, transfers, host delays, other faults. In the rungs of
the ladder these are levelled, so that a gain there names the culprit but overstates what mending it
saves: calls of many ranks wait for whoever is late by chance once the culprit no longer is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.reductions import (
    distinct_values,
    joint_inverse,
    median_along,
    rows_by_value,
    unique_inverse,
)
from ccltui.metrics.arrays.statistics import milliseconds
from ccltui.metrics.arrays.typical import lower_medians, typical_of_groups
from ccltui.metrics.findings.replay.host_needs import MAX_LAUNCHING, hosts_bind
from ccltui.metrics.findings.replay.job_facts import JobFacts, job_facts, lost_reasons, lost_records
from ccltui.metrics.findings.replay.ladder import (
    MAX_UNKNOWN_TRANSFERS,
    MAX_UNLINKED,
    Bounds,
    Ladder,
    ladder_of,
)
from ccltui.metrics.findings.replay.lines.call_table import sums_by_line
from ccltui.metrics.findings.replay.lines.pass_units import BACKWARD_PASS, FORWARD_PASS
from ccltui.metrics.findings.replay.lines.shared_positions import POST, WAIT
from ccltui.metrics.findings.replay.unit_targets import means_by, medians_by
from ccltui.metrics.model.classify import TYPES
from ccltui.metrics.result import Reason
from ccltui.metrics.view.data_quality import some_of
from ccltui.metrics.view.words import ranks_text
from ccltui.parsers.array_types import F64, I64, Bool
from ccltui.parsers.numbers import percent, time_text
from ccltui.parsers.window import ranges_text

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View

MAX_APART: Final = 0.1
"""Share of the saved time by which two replays may differ."""
LEAST_APART: Final = 0.005
"""Share of a step by which they may differ: passes vary by chance as much."""
UNIFORM: Final = 0.85
"""Share of the compute time of a slow device that takes longer by half of its excess or more: that
of optimizers, which wait for memory, may not."""
HALF: Final = 0.5
"""Part of its excess by which a segment is at least longer to count for `UNIFORM`."""
_MAX_COMPARED: Final = 1 << 20
"""Number of segments that are compared with each other at a time."""
_LINES: Final = 64
"""Lines that are looked at together: their numbers fit into a cache."""
_ALL_TO_ALL: Final = TYPES.index("AllToAll")
HIDDEN_WAITS: Final = (
    "some transfers take longer than comparable ones, and it is not known whether they are slow "
    "themselves or wait for slow ranks"
)
LESS, MAX_LESS = 0.1, 0.1
"""A stage with more work has more of it in each pass. Where it takes less by the first share, in
more than the second of its time, passes of a number are not the same part of the model."""
MIXED_PASSES: Final = "it is not known which passes of the stages belong together"
COPY_WAITS: Final = "devices idle until copies from other ranks have ended"
"""Why the time saved has bounds alone."""


class Savings(Struct, frozen=True, dict=True):
    """Replays of a job with some of it mended: float64 ns by step, or saved a step in the mean.

    Ranks that are mended compute and idle as long as is typical of those that run their program,
    between the same two calls. Positions of calls are those of the program and not when they were
    seen to begin: where receives are posted ahead on streams of their own, how much a rank computes
    between two posts differs from step to step.
    """

    ladder: Ladder

    def lines_of(self, ranks: Sequence[int] | None = None, steps: Bool | None = None) -> Bool:
        """Mask of the lines of ranks (indices; None: of all), in all steps or those of a mask."""
        table = self.ladder.job.table
        lines = np.ones(table.num_lines, np.bool_) if steps is None else steps[table.step]
        return lines if ranks is None else lines & np.isin(table.rank, list(ranks))

    def like_others(self, lines: Bool, transfer_ns: F64 | None = None) -> F64:
        """Return the steps with the lines in a mask at the typical times.

        Several questions about the same lines share the replay with transfers as recorded.
        """
        if transfer_ns is None:
            return self.each_like_others([lines])[0]
        typical, idle = self._typical_segments, self.ladder.idle.typical
        return self.ladder.ends(typical, transfer_ns, idle, lines=lines)

    def each_like_others(self, several: Sequence[Bool]) -> list[F64]:
        """Return the steps with the lines in each of several masks at the typical times.

        They are replayed together, with transfers as recorded.
        """
        new = {lines.tobytes(): lines for lines in several}
        new = {key: lines for key, lines in new.items() if key not in self._replays}
        if new:
            typical, idle = self._typical_segments, self.ladder.idle.typical
            ends = self.ladder.ends_of(list(new.values()), typical, idle=idle)
            ends = np.maximum(ends, self.ladder.host_need_ns)
            self._replays.update(zip(new, ends, strict=True))
        return [self._replays[lines.tobytes()] for lines in several]

    @cached_property
    def _replays(self) -> dict[bytes, F64]:
        return {}

    @cached_property
    def even(self) -> F64:
        """Steps with all lines at the typical times."""
        return self.like_others(self.lines_of())

    def saved(self, ends: F64) -> float:
        """Return by how much the steps of a replay are shorter than as recorded, not negative."""
        return max(float((self.ladder.delayed - ends).mean()), 0.0)

    def of(self, lines: Bool) -> float:
        """Return what is saved with the lines in a mask at the typical times.

        A step takes no less than the shortest one without any of them: where hosts hold up devices
        that are not slow, they do so again.
        """
        ends, table = self.like_others(lines), self.ladder.job.table
        mended = np.bincount(table.step, lines, self.ladder.job.num_steps) > 0
        least = self.ladder.delayed[~mended].min(initial=np.inf)
        return self.saved(np.maximum(ends, np.where(mended & np.isfinite(least), least, 0.0)))

    def as_usual(self, lines: Bool) -> float:
        """Return what is saved with passes of the lines in a mask as they are in other steps.

        A rank that is alone with its program has no others to be compared with in the same step.
        """
        targets, units = self.ladder.targets, self.ladder.job.units
        return self._with_units(np.where(lines[units.line], targets.worker, targets.own))

    def hidden_waits(self, lines: Bool) -> tuple[float, float] | None:
        """Return what mending lines saves with transfers as recorded and as is usual.

        None where these do not differ. A transfer that is longer than its like, and costs nothing
        as long as ranks are slow, is either slow itself, or a wait for them: where a call is
        divided among several groups, or a transfer matched to another, even its last member waits.
        Only in the second case it becomes shorter once they are mended.
        """
        usual = np.minimum(self.ladder.recorded_transfer, self.ladder.targets.transfer)
        if np.array_equal(usual, self.ladder.recorded_transfer):
            return None  # the replays would be the same
        unchanged = self.saved(self.ladder.ends(transfer_ns=usual))
        return self._apart(self.like_others(lines), self.like_others(lines, usual), unchanged)

    def bounds(self, lines: Bool, saved_ns: float, facts: JobFacts) -> Bounds | None:
        """Return bounds of what mending lines saves, None where nothing that is hidden adds to it.

        Transfers may hide waits for the ranks that are mended, and devices may wait for copies.
        """
        hidden = self.hidden_waits(lines)
        if hidden is not None:
            return Bounds(*hidden, HIDDEN_WAITS)
        waits, whole = facts.copy_waits(None), float(self.ladder.delayed.mean())
        if waits > max(MAX_APART * saved_ns, LEAST_APART * whole):
            most = min(saved_ns + waits, max(self.excess(lines), saved_ns))
            return Bounds(saved_ns, most, COPY_WAITS)
        return None

    def excess(self, lines: Bool) -> float:
        """Return by how much lines in a mask compute and idle longer than is typical, ns a step.

        No chain of work becomes shorter by more: at one place of a program it goes through one of
        the ranks, and whatever waits in between waits for what they take longer.
        """
        job, idle = self.ladder.job, self.ladder.idle
        longer = job.operations.compute_ns - self._typical_segments
        longer += np.maximum(idle.recorded.host_ns.values - idle.typical.host_ns.of_all(), 0)
        mine = np.where(lines[idle.line], np.maximum(longer, 0), 0)
        held = np.flatnonzero(job.operations.unit >= 0)
        count, number = self._program_places(held)
        largest = np.zeros(count)
        np.maximum.at(largest, number, mine[held])
        rest = float(mine.sum() - mine[held].sum())
        return (float(largest.sum()) + rest) / job.num_steps

    def free_transfers(self) -> tuple[float, float] | None:
        """Return bounds of what is saved, ns, where ranks that are not recorded may be slow.

        All that the recorded ranks spend in a call together may be a wait for one that is missing:
        the upper bound has transfers that take no time. None where that makes no difference.
        """
        none = np.zeros(len(self.ladder.recorded_transfer))
        return self._apart(self.even, self.like_others(self.lines_of(), none))

    def held_by(self, ranks: Sequence[int]) -> tuple[float, float] | None:
        """Return bounds of what is saved, ns, where ranks that have no like delay others.

        What they could take is not known: the upper bound has them compute nothing. None where that
        makes no difference.
        """
        free = self.lines_of(ranks)[self.ladder.idle.line]
        idle = self.ladder.idle.typical
        held = np.where(free, 0.0, self._typical_segments)
        return self._apart(self.even, self.ladder.ends(held, None, idle))

    def _apart(self, ends: F64, most: F64, unchanged: float = 0.0) -> tuple[float, float] | None:
        """Return what two replays save, None where they differ by no more than ``unchanged``."""
        least, at_most = self.saved(ends), self.saved(most)
        whole = float(self.ladder.delayed.mean())
        if at_most - unchanged - least <= max(MAX_APART * at_most, LEAST_APART * whole):
            return None
        return least, at_most

    @cached_property
    def _typical_segments(self) -> F64:
        """Time of each segment on the typical rank of its program in the same step.

        Of a rank that is alone with its program it follows from the typical time of the pass on the
        ranks of its stage. So it does for all of them where the other would make the job longer:
        then the ranks divide their work differently between calls.
        """
        job, operations, targets = self.ladder.job, self.ladder.job.operations, self.ladder.targets
        slow = self.ladder.idle.slow
        units = targets.place[job.worker], job.step, targets.kind, job.units.number
        count, number = joint_inverse(*units)
        passes = typical_of_groups(targets.own, number, count, slow[job.units.line])[number]
        scale = np.append(_over(passes, targets.own), 1.0)
        scaled: F64 = scale.take(operations.unit, mode="wrap")
        scaled *= operations.compute_ns
        found = scaled.copy()
        for held in self._portions():
            count, number = self._program_places(held)
            own = operations.compute_ns[held].astype(np.float64)
            line = job.units.line[operations.unit[held]]
            typical = typical_of_groups(own, number, count, slow[line])[number]
            several = np.bincount(number, minlength=count)[number] > 1
            found[held[several]] = typical[several]
        longer = self.ladder.ends(found).sum() > self.ladder.delayed.sum()
        return scaled if longer else found

    def _portions(self) -> Iterator[I64]:
        """Yield segments of units, those of a program in a step together, some at a time.

        What is compared with each other takes ten times the memory of the segments.
        """
        job, operations = self.ladder.job, self.ladder.job.operations
        sizes = np.diff(operations.first)
        _, alike = joint_inverse(job.program_of_line, job.table.step)
        whole = np.cumsum(np.bincount(alike, sizes)) // _MAX_COMPARED
        for _, lines in rows_by_value(whole.astype(np.int64)[alike]):
            edges = zip(operations.first[lines], operations.first[lines + 1], strict=True)
            places = np.concatenate([np.arange(*edge) for edge in edges])
            yield places[operations.unit[places] >= 0]

    def _program_places(self, held: I64) -> tuple[int, I64]:
        """Number the segments that have one place in a program in a step."""
        job = self.ladder.job
        line, first = job.units.line, job.operations.first
        count, program = joint_inverse(job.units.program, job.table.step[line])
        longest = np.zeros(count + 1, np.int64)
        np.maximum.at(longest, program + 1, first[line + 1] - first[line])
        # Units are few, segments millions: each program in a step has as many numbers as its
        # longest line has segments, and those that occur are numbered again.
        begin = np.cumsum(longest)
        number = (begin[program] - first[line])[job.operations.unit[held]] + held
        places, number = unique_inverse(number)
        return len(places), number

    def suspects(self, most: int) -> Sequence[int]:
        """Ranks that compute and idle longer than their like, those first that do so most."""
        job, table = self.ladder.job, self.ladder.job.table
        own, typical = self.ladder.idle.recorded, self.ladder.idle.typical
        first, first_call = job.operations.first, table.first_call
        excess = np.maximum(own.begin_ns - typical.begin_ns, 0)
        for begin in range(0, table.num_lines, _LINES):
            lines = slice(begin, min(begin + _LINES, table.num_lines))
            here = slice(first[lines.start], first[lines.stop])
            longer = job.operations.compute_ns[here] - self._typical_segments[here]
            longer += own.host_ns.of_lines(lines)
            longer -= typical.host_ns.of_lines(lines)
            delayed = own.wait_ns.of_lines(lines)[:, 0] - typical.wait_ns.of_lines(lines)[:, 0]
            edges = (one[lines.start : lines.stop + 1] for one in (first, first_call))
            spent, waited = (
                sums_by_line(np.maximum(values, 0), edge - edge[0])
                for values, edge in zip((longer, delayed), edges, strict=True)
            )
            excess[lines] = spent + waited + excess[lines]
        by_rank = np.bincount(table.rank, excess, len(job.labels))
        order = np.argsort(-by_rank, kind="stable")[:most]
        return [int(rank) for rank in order if by_rank[rank] > 0]

    @cached_property
    def alone(self) -> Sequence[str]:
        """Ranks that are the only ones of their stage."""
        job, place = self.ladder.job, self.ladder.targets.place
        here = distinct_values(job.table.rank)
        counts = np.bincount(place[here])
        return [job.labels[rank] for rank in here if counts[place[rank]] == 1]

    def stage(self, stage: int) -> tuple[float, Bounds | None]:
        """The work that a stage has beyond the others, shared out over all of them, with bounds.

        The n-th pass of a direction is the same part of the model on all stages that hold as many.
        """
        job, targets = self.ladder.job, self.ladder.targets
        place, own = targets.place[job.worker], targets.own
        wide = int(job.units.number.max(initial=0)) + 1
        part = targets.kind * wide + job.units.number
        usual = medians_by(own, place * (int(part.max(initial=0)) + 1) + part)
        mine = place == stage
        excess = np.zeros(len(own))
        for one in np.unique(part[mine]).tolist():
            alike = part == one
            others = np.unique(place[alike & ~mine])
            if len(others):
                typical = [usual[alike & (place == other)][0] for other in others]
                here = alike & mine
                middle = float(median_along(typical))
                excess[here] = own[here] * (1 - middle / max(usual[here][0], 1))
        shared = targets.shared_out(excess, mine)
        saved = self._with_units(np.maximum(own - excess + shared, 0.0), launched=True)
        unequal = self.ladder.unequal_passes()
        if unequal is not None:  # parts of passes are taken for others, which sharing out moves
            return saved, Bounds(0.0, max(saved, self._most_of_stage(stage)), unequal)
        less = own[mine & (excess < -LESS * own)].sum()
        if less <= MAX_LESS * own[mine].sum():
            return saved, None
        return saved, Bounds(saved, max(saved, self._most_of_stage(stage)), MIXED_PASSES)

    def _most_of_stage(self, stage: int) -> float:
        """Return the most that sharing out the work of a stage saves, ns a step.

        No part of it is done by the stage itself any more but the share of each.
        """
        job, targets = self.ladder.job, self.ladder.targets
        here = distinct_values(job.table.rank)
        work = np.bincount(job.worker, targets.own, len(job.labels))[here] / job.num_steps
        place = targets.place[here]
        others = [float(work[place == one].mean()) for one in np.unique(place[place != stage])]
        beyond = float(work[place == stage].mean()) - float(median_along(others))
        return max(beyond, 0.0) * len(others) / (len(others) + 1)

    def transfers(self, mine: Bool) -> float:
        """Instances in a mask at the usual transfer time of their like, with their variation."""
        table, own = self.ladder.job.table, self.ladder.recorded_transfer
        usual = self.ladder.targets.transfer
        alike = table.alike[mine]
        size = int(table.alike.max(initial=-1)) + 1
        had = np.bincount(alike, weights=own[mine], minlength=size)
        should = np.bincount(alike, weights=usual[mine], minlength=size)
        ratio = _over(should.astype(np.float64), had.astype(np.float64))[table.alike]
        return self.with_transfers(np.where(mine, own * ratio, own))

    def with_transfers(self, transfer_ns: F64) -> float:
        """Other transfer times of all instances."""
        return self.saved(self.ladder.ends(transfer_ns=transfer_ns))

    def balanced(self) -> float:
        """Passes without the part of their time that forward and backward of a batch share.

        Balancing micro-batches moves work and removes none: every pass takes the mean of its kind
        and place, and varies around it as much as its two directions vary on their own.
        """
        job, targets = self.ladder.job, self.ladder.targets
        main = np.isin(job.units.type, (FORWARD_PASS, BACKWARD_PASS))
        place = targets.place[job.worker]
        mean = means_by(targets.own, place * (int(targets.kind.max(initial=0)) + 1) + targets.kind)
        target = np.where(main, mean * (1 + self._unshared(mean)), targets.own)
        return self._with_units(np.maximum(target, 0.0))

    def experts(self, ranks: Sequence[int] = ()) -> float:
        """The same number of tokens for all ranks: equal work and equal exchanges.

        Between two calls of a step the ranks of a program take the mean of them: ``ranks``
        (indices), or all where there are none, exactly, the others with their own variation. An
        exchange takes as much less as its largest share exceeds the mean.
        """
        job, table, operations = self.ladder.job, self.ladder.job.table, self.ladder.job.operations
        held = np.flatnonzero(operations.unit >= 0)
        line = job.units.line[operations.unit[held]]
        _, number = self._program_places(held)
        own = operations.compute_ns[held].astype(np.float64)
        target = mean = means_by(own, number)
        if len(ranks):
            mine = np.isin(table.rank[line], list(ranks))
            target = np.where(mine, mean, own + mean - medians_by(own, number))
        segments = operations.compute_ns.astype(np.float64)
        segments[held] = np.maximum(target, 0.0)
        return self.saved(self.ladder.ends(segments, self.even_exchanges))

    @cached_property
    def _between_exchanges(self) -> tuple[I64, I64, I64]:
        """Segments between two exchanges of tokens, and the calls around each."""
        operations, table = self.ladder.job.operations, self.ladder.job.table
        kind = table.kind
        if not (kind == _ALL_TO_ALL).any():  # most jobs exchange no tokens
            return (np.empty(0, np.int64),) * 3
        each = operations.each(table.first_call)
        with_call = np.flatnonzero(each.call >= 0)
        held = np.flatnonzero(operations.unit >= 0)
        place = np.searchsorted(with_call, each.of_segment[held])
        inside = (place > 0) & (place < len(with_call))
        held, place = held[inside], place[inside]
        before, after = with_call[place - 1], with_call[place]
        first, second = each.call[before], each.call[after]
        found = (kind[first] == _ALL_TO_ALL) & (each.kind[before] == WAIT)
        found &= (kind[second] == _ALL_TO_ALL) & (each.kind[after] == POST)
        found &= table.line[first] == table.line[second]
        return held[found], first[found], second[found]

    @cached_property
    def even_exchanges(self) -> F64:
        """Transfer times with equal shares of every exchange, float64 ns by instance.

        An exchange lasts as long as its largest share. Where no sizes are recorded, the shares are
        those of the computing between it and the next one, which grows with the tokens.
        """
        job, table = self.ladder.job, self.ladder.job.table
        uneven = np.where(table.group >= 0, table.uneven, 1.0)
        between, first, second = self._between_exchanges
        found = uneven.copy()
        for call in (first, second):
            instance = table.instance[call]
            linked = instance >= 0
            instance, work = instance[linked], job.operations.compute_ns[between[linked]]
            total = np.bincount(instance, weights=work, minlength=len(uneven))
            members = np.bincount(instance, minlength=len(uneven))
            most = np.zeros(len(uneven))
            np.maximum.at(most, instance, work)
            share = most * members / np.maximum(total, 1)
            found = np.where(uneven == 1, np.maximum(found, share), uneven)
        return np.asarray(self.ladder.recorded_transfer / found)

    @cached_property
    def even_steps(self) -> F64:
        """Steps with equal shares of every exchange, without idle times, float64 ns."""
        ladder, transfer_ns = self.ladder, self.even_exchanges
        if np.array_equal(transfer_ns, ladder.recorded_transfer):
            return np.asarray(ladder.rungs[5])
        return ladder.job.replay.ends(ladder.compute(5), transfer_ns)

    def has_more_tokens(self, ranks: Sequence[int]) -> bool:
        """Whether ranks (indices) take longer for some work between exchanges of tokens alone.

        A slow device takes longer for everything.
        """
        between, _, _ = self._between_exchanges
        if not len(between):
            return False
        operations = self.ladder.job.operations
        mine = self.lines_of(ranks)[self.ladder.idle.line] & (operations.unit >= 0)
        own, typical = operations.compute_ns[mine], self._typical_segments[mine]
        excess = own.sum() / max(typical.sum(), 1) - 1
        longer = own > (1 + HALF * excess) * typical
        inside = np.isin(np.flatnonzero(mine), between)
        some = typical[longer].sum() < UNIFORM * typical.sum()
        return bool(some and typical[longer & inside].sum() >= UNIFORM * typical[longer].sum())

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
            ends = ladder.without_idle(ranks, ladder.need_without_ns(ranks))
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
        begun = begun[distinct_values(job.table.rank)]
        if ranks is None:
            waits = begun.max(axis=0)
        else:
            place = np.searchsorted(distinct_values(job.table.rank), list(ranks))
            waits = begun[place].max(axis=0) - lower_medians(
                begun.T.ravel(), np.repeat(np.arange(len(steps)), len(begun)), len(steps)
            )
        found[~known] = max(float(waits[known].min()), 0.0)
        return found

    def _with_units(
        self, unit_ns: F64, transfer_ns: F64 | None = None, *, launched: bool = False
    ) -> float:
        """Return what other times of units and transfers save.

        ``launched``: longer units take the place of idle time, as hosts launch as early as before.
        """
        own = self.ladder.job.operations.compute_ns
        scale = np.append(_over(unit_ns, self.ladder.targets.own), 1.0)
        segments = own * scale[self.ladder.job.operations.unit]
        idle = self.ladder.idle.behind_longer(segments - own) if launched else None
        return self.saved(self.ladder.ends(segments, transfer_ns, idle))


def savings_of(view: View) -> Savings:
    """Return the savings of a view's job; metrics share them, as their replays take long.

    Raises:
        Refusal: see `ladder_of`.
    """
    return view.remember(savings_of, lambda: Savings(ladder_of(view)))


def _over(one: F64, other: F64) -> F64:
    """Quotient, 1 where there is nothing to divide by."""
    return np.asarray(np.where(other > 0, one / np.where(other > 0, other, 1.0), 1.0))


ROUNDING: Final = 1e-6
"""Share of the step by which a replay with less work may end later: sums of floats do."""


def is_longer(was: F64, would_be: F64) -> bool:
    """Return whether steps with less work to do take longer, by more than rounding."""
    return float(would_be.sum()) > (1 + ROUNDING) * float(was.sum())


def why_not_physical(was: F64, would_be: F64) -> str:
    """Return why steps that would be longer have no ideal."""
    total, ideal = milliseconds(float(was.sum())), milliseconds(float(would_be.sum()))
    count = len(was)
    return (
        f"without any straggler the replayed step takes {time_text(ideal / count)}, "
        f"{time_text((ideal - total) / count)} ({percent(ideal / total - 1)}) longer than as it "
        f"was, {time_text(total / count)}: between two calls the ranks do not do the same "
        "work, and the replay does not reproduce the schedule of this job"
    )


def saved_time(was: F64, would_be: F64) -> dict[str, float | None]:
    """Return step times and the time saved; None where the step would be longer."""
    total, ideal = float(was.sum()), float(would_be.sum())
    time = milliseconds(total / len(was))
    if is_longer(was, would_be):
        nothing = dict.fromkeys(("ideal_step_time_ms", "saved_ms", "saved_pct"))
        return {"step_time_ms": time, **nothing}
    ideal = min(ideal, total)
    return {
        "step_time_ms": time,
        "ideal_step_time_ms": milliseconds(ideal / len(was)),
        "saved_ms": milliseconds((total - ideal) / len(was)),
        "saved_pct": 100 * (total - ideal) / total,
    }


def refused(without: Mapping[str, Any], per_step: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return why ranks and steps have no figure."""
    found = []
    ranks = [label for label, row in without.items() if row["saved_ms"] is None]
    if ranks:
        found.append(
            f"a replay with {ranks_text(ranks)} as fast as the others takes longer, so what "
            f"{'it costs' if len(ranks) == 1 else 'they cost'} is not known"
        )
    steps = [str(row["step"]) for row in per_step if row["ideal_ms"] is None]
    if steps:
        found.append(
            f"the replay without stragglers makes {len(steps)} of {len(per_step)} steps longer "
            f"({some_of(steps)}): they have no ideal time"
        )
    return found


def per_step_rows(steps: Sequence[int], was: F64, ideal: F64) -> list[Mapping[str, Any]]:
    """Return measured time, ideal and slowdown of each step, in rows."""
    rows: list[Mapping[str, Any]] = []
    for step, time, best in zip(steps, was, ideal, strict=True):
        longer = is_longer(time, best)
        shortest = min(float(best), float(time))
        rows.append(
            {
                "step": step,
                "step_time_ms": milliseconds(float(time)),
                "ideal_ms": None if longer else milliseconds(shortest),
                "slowdown": float(time) / shortest if shortest and not longer else None,
            }
        )
    return rows


def bounds_of_hosts(need_ns: F64, was_ns: F64, ideal_ns: F64) -> list[float] | None:
    """Return bounds of the time saved, ms, where hosts need most of the ideal, else None."""
    if not hosts_bind(need_ns, was_ns, ideal_ns):
        return None
    return [0.0, milliseconds(float(was_ns.mean() - ideal_ns.mean()))]


def why_host_bound(bounds: Sequence[float] | None) -> list[Reason]:
    """Return why the time saved has bounds, where hosts are the cause."""
    if bounds is None:
        return []
    text = (
        f"without stragglers hosts need {percent(MAX_LAUNCHING)} of a step or more to launch it, "
        f"so at most {time_text(bounds[1])} are saved, and less where kernels wait for their "
        "launches"
    )
    return [Reason("host_bound", text)]


def withheld(
    view: View, savings: Savings, details: dict[str, Any], *, host_bound: bool
) -> list[Reason]:
    """Remove the figures that do not hold, but for bounds, and return why.

    Args:
        view: the view of the job.
        savings: its replays.
        details: keys of the metric, changed.
        host_bound: hosts may bind without stragglers, and what is saved has an upper bound alone.
    """
    lost = lost_records(view)
    bounds = _bounds(view, savings, details)
    if lost:
        bounds = Bounds(0.0, savings.ladder.most_saved_ns, "")
    if bounds is None and not host_bound:
        return []
    details |= dict.fromkeys(("slowdown", "ideal_step_time_ms", "saved_ms", "saved_pct"))
    details["without_rank"] = {}
    nothing = {"ideal_ms": None, "slowdown": None}
    details["per_step"] = [row | nothing for row in details["per_step"]]
    if bounds is None:
        return []
    least = 0.0 if host_bound else bounds.least_ns
    details["saved_bounds_ms"] = [milliseconds(least), milliseconds(bounds.most_ns)]
    bounds = bounds._replace(least_ns=least)
    return lost_reasons(lost) if lost else [why_bounded(bounds)]


def why_bounded(bounds: Bounds) -> Reason:
    """Return why the time saved has bounds alone."""
    least, most = (time_text(milliseconds(one)) for one in bounds[:2])
    return Reason("not_physical", f"between {least} and {most} of a step are saved: {bounds.why}")


def _bounds(view: View, savings: Savings, details: Mapping[str, Any]) -> Bounds | None:
    """Return bounds of the time saved where no figure holds, None where it does."""
    ladder, job = savings.ladder, savings.ladder.job
    saved_ns = 1e6 * (details["saved_ms"] or 0.0)
    unequal = ladder.unequal_passes()
    if details["unlinked_share"] > MAX_UNLINKED:
        unequal = "calls that are not matched with other ranks may wait for slow ranks"
    elif job.stages.count > 1 and job.unknown_transfers > MAX_UNKNOWN_TRANSFERS:
        unequal = unequal or "only one side of some transfers is known"
    if unequal is not None:
        return Bounds(saved_ns, max(ladder.most_saved_ns, saved_ns), unequal)
    errors = ladder.error_bounds(saved_ns)
    if errors is not None:
        return errors
    missing = view.job.missing_ranks
    free = savings.free_transfers() if missing else None
    if free is not None:
        ranks = ranges_text(missing)
        return Bounds(*free, f"rank {ranks} is not recorded, and the others may wait for it")
    hidden = savings.bounds(savings.lines_of(), saved_ns, job_facts(view))
    if hidden is not None:
        return hidden
    alone = [label for label in details["alone"] if label not in job.out]
    held = savings.held_by([job.labels.index(one) for one in alone]) if alone else None
    if held is None:
        return None
    return Bounds(
        *held, f"ranks that run a program no other rank runs ({some_of(alone)}) delay others"
    )
