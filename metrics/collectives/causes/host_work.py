"""Classify the activity of the host by cause: data loading, checkpoint, garbage collection, ...

A range is classified by its name, by the first rule that matches. Names are those that PyTorch,
its data loader, its profiler and the CUDA and HIP runtimes write; ranges that only enclose others
(steps, optimizers, whole functions) are no evidence and match no rule.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Final

import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.intervals import Intervals, long_gaps, union
from ccltui.metrics.arrays.reductions import unique_inverse
from ccltui.metrics.model.classify import any_name, distinct
from ccltui.metrics.model.rank_facts import RankFacts
from ccltui.parsers.array_types import I32, I64
from ccltui.parsers.columns import Events, Group, RankTrace


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


class HostWork:
    """Activity of the host of one rank, by cause."""

    def __init__(self, trace: RankTrace) -> None:
        self.trace = trace
        groups = {group for rule in RULES for group in rule.patterns}
        names = {group: distinct(trace.group(group).name) for group in groups}
        self.named: Mapping[str, NamedRanges] = {
            rule.cause: _collected(_rows_named(trace, names, rule)) for rule in RULES
        }

    @cached_property
    def operations(self) -> NamedRanges:
        """Operators and runtime calls with names, sorted by start."""
        return _collected(_operations(self.trace))

    @classmethod
    def of(cls, facts: RankFacts) -> HostWork:
        """Return the activity of the host of a rank; all who need it share it."""
        return facts.remember(cls, lambda: cls(facts.trace))

    @cached_property
    def activities(self) -> dict[str, Intervals]:
        """Disjoint time of each rule's cause; time of two causes goes to the earlier rule."""
        taken, found = Intervals.empty(), {}
        for cause, ranges in self.named.items():
            mine = union(ranges.start_ns, ranges.end_ns)
            found[cause] = mine - taken
            taken = taken | mine
        return found

    @cached_property
    def disjoint(self) -> dict[str, Intervals]:
        """Disjoint time of each cause, of rules or not."""
        found, taken = self.activities, Intervals.empty()
        for mine in found.values():
            taken = taken | mine
        work = Intervals.empty()
        for events, rows in _operations(self.trace):
            work = work | union(events.start_ns[rows], events.end_ns[rows])
        work = work - taken
        still = self.long_gaps
        return {**found, HOST_BLOCKED: work & still, HOST_WORK: work - still}

    @cached_property
    def long_gaps(self) -> Intervals:
        """Intervals of at least ``STANDSTILL_NS`` in which nothing begins or ends on any thread."""
        operations = list(_operations(self.trace))
        starts = [events.start_ns[rows] for events, rows in operations]
        ends = [events.end_ns[rows] for events, rows in operations]
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
    return next(
        (one.cause for one in RULES if re.search(one.patterns.get(group, r"(?!)"), name)), None
    )


def _rows_named(trace: RankTrace, names: Mapping[Group, list[int]], rule: _Rule) -> _Chosen:
    """Yield the events whose names match a rule; ``names`` are the name ids of each group."""
    for group, text in rule.patterns.items():
        pattern = re.compile(text)
        fitting = [i for i in names[group] if pattern.search(trace.text(i))]
        if fitting:
            events = trace.group(group)
            yield events, np.flatnonzero(any_name(trace.strings, events.name, fitting))


def _operations(trace: RankTrace) -> _Chosen:
    for group in _OPERATIONS:
        events = trace.group(group)
        named = events.name >= 0
        yield events, slice(None) if named.all() else np.flatnonzero(named)


def _collected(chosen: _Chosen) -> NamedRanges:
    """Join rows of several groups of events in order of start."""
    columns = [(one.start_ns[rows], one.dur_ns[rows], one.name[rows]) for one, rows in chosen]
    if not columns:
        none = np.empty(0, np.int64)
        return NamedRanges(none, none, none.astype(np.int32))
    start, dur, name = (np.concatenate(parts) for parts in zip(*columns, strict=True))
    if len(columns) > 1:
        order = np.argsort(start, kind="stable")
        start, dur, name = start[order], dur[order], name[order]
    return NamedRanges(start, start + dur, name)
