"""What the time in which devices do not compute is lost to, divided without rest.

Waiting for a rank that comes late, communication that nothing hides, copies, and idle time by
its cause: no moment of a rank counts twice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from ccltui.metrics.arrays.distinct import distinct_values
from ccltui.metrics.arrays.intervals import Intervals, union
from ccltui.metrics.collectives.lateness import lag_tables
from ccltui.metrics.device.idle_gaps import Gaps, idle_gaps, require_launches
from ccltui.metrics.device.idle_split import CAUSES, HOST_CAUSES, causes_ns
from ccltui.metrics.model.classify import TYPES
from ccltui.metrics.unavailable import Refusal
from ccltui.metrics.view.collective_selection import Part, chosen_of, parts_of, require_ranks
from ccltui.metrics.view.match_quality import require_possible

if TYPE_CHECKING:
    from ccltui.metrics.model.calls import Calls
    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.rank_view import RankView
    from ccltui.parsers.array_types import I64, Bool

Kind = Literal["straggler", "communication", "copies", "idle"]

MAX_CULPRITS: Final = 8
"""Ranks that are blamed one by one; waiting for any other counts as waiting for others."""
OTHERS: Final = "others"
UNKNOWN: Final = "unknown"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a loss is seen best: ``time_ns`` is on the own clock of the rank ``label``.

    ``number`` and ``row`` name a matched collective of ``view.arrivals.groups``, -1 where it is
    none.
    """

    label: str
    time_ns: int
    number: int = -1
    row: int = -1


@dataclass(slots=True)
class Loss:
    """Time lost to one thing, ns summed over ranks; ``what`` is a rank, a collective, or a cause.

    ``group`` is the index of a communicator, -1 where none is meant.
    """

    kind: Kind
    what: str
    group: int = -1
    by_rank: dict[str, int] = field(default_factory=dict)
    place: Place | None = None
    weight: int = -1

    @property
    def lost_ns(self) -> int:
        """Over all ranks."""
        return sum(self.by_rank.values())

    def add(self, label: str, lost_ns: int, place: Place | None, weight: int) -> None:
        """Take what one rank lost; the place of the greatest weight is kept."""
        self.by_rank[label] = self.by_rank.get(label, 0) + lost_ns
        if place is not None and (weight, place.label) > (
            self.weight,
            "" if self.place is None else self.place.label,
        ):
            self.place, self.weight = place, weight


def losses(view: View, ranks: Sequence[RankView]) -> list[Loss]:
    """Everything that is lost, the largest first; ``ranks`` have device work."""
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
    """The longest interval as a place, and its length."""
    if not len(time):
        return None, -1
    length = time.end_ns - time.start_ns
    at = int(length.argmax())
    return Place(label, int(time.start_ns[at])), int(length[at])


class _Waits:
    """Who waited for whom, from the matched collectives that a view selects."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._parts = _blaming(view)
        self._places: dict[str, Place] = {}
        caused: defaultdict[str, int] = defaultdict(int)
        worst: dict[str, int] = {}
        for part in self._parts:
            for culprit, wait, longest, row in _blamed(part):
                caused[culprit] += wait
                if longest > worst.get(culprit, -1):
                    worst[culprit] = longest
                    self._places[culprit] = self._place(part, row, culprit)
        order = sorted(caused, key=lambda label: (-caused[label], label))
        self.culprits = order[:MAX_CULPRITS]

    def _place(self, part: Part, row: int, culprit: str) -> Place:
        calls = self._view.facts.calls[culprit]
        column = part.arrived.labels.index(culprit)
        start = calls.start_ns[part.arrived.match.rows[row, column]]
        return Place(culprit, int(start), part.number, row)

    def place(self, culprit: str) -> Place | None:
        """The collective that it made wait longest."""
        return self._places.get(culprit)

    def of(self, label: str) -> Iterator[tuple[str, Intervals]]:
        """Times that a rank waited, by the rank it waited for, those that cost most first."""
        by_culprit: defaultdict[str, list[tuple[I64, I64]]] = defaultdict(list)
        calls = self._view.facts.calls[label]
        for part in self._parts:
            if label not in part.labels:
                continue
            arrived, column = part.arrived, part.arrived.labels.index(label)
            rows = part.eligible
            rows = rows[(arrived.last[rows] >= 0) & (arrived.wait_ns[rows, column] > 0)]
            start = calls.start_ns[arrived.match.rows[rows, column]]
            end = start + arrived.wait_ns[rows, column]
            last = arrived.last[rows]
            for member in distinct_values(last).tolist():
                chosen, culprit = last == member, arrived.labels[member]
                name = culprit if culprit in self.culprits else OTHERS
                by_culprit[name].append((start[chosen], end[chosen]))
        for name in (*self.culprits, OTHERS):
            if name in by_culprit:
                starts, ends = zip(*by_culprit[name], strict=True)
                yield name, union(np.concatenate(starts), np.concatenate(ends))


def _blaming(view: View) -> list[Part]:
    """Groups whose arrivals can blame a rank; none where matching is not to be believed."""
    try:
        require_ranks(view)
        parts = parts_of(view)
        chosen = chosen_of(view)
        pairs = [(part.arrived, part.rows) for part in parts]
        require_possible(lag_tables.match_table(chosen, pairs))
    except Refusal:
        return []
    return parts


def _blamed(part: Part) -> Iterator[tuple[str, int, int, int]]:
    """Culprit, wait it caused in all and at once, and the instance of the latter."""
    arrived, rows = part.arrived, part.eligible
    last = arrived.last[rows]
    wait = np.maximum(arrived.wait_ns[rows][:, part.columns], 0).sum(axis=1)
    for member in distinct_values(last[last >= 0]).tolist():
        caused = np.where(last == member, wait, -1)
        if (caused[1:] > 0).any():
            caused[0] = -1  # what came before the first was not recorded: no cause is seen there
        at = int(caused.argmax())
        total = int(wait[last == member].sum())
        yield arrived.labels[member], total, int(caused[at]), int(rows[at])


def _take_waits(
    found: dict[tuple[Kind, str, int], Loss], waits: _Waits, rank: RankView, exposed: Intervals
) -> Intervals:
    """Count exposed time that a rank only waited; what is left."""
    for culprit, time in waits.of(rank.label):
        left = exposed - time
        lost = exposed.total_ns - left.total_ns
        _loss(found, "straggler", culprit).add(rank.label, lost, waits.place(culprit), lost)
        exposed = left
    return exposed


def _take_communication(
    found: dict[tuple[Kind, str, int], Loss], view: View, rank: RankView, exposed: Intervals
) -> None:
    """Divide exposed communication by collective and communicator, the costliest first."""
    calls = rank.device_calls
    parts = sorted(_by_collective(calls), key=lambda part: (-part[2], part[0], part[1]))
    for kind, group, _, rows in parts:
        time = union(calls.start_ns[rows], calls.end_ns[rows]) & exposed
        place, weight = _longest(rank.label, time)
        name = TYPES[kind] if group < 0 else f"{TYPES[kind]} of {view.group_label(group)}"
        _loss(found, "communication", name, group).add(rank.label, time.total_ns, place, weight)
        exposed = exposed - time
    if len(exposed):  # kernels of communication that stand for no call
        place, weight = _longest(rank.label, exposed)
        _loss(found, "communication", UNKNOWN).add(rank.label, exposed.total_ns, place, weight)


def _by_collective(calls: Calls) -> Iterator[tuple[int, int, int, Bool]]:
    """Type, group, summed duration and mask of every kind of collective of a rank."""
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
    """The longest gap that a cause may have had, and how long it is."""
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
