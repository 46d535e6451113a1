"""What one rank's time went into, as sets of time that can be measured between any two moments."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from ccltui.metrics.arrays.intervals import Intervals, union
from ccltui.metrics.arrays.reductions import distinct_values
from ccltui.metrics.collectives.causes.host_work import HOST_CAUSES, HOST_STALL, HostWork
from ccltui.metrics.collectives.causes.kernel_counts import KernelNames
from ccltui.metrics.model.calls import Calls
from ccltui.metrics.model.classify import COMP, any_name, distinct
from ccltui.metrics.model.rank_facts import RankFacts
from ccltui.parsers.array_types import I64, Bool
from ccltui.parsers.columns import RankTrace

Groups = frozenset[int]

RIGHT_AFTER_NS: Final = 20_000
"""A kernel that had to wait for another begins within some µs of its end."""


OWN: Final = "="
"""Trigger that is a collective of the ranks themselves."""


@dataclass(frozen=True, slots=True)
class Sorts:
    """What kind of group each call of a rank serves, as an index into names all ranks share."""

    number: I64
    names: npt.NDArray[np.str_]

    def __getitem__(self, calls: I64) -> npt.NDArray[np.str_]:
        return np.asarray(self.names[self.number[calls]])

    def are(self, name: str) -> Bool:
        """Which calls serve groups of this kind."""
        return np.asarray((self.names == name)[self.number])


@dataclass(frozen=True, slots=True)
class Layers:
    """Disjoint time: stopped for collectives of some groups, kept by others', and computing."""

    stopped: Intervals
    kept: Intervals
    compute: Intervals


class Activity:
    """One rank's computation, communication, copies and idle time, on its own clock.

    Communication covers copies; what is neither is idle. Where
    no device was recorded, the operators that no other operator encloses stand for kernels.
    ``sorts`` says of each call what kind of group it serves; ``names`` is shared by all ranks.
    """

    def __init__(self, facts: RankFacts, calls: Calls, sorts: Sorts, names: KernelNames) -> None:
        self.trace = facts.trace
        self._names = names
        self.calls = calls
        self.sorts = sorts
        self._facts = facts
        self._layers: dict[tuple[Groups, str], Layers] = {}
        self._foreign: dict[Groups, Bool] = {}

    @cached_property
    def work(self) -> tuple[I64, I64, I64]:
        """Start, duration and name of every piece of computation, sorted by start.

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
        """What the host did."""
        return HostWork(self.trace)

    @cached_property
    def idle(self) -> dict[str, Intervals]:
        """Idle time by what the host did meanwhile: HOST_CAUSES, or HOST_STALL for nothing."""
        busy = self.compute | self.network | self._facts.busy[2]
        host = self.host.apart()
        found = {cause: host[cause] - busy for cause in HOST_CAUSES}
        recorded = busy
        for intervals in host.values():
            recorded = recorded | intervals
        first, last = self.trace.first_ns, self.trace.last_ns
        known = first is not None and last is not None
        found[HOST_STALL] = recorded.gaps(first or 0, last or 0) if known else Intervals.empty()
        return found

    def layers(self, groups: Groups, trigger: str) -> Layers:
        """What the rank stopped for in calls of ``groups`` and of others, and computation.

        Computation hides calls, and calls of ``groups`` those of others, but for those of the
        ``trigger``: what ran beside the call that a rank had to await did not keep it.
        """
        key = (groups, trigger)
        if key not in self._layers:
            foreign = self.foreign(groups)
            awaited = ~foreign if trigger == OWN else foreign & self.sorts.are(trigger)
            first = _time_of(self.calls, awaited)
            compute = self.compute - first
            taken = first | self.compute
            own, other = (_time_of(self.calls, rows) for rows in (~foreign, foreign))
            stopped = first if trigger == OWN else own - taken
            kept = other - (taken | stopped)
            self._layers[key] = Layers(
                stopped, kept if trigger in ("", OWN) else kept | first, compute
            )
        return self._layers[key]

    def triggers(self, times_ns: I64, groups: Groups) -> npt.NDArray[np.str_]:
        """Kind of group whose call ended right before each time: OWN for one of ``groups``.

        "" where none did, or where a piece of computation ended later.
        """
        order, ends_ns = self._by_end
        latest, place = _latest(ends_ns, times_ns)
        computed, _ = _latest(self._computed_ns, times_ns)
        right = (times_ns - latest <= RIGHT_AFTER_NS) & (latest > computed)
        found = np.full(times_ns.shape, "", self.sorts.names.dtype)
        rows = order[place[right]]
        found[right] = np.where(self.foreign(groups)[rows], self.sorts[rows], OWN)
        return found

    def calls_in(self, start_ns: int, end_ns: int) -> slice:
        """Calls that may overlap [start, end): all before have ended, all after begin later."""
        first = np.searchsorted(self._reach, start_ns, side="right")
        return slice(int(first), int(np.searchsorted(self.calls.start_ns, end_ns)))

    @cached_property
    def _reach(self) -> I64:
        """When all calls up to each have ended."""
        return np.maximum.accumulate(self.calls.end_ns)

    @cached_property
    def _by_end(self) -> tuple[I64, I64]:
        """Calls in the order in which they ended, and when."""
        ends_ns = self.calls.end_ns
        order = np.argsort(ends_ns, kind="stable")
        return order, ends_ns.take(order)

    @cached_property
    def _computed_ns(self) -> I64:
        start, dur, _ = self.work
        return np.sort(start + dur, kind="stable")

    def foreign(self, groups: Groups) -> Bool:
        """Calls of other groups than these."""
        if groups not in self._foreign:
            self._foreign[groups] = ~np.isin(self.calls.group, list(groups))
        return self._foreign[groups]


def _latest(ends_ns: I64, times_ns: I64) -> tuple[I64, I64]:
    """The last of ascending ends that is not after each time, and its place; long ago if none."""
    place = np.searchsorted(ends_ns, times_ns, side="right") - 1
    if not len(ends_ns):
        return np.full(times_ns.shape, np.iinfo(np.int64).min // 2), place
    found = np.where(place >= 0, ends_ns.take(np.maximum(place, 0)), np.iinfo(np.int64).min // 2)
    return found, place


def _time_of(calls: Calls, rows: Bool) -> Intervals:
    return union(calls.start_ns[rows], calls.end_ns[rows])


def _outermost(trace: RankTrace) -> Bool:
    """Rows of ``cpu_ops`` that are operators of computation inside no other one."""
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
