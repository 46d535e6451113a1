"""Host delays that all ranks have alike, and what single ranks have beyond them.

Every device idles a little between kernels, and some steps hold all ranks up, as a checkpoint does.
That costs time and makes nobody a straggler: only the rest tells one rank from another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from ccltui.metrics.arrays.reductions import median_along
from ccltui.metrics.arrays.typical import lower_medians
from ccltui.metrics.attribution.lines.step_replay import Run
from ccltui.parsers.array_types import F64, I64, Bool

if TYPE_CHECKING:
    from ccltui.metrics.attribution.lines.job_lines import JobLines

LEAST_KEPT: Final = 0.5
"""Calls of a rank keep their late begin where it keeps at least this share of its host delays: the
replay takes the delay of a call as recorded or leaves it out."""

STEADY: Final = 0.5
"""Share of the idle time beyond the typical that is there in every step where it is steady."""


class Idle(NamedTuple):
    """Idle time for hosts: before each operation, float64 ns, and at calls and begins of lines.

    ``delay_ns`` and ``gap_ns`` are by call (see `Operations`), ``begin_ns`` is by line.
    """

    host_ns: F64
    delay_ns: I64
    gap_ns: I64
    begin_ns: F64


@dataclass(frozen=True)
class HostDelays:
    """Idle time for the host of the lines of a job, and replays with less of it.

    Attributes:
        job: the lines.
        transfer_ns: transfer time of each instance as recorded, float64.
    """

    job: JobLines
    transfer_ns: F64

    @cached_property
    def idle_ns(self) -> F64:
        """Idle time for the host of each line, float64 ns."""
        job, table = self.job, self.job.table
        line = np.repeat(np.arange(table.num_lines), np.diff(job.operations.first))
        found = np.bincount(line, weights=job.operations.host_ns, minlength=table.num_lines)
        found += np.bincount(table.line, job.operations.delay_ns, minlength=table.num_lines)
        return np.asarray(found + np.maximum(job.begin_ns, 0))

    @cached_property
    def _levelled(self) -> F64:
        """Idle time of the typical rank in the step of each line over that of the line.

        Typical is the lower median over the ranks of the step: of two ranks the smaller.
        """
        table = self.job.table
        typical = lower_medians(self.idle_ns, table.step, len(table.step_ids))[table.step]
        return np.asarray(typical / np.maximum(self.idle_ns, 1.0))

    @cached_property
    def kept(self) -> F64:
        """Share of the idle time of each line that the typical rank has in its step too."""
        return np.minimum(self._levelled, 1.0)

    def usual_ns(self, healed: Sequence[int] = ()) -> F64:
        """Idle time before each operation, float64 ns, without what ranks have beyond the typical.

        Args:
            healed: ranks (indices) that idle like the typical one, not less: a slow device hides
                gaps that its host leaves, and they are there again once it is as fast as others.
        """
        operations = self.job.operations
        part = np.where(np.isin(self.job.table.rank, list(healed)), self._levelled, self.kept)
        return np.asarray(operations.host_ns * np.repeat(part, np.diff(operations.first)))

    def after_healing_ns(self, ranks: Sequence[int]) -> F64:
        """Idle time before each operation, float64 ns: of some ranks as long as is typical."""
        operations = self.job.operations
        part = np.where(np.isin(self.job.table.rank, list(ranks)), self._levelled, 1.0)
        return np.asarray(operations.host_ns * np.repeat(part, np.diff(operations.first)))

    @cached_property
    def excess_ns(self) -> F64:
        """Idle time of each rank beyond the typical one, float64 ns by rank."""
        beyond = self.idle_ns * (1 - self.kept)
        found = np.bincount(self.job.table.rank, beyond, minlength=len(self.job.labels))
        return found.astype(np.float64)

    def is_steady(self, rank: int) -> bool:
        """Whether most of what a rank (index) idles beyond the typical one is in all its steps."""
        table = self.job.table
        mine = table.rank == rank
        beyond = (self.idle_ns * (1 - self.kept))[mine]
        step = np.bincount(table.step[mine], beyond, minlength=len(table.step_ids))
        return float(median_along(step)) * len(step) > STEADY * float(step.sum())

    def ends(self, ranks: Sequence[int] | None = None) -> F64:
        """Return step times, float64 ns, with the excess of some ranks set back; None: of all."""
        return np.asarray(self.ends_of([ranks])[0])

    def ends_of(self, several: Sequence[Sequence[int] | None]) -> F64:
        """Return the result of `ends` for several choices of ranks, [choices, steps]."""
        return self.job.replay.many([self._run(ranks) for ranks in several])

    def _run(self, ranks: Sequence[int] | None) -> Run:
        job, table, operations = self.job, self.job.table, self.job.operations
        chosen: Bool = np.ones(table.num_lines, np.bool_)
        if ranks is not None:
            chosen = np.isin(table.rank, list(ranks))
        kept = np.where(chosen, self.kept, 1.0)
        of_operation = np.repeat(kept, np.diff(operations.first))
        return Run(
            operations.compute_ns + operations.host_ns * of_operation,
            self.transfer_ns,
            np.where(job.begin_ns > 0, job.begin_ns * kept, job.begin_ns),
            kept >= LEAST_KEPT,
        )
