"""What follows from one trace alone: classes, steps, and the time in each kind of work."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ccltui.metrics.arrays.intervals import Intervals, union
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
    launch_rows,
    launch_times,
    step_of_work,
    steps_of,
)
from ccltui.parsers.array_types import I8, I32, I64, Bool
from ccltui.parsers.columns import RankTrace
from ccltui.parsers.store.column_store import release

_LAUNCHES = ("launch_row", "launched_ns")
_DETAILS = (
    *_LAUNCHES,
    "work",
    "device_work",
    "in_operators",
    "named_compute",
)


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
        found = steps_of(self.trace)
        release(self.trace)
        return found

    @cached_property
    def work(self) -> StepWork:
        """Step of each row of ``gpu``."""
        work = step_of_work(self.trace, self.marked_steps[0], self.launched_ns)
        release(self.trace)
        return work

    @cached_property
    def launch_row(self) -> I32:
        """Row of ``runtime`` that launched each row of ``gpu``, -1 where none is kept."""
        return launch_rows(self.trace)

    @cached_property
    def launched_ns(self) -> I64:
        """When each row of ``gpu`` was launched, the lowest int64 where that is not known."""
        return launch_times(self.trace, self.launch_row)

    def forget_launches(self) -> None:
        """Drop which call launched what, and when: numbers for each row of ``gpu``."""
        for name in _LAUNCHES:
            self.__dict__.pop(name, None)

    def forget_details(self) -> None:
        """Drop what has a value for each row of ``gpu``; it is computed again when asked for."""
        for name in _DETAILS:
            self.__dict__.pop(name, None)

    def forget_intervals(self) -> None:
        """Drop the merged intervals and what is mapped or unpacked of the trace too."""
        self.forget_details()
        self.__dict__.pop("busy", None)
        release(self.trace)

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
        gpu = self.trace.group("gpu")
        start_ns, end_ns = gpu.start_ns, gpu.end_ns
        chosen = [np.flatnonzero(self.classes == kind) for kind in (COMM, COMP, MEM)]
        comm, comp, mem = (union(start_ns.take(rows), end_ns.take(rows)) for rows in chosen)
        return comm, comp, mem

    @cached_property
    def device_work(self) -> Intervals:
        """Time in any work of the device."""
        gpu = self.trace.group("gpu")
        return union(gpu.start_ns, gpu.end_ns)

    @cached_property
    def in_operators(self) -> Intervals:
        """Time in which any operator runs on the host."""
        operators = self.trace.group("cpu_ops")
        return union(operators.start_ns, operators.end_ns)

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
