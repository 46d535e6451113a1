"""Busy time of one rank, sampled exactly at any zoom.

A track stores disjoint intervals and the cumulative sum of their lengths, so a cell costs two
binary searches, whatever the number of its events.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from ccltui.parsers.array_types import I64, Bool


class Sample(Struct, frozen=True):
    """A track on a grid of W cells with W + 1 edges."""

    busy: Bool  # [W + 1] busy at the edge (intervals are half-open)
    transitions: I64  # [W] starts and ends strictly between the edges
    first_ns: I64  # [W] time of the first transition; meaningless where there is none
    covered_ns: I64  # [W] busy time inside the cell


class Track(Struct, frozen=True):
    """Sorted, disjoint, half-open intervals in int64 ns; ``sum_ns[i]`` is the length before i."""

    start_ns: I64
    end_ns: I64
    sum_ns: I64

    @classmethod
    def of(cls, start_ns: I64, end_ns: I64) -> Track:
        """Make a track of intervals that are sorted and disjoint."""
        sums = np.zeros(len(start_ns) + 1, np.int64)
        np.cumsum(end_ns - start_ns, out=sums[1:])
        return cls(start_ns, end_ns, sums)

    @classmethod
    def empty(cls) -> Track:
        """Make a track that is never busy."""
        return cls.of(np.empty(0, np.int64), np.empty(0, np.int64))

    def covered_ns(self, edges_ns: I64) -> I64:
        """Busy time inside the cells between ascending ``edges_ns``, as in :meth:`sample`."""
        if not len(self.end_ns):
            return np.zeros(len(edges_ns) - 1, np.int64)
        started = np.searchsorted(self.start_ns, edges_ns, side="right")
        running = self.end_ns[np.maximum(started - 1, 0)] - edges_ns
        before = self.sum_ns[started] - np.where(started > 0, np.maximum(running, 0), 0)
        return np.diff(before)

    def sample(self, edges_ns: I64) -> Sample:
        """Exact coverage of the cells between ascending ``edges_ns``."""
        started = np.searchsorted(self.start_ns, edges_ns, side="right")
        ended = np.searchsorted(self.end_ns, edges_ns, side="right")
        busy = started > ended
        covered = self.sum_ns[started]
        if len(self.end_ns):
            running = self.end_ns[np.maximum(started - 1, 0)] - edges_ns
            covered = covered - np.where(busy, running, 0)
        return Sample(
            busy=busy,
            transitions=_inside(self.start_ns, started, edges_ns)
            + _inside(self.end_ns, ended, edges_ns),
            first_ns=np.minimum(_at(self.start_ns, started[:-1]), _at(self.end_ns, ended[:-1])),
            covered_ns=np.diff(covered),
        )


def _inside(times: I64, passed: npt.NDArray[np.intp], edges_ns: I64) -> I64:
    """Times strictly between neighbouring edges, where ``passed`` counts those up to each edge."""
    if not len(times):
        return np.zeros(len(edges_ns) - 1, np.int64)
    on_edge = (passed > 0) & (times[passed - 1] == edges_ns)
    inside: I64 = np.diff(passed) - on_edge[1:]
    return inside


_NEVER = np.iinfo(np.int64).max


def _at(times: I64, index: npt.NDArray[np.intp]) -> I64:
    """``times[index]``, or the largest time where the index is one past the last."""
    if not len(times):
        return np.full(len(index), _NEVER, np.int64)
    inside = index < len(times)
    return np.where(inside, times[np.minimum(index, len(times) - 1)], _NEVER)


class Lane(Struct, frozen=True):
    """Busy times of one rank: computation, network, both at once, and copies.

    ``waiting`` for late ranks and the ``bubble`` of a pipeline are disjoint parts of the network
    time that no computation hides.
    Times are on the rank's own clock; ``offset_ns`` is that clock minus the job's, at the job's
    time ``drift_from_ns`` where it drifts, by ``drift`` ns per ns.
    """

    label: str
    compute: Track
    network: Track
    both: Track
    offset_ns: int = 0
    drift: float = 0.0
    drift_from_ns: int = 0
    copies: Track = field(default_factory=Track.empty)
    waiting: Track = field(default_factory=Track.empty)
    bubble: Track = field(default_factory=Track.empty)

    def own(self, times_ns: I64) -> I64:
        """Convert times of the job's clock (int64) to that of the rank."""
        drifted = np.rint((times_ns - self.drift_from_ns) * self.drift).astype(np.int64)
        return np.asarray(times_ns + drifted + self.offset_ns)

    def shared(self, own_ns: int) -> int:
        """Convert a time of the rank's clock to that of the job: the inverse of :meth:`own`."""
        undrifted = own_ns - self.offset_ns
        found = undrifted
        for _ in range(2):  # drifts are parts per million: the second iteration is exact
            found = undrifted - round((found - self.drift_from_ns) * self.drift)
        return found
