"""Sync points at which the late rank was already behind its peers in its program.

While ranks wait in a collective for a late rank, they may run the work behind it, as where
gradients are reduced on a stream of their own. The late rank runs the same work after that
collective: it has no more than they have, and what made it late lies before that point.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from ccltui.metrics.arrays.reductions import distinct_values, median_along
from ccltui.metrics.collectives.arrivals import SyncPoints
from ccltui.metrics.findings.causes.activity import Activity
from ccltui.parsers.array_types import I64, Bool

AT_EDGES: Final = 4
"""Number of kernels by which ranks that run the same program differ where their time begins."""
AHEAD: Final = 0.5
"""A late rank was behind at a point if it began more work than its peers since then, and at most
this share of that surplus since an earlier point: its peers had begun the rest in between."""
_BLOCK: Final = 2048
"""Targets that are looked at together: some 5 MB, whatever the number of late arrivals is."""


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
        behind = np.zeros(len(targets), np.bool_)
        number = (peers >= 0).sum(axis=1)
        for count in distinct_values(number[number > 0]).tolist():
            alike = np.flatnonzero(number == count)
            others = peers[alike]
            members = np.column_stack((late[alike], others[others >= 0].reshape(-1, count)))
            for begin in range(0, len(alike), _BLOCK):
                some = slice(begin, begin + _BLOCK)
                rows = alike[some]
                behind[rows] = self._were_behind(targets[rows], members[some], place[rows])
        return behind

    def _were_behind(self, targets: I64, members: I64, place: I64) -> Bool:
        """Return whether the first of each row of members was behind the others at a point."""
        # What is before the first point is that point again, which changes no answer.
        points = np.maximum(place[:, None] + np.arange(-self._most_back, 1), 0)
        begun = np.empty((*members.shape, points.shape[1]), np.int64)
        for member in distinct_values(members).tolist():
            at_points, at_targets = self._of(member)
            row, column = np.nonzero(members == member)
            begun[row, column] = at_targets[targets[row], None] - at_points[points[row]]
        more = begun[:, 0] - median_along(begun[:, 1:], axis=1)
        since, before = more[:, -1:], more[:, :-1]
        had_begun = (before <= np.minimum(AHEAD * since, AT_EDGES)).any(axis=1)
        return np.asarray((since[:, 0] > 0) & had_begun)
