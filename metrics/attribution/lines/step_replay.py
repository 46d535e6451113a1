"""Replay every step of a job alone, with any durations, from the operations of its lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from ccltui.metrics.arrays.compiled import available
from ccltui.metrics.attribution.lines.call_table import CallTable
from ccltui.metrics.attribution.lines.line_operations import Operations
from ccltui.metrics.collectives.replay.call_links import Links
from ccltui.metrics.collectives.replay.job_replay import replay_marks
from ccltui.metrics.collectives.replay.rank_timeline import MARK
from ccltui.metrics.collectives.replay.replay_order import Operations as Ordered
from ccltui.metrics.collectives.replay.replay_order import ordered
from ccltui.parsers.array_types import F64, I64, Bool

LANES: Final = 4
"""Replays in one pass along the schedule: more of them exceed the caches."""


class StepReplay:
    """Replays of all steps at once: the lines of a step wait for each other, steps do not.

    A collective ends on every member its transfer time after the last one has begun.

    Raises:
        DeadlockError: The lines wait for each other.
    """

    def __init__(self, table: CallTable, operations: Operations) -> None:
        count = table.num_lines
        self._step = table.step
        self._num_steps = len(table.step_ids)
        linked = table.instance >= 0
        sizes = np.bincount(table.instance[linked], minlength=len(table.transfer_ns))
        self._linked = np.flatnonzero(linked)
        self._instance = table.instance[linked]
        self._own = table.dur_ns
        self._num_instances = len(table.transfer_ns)
        self._alone = np.flatnonzero(~linked)
        self._slot = table.instance.astype(np.int32)
        self._slot[self._alone] = self._num_instances + np.arange(len(self._alone))
        links = Links.of(
            tuple(table.first_call[:-1].tolist()), table.instance, sizes, table.dur_ns, linked
        )
        is_mark = operations.kind == MARK
        number = np.cumsum(is_mark) - 1
        last_mark = number[operations.first[1:] - 1]
        nothing = np.zeros(len(table.line), np.int64)
        self._schedule = ordered(
            Ordered(
                first=operations.first.astype(np.int32),
                kind=operations.kind,
                which=np.where(is_mark, 0, operations.call).astype(np.int32),
                behind=table.behind.astype(np.int32),
                delay_ns=nothing,
                gap_ns=nothing,
                steps=((0,),) * count,
            ),
            links,
        )
        marks = number[self._schedule.operation[self._schedule.kind == MARK]]
        turn = np.empty(len(marks), np.int64)
        turn[marks] = np.arange(len(marks))
        self._last_mark = turn[last_mark]  # of each line, in the order of the schedule
        self._delays = operations.delay_ns, operations.gap_ns

    def many(self, runs: Sequence[tuple[F64, I64 | F64]]) -> F64:
        """Return the ends of the steps of several replays, float64 ns [runs, steps].

        Args:
            runs: time before each operation, and transfer time of each instance.
        """
        found = np.zeros((len(runs), self._num_steps))
        for first in range(0, len(runs), LANES):
            chunk = runs[first : first + LANES]
            if not available():
                found[first : first + LANES] = [self.ends(*one) for one in chunk]
                continue
            for row, lines in enumerate(self._in_lanes(chunk), first):
                np.maximum.at(found[row], self._step, lines)
        return found

    def _in_lanes(self, runs: Sequence[tuple[F64, I64 | F64]]) -> F64:
        """Return the end of each line of each replay, [runs, lines], from one pass."""
        from ccltui.metrics.arrays import _passes  # noqa: PLC0415

        schedule, slot = self._schedule, self._slot
        after = np.empty((self._num_instances + len(self._alone), len(runs)))
        after[self._num_instances :] = self._own[self._alone, np.newaxis]
        for lane, (_, transfer_ns) in enumerate(runs):
            after[: self._num_instances, lane] = np.rint(transfer_ns)
        marks: F64 = _passes.replay_lanes(
            schedule.kind,
            schedule.rank,
            schedule.operation,
            schedule.which,
            schedule.operations.behind,
            slot,
            np.stack([segment_ns for segment_ns, _ in runs]),
            after,
            self._num_instances,
            len(self._step),
        )
        ends: F64 = marks[self._last_mark].T
        return ends

    def ends(
        self,
        segment_ns: F64,
        transfer_ns: I64 | F64,
        *,
        begin_ns: F64 | None = None,
        delayed: Bool | None = None,
    ) -> F64:
        """Return the end of each step on its last line, float64 ns from 0.

        Args:
            segment_ns: time before each operation.
            transfer_ns: transfer time of each instance.
            begin_ns: begin of each line, 0 where None.
            delayed: mask of the calls that begin as late as recorded; none where None.
        """
        lines = self.line_ends(segment_ns, transfer_ns, begin_ns=begin_ns, delayed=delayed)
        found = np.zeros(self._num_steps)
        np.maximum.at(found, self._step, lines)
        return found

    def line_ends(
        self,
        segment_ns: F64,
        transfer_ns: I64 | F64,
        *,
        begin_ns: F64 | None = None,
        delayed: Bool | None = None,
    ) -> F64:
        """Return the end of each line; see `ends`."""
        if begin_ns is None and delayed is None and available():
            return np.asarray(self._in_lanes([(segment_ns, transfer_ns)])[0])
        after = self._own.copy()
        after[self._linked] = np.rint(transfer_ns).astype(np.int64).take(self._instance)
        schedule = self._schedule
        schedule = replace(schedule, links=replace(schedule.links, after_ns=after))
        if delayed is not None:
            delay, gap = (np.where(delayed, one, 0) for one in self._delays)
            timed = replace(schedule.operations, delay_ns=delay, gap_ns=gap)
            schedule = replace(schedule, operations=timed)
        begin = np.zeros(len(self._step)) if begin_ns is None else begin_ns.astype(np.float64)
        advance = np.append(segment_ns, 0.0).take(schedule.operation)
        ends: F64 = replay_marks(schedule, begin, advance)[self._last_mark]
        return ends
