"""Idle time for the host in the segments of lines, and delays of calls.

One compiled pass along the operations takes a seventh of the time of the arrays that give the same
without it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import numpy as np

from ccltui.metrics.arrays.compiled import available
from ccltui.metrics.attribution.lines.call_table import CallTable
from ccltui.metrics.attribution.lines.replay_order import POST, WAIT
from ccltui.metrics.attribution.lines.step_lines import QUEUED_NS, StepLines
from ccltui.parsers.array_types import F64, I8, I64, Bool

PROMPT_NS: Final = 50_000
"""A call that begins this soon after its launch waited for its host."""
_MOST: Final = np.iinfo(np.int64).max


def begun(own: LineTimes, table: CallTable) -> I64:
    """Return the time from the origin of each line to its first kernel or call."""
    count = table.num_lines
    _, found, _, _ = own.along(np.arange(count), np.zeros(count, np.int64))
    np.minimum.at(found, table.line, table.start_ns)
    return np.where(found < np.iinfo(np.int64).max, np.maximum(found, 0), 0)


def own_delays(
    delay: I64, table: CallTable, tolerance_ns: int, lead_of: Callable[[], I64] | None = None
) -> I64:
    """Return the delays of calls without what they wait for each other outside of the call.

    Copies to other ranks begin when all are ready: no member is longer than the others then. Where
    the launches tell who was last, the delay is of that host alone, else the least delay of all.

    Args:
        delay: of each call, ns.
        table: the calls.
        tolerance_ns: by which the durations of members may differ.
        lead_of: returns how long before its begin each call was launched, ns, -1 where not known;
            None where no launch is known.
    """
    linked = np.flatnonzero(table.instance >= 0)
    instance = table.instance[linked]
    count = len(table.transfer_ns)
    longest, least = np.zeros(count, np.int64), np.full(count, _MOST)
    np.maximum.at(longest, instance, table.dur_ns[linked])
    np.minimum.at(least, instance, delay[linked])
    together = longest - table.transfer_ns <= tolerance_ns
    own = least[instance]
    late = together & (least > tolerance_ns) & (least < _MOST)
    if late.any() and lead_of is not None:
        own = _of_last(delay[linked], own, lead_of()[linked], instance, late)
    found = delay.copy()
    found[linked] = np.where(together[instance], own, delay[linked])
    return found


def _of_last(delay: I64, own: I64, lead: I64, instance: I64, late: Bool) -> I64:
    """Return the delays of hosts, those of late instances to whoever was launched last of all.

    Where even that launch came long before the begin, or one is not known, nothing tells who it is.
    """
    shortest = np.full(len(late), _MOST)
    np.minimum.at(shortest, instance, lead)
    told = (late & (shortest >= 0) & (shortest <= PROMPT_NS))[instance]
    is_last = lead <= shortest[instance] + PROMPT_NS
    return np.where(told, np.where(is_last, delay, 0), own)


class LineTimes:
    """Times along the lines of all ranks, by line and position."""

    def __init__(self, ranks: Sequence[StepLines], table: CallTable) -> None:
        self.ranks, self.rank = ranks, table.rank
        sizes = [len(one.steps) for one in ranks]
        self.place = np.concatenate([np.arange(count) for count in sizes])
        self.first = np.concatenate([one.first for one in ranks])
        self.size = np.concatenate([one.stop - one.first for one in ranks])
        self.origin = np.concatenate([one.origin_ns for one in ranks])

    def busy(self, lines: I64, at: I64) -> F64:
        """Busy time from the begin of each line to each position, [lines, positions]."""
        found = np.empty((len(lines), len(at)))
        for row, line in enumerate(lines.tolist()):
            busy, first = self.ranks[self.rank[line]].busy_ns, self.first[line]
            found[row] = busy[first + at] - busy[first]
        return found

    def along(self, line: I64, at: I64) -> tuple[I64, I64, I64, I64]:
        """By operation: end of the work before it, start of the kernel at it, idle sums.

        Times are from the origin of the line; the sums are of idle time before the kernel and
        through it. Where no kernel follows, its start is the largest int64.
        """
        before, start = np.zeros(len(at), np.int64), np.full(len(at), np.iinfo(np.int64).max)
        idle, through = np.zeros(len(at), np.int64), np.zeros(len(at), np.int64)
        edges = np.searchsorted(self.rank[line], np.arange(len(self.ranks) + 1))
        for index, one in enumerate(self.ranks):
            here = slice(int(edges[index]), int(edges[index + 1]))
            lines = line[here]
            place, origin = self.first[lines] + at[here], self.origin[lines]
            if not len(one.start_ns):
                continue
            inner = at[here] > 0
            before[here] = np.where(inner, one.reach_ns[np.maximum(place - 1, 0)] - origin, 0)
            held = at[here] < self.size[lines]
            next_start = one.start_ns[np.minimum(place, len(one.start_ns) - 1)] - origin
            start[here] = np.where(held, next_start, start[here])
            idle[here] = one.gap_ns[place]
            through[here] = one.gap_ns[np.minimum(place + 1, len(one.gap_ns) - 1)]
        return before, start, idle, through


HostTimes: TypeAlias = tuple[F64, I64, I64, int, int]
_NEVER: Final = np.iinfo(np.int64).max


def host_times(
    own: LineTimes, table: CallTable, operations: tuple[I64, I8, I64, I64], tolerance_ns: int
) -> HostTimes:
    """Return idle time for the host by segment, and delays of calls, and what began too early.

    Args:
        own: times along the lines.
        table: the calls.
        operations: first operation of each line, and kind, position and call of each operation.
        tolerance_ns: an operation may begin this long before what it depends on has ended.

    Returns:
        Idle time before each operation, float64 ns; of each call the delay from its post and the
        gap behind the call before it, int64 ns; number of operations that began before what they
        depend on had ended, and of those that were checked.
    """
    run = _compiled if available() else _in_arrays
    host, delay, gap, early, checked = run(own, table, operations, tolerance_ns)
    return host, delay, gap, early - _ahead(table, operations, tolerance_ns), checked


def _ahead(table: CallTable, operations: tuple[I64, I8, I64, I64], tolerance_ns: int) -> int:
    """Number of calls that began before the step before had ended, and depend on no work of theirs.

    A program that fetches ahead communicates for a step while its device still computes another.
    """
    first, kind, at, call = operations
    waits = np.cumsum(kind == WAIT)
    waited = waits - np.repeat(np.append(0, waits)[first[:-1]], np.diff(first))
    opening = np.flatnonzero((kind == POST) & (at == 0) & (waited == 0))
    return int((table.start_ns[call[opening]] < -tolerance_ns).sum())


def _compiled(
    own: LineTimes, table: CallTable, operations: tuple[I64, I8, I64, I64], tolerance_ns: int
) -> HostTimes:
    from ccltui.metrics.arrays import _passes  # noqa: PLC0415

    first, kind, at, call = operations
    host = np.zeros(len(kind))
    delay, gap = np.zeros(len(table.line), np.int64), np.zeros(len(table.line), np.int64)
    early = checked = 0
    edges = np.searchsorted(own.rank, np.arange(len(own.ranks) + 1))
    for index, one in enumerate(own.ranks):
        here = slice(int(edges[index]), int(edges[index + 1]))
        found = _passes.host_times(
            first[here.start : here.stop + 1],
            (own.first[here], own.size[here], own.origin[here]),
            (one.start_ns, one.reach_ns, one.gap_ns),
            (kind, at, call),
            (table.start_ns, table.dur_ns, table.behind),
            QUEUED_NS,
            tolerance_ns,
            (host, delay, gap),
        )
        early, checked = early + found[0], checked + found[1]
    return host, delay, gap, early, checked


def _in_arrays(
    own: LineTimes, table: CallTable, operations: tuple[I64, I8, I64, I64], tolerance_ns: int
) -> HostTimes:
    """Return the result of `host_times` without compiled code."""
    first, kind, at, call = operations
    line = np.repeat(np.arange(len(first) - 1), np.diff(first))
    before, start, idle, through = own.along(line, at)
    ends = np.append(table.start_ns + table.dur_ns, 0)[call]
    waits = kind == WAIT
    reached = np.maximum(before, 0)
    reached[waits] = np.maximum(reached[waits], ends[waits])
    span = int(reached.max(initial=0)) + 1
    reached = np.maximum.accumulate(reached + line * span) - line * span
    host = np.zeros(len(kind))
    inner = np.flatnonzero((line[1:] == line[:-1]) & (at[1:] > at[:-1])) + 1
    last = inner - 1
    at_first = np.maximum(start[last] - reached[last], 0)
    host[inner] = at_first + idle[inner] - through[last]
    opening = first[:-1][(at[first[:-1]] > 0)]  # first operations behind kernels of their line
    _, begun, _, counted = own.along(line[opening], np.zeros(len(opening), np.int64))
    host[opening] = np.maximum(begun, 0) + idle[opening] - counted
    posts = np.flatnonzero(kind == POST)
    begun = table.start_ns[call[posts]]
    behind = table.behind[call[posts]]
    ended = (table.start_ns + table.dur_ns)[behind]
    queued = (behind >= 0) & (begun - ended <= QUEUED_NS)
    delay, gap = np.zeros(len(table.line), np.int64), np.zeros(len(table.line), np.int64)
    late = begun - reached[posts]
    delay[call[posts]] = np.where(queued, 0, np.maximum(late, 0))
    gap[call[posts]] = np.where(queued, np.maximum(begun - ended, 0), 0)
    resumed = start[waits]
    held = resumed < _NEVER
    early = int((late < -tolerance_ns).sum())
    early += int((resumed[held] < ends[waits][held] - tolerance_ns).sum())
    return host, delay, gap, early, len(posts) + int(held.sum())
