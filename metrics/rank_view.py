"""One rank under a view: its steps, its windows, and the time its device spent on what."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from metrics.calls import Calls
from metrics.classify import COMM, COMP, MEM, any_name, classes_of, distinct, is_named_compute
from metrics.intervals import Intervals, union
from metrics.steps import Step, StepWork, step_of_work, steps_of
from parsers.columns import I8, I64, Bool, RankTrace

FOREVER_NS: Final = np.iinfo(np.int64).max // 2
"""An open side of a window: beyond any time, with room to add to it."""


class RankFacts:
    """What follows from a trace alone, computed once however often the view changes."""

    def __init__(self, trace: RankTrace) -> None:
        self.trace = trace

    def relabelled(self, trace: RankTrace) -> RankFacts:
        """The same facts of the same columns under another label."""
        if trace is self.trace:
            return self
        facts = RankFacts(trace)
        facts.__dict__.update({k: v for k, v in self.__dict__.items() if k != "trace"})
        return facts

    @cached_property
    def classes(self) -> I8:
        """COMM, COMP or MEM for each row of ``gpu``."""
        return classes_of(self.trace)

    @cached_property
    def marked_steps(self) -> tuple[tuple[Step, ...], str | None]:
        """All steps and the marker that tells them."""
        return steps_of(self.trace)

    @cached_property
    def work(self) -> StepWork:
        """Step of each row of ``gpu``."""
        return step_of_work(self.trace, self.marked_steps[0])

    @property
    def has_device(self) -> bool:
        """Whether any device work was recorded."""
        return len(self.trace.group("gpu")) > 0

    @cached_property
    def has_kernels(self) -> bool:
        """Whether kernels were recorded: a trace of the CPU alone has none."""
        return bool((self.classes <= COMP).any())

    @cached_property
    def busy(self) -> tuple[Intervals, Intervals, Intervals]:
        """Merged intervals of COMM, COMP and MEM over all streams."""
        return self._merged(COMM), self._merged(COMP), self._merged(MEM)

    @cached_property
    def named_compute(self) -> Bool:
        """Rows of ``gpu`` in the narrow compute set."""
        gpu = self.trace.group("gpu")
        named = [i for i in distinct(gpu.name) if is_named_compute(self.trace.text(i))]
        chosen = any_name(self.trace.strings, gpu.name, named)
        return np.asarray(chosen & (self.classes == COMP))

    @cached_property
    def extent(self) -> Intervals:
        """First start to last end of device work; of host events where no device was recorded."""
        gpu = self.trace.group("gpu")
        if self.has_device:
            return Intervals.of(int(gpu.start_ns[0]), int(gpu.end_ns.max()))
        groups = [self.trace.group(name) for name in ("cpu_ops", "annotations")]
        found = [events for events in groups if len(events)]
        if not found:
            return Intervals.empty()
        first = min(int(events.start_ns[0]) for events in found)
        return Intervals.of(first, max(int(events.end_ns.max()) for events in found))

    def _merged(self, kind: int) -> Intervals:
        gpu = self.trace.group("gpu")
        rows = self.classes == kind
        return union(gpu.start_ns[rows], gpu.end_ns[rows])


@dataclass(frozen=True, slots=True)
class Selection:
    """What of a rank counts, on the rank's own clock.

    ``steps`` is a range of step ids or None for all; ``chosen`` masks a rank's calls.
    """

    start_ns: int
    end_ns: int
    steps: tuple[int, int] | None
    span: str
    chosen: Callable[[Calls], Bool] | None = None

    @property
    def is_whole(self) -> bool:
        """Whether no time and no step is left out."""
        limits = (self.start_ns, self.end_ns) == (-FOREVER_NS, FOREVER_NS)
        return limits and self.steps is None and self.span != "inner"


class RankView:
    """One rank under a selection. Intervals are clipped to it, calls belong by their start."""

    def __init__(self, facts: RankFacts, calls: Callable[[], Calls], selection: Selection) -> None:
        self.facts = facts
        self.trace = facts.trace
        self.label = facts.trace.label
        self.rank = facts.trace.rank
        self.selection = selection
        self._list_calls = calls

    @cached_property
    def calls(self) -> Calls:
        """All collectives of the rank, whatever the selection."""
        return self._list_calls()

    @property
    def marker(self) -> str | None:
        """What marks the steps, None where nothing does."""
        return self.facts.marked_steps[1]

    @cached_property
    def _is_measured(self) -> Bool:
        """Which of all steps are measured, whatever the window cuts off."""
        ids = np.array([step.id for step in self.facts.marked_steps[0]], np.int64)
        measured = np.ones(len(ids), np.bool_)
        if self.selection.steps is not None:
            measured = (ids >= self.selection.steps[0]) & (ids <= self.selection.steps[1])
        if self.selection.span == "inner" and len(ids) > 2:
            measured[[0, -1]] = False
        return measured

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """Steps of the selection, whole; a step belongs to a window by its marker's start."""
        select, steps = self.selection, self.facts.marked_steps[0]
        return tuple(
            step
            for step, measured in zip(steps, self._is_measured, strict=True)
            if measured and select.start_ns <= step.start_ns < select.end_ns
        )

    @property
    def by_steps(self) -> bool:
        """Whether the measured time is that of steps, not of the whole trace."""
        return self.selection.span != "trace" and bool(self.facts.marked_steps[0])

    @cached_property
    def step_windows(self) -> tuple[tuple[int, int, int], ...]:
        """(step id, start, end) of each measured step, clipped, where anything is left.

        The device's part of a step; the marker itself where no device was recorded. The whole
        extent as step -1 where no steps are measured.
        """
        select = self.selection
        clipped = [
            (step, max(start, select.start_ns), min(end, select.end_ns))
            for step, start, end in self._whole_windows()
        ]
        return tuple(row for row in clipped if row[1] < row[2])

    def _whole_windows(self) -> list[tuple[int, int, int]]:
        steps = self.facts.marked_steps[0]
        if not self.by_steps:
            extent = self.facts.extent
            return [(-1, int(extent.start_ns[0]), int(extent.end_ns[0]))] if len(extent) else []
        if self.facts.has_device:
            work = self.facts.work
            starts, ends = work.start_ns.tolist(), work.end_ns.tolist()
        else:
            starts, ends = [s.start_ns for s in steps], [s.end_ns for s in steps]
        rows = zip(steps, starts, ends, self._is_measured, strict=True)
        return [(step.id, start, end) for step, start, end, measured in rows if measured]

    @cached_property
    def windows(self) -> Intervals:
        """The time that is measured."""
        rows = self.step_windows
        return union([start for _, start, _ in rows], [end for _, _, end in rows])

    @property
    def window_ns(self) -> int:
        """Length of the time that is measured."""
        return self.windows.total_ns

    @cached_property
    def selected_calls(self) -> Calls:
        """Calls of the selection: by their start, their step and their group."""
        calls, select = self.calls, self.selection
        keep = np.ones(len(calls), np.bool_)
        if not select.is_whole:
            keep &= (calls.start_ns >= select.start_ns) & (calls.start_ns < select.end_ns)
            if not self._is_measured.all():
                steps = self.facts.marked_steps[0]
                left_out = [s.id for s, m in zip(steps, self._is_measured, strict=True) if not m]
                keep &= ~np.isin(calls.step, left_out)
                keep &= (calls.step >= 0) | (select.steps is None)
        if select.chosen is not None:
            keep &= select.chosen(calls)
        return calls if keep.all() else calls.take(keep)

    @cached_property
    def comm(self) -> Intervals:
        """Time in collective kernels of the chosen groups."""
        if self.calls.event_group != "gpu":
            return Intervals.empty()
        if self.selection.chosen is None:
            return self.facts.busy[0] & self.windows
        return self.comm_of(self.selection.chosen(self.calls))

    def comm_of(self, rows: Bool) -> Intervals:
        """Time in the kernels of some of ``calls`` (mask), inside the windows."""
        calls = self.calls
        return union(calls.start_ns[rows], calls.end_ns[rows]) & self.windows

    @cached_property
    def comp(self) -> Intervals:
        """Time in computing kernels."""
        return self.facts.busy[1] & self.windows

    @cached_property
    def mem(self) -> Intervals:
        """Time in copies and fills."""
        return self.facts.busy[2] & self.windows

    @cached_property
    def occupied(self) -> Intervals:
        """Time in any work of the device, of every group."""
        return (self.facts.busy[0] & self.windows) | self.comp | self.mem

    def in_windows(self, rows: Bool) -> Bool:
        """Of the rows of ``gpu`` (mask), those that start inside the windows."""
        return rows & self.windows.contains(self.trace.group("gpu").start_ns)

    def summed_ns(self, rows: Bool) -> int:
        """Sum of the durations of rows of ``gpu`` (mask), clipped to the windows."""
        gpu = self.trace.group("gpu")
        before = self.windows.before
        parts: I64 = before(gpu.end_ns[rows]) - before(gpu.start_ns[rows])
        return int(parts.sum())

    @property
    def num_uncorrelated(self) -> int:
        """Device work without a launch record."""
        return int(self.facts.work.uncorrelated.sum())
