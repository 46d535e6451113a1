"""In which collective of another group a late rank was kept, and who came last there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ccltui.metrics.arrays.intervals import Intervals, union
from ccltui.metrics.arrays.reductions import unique_counts
from ccltui.metrics.collectives.causes.cause_search import Causes
from ccltui.metrics.collectives.causes.verdicts import Verdicts
from ccltui.metrics.collectives.lateness.sync_points import SyncPoints
from ccltui.metrics.collectives.matching.group_member import STEP
from ccltui.parsers.array_types import I64, Bool
from ccltui.parsers.columns import MISSING

NOTABLE = 0.05
"""Transfers that were waited for less than this share of the longest wait say little."""


@dataclass(frozen=True, slots=True)
class Waits:
    """What kept a rank beyond its peers in collectives of one kind of group.

    ``more_ns`` is that excess; ``waited_ns`` the part it waited for ``partner``. ``number`` is
    the matched group in which it did and ``rows`` its instances; or -1 and ``rows`` the calls of
    ``partner`` on the other side of transfers. ``worst`` indexes ``rows``. ``beside`` holds the
    labels and call rows [k, m] of those that did for the peers what ``partner`` (the first) did.
    ``untold_ns`` is its time in those of which the other ranks are not known. ``is_sure`` where
    all are numbered by the library: of those lined up otherwise members may be missing.
    """

    partner: str
    number: int
    rows: I64
    worst: int
    waited_ns: int
    more_ns: int
    beside: tuple[tuple[str, ...], I64] | None = None
    untold_ns: int = 0
    is_sure: bool = True


@dataclass(frozen=True, slots=True)
class _Foreign:
    """Calls of one rank in other groups during its segments, in order of time."""

    row: I64
    sort: I64  # what kind of group, or of transfer: a number of `Sorts`
    exposed_ns: I64
    waited_ns: I64

    def by_sort(self, count: int) -> I64:
        """Exposed time by kind of group, of which there are so many."""
        # float64 counts whole nanoseconds exactly up to 104 days
        return np.bincount(self.sort, self.exposed_ns, count).astype(np.int64)

    def of(self, sort: int) -> _Foreign:
        """Those of one kind of group."""
        here = self.sort == sort
        return _Foreign(
            self.row[here], self.sort[here], self.exposed_ns[here], self.waited_ns[here]
        )


def waits_of(causes: Causes, labels: tuple[str, ...], found: Verdicts) -> Waits | None:
    """Where the late rank of ``found`` (the same in all of them) was kept; None if nowhere."""
    points = causes.points(labels)
    start = found.segments.start
    known = np.flatnonzero(start.since >= 0)
    if not len(known):
        return None
    begin, end = points.arrival_ns[start.since[known]], found.targets.time_ns[known]
    late = int(found.targets.late[0])
    peers = np.flatnonzero(start.punctual[known].any(axis=0)).tolist()

    def of(member: int) -> _Foreign:
        spans = union(begin[:, member], end[:, member])
        trigger = str(start.triggers[known[0], member])
        return _foreign(causes, points, member, spans, trigger=trigger)

    mine, theirs = of(late), [of(i) for i in peers]
    if not len(mine.row) or not peers:
        return None
    sort, more_ns = _most(mine, theirs, causes.activity(points.labels[late]).sorts.names.tolist())
    beside = [(points.labels[i], one.of(sort)) for i, one in zip(peers, theirs, strict=True)]
    return _blamed(causes, points.labels[late], mine.of(sort), beside, more_ns)


def _foreign(
    causes: Causes, points: SyncPoints, member: int, segments: Intervals, *, trigger: str
) -> _Foreign:
    """Calls of a rank in other groups; of the kind ``trigger`` also what is hidden."""
    label = points.labels[member]
    activity, partners = causes.activity(label), causes.partners[label]
    first, last = int(segments.start_ns[0]), int(segments.end_ns[-1])
    near = activity.calls_in(first, last)
    calls, foreign = activity.calls, activity.foreign(points.groups)[near]
    start = calls.start_ns[near]
    kept = activity.layers(points.groups, trigger).kept
    open_time = kept.clip(first, last)
    if len(segments) > 1:
        open_time = open_time & segments
    exposed = open_time.before(start + calls.dur_ns[near]) - open_time.before(start)
    row = np.flatnonzero(foreign & (exposed > 0))
    at = near.start + row
    return _Foreign(
        row=at,
        sort=activity.sorts.number[at],
        exposed_ns=exposed[row],
        waited_ns=np.minimum(exposed[row], partners.wait_ns[at]),
    )


def _most(mine: _Foreign, theirs: Sequence[_Foreign], names: Sequence[str]) -> tuple[int, int]:
    """The kind of group that kept the rank most beyond the median of its peers, and by how much."""
    others = np.sort([one.by_sort(len(names)) for one in theirs], axis=0)
    usual = (others[(len(others) - 1) // 2] + others[len(others) // 2]) // 2
    more = mine.by_sort(len(names)) - usual
    best = max(sorted(set(mine.sort.tolist()), key=lambda i: names[i]), key=lambda i: more[i])
    return best, int(more[best])


def _blamed(
    causes: Causes,
    label: str,
    mine: _Foreign,
    theirs: Sequence[tuple[str, _Foreign]],
    more_ns: int,
) -> Waits:
    """For whom the rank waited longest, in collectives of one kind."""
    partners = causes.partners[label]
    number, instance = partners.number[mine.row], partners.instance[mine.row]
    who = np.array([_last(causes, n, i) for n, i in zip(number, instance, strict=True)], object)
    across = partners.other[mine.row]
    names = np.array(list(causes.inputs), object)
    who = np.where(across >= 0, names[across], who)
    keys = [(str(name), int(n)) for name, n in zip(who, number, strict=True)]
    total: dict[tuple[str, int], int] = {}
    for key, waited in zip(keys, mine.waited_ns.tolist(), strict=True):
        if key[0] not in ("", label):
            total[key] = total.get(key, 0) + waited
    untold_ns = int(mine.exposed_ns[(number < 0) & (across < 0)].sum())
    sure = all(
        causes.arrivals.groups[n].match.level[i] < STEP
        for n, i in zip(number.tolist(), instance.tolist(), strict=True)
        if n >= 0
    )
    if not total:
        return Waits("", MISSING, mine.row, 0, 0, more_ns, untold_ns=untold_ns, is_sure=sure)
    best = max(total, key=lambda key: total[key])
    chosen = np.flatnonzero([key == best for key in keys])
    waited = mine.waited_ns[chosen]
    if best[1] >= 0:
        rows = instance[chosen]
        worst = int(waited.argmax())
        return Waits(
            best[0],
            best[1],
            rows,
            worst,
            total[best],
            more_ns,
            untold_ns=untold_ns,
            is_sure=sure,
        )
    notable = chosen[waited >= NOTABLE * waited.max()]
    rows = partners.other_row[mine.row[notable]]
    worst = int(mine.waited_ns[notable].argmax())
    places = notable - len(mine.row)  # from the end, where windows close together
    beside = _beside(causes, best[0], rows, places, theirs)
    return Waits(best[0], MISSING, rows, worst, total[best], more_ns, beside, untold_ns)


def _last(causes: Causes, number: int, instance: int) -> str:
    """Who came last at an instance, "" where none is matched."""
    if number < 0:
        return ""
    group = causes.arrivals.groups[number]
    return group.labels[int(group.dur_ns[instance].argmin())]


def _beside(
    causes: Causes,
    partner: str,
    rows: I64,
    places: I64,
    theirs: Sequence[tuple[str, _Foreign]],
) -> tuple[tuple[str, ...], I64] | None:
    """Who did for each peer, at the same place among its transfers, what ``partner`` did."""
    labels, columns = [partner], [rows]
    kept: Bool = np.ones(len(rows), np.bool_)
    names = list(causes.inputs)
    for label, one in theirs:
        if len(one.row) < -places.min():
            continue
        partners = causes.partners[label]
        other = partners.other[one.row[places]]
        values, counts = unique_counts(other)
        usual = int(values[counts.argmax()])
        if usual < 0 or names[usual] in labels:
            continue
        labels.append(names[usual])
        columns.append(partners.other_row[one.row[places]])
        kept &= other == usual
    if len(labels) < 2 or not kept.any():
        return None
    return tuple(labels), np.stack(columns, axis=1)[kept]
