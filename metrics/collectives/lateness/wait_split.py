"""Divide the time in collectives into waiting for the last rank and transfer."""

from __future__ import annotations

from ccltui.metrics.arrays.reductions import row_min
from ccltui.metrics.collectives.lateness.blame import Chosen
from ccltui.parsers.array_types import I64, Bool


def transfer_ns(one: Chosen) -> I64:
    """Return the transfer of each instance, int64 ns [n]: the shortest duration over its ranks.

    The last rank to arrive does not wait. What exceeds its duration on another rank is waiting.
    """
    return row_min(one.dur_ns)


def wait_and_transfer(one: Chosen, rows: Bool) -> tuple[int, int]:
    """Return waiting and transfer of some instances (mask), ns summed over all members."""
    size = len(one.members)
    return int(one.lateness.wait_ns[rows].sum()), size * int(transfer_ns(one)[rows].sum())
