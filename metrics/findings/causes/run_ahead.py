"""Sync points at which the late rank was already behind its peers in its program.

While ranks wait in a collective for a late rank, they may run the work behind it, as where
gradients are reduced on a stream of their own. The late rank runs the same work after that
collective: it has no more than they have, and what made it late lies before that point.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from ccltui.metrics.collectives.arrivals import SyncPoints
from ccltui.metrics.findings.causes.activity import Activity
from ccltui.parsers.array_types import I64, Bool

AT_EDGES: Final = 4
"""Number of kernels by which ranks that run the same program differ where their time begins."""
AHEAD: Final = 0.5
"""A late rank was behind at a point if it began more work than its peers since then, and at most
this share of that surplus since an earlier point: its peers had begun the rest in between."""


class WorkDone:
    """How many kernels and copies members had begun at each sync point, and at each target.

    Members are counted at first use: of a large job only few are asked for.

    Args:
        points: Sync points of the members.
        times_ns: Times of the targets on own clocks, int64 [t, m].
        activities: Activity of each member.
        most_back: Number of points before a point that are looked at.
    """

    def __init__(
        self, points: SyncPoints, times_ns: I64, activities: Sequence[Activity], most_back: int
    ) -> None:
        self._points = points
        self._times_ns = times_ns
        self._activities = activities
        self._most_back = most_back
        self._known: dict[int, tuple[I64, I64]] = {}

    def _of(self, member: int) -> tuple[I64, I64]:
        """Number of pieces of work of a member before each point, and before each target."""
        if member not in self._known:
            count = self._activities[member].pieces_before
            self._known[member] = (
                count(self._points.arrival_ns[:, member]),
                count(self._times_ns[:, member]),
            )
            self._activities[member].settle()
        return self._known[member]

    def behind(self, targets: I64, late: I64, peers: I64, place: I64) -> Bool:
        """Return which late ranks were behind their peers at points, bool [t].

        They began more work since that point than their peers, and no more since an earlier one.

        Args:
            targets: Numbers of t targets.
            late: Late member of each.
            peers: Members to compare with, int64 [t, w]; -1 for none.
            place: Point of each.
        """
        columns = (targets.tolist(), late.tolist(), peers.tolist(), place.tolist())
        rows = (
            self._was_behind(target, (one, *(peer for peer in others if peer >= 0)), point)
            for target, one, others, point in zip(*columns, strict=True)
        )
        return np.fromiter(rows, np.bool_, len(targets))

    def _was_behind(self, target: int, members: Sequence[int], place: int) -> bool:
        """Return whether the first of some members was behind the others at a point."""
        first = max(place - self._most_back, 0)
        begun = [self._begun(target, one, first, place) for one in members]
        more = begun[0] - np.median(np.stack(begun[1:]), axis=0)
        since, before = float(more[-1]), more[:-1]
        return since > 0 and bool((before <= min(AHEAD * since, AT_EDGES)).any())

    def _begun(self, target: int, member: int, first: int, last: int) -> I64:
        """Pieces of work of a member from each of some points to a target."""
        at_points, at_targets = self._of(member)
        return np.asarray(at_targets[target] - at_points[first : last + 1])
