"""The ladder: replays that give back one kind of difference after another.

    rung            compute is                  difference to the rung before
    0 base          the repaired value          -
    1 stage         centre of the stage         uneven stages
    2 worker        centre of the worker        workers that are always slower
    3 step          mean of worker and step     what comes and goes from step to step
    4 micro-batch   as recorded                 what varies inside a step
    5 communication and transfers as recorded   slow links, groups
    6 measured      and host delays             host

The differences add up to the loss, T6 - T0. One of them may be slightly negative.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.reductions import distinct_values
from ccltui.metrics.arrays.typical import lower_medians
from ccltui.metrics.findings.replay.host_needs import HostIdle, Idle, host_needs
from ccltui.metrics.findings.replay.lines.call_table import Along, Segments
from ccltui.metrics.findings.replay.lines.job_lines import JobLines, job_lines
from ccltui.metrics.findings.replay.lines.step_replay import Runs, Times
from ccltui.metrics.findings.replay.unit_targets import Targets
from ccltui.parsers.array_types import F64, I64, Bool
from ccltui.parsers.numbers import percent

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View

RUNGS: Final = ("stage", "worker", "step", "microbatch", "communication", "host")
"""Names of the differences, in order."""

MAX_EARLY: Final = 0.01
"""Share of operations that may begin before what they depend on, from which the dependencies are
wrong."""
MAX_UNCOUNTED: Final = 0.05
"""Passes of pipeline stages that may be too many or too few, as a share of their transfers: one of
sixteen of an interleaved stage that is taken for its neighbour changes no verdict."""
MAX_UNLINKED: Final = 0.1
"""Share of the time in collectives that may be in calls without a match."""
MAX_UNKNOWN_TRANSFERS: Final = 0.01
"""Share of the calls that may be transfers of which no side is known."""
MAX_DELAYED_ERROR: Final = 0.01
"""Share of a step by which the replay with host delays may miss it, mean over steps; up to
`MAX_ERROR` the verdict is at most medium, beyond it there is none."""
MAX_ERROR: Final = 0.05
"""Share of a step by which the replay without host delays may be longer than it."""
STATED: Final = 5
"""What all differences cost is stated where it is so many times the error of the replay."""
MAX_BASE: Final = 1.005
"""The replay without differences may take this many times the measured time."""
ROUNDS: Final = 3
"""Replays of which each begins its steps where the one before ended them: a begin that moves by
some of what a step saves moves the next one by less."""
SETTLED: Final = 0.001
"""Share of a step by which begins may still move."""


class Bounds(NamedTuple):
    """What a saved time lies between where it is not known more closely, and why."""

    least_ns: float
    most_ns: float
    why: str


class Ladder(Struct, frozen=True, dict=True):
    """The rungs of a job; times are float64 ns by step.

    ``host_needs`` returns how long the hosts need at least for each step; None: not known.
    """

    job: JobLines
    host_needs: Callable[[], F64] | None = None

    @cached_property
    def _needs(self) -> F64:
        if self.host_needs is None:
            return np.zeros((len(self.job.labels), self.job.num_steps))
        return np.minimum(np.nan_to_num(self.host_needs()), self.delayed)

    @cached_property
    def host_need_ns(self) -> F64:
        """How long the slowest host needs at least for each step, never longer than it took."""
        return np.asarray(self._needs.max(axis=0))

    def need_without_ns(self, ranks: Sequence[int]) -> F64:
        """Return how long the slowest host needs where some (indices) are like the typical one."""
        others = np.delete(self._needs, list(ranks), axis=0).max(axis=0, initial=0.0)
        return np.asarray(np.maximum(others, self.typical_need_ns))

    @cached_property
    def typical_need_ns(self) -> F64:
        """The same of the typical host, the lower median over the ranks."""
        ranks, steps = self._needs.shape
        step = np.repeat(np.arange(steps), ranks)
        return lower_medians(self._needs.T.ravel(), step, steps)

    @cached_property
    def targets(self) -> Targets:
        """Times of units for each rung."""
        return Targets(self.job)

    def compute(self, rung: int) -> Segments:
        """Time of each segment at a rung."""
        if rung >= 4:
            return self.job.operations.compute_ns
        return self.job.segment_times(self._unit_targets[rung])

    @cached_property
    def _unit_targets(self) -> tuple[F64, F64, F64, F64]:
        """Times of units at the first four rungs."""
        targets = self.targets
        return targets.base, targets.stage, targets.worker, targets.step

    @cached_property
    def recorded_transfer(self) -> F64:
        """Transfer time of each instance as recorded."""
        return self.job.table.transfer_ns.astype(np.float64)

    @cached_property
    def rungs(self) -> F64:
        """Step times of each rung, [7, steps]."""
        usual, below = self.targets.transfer, self._unit_targets
        # A rung at which no unit takes another time than at the one before is that one.
        same = [np.array_equal(*two) for two in pairwise(below)]
        differs = np.array([True, *(not one for one in same), True, True])
        runs = chain(
            ((self.compute(rung), usual) for rung in np.flatnonzero(differs[:5]).tolist()),
            [(self.compute(4), self.recorded_transfer)],
        )
        found = self.job.replay.many(runs)[np.cumsum(differs) - 1]
        return np.vstack([found, self.job.measured_ns])

    @cached_property
    def idle(self) -> HostIdle:
        """Idle time for hosts."""
        return HostIdle(self.job, self.targets.place)

    @cached_property
    def delayed(self) -> F64:
        """Step times of the replay with the idle time for hosts put back."""
        return self._steps(self._recorded_lines)

    @cached_property
    def _recorded_lines(self) -> F64:
        """End of each line of the same replay."""
        every = np.ones((1, self.job.table.num_lines), np.bool_)
        own, begin = self._recorded_times, self.idle.recorded.begin_ns
        runs = Runs(own, own, every, self.recorded_transfer, begin[np.newaxis])
        return np.asarray(self.job.replay.line_ends(runs)[0])

    @property
    def _recorded_times(self) -> Times:
        return self._times(self.job.operations.compute_ns, self.idle.recorded)

    def _times(self, compute_ns: Segments, idle: Idle) -> Times:
        if not isinstance(compute_ns, Along):
            compute_ns = Along(compute_ns, self.job.operations.first)
        return Times(compute_ns, idle.host_ns, idle.wait_ns)

    def ends(
        self,
        compute_ns: Segments | None = None,
        transfer_ns: F64 | None = None,
        idle: Idle | None = None,
        need_ns: F64 | None = None,
        lines: Bool | None = None,
    ) -> F64:
        """Return the steps with other times of segments, transfers and hosts; None: as recorded.

        Segments and hosts are those of the lines in the mask ``lines`` alone, None: of all. No step
        takes less than hosts need to launch it, ``need_ns``; None: all hosts.
        """
        every = np.ones(self.job.table.num_lines, np.bool_) if lines is None else lines
        found = self.ends_of([every], compute_ns, transfer_ns, idle)[0]
        return np.asarray(np.maximum(found, self.host_need_ns if need_ns is None else need_ns))

    def ends_of(
        self,
        several: Sequence[Bool],
        compute_ns: Segments | None = None,
        transfer_ns: F64 | None = None,
        idle: Idle | None = None,
    ) -> F64:
        """Return the steps, however long hosts need, for several masks of lines, [masks, steps].

        Every rank begins a step where it ended the one before: one that is no longer slower than
        others begins earlier too. Begins follow from the ends of the same replay, which is repeated
        for that.
        """
        masks = np.stack(several)
        compute = self.compute(4) if compute_ns is None else compute_ns
        idle = self.idle.recorded if idle is None else idle
        other = self._times(compute, idle)
        transfer = self.recorded_transfer if transfer_ns is None else transfer_ns
        first = np.where(masks, idle.begin_ns, self.idle.recorded.begin_ns)
        runs = Runs(self._recorded_times, other, masks, transfer, first)
        found = self.job.replay.line_ends(runs)
        least = SETTLED * float(self.rungs[6].mean())
        left = np.arange(len(masks))  # whose begins still move
        for _ in range(ROUNDS - 1 if len(self._following) else 0):
            moved = self._after_last(found[left]) - self._after_last(self._recorded_lines)
            later = first[left]
            later[:, self._following] += moved[:, self._following - 1]
            moves = np.abs(later - runs.begin_ns).max(axis=1) > least
            left, runs = left[moves], runs._replace(begin_ns=later).some(moves)
            if not len(left):
                break
            found[left] = self.job.replay.line_ends(runs)
        return self._steps(found)

    @cached_property
    def _following(self) -> I64:
        """Lines behind one of the same rank in the step before, on a common clock."""
        table = self.job.table
        if not self.job.has_clock:
            return np.empty(0, np.int64)
        step = table.step_ids[table.step]
        follows = (table.rank[1:] == table.rank[:-1]) & (step[1:] == step[:-1] + 1)
        return np.flatnonzero(follows) + 1

    def _after_last(self, line_ends: F64) -> F64:
        """End of each line after the last end of its step, never positive; [..., lines]."""
        return np.asarray(line_ends - self._steps(line_ends)[..., self.job.table.step])

    def _steps(self, line_ends: F64) -> F64:
        """Latest end of the lines of each step, [..., lines] to [..., steps]."""
        found = np.zeros((self.job.num_steps, *line_ends.shape[:-1]))
        np.maximum.at(found, self.job.table.step, line_ends.T)
        return np.asarray(found.T)

    @cached_property
    def most_saved_ns(self) -> float:
        """What a step saves at most, mean over steps, even where records of some ranks are lost.

        No step becomes shorter than the device work that is recorded of its typical rank.
        """
        job, table = self.job, self.job.table
        typical = lower_medians(self.idle.work_ns, table.step, job.num_steps)
        return float(np.maximum(self.delayed - typical, 0.0).mean())

    @cached_property
    def uneven_host(self) -> F64:
        """What host delays beyond those of the typical rank cost, by step."""
        return self.delayed - self.without_idle()

    def without_idle(self, ranks: Sequence[int] | None = None, need_ns: F64 | float = 0.0) -> F64:
        """Return the steps where ranks (indices; None: all) idle no longer than is typical."""
        return np.asarray(np.maximum(self.each_without_idle([ranks])[0], need_ns))

    def each_without_idle(self, several: Sequence[Sequence[int] | None]) -> list[F64]:
        """Return the same of several choices of ranks, which are replayed together."""
        masks = {mask.tobytes(): mask for mask in map(self.idle.lines_beyond, several)}
        # Who idles, and what mending that saves, are two questions.
        new = {key: mask for key, mask in masks.items() if key not in self._replays}
        if new:
            ends = self.ends_of(list(new.values()), idle=self.idle.typical)
            self._replays.update(zip(new, ends, strict=True))
        return [self._replays[mask.tobytes()] for mask in map(self.idle.lines_beyond, several)]

    @cached_property
    def _replays(self) -> dict[bytes, F64]:
        return {}

    @cached_property
    def common_host_ns(self) -> float:
        """Mean over steps of what host delays cost that all ranks have alike."""
        return max(float((self.differences[5] - self.uneven_host).mean()), 0.0)

    @cached_property
    def differences(self) -> F64:
        """What each kind of difference costs, [6, steps]."""
        return np.diff(self.rungs, axis=0)

    @cached_property
    def loss_ns(self) -> float:
        """Mean over steps of what all differences cost."""
        return float((self.rungs[6] - self.rungs[0]).mean())

    @cached_property
    def shares(self) -> F64:
        """Share of each kind of difference in the loss; they add up to 1."""
        whole = self.loss_ns
        return np.asarray(self.differences.mean(axis=1) / (whole or 1.0))

    @cached_property
    def loss_ratio(self) -> float:
        """Loss as a share of the mean measured step."""
        return float((self.rungs[6] - self.rungs[0]).mean() / self.rungs[6].mean())

    @cached_property
    def replay_error(self) -> float:
        """Largest share of a step by which the replay with host delays misses it."""
        return float(np.abs(self.delayed / self.rungs[6] - 1).max())

    @cached_property
    def mean_error(self) -> float:
        """Mean over steps of the share by which the replay with host delays misses them."""
        return float(np.abs(self.delayed / self.rungs[6] - 1).mean())

    @cached_property
    def error_ns(self) -> float:
        """By how much the replay with host delays misses steps, mean over steps."""
        return float(np.abs(self.delayed - self.rungs[6]).mean())

    @cached_property
    def early_share(self) -> float:
        """Share of operations that began before what they depend on had ended."""
        return self.job.operations.early / max(self.job.operations.checked, 1)

    @cached_property
    def compares(self) -> bool:
        """Whether two ranks run one program, or there are stages to compare."""
        places = self.targets.place[distinct_values(self.job.table.rank)]
        return self.job.stages.count > 1 or int(np.bincount(places).max()) > 1

    def unequal_passes(self) -> str | None:
        """Return why it is not known which work is whose pass, None where it is."""
        share = self.job.uncounted
        if share <= MAX_UNCOUNTED:
            return None
        return (
            f"in {percent(share)} of the steps of a stage the number of passes differs from that "
            "of transfers"
        )

    def refuted(self) -> str | None:
        """Return why nothing of the ladder holds, None where its errors bound what it tells."""
        return self.invalid() if self.loss_ns < STATED * self.error_ns else None

    def error_bounds(self, saved_ns: float) -> Bounds | None:
        """Return bounds of what is saved where the ladder does not describe the job exactly."""
        why, error = self.invalid(), self.error_ns
        if why is None:
            return None
        least = max(saved_ns - error, 0.0)
        return Bounds(least, max(least, min(saved_ns + error, self.most_saved_ns)), why)

    def invalid(self) -> str | None:
        """Return why the ladder does not describe the job exactly, None where it does."""
        if self.early_share > MAX_EARLY:
            return (
                f"{percent(self.early_share)} of the operations begin before the work that they "
                "seem to depend on has ended"
            )
        low, high = self.rungs[0].mean(), self.rungs[6].mean()
        if low > MAX_BASE * high:
            return (
                "without any difference between ranks the replayed step is "
                f"{percent(low / high - 1)} longer"
            )
        excess = float((self.rungs[5] / self.rungs[6] - 1).mean())
        if excess > MAX_ERROR:
            return (
                f"the replay waits where the job did not, so its steps are {percent(excess)} longer"
            )
        if self.mean_error > MAX_ERROR:
            return (
                "steps replayed as recorded differ from their measured length by "
                f"{percent(self.mean_error)}"
            )
        return None


def ladder_of(view: View) -> Ladder:
    """Return the ladder of a view; several metrics share it.

    Raises:
        Refusal: the job has no lines that can be compared.
        DeadlockError: by its replays, where the ranks wait for each other.
    """
    found: Ladder = view.remember(ladder_of, lambda: _ladder(view))
    return found


def _ladder(view: View) -> Ladder:
    job = job_lines(view)
    return Ladder(job, lambda: host_needs(view, job))
