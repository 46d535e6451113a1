"""What the host was doing, in the words of a cause: waiting for data, saving, collecting.

A range counts by its name, the first rule that fits. Names are those that PyTorch, its data
loader, its profiler and the CUDA and HIP runtimes write; ranges that only enclose others (steps,
optimizers, whole functions) say nothing and are left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from metrics.classify import any_name, distinct
from metrics.intervals import Intervals, union
from parsers.columns import I32, I64, Group, RankTrace


@dataclass(frozen=True, slots=True)
class _Rule:
    """Names that mean one cause, by the group of events in which they count."""

    cause: str
    patterns: Mapping[Group, re.Pattern[str]]


def _rule(cause: str, **patterns: str) -> _Rule:
    return _Rule(cause, {name: re.compile(text) for name, text in patterns.items()})  # type: ignore[misc]


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
        "synchronisation",
        runtime=r"^(?:cuda|hip)(?:Device|Stream|Event)Synchronize|"
        r"^cu(?:Ctx|Stream|Event)Synchronize|^(?:cuda|hip)Memcpy(?:2D)?$",
        cpu_ops=r"^aten::(?:item|_local_scalar_dense|is_nonzero)$",
    ),
)
HOST_WORK: Final = "host_work"
"""Operators and runtime calls that none of the rules names."""
HOST_STALL: Final = "host_stall"
"""Nothing recorded on the host."""

HOST_CAUSES: Final = (*(rule.cause for rule in RULES), HOST_WORK)

_GROUPS: Final[tuple[Group, ...]] = ("annotations", "cpu_ops", "runtime", "python", "other")


@dataclass(frozen=True, slots=True)
class NamedRanges:
    """Ranges of one cause with their names (ids into the rank's strings), sorted by start."""

    start_ns: I64
    end_ns: I64
    name: I32

    def longest_in(self, start_ns: int, end_ns: int) -> tuple[int, int] | None:
        """Name id and ns inside [start, end) of the name that fills most of it, if any does."""
        stop = int(np.searchsorted(self.start_ns, end_ns))
        inside = np.minimum(self.end_ns[:stop], end_ns) - np.maximum(self.start_ns[:stop], start_ns)
        found = np.flatnonzero(inside > 0)
        if not len(found):
            return None
        names, place = np.unique(self.name[found], return_inverse=True)
        total = np.zeros(len(names), np.int64)
        np.add.at(total, place, inside[found])
        best = int(total.argmax())
        return int(names[best]), int(total[best])


class HostWork:
    """What one rank's host did, by cause."""

    def __init__(self, trace: RankTrace) -> None:
        self.trace = trace
        self.ranges: Mapping[str, NamedRanges] = {
            cause: _ranges(trace, cause) for cause in HOST_CAUSES
        }

    def apart(self) -> dict[str, Intervals]:
        """Disjoint time of each cause: what two claim belongs to the one that is named first."""
        taken, found = Intervals.empty(), {}
        for cause in HOST_CAUSES:
            mine = union(self.ranges[cause].start_ns, self.ranges[cause].end_ns)
            found[cause] = mine - taken
            taken = taken | mine
        return found


def _ranges(trace: RankTrace, cause: str) -> NamedRanges:
    starts, ends, names = [], [], []
    for group in _GROUPS:
        events = trace.group(group)
        chosen = any_name(trace.strings, events.name, _names(trace, group, cause))
        starts.append(events.start_ns[chosen])
        ends.append(events.end_ns[chosen])
        names.append(events.name[chosen])
    start = np.concatenate(starts)
    order = np.argsort(start, kind="stable")
    return NamedRanges(start[order], np.concatenate(ends)[order], np.concatenate(names)[order])


def _names(trace: RankTrace, group: Group, cause: str) -> list[int]:
    """Distinct names of one group of events that mean a cause."""
    known = distinct(trace.group(group).name)
    if cause == HOST_WORK:
        return known if group in ("cpu_ops", "runtime") else []
    rule = next(rule for rule in RULES if rule.cause == cause)
    pattern = rule.patterns.get(group)
    return [] if pattern is None else [i for i in known if pattern.search(trace.text(i))]
