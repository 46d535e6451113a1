"""What one rank's time went into, as sets of time that can be measured between any two moments."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from metrics.calls import Calls
from metrics.classify import COMP, any_name, distinct
from metrics.collectives.host_work import HOST_CAUSES, HOST_STALL, HostWork
from metrics.intervals import Intervals, union
from metrics.rank_facts import RankFacts
from parsers.columns import I32, I64, Bool, RankTrace

Groups = frozenset[int]


class Activity:
    """One rank's computation, communication, copies and idle time, on its own clock.

    Computation covers what runs beside it, communication covers copies; the rest is idle. Where
    no device was recorded, the operators that no other operator encloses stand for kernels.
    """

    def __init__(self, facts: RankFacts, calls: Calls) -> None:
        self.trace = facts.trace
        self.calls = calls
        self._facts = facts
        self._exposed: dict[Groups, tuple[Intervals, Intervals]] = {}

    @cached_property
    def work(self) -> tuple[I64, I64, I32]:
        """Start, duration and name id of every piece of computation, sorted by start."""
        if self._facts.has_kernels:
            events, rows = self.trace.group("gpu"), self._facts.classes == COMP
        else:
            events = self.trace.group("cpu_ops")
            rows = _outermost(self.trace)
        return events.start_ns[rows], events.dur_ns[rows], events.name[rows]

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

    def exposed(self, groups: Groups) -> tuple[Intervals, Intervals]:
        """Time in the calls of ``groups``, and in those of others, that nothing hides.

        What both fill at once belongs to ``groups``.
        """
        if groups not in self._exposed:
            mine = np.isin(self.calls.group, list(groups))
            here = _time_of(self.calls, mine) - self.compute
            there = _time_of(self.calls, ~mine) - (self.compute | here)
            self._exposed[groups] = (here, there)
        return self._exposed[groups]

    def num_pieces(self, start_ns: I64, end_ns: I64) -> I64:
        """How many pieces of computation begin in each [start, end)."""
        begun = self.work[0]
        return np.searchsorted(begun, end_ns) - np.searchsorted(begun, start_ns)


def _time_of(calls: Calls, rows: Bool) -> Intervals:
    return union(calls.start_ns[rows], calls.end_ns[rows])


def _outermost(trace: RankTrace) -> Bool:
    """Rows of ``cpu_ops`` that are operators of computation inside no other one."""
    events = trace.group("cpu_ops")
    named = [i for i in distinct(events.name) if trace.text(i).startswith("aten::")]
    rows = any_name(trace.strings, events.name, named)
    outer = np.zeros(len(rows), np.bool_)
    for track in np.unique(events.track[rows]):
        mine = np.flatnonzero(rows & (events.track == track))
        reach = np.maximum.accumulate(events.end_ns[mine])
        outer[mine[0]] = True
        outer[mine[1:]] = events.start_ns[mine[1:]] >= reach[:-1]
    return outer
