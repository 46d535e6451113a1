"""Idle time at the begin of lines, and delays of calls that are not those of a host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from ccltui.metrics.attribution.lines.call_table import CallTable
from ccltui.metrics.attribution.lines.line_times import LineTimes
from ccltui.parsers.array_types import I64, Bool

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
