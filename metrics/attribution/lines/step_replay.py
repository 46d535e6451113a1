"""Replay every step of a job alone, with any durations, from the operations of its lines."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ccltui.metrics.attribution.lines.call_table import CallTable
from ccltui.metrics.attribution.lines.line_operations import Operations
from ccltui.metrics.collectives.replay.call_links import Links
from ccltui.metrics.collectives.replay.job_replay import replay_marks
from ccltui.metrics.collectives.replay.rank_timeline import MARK
from ccltui.metrics.collectives.replay.replay_order import Operations as Ordered
from ccltui.metrics.collectives.replay.replay_order import ordered
from ccltui.parsers.array_types import F64, I64, Bool


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
        self._linked, self._instance = linked, table.instance
        self._own = table.dur_ns
        links = Links.of(
            tuple(table.first_call[:-1].tolist()), table.instance, sizes, table.dur_ns, linked
        )
        self._is_mark = operations.kind == MARK
        self._last_mark = np.cumsum(self._is_mark)[operations.first[1:] - 1] - 1
        nothing = np.zeros(len(table.line), np.int64)
        self._schedule = ordered(
            Ordered(
                first=operations.first.astype(np.int32),
                kind=operations.kind,
                which=np.where(self._is_mark, 0, operations.call).astype(np.int32),
                behind=table.behind.astype(np.int32),
                delay_ns=nothing,
                gap_ns=nothing,
                steps=((0,),) * count,
            ),
            links,
        )
        self._marks = self._schedule.operation[self._schedule.kind == MARK]
        self._delays = operations.delay_ns, operations.gap_ns

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
        transfer = np.append(np.rint(transfer_ns).astype(np.int64), 0)
        after = np.where(self._linked, transfer[self._instance], self._own)
        schedule = self._schedule
        schedule = replace(schedule, links=replace(schedule.links, after_ns=after))
        if delayed is not None:
            delay, gap = (np.where(delayed, one, 0) for one in self._delays)
            timed = replace(schedule.operations, delay_ns=delay, gap_ns=gap)
            schedule = replace(schedule, operations=timed)
        begin = np.zeros(len(self._step)) if begin_ns is None else begin_ns.astype(np.float64)
        advance = np.append(segment_ns, 0.0).take(schedule.operation)
        marks = np.empty(int(self._is_mark.sum()))
        number = np.cumsum(self._is_mark) - 1
        marks[number[self._marks]] = replay_marks(schedule, begin, advance)
        ends: F64 = marks[self._last_mark]
        return ends
