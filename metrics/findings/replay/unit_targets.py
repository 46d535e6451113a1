"""What every unit of work would take if less of the differences between them were left.

    base      mean over stages of the typical worker of the stage
    stage     typical worker of the stage: lower median over its workers of their centres
    worker    centre of the worker
    step      mean of the worker in the step
    own       as recorded

The centre of a worker is the median over steps of its mean unit, where this differs from the
typical one of its stage by more than four standard errors; else the latter: a few steps of uneven
sequences do not make a slow worker.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.reductions import (
    distinct_values,
    joint_inverse,
    median_along,
    stable_order,
)
from ccltui.metrics.arrays.typical import lower_medians
from ccltui.metrics.findings.replay.lines.job_lines import JobLines
from ccltui.metrics.findings.replay.lines.pass_units import BETWEEN
from ccltui.parsers.array_types import F64, I64, Bool

if TYPE_CHECKING:
    from ccltui.metrics.findings.replay.lines.job_lines import JobLines

SHARED: Final = 0.5
"""A rank that is like no other makes more than this share of the calls of those that it is compared
with: one with fewer has another part in the job."""
FEWEST_STEPS: Final = 2
"""Of a single step nothing tells calls that are never made from those that are not recorded."""


def program_places(job: JobLines) -> I64:
    """Return the number of the set of ranks that each rank is compared with, int64 by rank."""
    program = _programs_of_steps(job)
    usual = np.array([_usual(one) for one in program], np.int64)
    first = len(job.programs)
    numbers: dict[bytes, int] = {}
    place = usual.copy()
    for rank in np.flatnonzero(usual < 0).tolist():
        # Ranks are alike too where their steps differ in the same way; without steps none is.
        key = program[rank].tobytes() or f"rank {rank}".encode()
        place[rank] = numbers.setdefault(key, first + len(numbers))
    return _joined(job, place, usual >= 0) if job.num_steps >= FEWEST_STEPS else place


def _programs_of_steps(job: JobLines) -> list[I64]:
    """Program of each step of each rank."""
    edges = np.searchsorted(job.table.rank, np.arange(1, len(job.labels)))  # lines ascend by rank
    return np.split(job.program_of_line, edges)


def _usual(program: I64) -> int:
    """Program of more than half of the steps of a rank, -1 for none."""
    if not len(program):
        return -1
    counts = np.bincount(program)
    most = int(counts.argmax())
    return most if counts[most] * 2 > len(program) else -1


def _joined(job: JobLines, place: I64, regular: Bool) -> I64:
    """Give the ranks that are alone the place of those most of whose calls they make.

    One whose steps differ has to make all of them: it may lack records otherwise, and compute less
    than it did. For the same reason nothing is compared with a single rank whose steps differ.
    """
    here = distinct_values(job.table.rank)
    size = np.bincount(place[here], minlength=int(place.max(initial=0)) + 1)
    alone = here[size[place[here]] == 1]
    if not len(alone):
        return place
    leaders = here[np.unique(place[here], return_index=True)[1]]
    leaders = leaders[regular[leaders] | (size[place[leaders]] > 1)]
    calls = _calls_a_step(job)
    theirs = calls[leaders]
    total = theirs.sum(axis=1)
    found = place.copy()
    for rank in alone.tolist():
        shared = np.minimum(calls[rank], theirs).sum(axis=1) / np.maximum(total, 1e-9)
        likes = (shared > SHARED if regular[rank] else shared >= 1) & (leaders != rank)
        if likes.any():
            best = np.lexsort((size[place[leaders]], shared, likes))[-1]
            found[found == found[rank]] = found[leaders[best]]
    return found


def _calls_a_step(job: JobLines) -> F64:
    """Mean number of calls of each kind in a step, [ranks, kinds]."""
    table = job.table
    kinds, kind = np.unique(table.token, return_inverse=True)
    rank = table.rank[table.line]
    counts = np.bincount(rank * len(kinds) + kind, minlength=len(job.labels) * len(kinds))
    steps = np.maximum(np.bincount(table.rank, minlength=len(job.labels)), 1)
    return np.asarray(counts.reshape(len(job.labels), -1) / steps[:, np.newaxis])


STANDARD_ERRORS: Final = 4
"""Standard errors by which a worker must differ from its stage to have a centre of its own."""
FEW_STEPS: Final = 2
"""A standard error from n steps is itself uncertain: it is widened by this over n, which keeps the
share of chance beyond four of them about the same from three steps on."""


class Targets(Struct, frozen=True, dict=True):
    """Times of all units of a job, float64 ns by unit, and of all instances."""

    job: JobLines

    @cached_property
    def place(self) -> I64:
        """Where the work of each rank is compared: its stage, else the program that it runs."""
        stage = self.job.stages.stage
        if self.has_stages:
            return np.where(stage >= 0, stage, int(stage.max()) + 1)
        return program_places(self.job)

    @cached_property
    def has_stages(self) -> bool:
        """Whether the ranks are stages of a pipeline."""
        return self.job.stages.count > 1

    @cached_property
    def kind(self) -> I64:
        """Units that are alike have one number: of one type, outside of passes of one place."""
        units = self.job.units
        return np.where(units.type == BETWEEN, BETWEEN + 1 + units.number, units.type)

    @cached_property
    def own(self) -> F64:
        """As recorded."""
        return self.job.unit_ns

    @cached_property
    def _cell(self) -> tuple[I64, I64]:
        """Number of (worker, kind) of each unit, and the worker of each such cell."""
        key = self.job.worker * (int(self.kind.max(initial=0)) + 1) + self.kind
        cells, number = np.unique(key, return_inverse=True)
        return number.reshape(-1), cells // (int(self.kind.max(initial=0)) + 1)

    @cached_property
    def step(self) -> F64:
        """Mean over the units of one kind of the worker in the step."""
        cell = self._cell[0] * self.job.num_steps + self.job.step
        return means_by(self.own, cell)

    @cached_property
    def scatter(self) -> F64:
        """By how much each unit is longer than its place in the step usually makes it.

        Passes of one step may always differ, as where a first one is cut short by a call: a rank
        that is slow in all of them is no less surely slow for that.
        """
        cell = self._cell[0] * self.job.num_steps + self.job.step
        usual = self.job.profile_ns
        whole = np.bincount(cell, weights=usual)[cell]
        share = np.divide(usual, whole, out=np.zeros(len(usual)), where=whole > 0)
        expected = np.bincount(cell, weights=self.own)[cell] * share
        return np.asarray(self.own - np.where(whole > 0, expected, self.step))

    @cached_property
    def _cells(self) -> tuple[F64, F64]:
        """Median over steps of the mean unit of each cell, and its standard error."""
        cell, _ = self._cell
        count = int(cell.max(initial=-1)) + 1
        middle, error = np.full(count, np.nan), np.full(count, np.nan)
        order = np.lexsort((self.job.step, cell))
        edges = np.searchsorted(cell[order], np.arange(count + 1))
        own, mean = self.own[order], self.step[order]
        step = self.job.step[order]
        even = (self.scatter + self.step)[order]
        for one in range(count):
            here = slice(int(edges[one]), int(edges[one + 1]))
            first = np.flatnonzero(np.diff(step[here], prepend=-1))
            means = mean[here][first]
            middle[one] = median_along(means)
            of_steps = _standard_error(means) * (1 + FEW_STEPS / len(means))
            # Of one step nothing tells passes that are always unequal from a rank that is slow for
            # a while in it.
            passes = even if len(means) > 1 else own
            error[one] = max(_standard_error(passes[here]), of_steps)
        return middle, error

    @cached_property
    def _typical(self) -> tuple[F64, F64]:
        """Lower median over the workers of a place of their medians, by cell, and its error."""
        cell, worker = self._cell
        kind = np.zeros(len(worker), np.int64)
        kind[cell] = self.kind
        count, group = joint_inverse(self.place[worker], kind)
        middle, error = self._cells
        found = lower_medians(middle, group, count)
        return found[group], _pooled(error, group)

    @cached_property
    def stage(self) -> F64:
        """Typical worker of the stage."""
        return self._typical[0][self._cell[0]]

    @cached_property
    def worker(self) -> F64:
        """Centre of the worker."""
        middle, error = self._cells
        typical, usual = self._typical
        # Of few steps a single standard error is itself uncertain: at least that of its like.
        error = np.maximum(error, usual)
        differs = np.abs(middle - typical) > STANDARD_ERRORS * error
        return np.where(differs, middle, typical)[self._cell[0]]

    @cached_property
    def base(self) -> F64:
        """Mean over stages of the typical worker; the typical worker where there are no stages."""
        if not self.has_stages:
            return self.stage
        place = self.place[self.job.worker]
        wide = int(place.max(initial=0)) + 1
        # every kind of unit has one value in each stage
        cells, first = np.unique(self.kind * wide + place, return_index=True)
        kind = cells // wide
        count = np.maximum(np.bincount(kind), 1)
        found: F64 = (np.bincount(kind, weights=self.stage[first]) / count)[self.kind]
        return found

    def shared_out(self, excess_ns: F64, mine: Bool) -> F64:
        """Return what each unit takes over of the excess of the units in a mask.

        The units of one kind share it evenly over all places.
        """
        place = self.place[self.job.worker]
        found = np.zeros(len(excess_ns))
        for kind in distinct_values(self.kind[mine]).tolist():
            alike = self.kind == kind
            surplus = float(excess_ns[alike & mine].mean())
            found[alike] = surplus / len(distinct_values(place[alike]))
        return found

    @cached_property
    def transfer(self) -> F64:
        """Lower median of the transfer times of instances that are alike, by instance.

        Of times per byte, where the sizes are known: of exchanges they may differ a little.
        """
        table = self.job.table
        own = table.transfer_ns.astype(np.float64)
        if not len(own):
            return own
        size = np.where(table.bytes > 0, table.bytes, 1).astype(np.float64)
        count = int(table.alike.max()) + 1
        found: F64 = lower_medians(own / size, table.alike, count)[table.alike] * size
        return found


def means_by(values: F64, key: I64) -> F64:
    """Return the mean of the values of each key, by value."""
    found: F64 = (np.bincount(key, weights=values) / np.maximum(np.bincount(key), 1))[key]
    return found


def medians_by(values: F64, key: I64) -> F64:
    """Return the median of the values of each key, by value."""
    order = stable_order(key)
    edges = np.flatnonzero(np.diff(key[order], prepend=-1, append=-1))
    found = np.empty(len(values))
    for begin, stop in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        found[order[begin:stop]] = median_along(values[order[begin:stop]])
    return found


def _pooled(error: F64, group: I64) -> F64:
    """Root mean square of the errors of each group, by value."""
    square = np.bincount(group, weights=error**2) / np.maximum(np.bincount(group), 1)
    return np.asarray(np.sqrt(square)[group])


def _standard_error(values: F64) -> float:
    if len(values) < 2:
        return 0.0
    return float(values.std(ddof=1) / np.sqrt(len(values)))
