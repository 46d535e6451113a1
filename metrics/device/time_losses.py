"""Divide the time in which devices do not compute among its causes.

These are waiting for stragglers, exposed communication, copies, and idle time by cause. The parts
are disjoint on each rank.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.intervals import Intervals, union
from ccltui.metrics.arrays.reductions import distinct_values
from ccltui.metrics.collectives.causes.root_rule import root_by_rank
from ccltui.metrics.collectives.lateness import lag_tables
from ccltui.metrics.collectives.lateness.arrivals import GroupArrivals
from ccltui.metrics.collectives.reports.root_waiting import root_waiting
from ccltui.metrics.device.idle_gaps import Gaps, idle_gaps, require_launches
from ccltui.metrics.device.idle_split import CAUSES, HOST_CAUSES, causes_ns
from ccltui.metrics.model.classify import TYPES
from ccltui.metrics.unavailable import Refusal
from ccltui.metrics.view.collective_selection import Part, chosen_of, parts_of, require_ranks
from ccltui.metrics.view.match_quality import require_possible
from ccltui.parsers.array_types import I32, I64, Bool

if TYPE_CHECKING:
    from ccltui.metrics.model.calls import Calls
    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.rank_view import RankView

Kind = Literal["straggler", "communication", "copies", "idle"]

MAX_STRAGGLERS: Final = 8
"""Number of stragglers listed one by one; waits for other ranks are summed as `OTHERS`."""
OTHERS: Final = "others"
UNKNOWN: Final = "unknown"


@dataclass(frozen=True, slots=True)
class Place:
    """The largest instance of a loss; ``time_ns`` is on the own clock of the rank ``label``.

    ``number`` and ``row`` are the group in ``view.arrivals.groups`` and the row of a matched
    collective in it, -1 where the instance is no collective.
    """

    label: str
    time_ns: int
    number: int = -1
    row: int = -1


@dataclass(slots=True)
class Loss:
    """Time lost to one cause.

    Attributes:
        kind: kind of the cause.
        what: label of a straggler, or of the rank that delayed it; name of a collective, or of a
            cause of idle time.
        group: index of the communicator of a collective, else -1.
        by_rank: ns lost by rank label.
        place: the largest instance.
        weight: size of the largest instance, by which places are compared.
    """

    kind: Kind
    what: str
    group: int = -1
    by_rank: dict[str, int] = field(default_factory=dict)
    place: Place | None = None
    weight: int = -1

    @property
    def lost_ns(self) -> int:
        """Time lost on all ranks, in ns."""
        return sum(self.by_rank.values())

    def add(self, label: str, lost_ns: int, place: Place | None, weight: int) -> None:
        """Add the loss of one rank; of all places the one of the largest weight is stored."""
        self.by_rank[label] = self.by_rank.get(label, 0) + lost_ns
        if place is not None and (weight, place.label) > (
            self.weight,
            "" if self.place is None else self.place.label,
        ):
            self.place, self.weight = place, weight


def losses(view: View, ranks: Sequence[RankView]) -> list[Loss]:
    """Return all losses, the largest first; ``ranks`` have device work.

    Metrics of one view share the result.
    """
    key = (losses, tuple(rank.label for rank in ranks))
    return view.remember(key, lambda: _divided(view, ranks))


def _divided(view: View, ranks: Sequence[RankView]) -> list[Loss]:
    found: dict[tuple[Kind, str, int], Loss] = {}
    waits = _Waits(view)
    explained = _has_launches(ranks)
    for rank in ranks:
        kernels = rank.comp | rank.comm
        exposed = rank.comm - (rank.comp | rank.mem)
        exposed = _take_waits(found, waits, rank, exposed)
        _take_communication(found, view, rank, exposed)
        _loss(found, "copies", "copies").add(
            rank.label, (rank.mem - rank.comp).total_ns, *_longest(rank.label, rank.mem - kernels)
        )
        _take_idle(found, rank, explained=explained)
    kept = [loss for loss in found.values() if loss.lost_ns > 0]
    return sorted(kept, key=lambda loss: (-loss.lost_ns, loss.kind, loss.what, loss.group))


def _loss(found: dict[tuple[Kind, str, int], Loss], kind: Kind, what: str, group: int = -1) -> Loss:
    return found.setdefault((kind, what, group), Loss(kind, what, group))


def _longest(label: str, time: Intervals) -> tuple[Place | None, int]:
    """Start of the longest interval, and its length."""
    if not len(time):
        return None, -1
    length = time.end_ns - time.start_ns
    at = int(length.argmax())
    return Place(label, int(time.start_ns[at])), int(length[at])


class _Column(Struct, frozen=True):
    """A member of a group; of its instances the late ones, and the member that delayed each."""

    arrived: GroupArrivals
    member: int
    late: Bool
    last: I32


class _Waits:
    """Waits of ranks for stragglers, from the matched collectives that a view selects."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._parts = _reliable_parts(view)
        self._places: dict[str, Place] = {}
        caused: defaultdict[str, int] = defaultdict(int)
        worst: dict[str, int] = {}
        for part in self._parts:
            for straggler, wait, longest, row in _stragglers(part):
                caused[straggler] += wait
                if longest > worst.get(straggler, -1):
                    worst[straggler] = longest
                    self._places[straggler] = self._place(part, row, straggler)
        self._roots = _roots(view) if self._parts else {}
        behind: defaultdict[str, int] = defaultdict(int)
        for label, wait in caused.items():
            root = self._roots.get(label, label)
            behind[root] += wait
            if root != label and (root not in worst or worst[label] > worst[root]):
                worst[root], self._places[root] = worst[label], self._places[label]
        self._of_label: defaultdict[str, list[_Column]] = defaultdict(list)
        for part in self._parts:
            last = part.arrived.delaying
            late = part.rows & (last >= 0)
            for member in part.columns.tolist():
                self._of_label[part.arrived.labels[member]].append(
                    _Column(part.arrived, member, late, last)
                )
        order = sorted(behind, key=lambda label: (-behind[label], label))
        self.stragglers = order[:MAX_STRAGGLERS]

    def _place(self, part: Part, row: int, straggler: str) -> Place:
        calls = self._view.facts.calls[straggler]
        column = part.arrived.labels.index(straggler)
        start = calls.start_ns[part.arrived.match.rows[row, column]]
        return Place(straggler, int(start), part.number, row)

    def place(self, straggler: str) -> Place | None:
        """Return the collective with the longest wait for a straggler."""
        return self._places.get(straggler)

    def of(self, label: str) -> Iterator[tuple[str, Intervals]]:
        """Yield each straggler and the times that a rank waited for it, the costliest first."""
        by_straggler: defaultdict[str, list[tuple[I64, I64]]] = defaultdict(list)
        calls = self._view.facts.calls[label]
        for one in self._of_label.get(label, ()):
            arrived, column = one.arrived, one.member
            rows = np.flatnonzero(one.late & (arrived.wait_ns[:, column] > 0))
            start = calls.start_ns[arrived.match.rows[rows, column]]
            end = start + arrived.wait_ns[rows, column]
            last = one.last[rows]
            for member in distinct_values(last).tolist():
                chosen = last == member
                straggler = self._roots.get(arrived.labels[member], arrived.labels[member])
                name = straggler if straggler in self.stragglers else OTHERS
                by_straggler[name].append((start[chosen], end[chosen]))
        for name in (*self.stragglers, OTHERS):
            if name in by_straggler:
                starts, ends = zip(*by_straggler[name], strict=True)
                yield name, union(np.concatenate(starts), np.concatenate(ends))


def _roots(view: View) -> Mapping[str, str]:
    """Return the rank that delayed each late rank, where most of its lag ends at another one."""
    return root_by_rank(root_waiting(view).behind)


def _reliable_parts(view: View) -> list[Part]:
    """Groups whose arrivals identify stragglers; none where the matching is not reliable."""
    try:
        require_ranks(view)
        parts = parts_of(view)
        chosen = chosen_of(view)
        pairs = [(part.arrived, part.rows) for part in parts]
        require_possible(lag_tables.match_table(chosen, pairs))
    except Refusal:
        return []
    return parts


def _stragglers(part: Part) -> Iterator[tuple[str, int, int, int]]:
    """Straggler, total wait it caused, longest wait it caused, and the instance of the latter."""
    arrived, rows = part.arrived, np.flatnonzero(part.rows & part.arrived.delays)
    last = arrived.delaying[rows]
    wait = np.maximum(arrived.wait_ns[rows][:, part.columns], 0).sum(axis=1)
    for member in distinct_values(last[last >= 0]).tolist():
        caused = np.where(last == member, wait, -1)
        if (caused[1:] > 0).any():
            caused[
                0
            ] = -1  # events before the first collective were not recorded: its cause is unknown
        at = int(caused.argmax())
        total = int(wait[last == member].sum())
        yield arrived.labels[member], total, int(caused[at]), int(rows[at])


def _take_waits(
    found: dict[tuple[Kind, str, int], Loss], waits: _Waits, rank: RankView, exposed: Intervals
) -> Intervals:
    """Add the exposed time in which a rank waited; return the rest."""
    for straggler, time in waits.of(rank.label):
        left = exposed - time
        lost = exposed.total_ns - left.total_ns
        _loss(found, "straggler", straggler).add(rank.label, lost, waits.place(straggler), lost)
        exposed = left
    return exposed


def _take_communication(
    found: dict[tuple[Kind, str, int], Loss], view: View, rank: RankView, exposed: Intervals
) -> None:
    """Divide exposed communication by collective and communicator, the longest first."""
    calls = rank.device_calls
    parts = sorted(_by_collective(calls), key=lambda part: (-part[2], part[0], part[1]))
    for kind, group, _, rows in parts:
        time = union(calls.start_ns[rows], calls.end_ns[rows]) & exposed
        place, weight = _longest(rank.label, time)
        name = TYPES[kind] if group < 0 else f"{TYPES[kind]} of {view.group_label(group)}"
        _loss(found, "communication", name, group).add(rank.label, time.total_ns, place, weight)
        exposed = exposed - time
    if len(exposed):  # communication kernels that are no call
        place, weight = _longest(rank.label, exposed)
        _loss(found, "communication", UNKNOWN).add(rank.label, exposed.total_ns, place, weight)


def _by_collective(calls: Calls) -> Iterator[tuple[int, int, int, Bool]]:
    """Type, group, total duration and mask of every type of collective of a rank."""
    code = calls.group.astype(np.int64) * len(TYPES) + calls.kind
    for one in distinct_values(code).tolist():
        rows = code == one
        group, kind = divmod(one, len(TYPES))
        yield kind, group, int(calls.dur_ns[rows].sum()), rows


def _has_launches(ranks: Sequence[RankView]) -> bool:
    try:
        require_launches(ranks)
    except Refusal:
        return False
    return True


def _take_idle(
    found: dict[tuple[Kind, str, int], Loss], rank: RankView, *, explained: bool
) -> None:
    gaps = idle_gaps(rank)
    if not explained:
        total = int(gaps.inside_ns.sum())
        _loss(found, "idle", UNKNOWN).add(rank.label, total, *_longest_gap(rank, gaps, UNKNOWN))
        return
    for cause, lost in causes_ns(rank).items():
        if lost:
            place, weight = _longest_gap(rank, gaps, cause)
            _loss(found, "idle", cause).add(rank.label, lost, place, min(weight, lost))


def _longest_gap(rank: RankView, gaps: Gaps, cause: str) -> tuple[Place | None, int]:
    """Start of the longest gap that a cause is possible for, and its length."""
    late = gaps.host_late
    could = {
        **dict.fromkeys((*HOST_CAUSES, "launch_latency"), late),
        **dict.fromkeys(CAUSES[-3:-1], gaps.known & ~late),
    }.get(cause, np.ones(len(gaps), np.bool_))
    if not could.any():
        return None, -1
    at = int(np.where(could, gaps.inside_ns, -1).argmax())
    inside = max(int(gaps.start_ns[at]), int(rank.windows.start_ns[0]))
    return Place(rank.label, inside), int(gaps.inside_ns[at])
