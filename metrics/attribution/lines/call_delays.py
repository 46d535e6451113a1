"""Idle time at the begin of lines, and delays of calls that are not those of a host."""

from __future__ import annotations

import numpy as np

from ccltui.metrics.attribution.lines.call_table import CallTable
from ccltui.metrics.attribution.lines.line_times import LineTimes
from ccltui.parsers.array_types import I64


def begun(own: LineTimes, table: CallTable) -> I64:
    """Return the time from the origin of each line to its first kernel or call."""
    count = table.num_lines
    _, found, _, _ = own.along(np.arange(count), np.zeros(count, np.int64))
    np.minimum.at(found, table.line, table.start_ns)
    return np.where(found < np.iinfo(np.int64).max, np.maximum(found, 0), 0)


def own_delays(delay: I64, table: CallTable, tolerance_ns: int) -> I64:
    """Return the delays of calls without what they wait for each other outside of the call.

    Copies to other ranks begin when all are ready: no member is longer than the others then, and
    only the least delay of them is one of the host.
    """
    linked = np.flatnonzero(table.instance >= 0)
    instance = table.instance[linked]
    count = len(table.transfer_ns)
    longest, least = np.zeros(count, np.int64), np.full(count, np.iinfo(np.int64).max)
    np.maximum.at(longest, instance, table.dur_ns[linked])
    np.minimum.at(least, instance, delay[linked])
    together = longest - table.transfer_ns <= tolerance_ns
    found = delay.copy()
    found[linked] = np.where(together[instance], least[instance], delay[linked])
    return found
