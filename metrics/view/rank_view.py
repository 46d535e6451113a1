"""Steps, windows, collectives and device time of one rank under a selection."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, Final, TypeVar

import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.intervals import Intervals, union
from ccltui.metrics.facts import fact
from ccltui.metrics.model.calls import Calls
from ccltui.metrics.model.classify import COMM, COMP, MEM, classes_of
from ccltui.metrics.model.rank_facts import (
    OTHER,
    DeviceSums,
    DeviceTimes,
    RankFacts,
    Work,
    WorkTable,
    device_sums,
    remembered,
)
from ccltui.metrics.model.rank_steps import Step, covering
from ccltui.parsers.array_types import I64, Bool
from ccltui.parsers.columns import UNTIMED, RankTrace

RankSum = Callable[["RankView"], object]
"""Function that keeps few numbers of a rank with `RankView.sum_up`."""


def of_rank(make: RankSum) -> Callable[[object, RankView], object]:
    """Return a sum of a rank in the form of those that also read its view (`View.expect`)."""
    return lambda _, rank: make(rank)


def totals(rank: RankView) -> DeviceSums:
    """Return the sums of the device work of a rank, which several metrics ask for."""
    return rank.device_sums()


_T = TypeVar("_T")

FOREVER_NS: Final = np.iinfo(np.int64).max // 2
"""Limit of a window that is open on one side: beyond any time, and sums with it stay in int64."""


class Selection(Struct, frozen=True):
    """The part of a rank that is measured; times in ns on the rank's own clock.

    ``steps`` is an inclusive range of step ids, None for all. ``span`` is that of `ViewOptions`.
    ``chosen`` returns a mask of the calls of the selected groups; None selects all.
    """

    start_ns: int
    end_ns: int
    steps: tuple[int, int] | None
    span: str
    chosen: Callable[[Calls], Bool] | None = None

    @property
    def is_whole(self) -> bool:
        """Whether the selection excludes no time and no step."""
        limits = (self.start_ns, self.end_ns) == (-FOREVER_NS, FOREVER_NS)
        return limits and self.steps is None and self.span != "inner"


class RankView:
    """One rank under a selection: intervals are clipped to it, calls belong to it by their start.

    Properties are computed at first use and cached. Calls are as recorded, unless a name says
    otherwise or groups are selected: groups that no file names are inferred from all ranks.
    """

    def __init__(
        self,
        facts: RankFacts,
        recorded: Callable[[], Calls],
        named: Callable[[], Calls],
        selection: Selection,
        untimed_calls: Callable[[], Calls] | None = None,
        *,
        is_large: bool = False,
        expected: Callable[[], Sequence[RankSum]] = tuple,
        sums: dict[object, Any] | None = None,
    ) -> None:
        self.facts = facts
        self.is_large = is_large
        self._expected = expected
        self._is_summing = False
        self.label = facts.label
        self.rank = facts.rank
        self.selection = selection
        self._list_recorded = recorded
        self._list_named = named
        self._list_untimed = untimed_calls
        self._remembered: dict[object, Any] = {}
        self._sums = {} if sums is None else sums  # the view keeps them when it is released

    @property
    def trace(self) -> RankTrace:
        """The columns of the rank."""
        return self.facts.trace

    def remember(self, key: object, make: Callable[[], _T]) -> _T:
        """Return the cached result of ``make`` for ``key``; several metrics share intermediates."""
        return remembered(self._remembered, key, make)

    def sum_up(self, key: object, make: Callable[[], _T]) -> _T:
        """Return the cached result of ``make`` for ``key``: few numbers from all of the rank.

        In a large job the intervals that it is from are freed, as those of all ranks do not fit
        into memory. The result stays as long as the view. Before that all other sums that are
        expected are computed: merging the intervals anew for each takes several times as long.
        """
        if key not in self._sums:
            if self.is_large and not self._is_summing:
                with self._forgetting():
                    self._sums[key] = make()
                    self._sum_up_others()
            else:
                self._sums[key] = make()
        found: _T = self._sums[key]
        return found

    @contextlib.contextmanager
    def _forgetting(self) -> Iterator[None]:
        self._is_summing = True
        try:
            yield
        finally:
            self._is_summing = False
            self.forget_intervals()

    def _sum_up_others(self) -> None:
        for one in self._expected():
            try:
                one(self)
            except MemoryError:
                return
            except Exception:  # it fails again where a metric asks for it
                continue

    @property
    def recorded_calls(self) -> Calls:
        """All collectives of the rank, unfiltered, with the groups that files name."""
        return self._list_recorded()

    @property
    def named_calls(self) -> Calls:
        """The same, with inferred groups where files name none; compares all ranks of the job."""
        return self._list_named()

    @property
    def _calls(self) -> Calls:
        """The unfiltered calls to select from: to select groups, groups must be known."""
        return self.recorded_calls if self.selection.chosen is None else self.named_calls

    def named(self, calls: Calls) -> Calls:
        """Return some calls of this rank as `named_calls` has them."""
        every = self.named_calls
        if len(calls) == len(every):
            return every
        return every.take(np.isin(every.rows.numbers, calls.rows.numbers))

    @property
    def marker(self) -> str | None:
        """Name of what marks the steps, None without step markers."""
        return self.facts.marked_steps[1]

    @cached_property
    def _is_measured(self) -> Bool:
        """Mask of the steps that are measured, before the window is applied."""
        ids = np.array([step.id for step in self.facts.marked_steps[0]], np.int64)
        measured = np.ones(len(ids), np.bool_)
        if self.selection.steps is not None:
            measured = (ids >= self.selection.steps[0]) & (ids <= self.selection.steps[1])
        if self.selection.span == "inner" and len(ids) > 2:
            measured[[0, -1]] = False
        return measured

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """Selected steps, unclipped; a step belongs to a window by the start of its marker."""
        select, steps = self.selection, self.facts.marked_steps[0]
        return tuple(
            step
            for step, measured in zip(steps, self._is_measured, strict=True)
            if measured and select.start_ns <= step.start_ns < select.end_ns
        )

    @property
    def is_empty(self) -> bool:
        """Whether the selection excludes this rank, by its steps, first and last event alone."""
        select, trace = self.selection, self.trace
        if select.steps is not None and not self._is_measured.any():
            return True
        first = trace.first_ns
        if first is None or first >= select.end_ns:
            return True
        if select.start_ns == -FOREVER_NS:  # last_ns reads every event
            return False
        last = trace.last_ns
        return last is None or last < select.start_ns

    @property
    def by_steps(self) -> bool:
        """Whether steps are measured rather than the whole trace."""
        return self.selection.span != "trace" and bool(self.facts.marked_steps[0])

    @cached_property
    def step_windows(self) -> tuple[tuple[int, int, int], ...]:
        """(step id, start_ns, end_ns) of each measured step, clipped, without empty ones.

        A step lasts on the device from its first work to that of the next recorded step, whether
        that is measured or not (`device_spans`), so that idle time between steps is measured.
        Where no device was recorded a step is its marker. Where no steps are measured, one window
        with step id -1 covers the whole trace.
        """
        if self.is_empty or not self.by_steps or not self.facts.has_device:
            return self.work_windows
        return self._clipped(*self.facts.step_spans)

    @cached_property
    def work_windows(self) -> tuple[tuple[int, int, int], ...]:
        """Like `step_windows`, but until the end of the last work that the step launched.

        They overlap where the work of two steps does.
        """
        if self.is_empty:
            return ()
        if not self.by_steps:
            extent = self.facts.extent
            whole = zip(extent.start_ns.tolist(), extent.end_ns.tolist(), strict=True)
            return self._inside([(-1, start, end) for start, end in whole])
        if self.facts.has_device:
            return self._clipped(self.facts.work.start_ns, self.facts.work.end_ns)
        steps = self.facts.marked_steps[0]
        return self._clipped(
            np.array([step.start_ns for step in steps], np.int64),
            np.array([step.end_ns for step in steps], np.int64),
        )

    @cached_property
    def worked(self) -> Intervals:
        """The measured time without that between the work of steps: union of `work_windows`."""
        return self._known(self.work_windows)

    def _clipped(self, start_ns: I64, end_ns: I64) -> tuple[tuple[int, int, int], ...]:
        """Id, start and end of the measured ones of all steps, clipped."""
        steps, starts, ends = self.facts.marked_steps[0], start_ns.tolist(), end_ns.tolist()
        rows = zip(steps, starts, ends, self._is_measured, strict=True)
        return self._inside([(step.id, start, end) for step, start, end, one in rows if one])

    def _inside(self, rows: list[tuple[int, int, int]]) -> tuple[tuple[int, int, int], ...]:
        """The parts of windows inside the selected time."""
        first, last = self.selection.start_ns, self.selection.end_ns
        clipped = [(step, max(start, first), min(end, last)) for step, start, end in rows]
        return tuple(row for row in clipped if row[1] < row[2])

    @cached_property
    def windows(self) -> Intervals:
        """The measured time: union of the windows of steps, less what nothing is known of."""
        return self._known(self.step_windows)

    def _known(self, rows: tuple[tuple[int, int, int], ...]) -> Intervals:
        """Union of some windows, less the time that nothing is known of."""
        whole = union([start for _, start, _ in rows], [end for _, _, end in rows])
        return whole - self.facts.unknown if self.facts.has_untimed else whole

    @property
    def window_ns(self) -> int:
        """Length of the measured time."""
        return self.windows.total_ns

    def contains(self, times_ns: I64) -> Bool:
        """Return which host times lie in the selection; a step extends as its marker does."""
        select, steps = self.selection, self.facts.marked_steps[0]
        inside: Bool = (times_ns >= select.start_ns) & (times_ns < select.end_ns)
        if self.is_empty:
            return np.zeros_like(inside)
        if not self._is_measured.all():
            inside &= np.append(self._is_measured, select.steps is None)[covering(steps, times_ns)]
        return inside

    @cached_property
    def selected_calls(self) -> Calls:
        """Calls that the selection contains by their start, their step and their group."""
        running = self.running_calls
        began = running.start_ns >= self.selection.start_ns
        return running if began.all() else running.take(began)

    def counted(self, calls: Calls) -> Calls:
        """Return selected calls, and after them those that are only counted.

        These are the calls whose kernels have impossible times: they belong to the selection by
        their launches. Calls that host events represent are complete without them.
        """
        if self._list_untimed is None or not self.facts.has_untimed or calls.source != "kernel":
            return calls
        untimed, chosen = self._list_untimed(), self.selection.chosen
        keep = self.contains(untimed.start_ns)
        return calls.joined(untimed.take(keep if chosen is None else keep & chosen(untimed)))

    @cached_property
    def running_calls(self) -> Calls:
        """Selected calls, and those that start before the window and end in it."""
        calls, select = self._calls, self.selection
        keep = np.full(len(calls), not self.is_empty)
        if not select.is_whole:
            begun = (calls.start_ns >= select.start_ns) | (calls.end_ns > select.start_ns)
            keep &= begun & (calls.start_ns < select.end_ns)
            if not self._is_measured.all():
                steps = self.facts.marked_steps[0]
                left_out = [s.id for s, m in zip(steps, self._is_measured, strict=True) if not m]
                keep &= ~np.isin(calls.step, left_out)
                keep &= (calls.step >= 0) | (select.steps is None)
        if select.chosen is not None:
            keep &= select.chosen(calls)
        return calls if keep.all() else calls.take(keep)

    @cached_property
    def device_calls(self) -> Calls:
        """Collective kernels of the chosen groups at any time; none of a CPU-only trace."""
        calls, chosen = self._calls, self.selection.chosen
        if calls.event_group != "gpu":
            return calls.take(np.zeros(len(calls), np.bool_))
        return calls if chosen is None else calls.take(chosen(calls))

    @cached_property
    def comm_rows(self) -> Bool:
        """Mask of the rows of ``gpu`` that are collective kernels of the chosen groups."""
        if self.selection.chosen is None:
            return np.asarray(self.facts.classes == COMM)
        rows = np.zeros(len(self.facts.classes), np.bool_)
        rows[self.device_calls.rows.of("gpu")] = True
        return rows

    @cached_property
    def comm(self) -> Intervals:
        """Measured time in collective kernels of the chosen groups."""
        if self.selection.chosen is None:
            return self.facts.in_collectives & self.windows
        return union(self.device_calls.start_ns, self.device_calls.end_ns) & self.windows

    @cached_property
    def comp(self) -> Intervals:
        """Measured time in computation kernels."""
        return self.facts.in_computation & self.windows

    @cached_property
    def useful(self) -> Intervals:
        """Measured time in computation and copies, which hide communication."""
        return self.comp | self.mem

    @cached_property
    def exposed(self) -> Intervals:
        """Measured time in collective kernels without computation and copies."""
        return self.comm - self.useful

    def device_sums(self, *, named: bool = False) -> DeviceSums:
        """Return the sums of device work; with ``named`` other computation than that is OTHER."""
        return self.sum_up(("device_sums", named), lambda: self._device_sums(named=named))

    @fact("sums")
    def _device_sums(self, *, named: bool) -> DeviceSums:
        classes, gpu = self.facts.classes, self.trace.group("gpu")
        kinds = classes
        if named:
            kinds = np.where((kinds == COMP) & ~self.facts.named_compute, np.int8(OTHER), kinds)
        if self.selection.chosen is not None:
            kinds = np.where((kinds == COMM) & ~self.comm_rows, np.int8(OTHER), kinds)
        work = Work(gpu, classes, kinds, len(self.trace.strings))
        return device_sums(work, self.step_windows, self.windows)

    @property
    def times(self) -> DeviceTimes:
        """Time of each combination of kinds of device work, by step."""
        return self.device_sums().times

    @property
    def comm_ns(self) -> int:
        """Length of `comm`."""
        return self.times.any_of(COMM)

    @property
    def comp_ns(self) -> int:
        """Length of `comp`."""
        return self.times.any_of(COMP)

    @property
    def mem_ns(self) -> int:
        """Length of `mem`."""
        return self.times.any_of(MEM)

    @property
    def occupied_ns(self) -> int:
        """Length of `occupied`."""
        return self.times.busy_ns

    @property
    def exposed_ns(self) -> int:
        """Length of `exposed`."""
        return self.times.any_of(COMM, COMP, MEM) - self.times.any_of(COMP, MEM)

    @property
    def span_idle_ns(self) -> int:
        """Time from the first window to the end of the last in which the device does nothing."""
        if len(self.windows) == 1:
            return self.window_ns - self.occupied_ns
        return self.sum_up("span_idle_ns", lambda: (self.span - self.facts.device_work).total_ns)

    @cached_property
    def named_comp(self) -> Intervals:
        """Measured time in the computation kernels that are recognised by name."""
        gpu, rows = self.trace.group("gpu"), self.facts.named_compute
        return union(gpu.start_ns[rows], gpu.end_ns[rows]) & self.windows

    @cached_property
    def mem(self) -> Intervals:
        """Measured time in copies and fills."""
        return self.facts.in_copies & self.windows

    @cached_property
    def occupied(self) -> Intervals:
        """Measured time in any device work, collectives of all groups included."""
        return self.facts.device_work & self.windows

    @cached_property
    def span(self) -> Intervals:
        """Interval from the start of the first window to the end of the last."""
        windows = self.windows
        if not len(windows):
            return windows
        return Intervals.of(int(windows.start_ns[0]), int(windows.end_ns[-1]))

    @cached_property
    def clipped_ns(self) -> I64:
        """Duration of each row of ``gpu`` inside the windows, int64."""
        gpu, windows = self.trace.group("gpu"), self.windows
        if len(windows) == 1:
            start, end = int(windows.start_ns[0]), int(windows.end_ns[0])
            inside = np.minimum(gpu.end_ns, end) - np.maximum(gpu.start_ns, start)
            return np.asarray(np.maximum(inside, 0))
        return windows.within(gpu.start_ns, gpu.end_ns)

    @cached_property
    def starts_inside(self) -> Bool:
        """Mask of the rows of ``gpu`` that start inside the windows."""
        return self.windows.contains(self.trace.group("gpu").start_ns)

    @property
    def work_by_name(self) -> WorkTable:
        """Device work in the windows, summed by name and class."""
        return self.device_sums().work

    def covered_by_step(self, part: Intervals) -> dict[int, int]:
        """Return the ns of each measured step that ``part`` covers, by step id; empty if none."""
        rows = [row for row in self.step_windows if row[0] >= 0]
        starts, ends = [start for _, start, _ in rows], [end for _, _, end in rows]
        covered = part.within(starts, ends)
        return dict(zip([step for step, _, _ in rows], covered.tolist(), strict=True))

    def num_untimed(self, *kinds: int) -> int:
        """Count the device events of some classes with impossible times, by their launches."""
        if not self.facts.has_untimed:
            return 0
        inside = self.contains(self.trace.group(UNTIMED).start_ns)
        return int((inside & np.isin(classes_of(self.trace, UNTIMED), kinds)).sum())

    def forget_intervals(self) -> None:
        """Free cached arrays of the size of ``gpu``; the next use computes them again.

        For callers that go through the ranks of a large job one by one.
        """
        for name in (
            "comm",
            "comp",
            "named_comp",
            "mem",
            "useful",
            "exposed",
            "occupied",
            "clipped_ns",
            "starts_inside",
        ):
            self.__dict__.pop(name, None)
        self._remembered.clear()
        self.facts.forget_intervals()

    @property
    def num_uncorrelated(self) -> int:
        """Number of rows of device work without a launch record."""
        return int(self.facts.work.uncorrelated.sum())


def in_turn(ranks: Iterable[RankView]) -> Iterator[RankView]:
    """Yield ranks one by one; those of a large job free intervals and columns after their use.

    Of all ranks the pages of the columns alone, 0.4 MB a rank of 10,000 kernels, are a tenth of
    what a job takes.
    """
    for rank in ranks:
        yield rank
        if rank.is_large:
            rank.forget_intervals()
