"""Replay every step of a job alone, with any durations, from the operations of its lines.

Compiled code replays several durations in one pass along the schedule. For it the events are
numbered so that what they read lies next to each other: calls that end together share a slot, and
slots are numbered as the schedule first uses them. Without it `replay_marks` gives the same, to the
bit, one replay at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from ccltui.metrics.arrays.compiled import available
from ccltui.metrics.attribution.lines.call_table import CallTable
from ccltui.metrics.attribution.lines.line_operations import Operations
from ccltui.metrics.attribution.lines.replay_order import MARK, Program, ordered, replay_marks
from ccltui.parsers.array_types import F64, I8, I32, I64, Bool

LANES: Final = 4
"""Replays in one pass along the schedule: more of them exceed the caches."""


@dataclass(frozen=True, slots=True)
class _Events:
    """The schedule as compiled code reads it: arrays by event, and ``order`` by slot.

    ``slot`` is that of the call, of PUT_OFF the place where its time is kept until BEGIN, which has
    this place as its ``operation``. ``behind`` is the slot of the call before it, -1 for none.
    ``order`` has the instance of each slot, of a call in none the number of instances + its own.
    """

    kind: I8
    line: I32
    operation: I32
    slot: I32
    behind: I32
    call: I32
    order: I32
    num_put_off: int


class Run(NamedTuple):
    """What one replay takes.

    Attributes:
        segment_ns: time before each operation.
        transfer_ns: transfer time of each instance.
        begin_ns: begin of each line, 0 where None.
        delayed: mask of the lines whose calls begin as late as recorded; none where None.
        calls: delay and gap of each call, int64 ns, in place of those recorded.
    """

    segment_ns: F64
    transfer_ns: I64 | F64
    begin_ns: F64 | None = None
    delayed: Bool | None = None
    calls: tuple[I64, I64] | None = None


class StepReplay:
    """Replays of all steps at once: the lines of a step wait for each other, steps do not.

    A collective ends on every member its transfer time after the last one has begun. ``unlinked``
    is the share of the time in calls that are matched to none, or in one that cannot be.

    Raises:
        DeadlockError: The lines wait for each other.
    """

    def __init__(self, table: CallTable, operations: Operations) -> None:
        self._step, self._line = table.step, table.line
        self._num_steps = len(table.step_ids)
        self._own = table.dur_ns
        self._num_instances = len(table.transfer_ns)
        is_mark = operations.kind == MARK
        number = np.cumsum(is_mark) - 1
        last_mark = number[operations.first[1:] - 1]
        calls = np.where(is_mark, 0, operations.call)
        lines = operations.first, operations.kind, calls
        self._schedule = ordered(
            Program.of(lines, table.behind, table.instance, self._num_instances)
        )
        self._instance = self._schedule.program.instance
        self._linked = np.flatnonzero(self._instance >= 0)
        self.unlinked = float(self._own[self._instance < 0].sum() / max(int(self._own.sum()), 1))
        marks = number[self._schedule.operation[self._schedule.kind == MARK]]
        turn = np.empty(len(marks), np.int64)
        turn[marks] = np.arange(len(marks))
        self._last_mark = turn[last_mark]  # of each line, in the order of the schedule
        self._delays = operations.delay_ns, operations.gap_ns

    def many(self, runs: Sequence[tuple[F64, I64 | F64] | Run]) -> F64:
        """Return the ends of the steps of several replays, float64 ns from 0, [runs, steps].

        Args:
            runs: what each replay takes, as a `Run` or its first two.
        """
        found = np.zeros((len(runs), self._num_steps))
        every = [Run(*one) for one in runs]
        for first in range(0, len(runs), LANES):
            chunk = every[first : first + LANES]
            for row, ends in enumerate(self._lines(chunk), first):
                np.maximum.at(found[row], self._step, ends)
        return found

    @cached_property
    def _events(self) -> _Events:
        from ccltui.metrics.arrays import _passes  # noqa: PLC0415

        schedule = self._schedule
        kind, line, operation, slot, behind, order, put_off = _passes.numbered(
            schedule.kind,
            schedule.line,
            schedule.operation,
            schedule.which,
            schedule.program.behind,
            schedule.program.instance,
            len(schedule.program.size),
        )
        return _Events(kind, line, operation, slot, behind, schedule.which, order, put_off)

    def _in_lanes(self, runs: Sequence[Run]) -> F64:
        """Return the end of each line of each replay, [runs, lines], from one pass."""
        from ccltui.metrics.arrays import _passes  # noqa: PLC0415

        events = self._events
        lanes = len(runs) if len(runs) < 3 else LANES
        after = np.empty((len(events.order), lanes))
        whole = np.concatenate((np.empty(self._num_instances), self._own))
        now = np.zeros((len(self._step), lanes))
        delayed = np.zeros(now.shape, np.uint8)
        for lane, one in enumerate(runs):
            whole[: self._num_instances] = np.rint(one.transfer_ns)
            after[:, lane] = whole.take(events.order)
            if one.begin_ns is not None:
                now[:, lane] = one.begin_ns
            if one.delayed is not None:
                delayed[:, lane] = one.delayed
        after[:, len(runs) :] = 0
        segments = [np.ascontiguousarray(one.segment_ns, np.float64) for one in runs]
        delays = (*(runs[0].calls or self._delays), delayed) if delayed.any() else ()
        marks: F64 = _passes.replay_lanes(
            events.kind,
            events.line,
            events.operation,
            events.slot,
            events.behind,
            events.call,
            [*segments, *segments[:1] * (lanes - len(runs))],
            after,
            now,
            events.num_put_off,
            *delays,
        )
        ends: F64 = marks[self._last_mark, : len(runs)].T
        return ends

    def ends(
        self,
        segment_ns: F64,
        transfer_ns: I64 | F64,
        *,
        begin_ns: F64 | None = None,
        delayed: Bool | None = None,
    ) -> F64:
        """Return the end of each step on its last line, float64 ns from 0; see `Run`."""
        found: F64 = self.many([Run(segment_ns, transfer_ns, begin_ns, delayed)])[0]
        return found

    def line_ends(self, run: Run) -> F64:
        """Return the end of each line, float64 ns from 0."""
        return np.asarray(next(iter(self._lines([run]))))

    def _lines(self, runs: Sequence[Run]) -> Iterable[F64]:
        """Return the end of each line of each of at most `LANES` replays."""
        if not available():
            return map(self._alone, runs)
        if any(one.calls is not None for one in runs):  # lanes share the delays of their calls
            return (self._in_lanes([one])[0] for one in runs)
        return self._in_lanes(runs)

    def _alone(self, run: Run) -> F64:
        """Return the end of each line of one replay without compiled code."""
        after = self._own.copy()
        whole = np.rint(run.transfer_ns).astype(np.int64)
        after[self._linked] = whole.take(self._instance[self._linked])
        late = np.zeros(len(self._line), np.bool_)
        if run.delayed is not None:
            late = run.delayed[self._line]
        delay, gap = (np.where(late, one, 0) for one in run.calls or self._delays)
        begin = np.zeros(len(self._step))
        if run.begin_ns is not None:
            begin[:] = run.begin_ns
        advance = np.append(run.segment_ns, 0.0).take(self._schedule.operation)
        marks = replay_marks(self._schedule, begin, advance, after, (delay, gap))
        return np.asarray(marks[self._last_mark])
