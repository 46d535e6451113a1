"""Replay of a job as recorded, with host delays, and with some of its times changed.

Every rank begins a step where it ended the one before: a rank that is no longer slower than others
begins earlier too. Begins follow from the ends of the same replay, which is repeated for that.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from ccltui.metrics.attribution.lines.step_replay import Run
from ccltui.parsers.array_types import F64, I64

if TYPE_CHECKING:
    from ccltui.metrics.attribution.host_delays import Idle
    from ccltui.metrics.attribution.ladder import Ladder

ROUNDS: Final = 3
"""Replays of which each begins its steps where the one before ended them: a begin that moves by
some of what a step saves moves the next one by less."""
SETTLED: Final = 0.001
"""Share of a step by which begins may still move."""


@dataclass(frozen=True)
class RecordedReplay:
    """Replays of one job; times are float64 ns."""

    ladder: Ladder

    @cached_property
    def _recorded(self) -> F64:
        ladder = self.ladder
        compute = ladder.job.operations.compute_ns
        run = self._run(compute, ladder.recorded_transfer, ladder.recorded_idle)
        return ladder.job.replay.line_ends(run)

    def _run(self, compute_ns: F64, transfer_ns: F64, idle: Idle) -> Run:
        every = np.ones(self.ladder.job.table.num_lines, np.bool_)
        calls = idle.delay_ns, idle.gap_ns
        return Run(compute_ns + idle.host_ns, transfer_ns, idle.begin_ns, every, calls)

    def ends(
        self, compute_ns: F64, transfer_ns: F64 | None = None, idle: Idle | None = None
    ) -> F64:
        """Return the steps with other times of segments, transfers and hosts; None: as recorded.

        None takes less than its hosts need to launch it.
        """
        ladder = self.ladder
        idle = ladder.recorded_idle if idle is None else idle
        transfer = ladder.recorded_transfer if transfer_ns is None else transfer_ns
        return np.maximum(self._device_ends(compute_ns, transfer, idle), ladder.host_need_ns)

    def _device_ends(self, compute_ns: F64, transfer_ns: F64, idle: Idle) -> F64:
        run = self._run(compute_ns, transfer_ns, idle)
        found = self.ladder.job.replay.line_ends(run)
        if not len(self._following):
            return self._steps(found)
        begin = idle.begin_ns
        for _ in range(ROUNDS - 1):
            moved = self._after_last(found) - self._after_last(self._recorded)
            later = idle.begin_ns.copy()
            later[self._following] += moved[self._following - 1]
            apart = float(np.abs(later - begin).max())
            if apart <= SETTLED * float(self.ladder.rungs[6].mean()):
                break
            begin = later
            found = self.ladder.job.replay.line_ends(run._replace(begin_ns=begin))
        return self._steps(found)

    @cached_property
    def _following(self) -> I64:
        """Lines behind one of the same rank in the step before, on a common clock."""
        table = self.ladder.job.table
        if not self.ladder.job.has_clock:
            return np.empty(0, np.int64)
        step = table.step_ids[table.step]
        follows = (table.rank[1:] == table.rank[:-1]) & (step[1:] == step[:-1] + 1)
        return np.flatnonzero(follows) + 1

    def _after_last(self, line_ends: F64) -> F64:
        """End of each line after the last end of its step, never positive."""
        return np.asarray(line_ends - self._steps(line_ends)[self.ladder.job.table.step])

    def _steps(self, line_ends: F64) -> F64:
        found = np.zeros(self.ladder.job.num_steps)
        np.maximum.at(found, self.ladder.job.table.step, line_ends)
        return found
