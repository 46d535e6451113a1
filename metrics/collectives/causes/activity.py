"""Split the time of one rank into computation, communication, copies and idle time.

Each part is a set of disjoint intervals, which can be measured between any two times.
"""

from __future__ import annotations

from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ccltui.metrics.arrays.intervals import Intervals, union
from ccltui.metrics.arrays.reductions import distinct_values
from ccltui.metrics.collectives.causes.host_work import HOST_CAUSES, HOST_STALL, HostWork
from ccltui.metrics.model.calls import Calls
from ccltui.metrics.model.classify import COMP, TYPES, any_name, distinct
from ccltui.metrics.model.rank_facts import RankFacts
from ccltui.parsers.array_types import I32, I64, Bool
from ccltui.parsers.columns import MISSING, RankTrace


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


class GroupKinds(Struct, frozen=True):
    """Kind of group of each call of a rank: ``number`` indexes ``names``, which all ranks share."""

    number: I64
    names: npt.NDArray[np.str_]

    def __getitem__(self, calls: I64) -> npt.NDArray[np.str_]:
        return np.asarray(self.names[self.number[calls]])


class Layers(Struct, frozen=True):
    """Disjoint time in collectives of some groups, in those of other groups, and in computation."""

    own_comm: Intervals
    other_comm: Intervals
    compute: Intervals


_BROADCAST = TYPES.index("Broadcast")


class Activity:
    """One rank's computation, communication, copies and idle time, on its own clock.

    Communication covers copies; what is neither is idle. Where no device was recorded, the
    operators that no other operator encloses replace kernels.

    Args:
        facts: The events of the rank.
        calls: Its collectives and transfers.
        group_kinds: Kind of group of each call.
        names: Numbers of kernel names, shared by all ranks.
    """

    def __init__(
        self, facts: RankFacts, calls: Calls, group_kinds: GroupKinds, names: KernelNames
    ) -> None:
        self.trace = facts.trace
        self._names = names
        self.calls = calls
        self.group_kinds = group_kinds
        self._facts = facts
        self._layers: dict[tuple[Groups, int], Layers] = {}
        self._foreign: dict[Groups, Bool] = {}

    @cached_property
    def work(self) -> tuple[I64, I64, I64]:
        """Start and duration (ns) and name of every piece of computation, sorted by start.

        Names are numbers that all ranks of the job share.
        """
        if self._facts.has_kernels:
            events, rows = self.trace.group("gpu"), self._facts.classes == COMP
        else:
            events = self.trace.group("cpu_ops")
            rows = _outermost(self.trace)
        names = self._names.ids(self.trace, events.name[rows])
        return events.start_ns[rows], events.dur_ns[rows], names

    @cached_property
    def names_end(self) -> int:
        """One more than the highest number of a name in `work`."""
        return int(self.work[2].max(initial=-1)) + 1

    @cached_property
    def compute(self) -> Intervals:
        """Time in computation."""
        if self._facts.has_kernels:
            return self._facts.busy[1]
        start, dur, _ = self.work
        return union(start, start + dur)

    @cached_property
    def network(self) -> Intervals:
        """Time in collectives and transfers."""
        return union(self.calls.start_ns, self.calls.end_ns)

    @cached_property
    def copies(self) -> Intervals:
        """Time in copies and fills that neither computation nor communication covers."""
        return self._facts.busy[2] - (self.compute | self.network)

    @cached_property
    def host(self) -> HostWork:
        """Activity of the host."""
        return HostWork.of(self._facts)

    @cached_property
    def idle(self) -> dict[str, Intervals]:
        """Idle time by activity of the host: HOST_CAUSES, or HOST_STALL where none is recorded."""
        busy = self.compute | self.network | self._facts.busy[2]
        host = self.host.disjoint
        found = {cause: host[cause] - busy for cause in HOST_CAUSES}
        recorded = busy
        for intervals in host.values():
            recorded = recorded | intervals
        first, last = self.trace.first_ns, self.trace.last_ns
        known = first is not None and last is not None
        found[HOST_STALL] = recorded.gaps(first or 0, last or 0) if known else Intervals.empty()
        return found

    def layers(self, groups: Groups, trigger: int) -> Layers:
        """Return exposed time in calls of ``groups`` and of other groups, and computation.

        Computation hides calls, and calls of ``groups`` hide those of other groups. Calls of the
        ``trigger`` are the exception and hide both: the rank had to await them, so what ran at
        the same time did not delay it.
        """
        key = (groups, trigger)
        if key not in self._layers:
            foreign = self.foreign(groups)
            awaited = ~foreign if trigger == OWN else foreign & (self.group_kinds.number == trigger)
            first = _time_of(self.calls, awaited)
            compute = self.compute - first
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
        order, ends_ns = self._by_end
        latest, place = _latest(ends_ns, times_ns)
        computed, _ = _latest(self._computed_ns, times_ns)
        right = (times_ns - latest <= RIGHT_AFTER_NS) & (latest > computed)
        found = np.full(times_ns.shape, NO_TRIGGER, np.int32)
        rows = order[place[right]]
        found[right] = np.where(self.foreign(groups)[rows], self.group_kinds.number[rows], OWN)
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

    @cached_property
    def _by_end(self) -> tuple[I64, I64]:
        """Calls in the order of their ends, and these ends in ns."""
        ends_ns = self.calls.end_ns
        order = np.argsort(ends_ns, kind="stable")
        return order, ends_ns.take(order)

    @cached_property
    def _computed_ns(self) -> I64:
        start, dur, _ = self.work
        return np.sort(start + dur, kind="stable")

    def foreign(self, groups: Groups) -> Bool:
        """Mask of the calls at which the ranks of these groups do not wait for each other.

        These are the calls of other groups, and broadcasts: their receivers wait for the root, so
        that a receiver which is late afterwards inherited it.
        """
        if groups not in self._foreign:
            inside = np.isin(self.calls.group, list(groups))
            self._foreign[groups] = ~inside | (self.calls.kind == _BROADCAST)
        return self._foreign[groups]


def _latest(ends_ns: I64, times_ns: I64) -> tuple[I64, I64]:
    """Return the last of ascending ends not after each time, and its place; far past if none."""
    place = np.searchsorted(ends_ns, times_ns, side="right") - 1
    if not len(ends_ns):
        return np.full(times_ns.shape, np.iinfo(np.int64).min // 2), place
    found = np.where(place >= 0, ends_ns.take(np.maximum(place, 0)), np.iinfo(np.int64).min // 2)
    return found, place


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
