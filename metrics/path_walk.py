"""Backwards through the work that decided when a step ended, from rank to rank.

On one rank, what came before a piece of work is the work that ended last before it began; the gap
between the two is the host's where the launch came later. Through a collective the way leads to
the member that came last: the others waited for it. Durations alone decide, no clock is compared.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from metrics.classify import COMM
from metrics.collectives.match import MEDIUM
from metrics.collectives.partners import Partners
from metrics.idle_gaps import UNKNOWN
from metrics.rank_view import FOREVER_NS
from parsers.columns import I64, MISSING

if TYPE_CHECKING:
    from metrics.collectives.stragglers import GroupArrivals
    from metrics.rank_view import RankView
    from metrics.view import View

PARTS: Final = ("compute", "communication", "memory", "host", "launch", "wait")
_OF_CLASS: Final = ("communication", "compute", "memory")


@dataclass(slots=True)
class Path:
    """What a way back consists of, in ns: by part, by rank, by name of the work."""

    parts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(PARTS, 0))
    by_rank: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    by_work: defaultdict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))
    crossings: int = 0
    pieces: int = 0

    @property
    def total_ns(self) -> int:
        """Length of the whole way."""
        return sum(self.parts.values())

    def add(self, part: str, label: str, length_ns: int) -> None:
        """Take one piece of the way."""
        self.parts[part] += length_ns
        self.by_rank[label] += length_ns


class Lane:
    """The device work of one rank, each piece with what came before it."""

    def __init__(self, rank: RankView, partners: Partners) -> None:
        self.rank = rank
        self.partners = partners
        gpu = rank.trace.group("gpu")
        self.rows = np.flatnonzero(gpu.dur_ns > 0)  # what takes no time decides nothing
        self.start, self.end = gpu.start_ns[self.rows], gpu.end_ns[self.rows]
        self.kind = rank.facts.classes[self.rows]
        self.name = gpu.name[self.rows]
        self.launched = rank.facts.launched_ns[self.rows]
        by_end = np.argsort(self.end, kind="stable")
        place = np.searchsorted(self.end[by_end], self.start, side="right") - 1
        self.before = np.where(place >= 0, by_end[place], MISSING)
        furthest = np.maximum.accumulate(self.end)
        reaches = np.where(self.end == furthest, np.arange(len(self.end)), 0)
        self._ends_last = np.maximum.accumulate(reaches)

    @cached_property
    def call(self) -> I64:
        """Row of the rank's calls that each piece of work is, -1 for other work."""
        calls = self.rank.calls
        of_row = np.full(len(self.rank.facts.classes), MISSING, np.int64)
        if calls.event_group == "gpu":
            of_row[calls.row] = np.arange(len(calls))
        return of_row[self.rows]

    @cached_property
    def of_call(self) -> I64:
        """The reverse: index of the work of each call, -1 where it took no time."""
        found = np.full(len(self.rank.calls), MISSING, np.int64)
        mine = np.flatnonzero(self.call >= 0)
        found[self.call[mine]] = mine
        return found

    def last_before(self, time_ns: int) -> int:
        """The work that ends last of that which began before a time, -1 without any."""
        begun = int(np.searchsorted(self.start, time_ns, side="left"))
        return int(self._ends_last[begun - 1]) if begun else MISSING


class Walk:
    """The ways back through a view; nothing is looked up twice."""

    def __init__(self, view: View) -> None:
        partners = view.facts.causes.partners
        self.view = view
        self.lanes: Mapping[str, Lane] = {
            rank.label: Lane(rank, partners[rank.label])
            for rank in view.ranks
            if rank.facts.has_device
        }

    def back(self, label: str, index: int, opened: Mapping[str, tuple[int, int]]) -> Path:
        """From the end of one piece of work to where the first rank's window opened.

        ``opened`` are the windows (start, end) by label; what lies outside is cut off.
        """
        path = Path()
        reached: dict[str, int] = {}
        while index >= 0:
            other, there = self._last_arriver(label, index)
            # Collectives in another order on another rank would lead around in a circle.
            ahead = reached.get(other, FOREVER_NS)
            if other in opened and int(self.lanes[other].end[there]) <= ahead:
                path.crossings += other != label
                label, index = other, there
            lane = self.lanes[label]
            start, end = opened[label]
            begun = reached[label] = int(lane.start[index])
            length = min(int(lane.end[index]), end) - max(begun, start)
            if length > 0:
                self._take(path, lane, index, length)
            if begun <= start:
                break
            before = int(lane.before[index])
            released = start if before < 0 else max(int(lane.end[before]), start)
            _take_gap(path, lane, index, released)
            if released == start:
                break
            index = before
        return path

    def _take(self, path: Path, lane: Lane, index: int, length: int) -> None:
        part = _OF_CLASS[lane.kind[index]]
        path.add(part, lane.rank.label, length)
        path.by_work[part, lane.rank.trace.text(int(lane.name[index]))] += length
        path.pieces += 1

    def _last_arriver(self, label: str, index: int) -> tuple[str, int]:
        """The same collective on the rank that came last to it, if that is known and here."""
        lane = self.lanes[label]
        call = int(lane.call[index])
        if lane.kind[index] != COMM or call < 0:
            return label, index
        other, row = self._late_side(lane, call)
        if other == label or other not in self.lanes:
            return label, index
        there = int(self.lanes[other].of_call[row])
        return (label, index) if there < 0 else (other, there)

    def _late_side(self, lane: Lane, call: int) -> tuple[str, int]:
        """Label and call of the member that came last; its own where nobody in particular did."""
        own = lane.rank.label
        number = int(lane.partners.number[call])
        if number >= 0:
            arrived = self.view.arrivals.groups[number]
            instance = int(lane.partners.instance[call])
            member = int(arrived.clock_free.last[instance])
            if member < 0 or not _believed(arrived, instance):
                return own, call
            return arrived.labels[member], int(arrived.match.rows[instance, member])
        other = int(lane.partners.other[call])
        if other < 0:
            return own, call
        theirs = self.view.match_inputs[other]
        row = int(lane.partners.other_row[call])
        later = int(theirs.calls.dur_ns[row]) < int(lane.rank.calls.dur_ns[call])
        return (theirs.label, row) if later else (own, call)


def _believed(arrived: GroupArrivals, instance: int) -> bool:
    """Whether the last to arrive at an instance is known well enough to follow."""
    return bool(arrived.eligible[instance]) and int(arrived.confidence[instance]) >= MEDIUM


def _take_gap(path: Path, lane: Lane, index: int, released: int) -> None:
    """Divide the gap before a piece of work: until its launch the host's, then the device's."""
    begun, launched = int(lane.start[index]), int(lane.launched[index])
    if begun <= released:
        return
    if launched == UNKNOWN or launched <= released:
        path.add("wait", lane.rank.label, begun - released)
        return
    launched = min(launched, begun)
    path.add("host", lane.rank.label, launched - released)
    path.add("launch", lane.rank.label, begun - launched)


def last_work(walk: Walk, opened: Mapping[str, tuple[int, int]]) -> tuple[str, int] | None:
    """The work that ended last of all ranks, on corrected clocks; None without any."""
    offsets = walk.view.offsets_ns
    found: list[tuple[int, str, int]] = []
    for label, (start, end) in opened.items():
        index = walk.lanes[label].last_before(end)
        if index >= 0 and int(walk.lanes[label].end[index]) > start:
            ended = min(int(walk.lanes[label].end[index]), end)
            found.append((ended - offsets.get(label, 0), label, index))
    if not found:
        return None
    _, label, index = max(found, key=lambda one: one[0])
    return label, index


def together(paths: Sequence[Path]) -> Path:
    """The sum of several ways."""
    total = Path()
    for path in paths:
        for part, length in path.parts.items():
            total.parts[part] += length
        for label, length in path.by_rank.items():
            total.by_rank[label] += length
        for work, length in path.by_work.items():
            total.by_work[work] += length
        total.crossings += path.crossings
        total.pieces += path.pieces
    return total
