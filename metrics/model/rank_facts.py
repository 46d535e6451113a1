"""Results that depend on one trace alone: kernel classes, steps, and time in each kind of work.

Also the sums over its device work in given windows.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import pairwise
from operator import is_
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, cast

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ccltui.metrics.arrays.compiled import available
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
    profiler_steps,
    step_of_work,
    steps_of,
    steps_of_launches,
)
from ccltui.parsers.array_types import I8, I32, I64, Bool
from ccltui.parsers.columns import UNTIMED, Events, RankTrace
from ccltui.parsers.device_times import DEAD_CLOCK
from ccltui.parsers.store.column_store import release
from ccltui.parsers.store.stored_columns import PACKED_ROWS

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


_MOST_SHARED: Final = 8
"""Results of one kind that are kept for further ranks: hosts of a job differ in few ways."""


class SharedResults:
    """Results that ranks have in common because they share the columns that these follow from.

    Ranks that do the same work share most columns (`stored_columns`). A result is found once for
    all of them, and is one array of all of them. Columns of large files are unpacked for each rank:
    these share none, and would stay in memory here.
    """

    def __init__(self) -> None:
        self._known: dict[str, list[tuple[Hashable, tuple[object, ...], Any]]] = {}

    def of(
        self, name: str | tuple[str, object], columns: tuple[object, ...], make: Callable[[], _T]
    ) -> _T:
        """Return what ``make`` gives, for the very ``columns`` once.

        ``name`` tells the results, with a value on which they depend besides. The last results of
        a name are kept, whatever the values: these may differ from rank to rank.
        """
        known = self._known.setdefault(name if isinstance(name, str) else name[0], [])
        for told, given, found in known:
            if told == name and all(map(is_, given, columns)):
                shared: _T = found
                return shared
        made = make()
        known.insert(0, (name, columns, made))
        del known[_MOST_SHARED:]
        return made

    def alike(self, name: str, made: I32) -> I32:
        """Return an array of the results of a name that equals one, else that one itself."""
        for _, _, found in self._known.get(name, ()):
            if isinstance(found, np.ndarray) and np.array_equal(found, made):
                return found
        return made


class RankFacts:
    """Results that depend on a trace alone, computed at first use and shared by all views.

    Args:
        trace: The columns of the rank.
        shared: Results of other ranks of the job.
    """

    def __init__(self, trace: RankTrace, shared: SharedResults | None = None) -> None:
        self._trace = trace
        self._shared = SharedResults() if shared is None else shared
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
        facts = RankFacts(trace, self._shared)
        facts.__dict__.update({k: v for k, v in self.__dict__.items() if k != "_trace"})
        return facts

    @cached_property
    def _remembered(self) -> dict[object, Any]:
        return {}

    def remember(self, key: object, make: Callable[[], _T]) -> _T:
        """Return the cached result of ``make`` for ``key``; all views of the job share it."""
        return remembered(self._remembered, key, make)

    def alike(
        self, name: str | tuple[str, object], columns: tuple[object, ...], make: Callable[[], _T]
    ) -> _T:
        """Return what ``make`` finds, once for all ranks that have these very columns.

        Args:
            name: tells the results, and all that they follow from beside the columns.
            columns: arrays that may be of several ranks, as columns of ``gpu`` are.
            make: finds the result; nobody changes it.
        """
        if len(self._trace.group("gpu")) >= PACKED_ROWS:
            return make()
        return self._shared.of(name, columns, make)

    @cached_property
    @fact("classes")
    def classes(self) -> I8:
        """COMM, COMP or MEM for each row of ``gpu``."""
        trace, gpu = self.trace, self.trace.group("gpu")
        if len(gpu) >= PACKED_ROWS:
            return classes_of(trace)
        texts = trace.strings.blob, trace.strings.offsets
        columns = *texts, gpu.name, gpu.category, gpu.args, trace.collective_args.op
        return self._shared.of("classes", columns, lambda: classes_of(trace))

    @cached_property
    @fact("steps")
    def marked_steps(self) -> tuple[tuple[Step, ...], str | None]:
        """All steps, and the name of the marker that was used."""
        trace, marks = self.trace, self.trace.group("annotations")
        found: tuple[tuple[Step, ...], str | None] = (), None
        if len(marks) < PACKED_ROWS:
            texts = trace.strings.blob, trace.strings.offsets
            columns = *texts, marks.name, marks.start_ns, marks.dur_ns
            found = self._shared.of("steps", columns, lambda: profiler_steps(trace))
        if not found[0]:
            found = steps_of(trace)
        if not self._is_held:
            release(trace)
        return found

    @cached_property
    @fact("step_of_work")
    def work(self) -> StepWork:
        """Step of each row of ``gpu``."""
        steps = self.marked_steps[0]
        work = step_of_work(self.trace, steps, lambda: self.launched_ns, self._steps_of_launches)
        if not self._is_held:
            release(self.trace)
        return work

    def _steps_of_launches(self, steps: tuple[Step, ...]) -> I32 | None:
        """Return `steps_of_launches`, one array of the ranks that launch the same work so."""
        trace, gpu, runtime = self.trace, self.trace.group("gpu"), self.trace.group("runtime")
        if max(len(gpu), len(runtime)) >= PACKED_ROWS:
            return steps_of_launches(trace, steps)
        columns = gpu.correlation, runtime.correlation, runtime.start_ns, steps

        def make() -> I32 | None:
            made = steps_of_launches(trace, steps)
            return None if made is None else self._shared.alike("launched", made)

        return self._shared.of("launched", columns, make)

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
        classes = self.classes
        return self._shared.of("kernels", (classes,), lambda: bool((classes <= COMP).any()))

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


OTHER: Final = 3
"""Kind of device work that is measured only as such: collectives of groups that are not chosen, and
computation without a name that is asked for."""
_NUM_KINDS: Final = 4
_NUM_CLASSES: Final = 3
_STATES: Final = np.arange(1 << _NUM_KINDS)

Window: TypeAlias = tuple[int, int, int]
"""Id of a step (-1 of what is none), start and end in ns."""


class Work(Struct, frozen=True):
    """Device work of a rank.

    Attributes:
        gpu: its events.
        classes: class of each.
        kinds: class of each, or OTHER.
        num_names: number of strings of the rank.
    """

    gpu: Events
    classes: I8
    kinds: I8
    num_names: int


class DeviceTimes(Struct, frozen=True):
    """Time of each combination of kinds of device work, in the windows of each step.

    Attributes:
        steps: id of each step, -1 of what is no step.
        window_ns: length of the windows of each, int64.
        state_ns: int64 [step, state]; the bits of a state are the kinds that run.
        all_ns: that of all steps for each state.
    """

    steps: tuple[int, ...]
    window_ns: I64
    state_ns: I64
    all_ns: tuple[int, ...]

    def any_of(self, *kinds: int) -> int:
        """Return the time in which work of any of some kinds runs, in ns."""
        bits = sum(1 << kind for kind in kinds)
        return sum(ns for state, ns in enumerate(self.all_ns) if state & bits)

    def by_step(self, *kinds: int) -> dict[int, int]:
        """Return the same for each step, by its id."""
        bits = sum(1 << kind for kind in kinds)
        return self._of_steps(self.state_ns[:, (_STATES & bits) != 0].sum(axis=1))

    @property
    def window_by_step(self) -> dict[int, int]:
        """Length of the windows of each step, by its id."""
        return self._of_steps(self.window_ns)

    def _of_steps(self, values: I64) -> dict[int, int]:
        rows = zip(self.steps, values.tolist(), strict=True)
        return {step: value for step, value in rows if step >= 0}

    @property
    def busy_ns(self) -> int:
        """Time in which anything runs."""
        return sum(self.all_ns)

    @property
    def exclusive_ns(self) -> list[int]:
        """Time of each combination of chosen kinds, by the sum of their bits."""
        half = 1 << OTHER
        return [
            one + other for one, other in zip(self.all_ns[:half], self.all_ns[half:], strict=True)
        ]


class WorkTable(Struct, frozen=True):
    """Device work of one rank, one row for each distinct name and class; arrays of one length.

    ``name`` is the string id (-1 without a name), ``kind`` the class, ``calls`` the number of
    rows that started inside the windows, ``total_ns`` the sum of durations inside the windows:
    time in which two streams run is counted twice.
    """

    name: I32
    kind: I8
    calls: I64
    total_ns: I64

    def rows(self) -> Iterator[tuple[int, int, int, int]]:
        """Return name, class, calls and time of each row."""
        columns = (self.name, self.kind, self.calls, self.total_ns)
        return zip(*(column.tolist() for column in columns), strict=True)


class DeviceSums(Struct, frozen=True):
    """Sums over the device work of a rank in its windows.

    Attributes:
        times: time of what runs at the same time.
        work: by name and class.
        started: number of rows of each kind that started inside the windows.
        summed_ns: sum of the durations of each kind inside the windows.
    """

    times: DeviceTimes
    work: WorkTable
    started: tuple[int, ...]
    summed_ns: tuple[int, ...]

    @property
    def kernels_ns(self) -> int:
        """Sum of the durations of all kernels inside the windows."""
        return sum(self.summed_ns) - self.summed_ns[MEM]


def device_sums(work: Work, windows: Sequence[Window], known: Intervals) -> DeviceSums:
    """Sum the device work of a rank.

    Args:
        work: the work.
        windows: id, start and end of each step.
        known: the measured time: that of all windows, less what is not known.
    """
    if available() and all(one[2] <= other[1] for one, other in pairwise(windows)):
        found = _compiled(work, windows, known)
        if found is not None:
            return found
    return sums_in_arrays(work, windows, known)


def _compiled(work: Work, windows: Sequence[Window], known: Intervals) -> DeviceSums | None:
    """Return `sums_in_arrays` of windows that are apart; None where starts are not in order.

    One pass over the rows takes a sixth of the time of arrays.
    """
    from ccltui.metrics.arrays import _passes  # noqa: PLC0415

    _, start, end = np.array(windows, np.int64).reshape(-1, 3).T.copy()
    row = None
    if known.total_ns != (end - start).sum():  # part of the windows is not known
        parts = [known.clip(*bounds) for bounds in zip(start.tolist(), end.tolist(), strict=True)]
        row = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        start, end = (
            np.concatenate([getattr(part, name) for part in parts] or [start])
            for name in ("start_ns", "end_ns")
        )
    events = work.gpu.start_ns, work.gpu.dur_ns, work.gpu.name, work.classes, work.kinds
    named = np.zeros((2, (work.num_names + 1) * _NUM_CLASSES), np.int64)
    of_kind = np.zeros((2, _NUM_KINDS), np.int64)
    states = np.zeros((len(start), len(_STATES)), np.int64)
    columns = tuple(map(np.ascontiguousarray, events))  # those of one value are stored as that
    if not _passes.device_sums(columns, (start, end), named, of_kind, states):
        return None
    state_ns = states
    if row is not None:
        state_ns = np.zeros((len(windows), len(_STATES)), np.int64)
        np.add.at(state_ns, row, states)
    times = _times(windows, known, state_ns, state_ns.sum(axis=0))
    started, summed = of_kind.tolist()
    return DeviceSums(times, _table(*named), tuple(started), tuple(summed))


def sums_in_arrays(work: Work, windows: Sequence[Window], known: Intervals) -> DeviceSums:
    """Return the result of `device_sums` by sets of intervals, for windows that may overlap."""
    gpu, size = work.gpu, (work.num_names + 1) * _NUM_CLASSES
    inside, clipped = known.contains(gpu.start_ns), known.within(gpu.start_ns, gpu.end_ns)
    key = (gpu.name.astype(np.int64) + 1) * _NUM_CLASSES + work.classes

    def summed(keys: npt.NDArray[Any], number: int) -> tuple[I64, I64]:
        # bincount sums in float64, which is exact for whole nanoseconds up to 104 days
        total = np.bincount(keys, weights=clipped, minlength=number).astype(np.int64)
        return np.bincount(keys[inside], minlength=number), total

    rows = [np.flatnonzero(work.kinds == kind) for kind in range(_NUM_KINDS)]
    sets = [union(gpu.start_ns[some], gpu.end_ns[some]) & known for some in rows]
    _, start, end = np.array(windows, np.int64).reshape(-1, 3).T
    of_states = [Intervals.empty(), *(_in_state(sets, int(one)) for one in _STATES[1:])]
    times = _times(
        windows,
        known,
        np.stack([one.within(start, end) for one in of_states], axis=1),
        np.array([one.total_ns for one in of_states]),
    )
    started, summed_ns = (tuple(one.tolist()) for one in summed(work.kinds, _NUM_KINDS))
    return DeviceSums(times, _table(*summed(key, size)), started, summed_ns)


def _in_state(sets: Sequence[Intervals], state: int) -> Intervals:
    """Return when exactly the kinds of a state run."""
    runs = [one for kind, one in enumerate(sets) if state >> kind & 1]
    found = runs[0]
    for one in runs[1:]:
        found = found & one
    for kind, one in enumerate(sets):
        found = found if state >> kind & 1 else found - one
    return found


def _times(windows: Sequence[Window], known: Intervals, state_ns: I64, all_ns: I64) -> DeviceTimes:
    _, start, end = np.array(windows, np.int64).reshape(-1, 3).T
    steps = tuple(step for step, _, _ in windows)
    return DeviceTimes(steps, known.within(start, end), state_ns, tuple(all_ns.tolist()))


def _table(calls: I64, total: I64) -> WorkTable:
    rows = np.flatnonzero((calls > 0) | (total > 0))
    return WorkTable(
        name=(rows // _NUM_CLASSES - 1).astype(np.int32),
        kind=(rows % _NUM_CLASSES).astype(np.int8),
        calls=calls[rows].astype(np.int64),
        total_ns=total[rows],
    )
