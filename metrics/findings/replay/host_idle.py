"""Idle time of devices for their hosts, as recorded and as it is typical.

Every device idles a little between kernels, and some steps hold all ranks up, as a checkpoint does.
That costs time and makes nobody a straggler: only what is beyond the typical tells one rank from
another.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.reductions import joint_inverse, median_along
from ccltui.metrics.arrays.typical import lower_medians, slow_ones
from ccltui.parsers.array_types import F64, I64, Bool

if TYPE_CHECKING:
    from ccltui.metrics.findings.replay.lines.job_lines import JobLines

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
        return Idle(one.host_ns, one.delay_ns, one.gap_ns, self.job.begin_ns)

    @cached_property
    def line(self) -> I64:
        """Line of each operation."""
        return np.repeat(np.arange(self.job.table.num_lines), np.diff(self.job.operations.first))

    @cached_property
    def slow(self) -> Bool:
        """Lines that compute longer or shorter than their like in the same step."""
        table = self.job.table
        count, number = joint_inverse(self.place[table.rank], table.step)
        work = np.bincount(self.line, self.job.operations.compute_ns, table.num_lines)
        return slow_ones(work.astype(np.float64), number, count)

    @cached_property
    def typical(self) -> Idle:
        """Of the typical rank of each program in the same step.

        Ranks that compute longer hide the gaps that their hosts leave: the others tell these.
        """
        own, table = self.recorded, self.job.table
        call_place = np.arange(len(table.line)) - table.first_call[table.line]
        place = np.arange(len(self.line)) - self.job.operations.first[self.line]
        host = self._usual(own.host_ns, self.line, place)
        delay, gap = (
            np.rint(self._usual(one.astype(np.float64), table.line, call_place)).astype(np.int64)
            for one in (own.delay_ns, own.gap_ns)
        )
        # One that begins where it ended the step before follows that end in the replay.
        begin = np.maximum(own.begin_ns, 0)
        usual = lower_medians(begin, table.step, self.job.num_steps)[table.step]
        return Idle(host, delay, gap, np.minimum(own.begin_ns, usual))

    def _usual(self, values: F64, line: I64, place: I64) -> F64:
        """Lower median of values at one place of a program in a step, over ranks that are not slow.

        A rank that is alone with its program keeps as much as the typical one of all has.
        """
        program, step = self.job.program_of_line[line], self.job.table.step[line]
        count, number = joint_inverse(program, step, place)
        slow = self.slow[line]
        some = np.bincount(number[~slow], minlength=count) > 0
        counted = np.flatnonzero(~slow | ~some[number])
        found = lower_medians(values[counted], number[counted], count)[number]
        alone = np.bincount(number, minlength=count)[number] == 1
        return np.where(alone, values * self._kept_alone[line], found)

    @cached_property
    def _kept_alone(self) -> F64:
        """Share of the idle time of each line that the typical rank has in its step too."""
        step, whole = self.job.table.step, self._sum(self.recorded)
        typical = lower_medians(whole, step, self.job.num_steps)[step]
        return np.minimum(typical / np.maximum(whole, 1.0), 1.0)

    def _sum(self, idle: Idle) -> F64:
        """Idle time of each line, float64 ns."""
        table = self.job.table
        found = np.bincount(self.line, idle.host_ns, table.num_lines)
        found += np.bincount(table.line, idle.delay_ns, table.num_lines)
        return np.asarray(found + np.maximum(idle.begin_ns, 0))

    def with_typical(self, lines: Bool) -> Idle:
        """Return the idle time with that of some lines (a mask) as it is typical."""
        own, typical, table = self.recorded, self.typical, self.job.table
        calls = lines[table.line]
        return Idle(
            np.where(lines[self.line], typical.host_ns, own.host_ns),
            np.where(calls, typical.delay_ns, own.delay_ns),
            np.where(calls, typical.gap_ns, own.gap_ns),
            np.where(lines, typical.begin_ns, own.begin_ns),
        )

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

    def is_steady(self, rank: int) -> bool:
        """Whether most of what a rank (index) idles beyond the typical one is in all its steps."""
        table = self.job.table
        mine = table.rank == rank
        step = np.bincount(table.step[mine], self.beyond_ns[mine], minlength=len(table.step_ids))
        return float(median_along(step)) * len(step) > STEADY * float(step.sum())
