"""Idle time for the host in the segments of lines, and delays of calls.

One compiled pass along the operations takes a seventh of the time of the arrays that give the same
without it.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np

from ccltui.metrics.arrays.compiled import available
from ccltui.metrics.attribution.lines.call_table import CallTable
from ccltui.metrics.attribution.lines.line_times import LineTimes
from ccltui.metrics.attribution.lines.replay_order import POST, WAIT
from ccltui.metrics.attribution.lines.step_lines import QUEUED_NS
from ccltui.parsers.array_types import F64, I8, I64

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
