"""Replay of a job as recorded, with host delays, and with some of its times changed.

Every rank begins a step where it ended the one before: a rank that is no longer slower than others
begins earlier too. Begins follow from the ends of the same replay, which is repeated for that.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from ccltui.metrics.attribution.host_delays import LEAST_KEPT
from ccltui.metrics.attribution.lines.step_replay import Run
from ccltui.parsers.array_types import F64, I64, Bool

if TYPE_CHECKING:
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
        return self._line_ends(
            self._segments, self.ladder.recorded_transfer, self.ladder.job.begin_ns
        )

    @property
    def _segments(self) -> F64:
        operations = self.ladder.job.operations
        return operations.compute_ns + operations.host_ns

    def ends(
        self,
        compute_ns: F64,
        transfer_ns: F64 | None = None,
        host_ns: F64 | None = None,
        kept: F64 | None = None,
    ) -> F64:
        """Return the steps with other times of segments, transfers and host delays.

        ``kept`` is the share of its host delays that each line keeps. None takes less than its
        hosts need to launch it.
        """
        ends = self._device_ends(compute_ns, transfer_ns, host_ns, kept)
        return np.maximum(ends, self.ladder.host_need_ns)

    def _device_ends(
        self,
        compute_ns: F64,
        transfer_ns: F64 | None,
        host_ns: F64 | None,
        kept: F64 | None,
    ) -> F64:
        job = self.ladder.job
        host = job.operations.host_ns if host_ns is None else host_ns
        begun, delayed = job.begin_ns, None
        if kept is not None:
            host = host * np.repeat(kept, np.diff(job.operations.first))
            begun = np.where(begun > 0, begun * kept, begun)
            delayed = kept >= LEAST_KEPT
        segments = compute_ns + host
        transfer = self.ladder.recorded_transfer if transfer_ns is None else transfer_ns
        found = self._line_ends(segments, transfer, begun, delayed)
        if not len(self._following):
            return self._steps(found)
        begin = begun
        for _ in range(ROUNDS - 1):
            moved = self._after_last(found) - self._after_last(self._recorded)
            later = begun.copy()
            later[self._following] += moved[self._following - 1]
            apart = float(np.abs(later - begin).max())
            if apart <= SETTLED * float(self.ladder.rungs[6].mean()):
                break
            begin = later
            found = self._line_ends(segments, transfer, begin, delayed)
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

    def _line_ends(
        self, segments: F64, transfer: F64, begin: F64, delayed: Bool | None = None
    ) -> F64:
        job = self.ladder.job
        if delayed is None:
            delayed = np.ones(job.table.num_lines, np.bool_)
        return job.replay.line_ends(Run(segments, transfer, begin, delayed))
