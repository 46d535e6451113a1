"""Results that depend on one trace alone: kernel classes, steps, and time in each kind of work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import numpy as np

from ccltui.metrics.arrays.intervals import Intervals, union, union_of_class
from ccltui.metrics.arrays.reductions import distinct_values
from ccltui.metrics.facts import fact
from ccltui.metrics.model.classify import (
    COMM,
    COMP,
    MEM,
    any_name,
    classes_of,
    distinct,
    is_named_compute,
)
from ccltui.metrics.model.rank_steps import (
    Step,
    StepWork,
    device_spans,
    launch_rows,
    launch_times,
    step_of_work,
    steps_of,
)
from ccltui.parsers.array_types import I8, I32, I64, Bool
from ccltui.parsers.columns import UNTIMED, RankTrace
from ccltui.parsers.device_times import DEAD_CLOCK
from ccltui.parsers.store.column_store import release

if TYPE_CHECKING:
    from ccltui.parsers.array_types import I64
    from ccltui.parsers.columns import RankTrace


def untimed_gaps(trace: RankTrace, launched_ns: I64) -> Intervals:
    """Return the time in which the events of ``gpu_untimed`` can have run.

    A stream runs its work in the order of the launches: an event runs after its own launch and
    after the work launched before it, and before the work launched after it.

    Args:
        trace: The columns of the rank.
        launched_ns: Launch of each row of ``gpu``, the lowest int64 where unknown.
    """
    untimed, gpu = trace.group(UNTIMED), trace.group("gpu")
    if not len(untimed) or not len(gpu):
        return Intervals.empty()
    starts, ends = [], []
    last_ns = int(gpu.end_ns.max())
    known = launched_ns > np.iinfo(np.int64).min
    for track in distinct_values(untimed.track).tolist():
        rows = np.flatnonzero(known & (gpu.track == track))
        rows = rows[np.argsort(launched_ns[rows], kind="stable")]
        launches = untimed.start_ns[untimed.track == track]
        place = np.searchsorted(launched_ns[rows], launches)
        ended = np.maximum.accumulate(np.append(np.iinfo(np.int64).min, gpu.end_ns[rows]))
        begun = np.minimum.accumulate(np.append(last_ns, gpu.start_ns[rows][::-1]))[::-1]
        starts.append(np.maximum(launches, ended[place]))
        ends.append(begun[place])
    start, end = np.concatenate(starts), np.concatenate(ends)
    possible = start < end
    return union(start[possible], end[possible])


_T = TypeVar("_T")
_LAUNCHES = ("launch_row", "launched_ns")
_BUSY = ("in_collectives", "in_computation", "in_copies")
_DETAILS = (
    *_LAUNCHES,
    "device_work",
    "unknown",
    "in_operators",
    "named_compute",
    "_remembered",
)


def remembered(kept: dict[object, Any], key: object, make: Callable[[], _T]) -> _T:
    """Return what ``make`` gives for ``key``, kept from before if it is there.

    Another thread may empty ``kept`` at any moment.
    """
    found: Any = kept.get(key, _ABSENT)
    if found is not _ABSENT:
        return cast("_T", found)
    made = kept[key] = make()
    return made


_ABSENT: Final = object()


class RankFacts:
    """Results that depend on a trace alone, computed at first use and shared by all views."""

    def __init__(self, trace: RankTrace) -> None:
        self._trace = trace
        self._is_held = False
        self._is_used = False

    @property
    def trace(self) -> RankTrace:
        """The columns of the rank."""
        self._is_used = True
        return self._trace

    @property
    def label(self) -> str:
        """Label of the rank in its job."""
        return self._trace.label

    @property
    def rank(self) -> int | None:
        """Number of the rank, None where its file does not tell."""
        return self._trace.rank

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep mapped columns from one fact to the next, whose reader gives them back at the end.

        To map the pages of a rank anew for each fact takes longer than most facts.
        """
        self._is_held = True
        try:
            yield
        finally:
            self._is_held = False

    def relabelled(self, trace: RankTrace) -> RankFacts:
        """Return the same results for the same columns under another label."""
        if trace is self._trace:
            return self
        facts = RankFacts(trace)
        facts.__dict__.update({k: v for k, v in self.__dict__.items() if k != "_trace"})
        return facts

    @cached_property
    def _remembered(self) -> dict[object, Any]:
        return {}

    def remember(self, key: object, make: Callable[[], _T]) -> _T:
        """Return the cached result of ``make`` for ``key``; all views of the job share it."""
        return remembered(self._remembered, key, make)

    @cached_property
    @fact("classes")
    def classes(self) -> I8:
        """COMM, COMP or MEM for each row of ``gpu``."""
        return classes_of(self.trace)

    @cached_property
    @fact("steps")
    def marked_steps(self) -> tuple[tuple[Step, ...], str | None]:
        """All steps, and the name of the marker that was used."""
        found = steps_of(self.trace)
        if not self._is_held:
            release(self.trace)
        return found

    @cached_property
    @fact("step_of_work")
    def work(self) -> StepWork:
        """Step of each row of ``gpu``."""
        work = step_of_work(self.trace, self.marked_steps[0], lambda: self.launched_ns)
        if not self._is_held:
            release(self.trace)
        return work

    @cached_property
    def num_guessed(self) -> int:
        """Number of rows of ``gpu`` whose step is a guess (`StepWork.num_guessed`)."""
        return self.work.num_guessed

    @cached_property
    def step_spans(self) -> tuple[I64, I64]:
        """Begin and end of each step on the device, from first work to first work, int64 ns."""
        return device_spans(self.trace, self.classes <= COMP, self.classes == COMP, self.work)

    @cached_property
    @fact("launches")
    def launch_row(self) -> I32:
        """Row of ``runtime`` that launched each row of ``gpu``, -1 where none is recorded."""
        return launch_rows(self.trace)

    @cached_property
    @fact("launches")
    def launched_ns(self) -> I64:
        """Launch time of each row of ``gpu`` in ns, the lowest int64 where unknown."""
        return launch_times(self.trace, self.launch_row)

    def forget_launches(self) -> None:
        """Free the launching row and launch time of each row of ``gpu``."""
        for name in _LAUNCHES:
            self.__dict__.pop(name, None)

    def forget_details(self) -> None:
        """Free arrays of the size of ``gpu``; the next use computes them again."""
        for name in _DETAILS:
            self.__dict__.pop(name, None)

    def forget_intervals(self) -> None:
        """Free merged intervals too, and columns of the trace that are mapped or unpacked.

        Nothing is done where nothing was used since it was last called: to tell the kernel so takes
        as long as reading a column, and this is called for all ranks after every metric.
        """
        if not self._is_used:
            return
        self.forget_details()
        for name in _BUSY:
            self.__dict__.pop(name, None)
        release(self._trace)
        self._is_used = False

    @property
    def has_wrong_clock(self) -> bool:
        """Whether device work was recorded, and none of it with a time that can be true."""
        return any(note.code == DEAD_CLOCK for note in self._trace.notes)

    @property
    def has_untimed(self) -> bool:
        """Whether some device work with an impossible time belongs to a known launch."""
        return len(self._trace.group(UNTIMED)) > 0

    @property
    def has_device(self) -> bool:
        """Whether any device work was recorded."""
        return len(self._trace.group("gpu")) > 0

    @cached_property
    def has_kernels(self) -> bool:
        """Whether kernels were recorded; a CPU-only trace has none."""
        return bool((self.classes <= COMP).any())

    @property
    def busy(self) -> tuple[Intervals, Intervals, Intervals]:
        """Merged intervals of COMM, COMP and MEM over all streams."""
        return self.in_collectives, self.in_computation, self.in_copies

    @cached_property
    def in_collectives(self) -> Intervals:
        """Time in any collective."""
        return self._time_of(COMM)

    @cached_property
    def in_computation(self) -> Intervals:
        """Time in any computation."""
        return self._time_of(COMP)

    @cached_property
    def in_copies(self) -> Intervals:
        """Time in any copy or fill."""
        return self._time_of(MEM)

    @fact("busy")
    def _time_of(self, kind: int) -> Intervals:
        gpu = self.trace.group("gpu")
        return union_of_class(gpu.start_ns, gpu.dur_ns, self.classes, kind)

    @cached_property
    def device_work(self) -> Intervals:
        """Time in any device work."""
        gpu = self.trace.group("gpu")
        return union(gpu.start_ns, gpu.end_ns)

    @cached_property
    def unknown(self) -> Intervals:
        """Time in which nothing is known to run, and work with an impossible time may have run."""
        if not self.has_untimed:
            return Intervals.empty()
        return untimed_gaps(self.trace, self.launched_ns) - self.device_work

    @cached_property
    def in_operators(self) -> Intervals:
        """Time in which any operator runs on the host."""
        operators = self.trace.group("cpu_ops")
        return union(operators.start_ns, operators.end_ns)

    @cached_property
    def in_markers(self) -> Intervals:
        """Time of the host inside the markers of steps."""
        steps = self.marked_steps[0]
        return union([step.start_ns for step in steps], [step.end_ns for step in steps])

    @cached_property
    def named_compute(self) -> Bool:
        """Mask of the rows of ``gpu`` that are matrix work by name (`is_named_compute`)."""
        gpu = self.trace.group("gpu")
        named = [i for i in distinct(gpu.name) if is_named_compute(self.trace.text(i))]
        chosen = any_name(self.trace.strings, gpu.name, named)
        return np.asarray(chosen & (self.classes == COMP))

    @cached_property
    def extent(self) -> Intervals:
        """First start to last end of device work; of host events without a recorded device."""
        gpu = self.trace.group("gpu")
        if self.has_device:
            return Intervals.of(int(gpu.start_ns[0]), int(gpu.end_ns.max()))
        groups = [self.trace.group(name) for name in ("cpu_ops", "annotations")]
        found = [events for events in groups if len(events)]
        if not found:
            return Intervals.empty()
        first = min(int(events.start_ns[0]) for events in found)
        return Intervals.of(first, max(int(events.end_ns.max()) for events in found))
