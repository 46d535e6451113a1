"""Find the collectives of other groups that delayed a late rank, and the last rank there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.intervals import Intervals, union
from ccltui.metrics.arrays.reductions import unique_counts
from ccltui.metrics.collectives.causes.cause_search import Causes
from ccltui.metrics.collectives.causes.verdicts import Verdicts
from ccltui.metrics.collectives.lateness.sync_points import SyncPoints
from ccltui.metrics.collectives.matching.group_member import STEP
from ccltui.parsers.array_types import I64, Bool
from ccltui.parsers.columns import MISSING
from ccltui.parsers.system.quick_dataclass import dataclass

MIN_WAIT_SHARE = 0.05
"""Transfers with less than this share of the longest wait are no evidence."""


@dataclass(frozen=True, slots=True)
class Waits:
    """Excess time of a rank in collectives of one kind of other group, and the rank waited for.

    ``excess_ns`` is the excess over the peers; ``waited_ns`` the wait for ``partner``. ``number``
    is the matched group of that wait and ``rows`` its instances; or ``number`` is -1 and ``rows``
    are the calls of ``partner`` on the other side of transfers. ``worst`` indexes ``rows``.
    ``peer_partners`` holds the labels and call rows [k, m] of the ranks that were to the peers
    what ``partner`` (the first) was to the late rank. ``unmatched_ns`` is the time in calls whose
    other ranks are not known. ``is_sure`` is False where any match lacks a sequence number: of
    calls lined up otherwise, members may be missing. ``unmatched`` are the rows of the calls of the
    late rank that ``unmatched_ns`` counts, the longest half of that time.
    """

    partner: str
    number: int
    rows: I64
    worst: int
    waited_ns: int
    excess_ns: int
    peer_partners: tuple[tuple[str, ...], I64] | None = None
    unmatched_ns: int = 0
    is_sure: bool = True
    unmatched: I64 = field(default_factory=lambda: np.empty(0, np.int64))


class _ForeignCalls(Struct, frozen=True):
    """Calls of one rank in other groups during its segments, in order of time.

    ``kind`` is the kind of group, or of transfer: a number of `GroupKinds`.
    """

    row: I64
    kind: I64
    exposed_ns: I64
    waited_ns: I64

    def by_kind(self, count: int) -> I64:
        """Return the exposed time by kind of group, int64 ns [count]."""
        # float64 counts whole nanoseconds exactly up to 104 days
        return np.bincount(self.kind, self.exposed_ns, count).astype(np.int64)

    def of(self, kind: int) -> _ForeignCalls:
        """Select the calls of one kind of group."""
        here = self.kind == kind
        return _ForeignCalls(
            self.row[here], self.kind[here], self.exposed_ns[here], self.waited_ns[here]
        )


def waits_of(causes: Causes, labels: tuple[str, ...], found: Verdicts) -> Waits | None:
    """Return what delayed the late rank of ``found`` (the same in all); None without such calls."""
    points = causes.points(labels)
    start = found.segments.start
    known = np.flatnonzero(start.since >= 0)
    if not len(known):
        return None
    begin, end = points.arrival_ns[start.since[known]], found.targets.time_ns[known]
    late = int(found.targets.late[0])
    peers = np.flatnonzero(start.punctual[known].any(axis=0)).tolist()

    def foreign_calls(member: int) -> _ForeignCalls:
        spans = union(begin[:, member], end[:, member])
        trigger = int(start.triggers[known[0], member])
        return _foreign(causes, points, member, spans, trigger=trigger)

    mine, theirs = foreign_calls(late), [foreign_calls(i) for i in peers]
    if not len(mine.row) or not peers:
        return None
    kind, excess_ns = _most_excess(
        mine, theirs, causes.activity(points.labels[late]).group_kinds.names.tolist()
    )
    peer_partners = [(points.labels[i], one.of(kind)) for i, one in zip(peers, theirs, strict=True)]
    return _longest_wait(causes, points.labels[late], mine.of(kind), peer_partners, excess_ns)


def _foreign(
    causes: Causes, points: SyncPoints, member: int, segments: Intervals, *, trigger: int
) -> _ForeignCalls:
    """Return the calls of a rank in other groups, with hidden time for the kind ``trigger``."""
    label = points.labels[member]
    activity, partners = causes.activity(label), causes.partners[label]
    first, last = int(segments.start_ns[0]), int(segments.end_ns[-1])
    near = activity.calls_in(first, last)
    calls, foreign = activity.calls, activity.foreign(points.groups)[near]
    start = calls.start_ns[near]
    other_comm = activity.layers(points.groups, trigger).other_comm
    open_time = other_comm.clip(first, last)
    if len(segments) > 1:
        open_time = open_time & segments
    exposed = open_time.before(start + calls.dur_ns[near]) - open_time.before(start)
    row = np.flatnonzero(foreign & (exposed > 0))
    at = near.start + row
    return _ForeignCalls(
        row=at,
        kind=activity.group_kinds.number[at],
        exposed_ns=exposed[row],
        waited_ns=np.minimum(exposed[row], partners.wait_ns[at]),
    )


def _most_excess(
    mine: _ForeignCalls, theirs: Sequence[_ForeignCalls], names: Sequence[str]
) -> tuple[int, int]:
    """Return the kind of group with most excess over the median of the peers, and its ns."""
    others = np.sort([one.by_kind(len(names)) for one in theirs], axis=0)
    usual = (others[(len(others) - 1) // 2] + others[len(others) // 2]) // 2
    more = mine.by_kind(len(names)) - usual
    best = max(sorted(set(mine.kind.tolist()), key=lambda i: names[i]), key=lambda i: more[i])
    return best, int(more[best])


def _longest_wait(
    causes: Causes,
    label: str,
    mine: _ForeignCalls,
    theirs: Sequence[tuple[str, _ForeignCalls]],
    excess_ns: int,
) -> Waits:
    """Return the rank that the late rank waited for longest in collectives of one kind."""
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
    loose = np.flatnonzero((number < 0) & (across < 0))
    unmatched_ns = int(mine.exposed_ns[loose].sum())
    loose = loose[np.argsort(-mine.exposed_ns[loose], kind="stable")]
    most = np.searchsorted(np.cumsum(mine.exposed_ns[loose]), unmatched_ns / 2) + 1
    unmatched = mine.row[loose[:most]]
    sure = all(
        causes.arrivals.groups[n].match.level[i] < STEP
        for n, i in zip(number.tolist(), instance.tolist(), strict=True)
        if n >= 0
    )
    if not total:
        return Waits(
            "",
            MISSING,
            mine.row,
            0,
            0,
            excess_ns,
            unmatched_ns=unmatched_ns,
            is_sure=sure,
            unmatched=unmatched,
        )
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
            excess_ns,
            unmatched_ns=unmatched_ns,
            is_sure=sure,
            unmatched=unmatched,
        )
    long_enough = chosen[waited >= MIN_WAIT_SHARE * waited.max()]
    rows = partners.other_row[mine.row[long_enough]]
    worst = int(mine.waited_ns[long_enough].argmax())
    places = long_enough - len(mine.row)  # from the end, where windows close together
    peer_partners = _peer_partners(causes, best[0], rows, places, theirs)
    return Waits(
        best[0],
        MISSING,
        rows,
        worst,
        total[best],
        excess_ns,
        peer_partners,
        unmatched_ns,
        unmatched=unmatched,
    )


def _last(causes: Causes, number: int, instance: int) -> str:
    """Return the last rank of an instance, "" where none is matched."""
    if number < 0:
        return ""
    group = causes.arrivals.groups[number]
    return group.labels[int(group.dur_ns[instance].argmin())]


def _peer_partners(
    causes: Causes,
    partner: str,
    rows: I64,
    places: I64,
    theirs: Sequence[tuple[str, _ForeignCalls]],
) -> tuple[tuple[str, ...], I64] | None:
    """Return the other side of each peer's transfers, at the same places, beside ``partner``.

    Rows on which a peer has another partner than usual are dropped; None where none remain.
    """
    labels, columns = [partner], [rows]
    agree: Bool = np.ones(len(rows), np.bool_)
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
        agree &= other == usual
    if len(labels) < 2 or not agree.any():
        return None
    return tuple(labels), np.stack(columns, axis=1)[agree]
