"""What a rank does at any time: the work of its device by kind, and the activity of its host.

Each part is a set of disjoint intervals, which can be measured between any two times. A range of
the host is classified by its name, by the first rule that matches. Names are those that PyTorch,
its data loader, its profiler and the CUDA and HIP runtimes write; ranges that only enclose others
(steps, optimizers, whole functions) are no evidence and match no rule.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property, lru_cache
from typing import Final

import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.compiled import available
from ccltui.metrics.arrays.intervals import Intervals, long_gaps, union
from ccltui.metrics.arrays.reductions import (
    distinct_values,
    is_one_value,
    repeated,
    unique_inverse,
)
from ccltui.metrics.model.calls import Calls
from ccltui.metrics.model.classify import COMM, COMP, TYPES, any_name, distinct, few_texts
from ccltui.metrics.model.rank_facts import RankFacts
from ccltui.parsers.array_types import I8, I32, I64, Bool
from ccltui.parsers.columns import MISSING, Events, Group, RankTrace
from ccltui.parsers.store.column_store import release


class _Rule(Struct, frozen=True):
    """Patterns of names that indicate one cause, by group of events.

    Compiled where they are used: many metrics import this module without.
    """

    cause: str
    patterns: Mapping[Group, str]


def _rule(cause: str, **patterns: str) -> _Rule:
    return _Rule(cause, patterns)  # type: ignore[arg-type]


SYNCHRONISATION: Final = "synchronisation"
"""Cause of time in calls that wait for the device."""

_DATA = r"(?i)data_?loader|next_?batch|(?:get|load|fetch|wait)_?(?:next_?)?batch|data_?loading"
_SAVE = (
    r"(?i)save_?checkpoint|checkpoint_?sav|write_?checkpoint|\bdcp[._]\w*save|\btorch\.save|"
    r"async_save|^checkpoint(?:ing)?$"
)
_COLLECT = r"(?i)\bgc[._:]?collect|garbage.?collect|^python gc"

RULES: Final = (
    _rule(
        "data_loading",
        annotations=_DATA,
        cpu_ops=_DATA,
        other=_DATA,
        python=r"torch/utils/data/|(?i:dataloader\w*\.py)|datasets/\w+\.py.*(?:iter|next)",
    ),
    _rule(
        "checkpoint",
        annotations=_SAVE,
        cpu_ops=_SAVE,
        other=_SAVE,
        python=r"torch/distributed/checkpoint/|torch/serialization\.py.*save|(?i:save_checkpoint)",
    ),
    _rule(
        "garbage_collection",
        annotations=_COLLECT,
        cpu_ops=_COLLECT,
        other=_COLLECT,
        python=r"<built-in (?:function|method) collect|\bgc\.py|(?i:garbage_?collect)",
    ),
    _rule(
        "compilation",
        annotations=r"(?i)^compile_|compile_inner|inductor.*compil|triton.*compil",
        cpu_ops=r"CompiledFxGraph.*compil|(?i:triton.*compil)",
        runtime=r"(?:cu|cuda|hip)(?:Module|Library)(?:Load|GetFunction|GetKernel)|nvrtc|"
        r"(?:cuda|hip)GraphInstantiate",
        python=r"torch/_dynamo/convert_frame|torch/_inductor/(?:codecache|async_compile)\.py|"
        r"triton/compiler/",
    ),
    _rule(
        "allocation",
        runtime=r"^(?:cuda|hip)(?:Malloc|Free|Host(?:Alloc|Register|Unregister|Malloc|Free)|"
        r"MallocHost|FreeHost)|^(?:cu|hip)Mem(?:Alloc|Free|Create|Map|Unmap|SetAccess|Address)",
        python=r"empty_cache",
    ),
    _rule(
        SYNCHRONISATION,
        runtime=r"^(?:cuda|hip)(?:Device|Stream|Event)Synchronize|"
        r"^cu(?:Ctx|Stream|Event)Synchronize|^(?:cuda|hip)Memcpy(?:2D)?$",
        cpu_ops=r"^aten::(?:item|_local_scalar_dense|is_nonzero)$",
    ),
)
HOST_BLOCKED: Final = "host_blocked"
"""Inside one operator or runtime call while nothing begins or ends on the host for long."""
HOST_WORK: Final = "host_work"
"""Operators and runtime calls in succession."""
HOST_STALL: Final = "host_stall"
"""Nothing recorded on the host."""

HOST_WORDS: Final = {
    "data_loading": "waits for data",
    "checkpoint": "saves a checkpoint",
    "garbage_collection": "collects garbage",
    "compilation": "compiles or loads code",
    "allocation": "allocates or frees memory",
    "synchronisation": "waits in a synchronisation",
    "host_blocked": "is inside one long operation",
    "host_work": "runs operators",
    "host_stall": "runs nothing that was recorded",
}
_OPERATIONS: Final[tuple[Group, ...]] = ("cpu_ops", "runtime")
"""What a host does, by cause: «the host …»."""

_Chosen = Iterator[tuple[Events, I64 | slice]]

HOST_CAUSES: Final = (*(rule.cause for rule in RULES), HOST_BLOCKED, HOST_WORK)

STANDSTILL_NS: Final = 200_000
"""Shortest standstill: a host that dispatches operators begins or ends one every few µs."""


class NamedRanges(Struct, frozen=True):
    """Ranges of one cause with their names (ids into the rank's strings), sorted by start."""

    start_ns: I64
    end_ns: I64
    name: I32

    def longest_in(self, start_ns: int, end_ns: int) -> tuple[int, int] | None:
        """Return id and ns of the name with most time inside [start, end); None without any."""
        stop = int(np.searchsorted(self.start_ns, end_ns))
        inside = np.minimum(self.end_ns[:stop], end_ns) - np.maximum(self.start_ns[:stop], start_ns)
        found = np.flatnonzero(inside > 0)
        if not len(found):
            return None
        names, place = unique_inverse(self.name[found])
        total = np.zeros(len(names), np.int64)
        np.add.at(total, place, inside[found])
        best = int(total.argmax())
        return int(names[best]), int(total[best])


_NO_RANGES: Final = NamedRanges(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int32))


class HostWork:
    """Activity of the host of one rank, by cause."""

    def __init__(self, trace: RankTrace) -> None:
        self.trace = trace
        fitting = _names_by_cause(trace)
        self.named: Mapping[str, NamedRanges] = {
            rule.cause: _collected(_rows_named(trace, fitting[rule.cause]))
            if fitting[rule.cause]
            else _NO_RANGES
            for rule in RULES
        }

    @cached_property
    def operations(self) -> NamedRanges:
        """Operators and runtime calls with names, sorted by start."""
        return _collected(iter(self._operations))

    @cached_property
    def _operations(self) -> list[tuple[Events, I64 | slice]]:
        """Rows of the operators and runtime calls with names."""
        found: list[tuple[Events, I64 | slice]] = []
        for group in _OPERATIONS:
            events = self.trace.group(group)
            is_named = _least(events.name) >= 0
            found.append((events, slice(None) if is_named else np.flatnonzero(events.name >= 0)))
        return found

    def forget_details(self) -> None:
        """Free what is of the size of the operations; the next use computes it again."""
        for name in ("operations", "_operations", "disjoint", "long_gaps", "timed_operations"):
            self.__dict__.pop(name, None)

    @classmethod
    def of(cls, facts: RankFacts) -> HostWork:
        """Return the activity of the host of a rank; all who need it share it."""
        return facts.remember(cls, lambda: cls(facts.trace))

    @cached_property
    def activities(self) -> dict[str, Intervals]:
        """Disjoint time of each rule's cause; time of two causes goes to the earlier rule."""
        taken, found = Intervals.empty(), dict.fromkeys(self.named, Intervals.empty())
        for cause, ranges in self.named.items():
            if len(ranges.start_ns):  # most hosts do nothing that a rule names
                mine = union(ranges.start_ns, ranges.end_ns)
                found[cause] = mine - taken
                taken = taken | mine
        return found

    @property
    def ranges_by_rule(self) -> tuple[I64, I64, I64]:
        """Start, end and place in HOST_CAUSES of the times of each rule's cause, by start."""
        none = np.empty(0, np.int64)
        if not any(len(one.start_ns) for one in self.named.values()):
            return none, none, none
        found = [(HOST_CAUSES.index(cause), one) for cause, one in self.activities.items()]
        start = np.concatenate([none, *(one.start_ns for _, one in found)])
        end = np.concatenate([none, *(one.end_ns for _, one in found)])
        cause = np.repeat([place for place, _ in found], [len(one) for _, one in found])
        order = np.argsort(start, kind="stable")
        return start[order], end[order], cause[order]

    @cached_property
    def timed_operations(self) -> tuple[tuple[I64, I64, int], ...]:
        """Start, duration and longest duration of the operations of each group, by start."""
        columns = ((one.start_ns[rows], one.dur_ns[rows]) for one, rows in self._operations)
        return tuple((start, dur, _longest(dur)) for start, dur in columns)

    @cached_property
    def disjoint(self) -> dict[str, Intervals]:
        """Disjoint time of each cause, of rules or not."""
        found, taken = self.activities, Intervals.empty()
        for mine in found.values():
            taken = taken | mine
        work = Intervals.empty()
        for events, rows in self._operations:
            start = events.start_ns[rows]
            work = work | union(start, start + events.dur_ns[rows])
        work = work - taken
        still = self.long_gaps
        return {**found, HOST_BLOCKED: work & still, HOST_WORK: work - still}

    @cached_property
    def long_gaps(self) -> Intervals:
        """Intervals of at least ``STANDSTILL_NS`` in which nothing begins or ends on any thread."""
        starts = [events.start_ns[rows] for events, rows in self._operations]
        ends = [
            start + events.dur_ns[rows]
            for start, (events, rows) in zip(starts, self._operations, strict=True)
        ]
        return long_gaps(starts + ends, STANDSTILL_NS)

    def name_of(self, cause: str, start_ns: int, end_ns: int) -> tuple[str, int] | None:
        """Return the name with most time of a cause inside [start, end), and that time in ns."""
        if cause == HOST_BLOCKED:
            return self._blocked_in(start_ns, end_ns)
        ranges = self.named.get(cause, self.operations)
        found = ranges.longest_in(start_ns, end_ns)
        return None if found is None else (self.trace.text(found[0]), found[1])

    def around(self, start_ns: int, end_ns: int) -> tuple[str, int] | None:
        """Return the innermost Python frame or user range around [start, end), and its ns there.

        For times without operators; None where there is no such range.
        """
        for group in ("python", "annotations"):
            events = self.trace.group(group)
            stop = int(np.searchsorted(events.start_ns, start_ns, side="right"))
            holding = np.flatnonzero(events.end_ns[:stop] >= end_ns)
            if len(holding):
                return self.trace.text(int(events.name[holding[-1]])), end_ns - start_ns
        return None

    def _blocked_in(self, start_ns: int, end_ns: int) -> tuple[str, int] | None:
        """Return the innermost operation around the longest standstill, and its length in ns."""
        still = self.long_gaps.clip(start_ns, end_ns)
        if not len(still):
            return None
        longest = int((still.end_ns - still.start_ns).argmax())
        begin, end = int(still.start_ns[longest]), int(still.end_ns[longest])
        stop = int(np.searchsorted(self.operations.start_ns, begin, side="right"))
        around = np.flatnonzero(self.operations.end_ns[:stop] >= end)
        if not len(around):
            return None
        return self.trace.text(int(self.operations.name[around[-1]])), end - begin


def host_cause(group: Group, name: str) -> str | None:
    """Return the cause of the first rule that an event of the host fits, None where none does.

    Args:
        group: Group of events that the event is from.
        name: Name of the event.
    """
    return next(iter(_causes_named(group, name)), None)


def _names_by_cause(trace: RankTrace) -> dict[str, dict[Group, list[int]]]:
    """Return the name ids that fit the rule of each cause, by the group that the rule is for.

    Of few names all are returned, of many those that occur in the group.
    """
    texts = few_texts(trace.strings)
    if texts is not None:
        return _fitting(texts)
    return _by_cause(
        (group, name, trace.text(name))
        for group in _RULED
        for name in distinct(trace.group(group).name)
    )


@lru_cache(maxsize=64)
def _fitting(texts: tuple[str, ...]) -> dict[str, dict[Group, list[int]]]:
    return _by_cause((group, i, text) for group in _RULED for i, text in enumerate(texts))


def _by_cause(names: Iterable[tuple[Group, int, str]]) -> dict[str, dict[Group, list[int]]]:
    found: dict[str, dict[Group, list[int]]] = {rule.cause: {} for rule in RULES}
    for group, name, text in names:
        for cause in _causes_named(group, text):
            found[cause].setdefault(group, []).append(name)
    return found


_RULED: Final[tuple[Group, ...]] = tuple(
    dict.fromkeys(group for rule in RULES for group in rule.patterns)
)
"""Groups of events that rules are for."""


@lru_cache(maxsize=1 << 14)
def _causes_named(group: Group, text: str) -> tuple[str, ...]:
    """Return the causes whose rules a name fits; ranks of a job have the same names."""
    return tuple(
        rule.cause
        for rule in RULES
        if group in rule.patterns and re.search(rule.patterns[group], text)
    )


def _rows_named(trace: RankTrace, fitting: Mapping[Group, list[int]]) -> _Chosen:
    """Yield the events with one of the names of each group."""
    for group, names in fitting.items():
        events = trace.group(group)
        yield events, np.flatnonzero(any_name(trace.strings, events.name, names))


def _collected(chosen: _Chosen) -> NamedRanges:
    """Join rows of several groups of events in order of start."""
    columns = [(one.start_ns[rows], one.dur_ns[rows], one.name[rows]) for one, rows in chosen]
    if not columns:
        return _NO_RANGES
    start, dur, name = (np.concatenate(parts) for parts in zip(*columns, strict=True))
    if len(columns) > 1:
        order = np.argsort(start, kind="stable")
        start, dur, name = start[order], dur[order], name[order]
    return NamedRanges(start, start + dur, name)


class KernelNames:
    """Numbers of kernel names, the same on all ranks; ``texts`` are the names by number."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._ids: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.texts)

    def ids(self, trace: RankTrace, names: I32) -> I64:
        """Return the numbers of a rank's names, which are given as ids into its strings."""
        table = np.full(len(trace.strings) + 1, MISSING, np.int64)
        for local in distinct(names):
            text = trace.text(local)
            if text not in self._ids:
                self._ids[text] = len(self.texts)
                self.texts.append(text)
            table[local] = self._ids[text]
        return table[names]


Groups = frozenset[int]

RIGHT_AFTER_NS: Final = 20_000
"""A kernel that had to wait for another begins within some µs of its end."""

NO_TRIGGER: Final = -1
OWN: Final = -2
"""Trigger that is a collective of the compared ranks themselves; others are numbers of kinds."""


class Layers(Struct, frozen=True):
    """Disjoint time in collectives of some groups, in those of other groups, and in computation."""

    own_comm: Intervals
    other_comm: Intervals
    compute: Intervals


_BROADCAST = TYPES.index("Broadcast")
_MADE_FROM: Final = ("group_kinds", "work", "network", "_reach")

_FOUND: Final = ("compute", "all_copies", "copies", "idle", "host")


class Activity:
    """One rank's computation, communication, copies and idle time, on its own clock.

    Communication covers copies; what is neither is idle. Where no device was recorded, the
    operators that no other operator encloses replace kernels.

    Args:
        facts: The events of the rank.
        calls: Its collectives and transfers.
        list_kinds: Returns the kind of group of some calls.
        names: Numbers of kernel names, shared by all ranks.
        is_large: Whether little is kept (`settle`).
    """

    def __init__(
        self,
        facts: RankFacts,
        calls: Calls,
        list_kinds: Callable[[I64 | slice], I64],
        names: KernelNames,
        *,
        is_large: bool,
    ) -> None:
        self._names = names
        self.calls = calls
        self._list_kinds = list_kinds
        self._facts = facts
        self._is_large = is_large
        self._layers: dict[tuple[Groups, int], Layers] = {}
        self._foreign: dict[Groups, Bool] = {}

    @property
    def trace(self) -> RankTrace:
        """The columns of the rank."""
        return self._facts.trace

    def settle(self) -> None:
        """Of a rank of a large job keep the times of its parts, and free what they are made from.

        A part takes 16 B an interval; what they are made from takes some 300 B a collective, which
        for all ranks does not fit into memory.
        """
        if not self._is_large:
            return
        held = self.__dict__
        for name in _MADE_FROM:
            held.pop(name, None)
        self._foreign.clear()
        if "host" in held:
            self.host.forget_details()

    def forget_if_large(self) -> None:
        """Of a rank of a large job free all that was found, and its mapped columns.

        It can be found again.
        """
        if not self._is_large:
            return
        self.settle()
        for name in _FOUND:
            self.__dict__.pop(name, None)
        self._layers.clear()
        self._facts.forget_intervals()

    @cached_property
    def group_kinds(self) -> I64:
        """Kind of group of each call, as a number that all ranks share."""
        return self._list_kinds(slice(None))

    @cached_property
    def work(self) -> tuple[I64, I64, I64]:
        """Start and duration (ns) and name of every piece of computation, sorted by start.

        Names are numbers that all ranks of the job share.
        """
        events, rows = self._computation()
        names = self._names.ids(self.trace, events.name[rows])
        return events.start_ns[rows], events.dur_ns[rows], names

    def pieces_before(self, times_ns: I64) -> I64:
        """Return how many pieces of computation and copies began before each time."""
        events, rows = self._computation()
        if self._facts.has_kernels:
            rows = self._facts.classes != COMM
        return np.asarray(np.searchsorted(events.start_ns[rows], times_ns), np.int64)

    def _computation(self) -> tuple[Events, Bool]:
        """Events of which those in a mask are computation."""
        if self._facts.has_kernels:
            return self.trace.group("gpu"), self._facts.classes == COMP
        return self.trace.group("cpu_ops"), _outermost(self.trace)

    @cached_property
    def names_end(self) -> int:
        """One more than the highest number of a name in `work`."""
        events, rows = self._computation()
        names = np.array(distinct(events.name[rows]), np.int32)
        found = int(self._names.ids(self.trace, names).max(initial=-1)) + 1
        if self._is_large:
            release(self.trace)  # this is asked of all ranks
        return found

    @cached_property
    def compute(self) -> Intervals:
        """Time in computation."""
        if self._facts.has_kernels:
            return self._facts.in_computation
        start, dur, _ = self.work
        return union(start, start + dur)

    @cached_property
    def network(self) -> Intervals:
        """Time in collectives and transfers."""
        return union(self.calls.start_ns, self.calls.end_ns)

    @cached_property
    def copies(self) -> Intervals:
        """Time in copies and fills that neither computation nor communication covers."""
        return self.all_copies - (self.compute | self.network)

    @cached_property
    def all_copies(self) -> Intervals:
        """Time in copies and fills."""
        return self._facts.in_copies

    @cached_property
    def host(self) -> HostWork:
        """Activity of the host."""
        return HostWork.of(self._facts)

    @cached_property
    def idle(self) -> dict[str, Intervals]:
        """Idle time by activity of the host: HOST_CAUSES, or HOST_STALL where none is recorded."""
        busy = self.compute | self.network | self.all_copies
        host = self.host.disjoint
        found = {cause: host[cause] - busy for cause in HOST_CAUSES}
        recorded = busy
        for intervals in host.values():
            recorded = recorded | intervals
        limits = self._limits
        found[HOST_STALL] = Intervals.empty() if limits is None else recorded.gaps(*limits)
        return found

    @property
    def _limits(self) -> tuple[int, int] | None:
        """First and last time that is known of, None without any event."""
        first, last = self.trace.first_ns, self.trace.last_ns
        return None if first is None or last is None else (first, last)

    def layers(self, groups: Groups, trigger: int) -> Layers:
        """Return exposed time in calls of ``groups`` and of other groups, and computation.

        Computation hides calls, and calls of ``groups`` hide those of other groups. Calls of the
        ``trigger`` are the exception and hide both: the rank had to await them, so what ran at
        the same time did not delay it.
        """
        key = (groups, trigger)
        if key not in self._layers:
            foreign = self.foreign(groups)
            awaited = ~foreign if trigger == OWN else foreign & (self.group_kinds == trigger)
            first = _time_of(self.calls, awaited)
            compute = self.compute - first
            if compute == self.compute:
                compute = self.compute  # one copy of it
            taken = first | self.compute
            own, other = (_time_of(self.calls, rows) for rows in (~foreign, foreign))
            own_comm = first if trigger == OWN else own - taken
            other_comm = other - (taken | own_comm)
            if trigger not in (NO_TRIGGER, OWN):
                other_comm = other_comm | first
            self._layers[key] = Layers(own_comm, other_comm, compute)
        return self._layers[key]

    def triggers(self, times_ns: I64, groups: Groups) -> I32:
        """Return the number of the kind of group whose call ended right before each time.

        OWN for a call of ``groups``; NO_TRIGGER where none ended within ``RIGHT_AFTER_NS``, or
        where a piece of computation ended later.
        """
        found = np.full(times_ns.shape, NO_TRIGGER, np.int32)
        rows = self.ended_before(times_ns)
        right = np.flatnonzero(rows >= 0)
        rows = rows[right]
        found[right] = OWN
        foreign = self.foreign(groups)[rows]
        if foreign.any():
            found[right[foreign]] = self._list_kinds(rows[foreign])
        return found

    def ended_before(self, times_ns: I64) -> I64:
        """Return the call that ended right before each time, int64 [t]; -1 for none."""
        if not (available() and self.has_kernels):
            return self.ended_of_all(times_ns)
        from ccltui.metrics.arrays import _intervals  # noqa: PLC0415

        order = np.argsort(times_ns, kind="stable")
        work = *self.device_events, COMP
        found: I64 = _intervals.ended_right_before(
            times_ns, order, self.timed_calls, work, RIGHT_AFTER_NS
        )
        return found

    def ended_of_all(self, times_ns: I64) -> I64:
        """Return the same from the ends of all calls and of all computation, in order."""
        ends_ns, (events, computes) = self.calls.end_ns, self._computation()
        order = np.argsort(ends_ns, kind="stable")
        latest, place = _latest(ends_ns.take(order), times_ns)
        computed, _ = _latest(np.sort(events.end_ns[computes], kind="stable"), times_ns)
        right = (times_ns - latest <= RIGHT_AFTER_NS) & (latest > computed)
        found = np.full(times_ns.shape, -1, np.int64)
        found[right] = order[place[right]]
        return found

    def calls_in(self, start_ns: int, end_ns: int) -> slice:
        """Return the calls that may overlap [start, end).

        All calls before them end earlier, all calls after them start later.
        """
        first = np.searchsorted(self._reach, start_ns, side="right")
        return slice(int(first), int(np.searchsorted(self.calls.start_ns, end_ns)))

    @cached_property
    def _reach(self) -> I64:
        """Latest end of the calls up to each, ns."""
        return np.maximum.accumulate(self.calls.end_ns)

    def foreign(self, groups: Groups) -> Bool:
        """Mask of the calls at which the ranks of these groups do not wait for each other.

        These are the calls of other groups, and broadcasts: their receivers wait for the root, so
        that a receiver which is late afterwards inherited it.
        """
        if groups not in self._foreign:
            kind, group, count = self.calls.kind, self.calls.group, len(self.calls)
            is_alike = is_one_value(kind) and is_one_value(group)
            foreign = _is_foreign(*((kind[:1], group[:1]) if is_alike else (kind, group)), groups)
            self._foreign[groups] = repeated(foreign, count) if is_alike else foreign
        return self._foreign[groups]

    def roles(self, groups: Groups, trigger: int) -> I8:
        """Return 1 for `foreign` calls, and 2 more for those of the ``trigger``, as of `layers`."""
        foreign = self.foreign(groups)
        if trigger >= 0:
            awaited = foreign & (self.group_kinds == trigger)
            return np.asarray(foreign + 2 * awaited, np.int8)
        roles = np.array([2, 1] if trigger == OWN else [0, 1], np.int8)
        if is_one_value(foreign):
            return repeated(roles[foreign[:1].astype(np.intp)], len(foreign))
        return roles.take(foreign.view(np.int8))

    @cached_property
    def timed_calls(self) -> tuple[I64, I64, int]:
        """Start, duration and longest duration of the calls, by start."""
        return self.calls.start_ns, self.calls.dur_ns, _longest(self.calls.dur_ns)

    @property
    def device_events(self) -> tuple[I64, I64, int, I8]:
        """Start, duration, longest duration and class of the events of the device, by start."""
        gpu = self.trace.group("gpu")
        return gpu.start_ns, gpu.dur_ns, self._longest_on_device, self._facts.classes

    @cached_property
    def _longest_on_device(self) -> int:
        return _longest(self.trace.group("gpu").dur_ns)

    @property
    def has_kernels(self) -> bool:
        """Whether kernels were recorded."""
        return self._facts.has_kernels


def _latest(ends_ns: I64, times_ns: I64) -> tuple[I64, I64]:
    """Return the last of ascending ends not after each time, and its place; far past if none."""
    place = np.searchsorted(ends_ns, times_ns, side="right") - 1
    if not len(ends_ns):
        return np.full(times_ns.shape, np.iinfo(np.int64).min // 2), place
    found = np.where(place >= 0, ends_ns.take(np.maximum(place, 0)), np.iinfo(np.int64).min // 2)
    return found, place


def _is_foreign(kind: I8, group: I32, groups: Groups) -> Bool:
    outside = np.ones(len(kind), np.bool_)
    for one in groups:  # few
        outside &= group != one
    return np.asarray((kind == _BROADCAST) | outside)


def _longest(dur_ns: I64) -> int:
    return int(dur_ns[0]) if is_one_value(dur_ns) else int(dur_ns.max(initial=0))


def _least(names: I32) -> int:
    return int(names[0]) if is_one_value(names) else int(names.min(initial=0))


def _time_of(calls: Calls, rows: Bool) -> Intervals:
    return union(calls.start_ns[rows], calls.end_ns[rows])


def _outermost(trace: RankTrace) -> Bool:
    """Mask of the rows of ``cpu_ops`` that are operators of computation inside no other one."""
    events = trace.group("cpu_ops")
    named = [i for i in distinct(events.name) if trace.text(i).startswith("aten::")]
    rows = any_name(trace.strings, events.name, named)
    outer = np.zeros(len(rows), np.bool_)
    for track in distinct_values(events.track[rows]):
        mine = np.flatnonzero(rows & (events.track == track))
        reach = np.maximum.accumulate(events.end_ns[mine])
        outer[mine[0]] = True
        outer[mine[1:]] = events.start_ns[mine[1:]] >= reach[:-1]
    return outer
