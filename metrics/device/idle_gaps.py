"""Find the gaps between pieces of device work, and the launch of the work that ends each gap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from ccltui.metrics.unavailable import refuse
from ccltui.parsers.array_types import I64, Bool

if TYPE_CHECKING:
    from ccltui.metrics.arrays.intervals import Intervals
    from ccltui.metrics.view.rank_view import RankView

UNKNOWN: Final = np.iinfo(np.int64).min
"""Launch time of work without a launch record."""


@dataclass(frozen=True, slots=True)
class Gaps:
    """Idle times of one rank in its windows; int64 arrays of one length.

    Attributes:
        start_ns: end of the work before the gap, also where a window cuts the gap.
        end_ns: start of the work after the gap, also where a window cuts the gap.
        inside_ns: length of the part inside the window.
        launched_ns: launch time of the work after the gap, UNKNOWN where it was not recorded; the
            latest launch where several pieces of work start together.
    """

    start_ns: I64
    end_ns: I64
    inside_ns: I64
    launched_ns: I64

    def __len__(self) -> int:
        return len(self.start_ns)

    @property
    def known(self) -> Bool:
        """Mask of the gaps after which the work has a launch record."""
        return np.asarray(self.launched_ns != UNKNOWN)

    @property
    def host_late(self) -> Bool:
        """Mask of the gaps that began before the work after them was launched."""
        return np.asarray(self.known & (self.launched_ns > self.start_ns))


def require_launches(ranks: Sequence[RankView]) -> None:
    """Refuse where no device work of any rank has a launch record.

    Raises:
        Refusal: correlation ids are missing.
    """
    if all((rank.facts.launch_row < 0).all() for rank in ranks):
        raise refuse("not_applicable", "no device work has a launch record (correlation id)")


def idle_gaps(rank: RankView) -> Gaps:
    """Return all idle times in the rank's windows in order of time."""
    return rank.remember(idle_gaps, lambda: gaps_in(rank, rank.windows))


def gaps_in(rank: RankView, windows: Intervals) -> Gaps:
    """Return all idle times of a rank in given windows, on its own clock, in order of time."""
    work, idle = rank.facts.device_work, windows - rank.facts.device_work
    after = np.searchsorted(work.end_ns, idle.start_ns, side="right")
    has_before, has_after = after > 0, after < len(work)
    start = np.where(has_before, np.append(work.end_ns, 0)[after - 1], idle.start_ns)
    end = np.where(has_after, np.append(work.start_ns, 0)[after], idle.end_ns)
    launched = np.where(has_after, _launch_at(rank, end), UNKNOWN)
    return Gaps(start, end, idle.end_ns - idle.start_ns, launched)


def _launch_at(rank: RankView, times_ns: I64) -> I64:
    """Latest launch of the work that starts at each of ascending times; UNKNOWN without any."""
    gpu, launched = rank.trace.group("gpu"), rank.facts.launched_ns
    if not len(times_ns):
        return np.empty(0, np.int64)
    first = np.searchsorted(gpu.start_ns, times_ns, side="left")
    stop = np.searchsorted(gpu.start_ns, times_ns, side="right")
    padded = np.append(launched, UNKNOWN)  # reduceat needs every edge to be an index
    latest = np.maximum.reduceat(padded, np.stack([first, stop], axis=1).ravel())[::2]
    return np.where(stop > first, latest, UNKNOWN)
