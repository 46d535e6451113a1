"""Follow late arrivals through collectives of other groups to the root cause.

A rank that was delayed by a collective of another group is not to blame. Of the groups in which it
waited, the one in which it waited most beyond its peers is followed to the rank that arrived last
there, and so on. A receive is followed to its sender, which is compared with the senders of the
peers' receives: where those sent as late, the delay follows from the order of the pipeline and
blames no rank.

Judging one late arrival is a pass over arrays of all its ranks and costs nearly as much as judging
a thousand, so all chains are followed in step: a search that needs verdicts yields a
`VerdictRequest`, and the requests of all searches for the same ranks are judged in one pass.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Final, TypeAlias, TypeVar

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from ccltui.metrics.arrays.intervals import Intervals, union
from ccltui.metrics.arrays.reductions import distinct_values, unique_counts
from ccltui.metrics.collectives.arrivals import SyncPoints
from ccltui.metrics.collectives.matching.match import LOW, MEDIUM
from ccltui.metrics.collectives.matching.validity import STEP
from ccltui.metrics.findings.causes.cause_search import (
    UNKNOWN,
    Causes,
    Link,
    VerdictRequest,
    Verdicts,
    combined,
    may_name,
)
from ccltui.metrics.findings.causes.segments import MAX_COMPARED, OTHER_COLLECTIVE, Targets
from ccltui.metrics.model.calls import Calls
from ccltui.parsers.array_types import I64, Bool
from ccltui.parsers.columns import MISSING

T = TypeVar("T")

Search: TypeAlias = Generator[VerdictRequest, Verdicts, T]
"""A search that yields requests, receives their verdicts and returns its result."""

_MAX_TOGETHER: Final = MAX_COMPARED
"""Beyond so many targets in one pass, kernel names of the last are not compared."""
_MAX_CELLS: Final = 500_000
"""Limit of targets times ranks: a judgement holds some hundred bytes for each."""


def run_searches(causes: Causes, searches: Sequence[Search[T]]) -> list[T]:
    """Run searches in step and return their results in the same order.

    In every round all open requests are judged, those for the same ranks in one pass.
    """
    results: dict[int, T] = {}
    verdicts: dict[int, Verdicts | None] = dict.fromkeys(range(len(searches)))
    while verdicts:
        requests: dict[int, VerdictRequest] = {}
        for index, found in verdicts.items():
            try:
                # a generator that has not started accepts only None
                search = searches[index]
                requests[index] = next(search) if found is None else search.send(found)
            except StopIteration as end:
                results[index] = end.value
        verdicts = dict(_judged(causes, requests))
    return [results[index] for index in range(len(searches))]


def _judged(
    causes: Causes, requests: Mapping[int, VerdictRequest]
) -> Iterator[tuple[int, Verdicts]]:
    """Yield the verdicts on each request with the number of its search."""
    by_ranks: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
    for search, request in requests.items():
        by_ranks[request.labels].append(search)
    for labels, searches in by_ranks.items():
        for portion in _portions(searches, requests):
            parts = [requests[search] for search in portion]
            targets = Targets.joined([one.targets for one in parts])
            limits = np.concatenate([one.limits for one in parts])
            found = causes.judge(VerdictRequest(labels, targets, limits))
            ends = np.cumsum([len(one.targets) for one in parts])
            rows = np.split(np.arange(len(targets)), ends[:-1])
            yield from (
                (search, found.take(mine)) for search, mine in zip(portion, rows, strict=True)
            )


def _portions(
    searches: Sequence[int], requests: Mapping[int, VerdictRequest]
) -> Iterator[list[int]]:
    """Split searches, in order, into portions within the limits of one pass."""
    portion: list[int] = []
    count = 0
    for search in searches:
        size = len(requests[search].targets)
        most = min(_MAX_TOGETHER, _MAX_CELLS // len(requests[search].labels))
        if portion and count + size > most:
            yield portion
            portion, count = [], 0
        portion.append(search)
        count += size
    yield portion


MIN_WAIT_SHARE = 0.05
"""Transfers with less than this share of the longest wait are no evidence."""


class Waits(Struct, frozen=True):
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

    ``kind`` is the kind of group, or of transfer: as numbered by `Causes.kind_names`.
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
    begin, end = points.arrival_ns(start.since[known]), found.targets.time_ns[known]
    late = int(found.targets.late[0])
    peers = np.flatnonzero(start.punctual[known].any(axis=0)).tolist()

    def foreign_calls(member: int) -> _ForeignCalls:
        spans = union(begin[:, member], end[:, member])
        trigger = int(start.triggers[known[0], member])
        return _foreign(causes, points, member, spans, trigger=trigger)

    mine, theirs = foreign_calls(late), [foreign_calls(i) for i in peers]
    if not len(mine.row) or not peers:
        return None
    kind, excess_ns = _most_excess(mine, theirs, causes.kind_names)
    peer_partners = [(points.labels[i], one.of(kind)) for i, one in zip(peers, theirs, strict=True)]
    return _longest_wait(causes, points.labels[late], mine.of(kind), peer_partners, excess_ns)


def _foreign(
    causes: Causes, points: SyncPoints, member: int, segments: Intervals, *, trigger: int
) -> _ForeignCalls:
    """Return the calls of a rank in other groups, with hidden time for the kind ``trigger``."""
    label = points.labels[member]
    activity, partners = causes.activity(label), causes.partners(label)
    first, last = int(segments.start_ns[0]), int(segments.end_ns[-1])
    near = activity.calls_in(first, last)
    calls, foreign = activity.calls, activity.foreign(points.groups)[near]
    start = calls.start_ns[near]
    other_comm = activity.layers(points.groups, trigger).other_comm
    open_time = other_comm.clip(first, last)
    if len(segments) > 1:
        open_time = open_time & segments
    exposed = open_time.within(start, start + calls.dur_ns[near])
    row = np.flatnonzero(foreign & (exposed > 0))
    at = near.start + row
    kind = activity.group_kinds[at]
    activity.settle()
    return _ForeignCalls(
        row=at,
        kind=kind,
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
    partners = causes.partners(label)
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
    nobody = Waits(
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
    if not total:
        return nobody
    best = max(total, key=lambda key: total[key])
    found = replace(nobody, partner=best[0], waited_ns=total[best])
    chosen = np.flatnonzero([key == best for key in keys])
    waited = mine.waited_ns[chosen]
    if best[1] >= 0:
        return replace(found, number=best[1], rows=instance[chosen], worst=int(waited.argmax()))
    long_enough = chosen[waited >= MIN_WAIT_SHARE * waited.max()]
    rows = partners.other_row[mine.row[long_enough]]
    places = long_enough - len(mine.row)  # from the end, where windows close together
    return replace(
        found,
        rows=rows,
        worst=int(mine.waited_ns[long_enough].argmax()),
        peer_partners=_peer_partners(causes, best[0], rows, places, theirs),
        is_sure=True,
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
        partners = causes.partners(label)
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


PIPELINE: Final = "pipeline"
SLOW_TRANSFER: Final = "slow_transfer"
NOT_RECORDED: Final = "not_recorded"
"""Cause at the end of a chain whose last rank has no file."""

MAX_LINKS: Final = 256
"""Longest chain: lateness passes through a pipeline once per stage in each direction."""
MIN_WAITED_SHARE: Final = 0.3
"""A rank that waited for others for less than this share of its delay had slow transfers."""
MIN_INHERITED_SHARE: Final = 0.25
"""A link with less than this share of the first lag explains little of it: confidence LOW."""
MIN_SENDER_EXCESS: Final = 0.25
"""A sender less late than this share of the wait, against the other senders, sent in turn."""


class _ChainEnd(Struct, frozen=True):
    """A cause that ends a chain, and the upper bound of its confidence."""

    cause: str
    limit: int


_Step: TypeAlias = tuple[tuple[str, ...], Link] | _ChainEnd
"""The next link with the ranks whose comparison gives its cause, or the end."""
_TOO_LONG: Final = _ChainEnd(UNKNOWN, LOW)


def chain_of(causes: Causes, number: int, row: int) -> tuple[Link, ...]:
    """Return the blame chain of an eligible instance ``row`` of the matched group ``number``.

    The first link is the last rank of the instance, with the lag of the instance; the cause of
    the last link is the root cause.
    """
    return chains_of(causes, [(number, row)])[0]


def chains_of(causes: Causes, starts: Sequence[tuple[int, int]]) -> list[tuple[Link, ...]]:
    """Return the chains of several instances (number, row), followed in step with joint passes."""
    new = {start: _links(causes, *start) for start in starts if start not in causes.chains}
    causes.chains.update(zip(new, run_searches(causes, list(new.values())), strict=True))
    return [causes.chains[start] for start in starts]


def _links(causes: Causes, number: int, row: int) -> Search[tuple[Link, ...]]:
    arrived = causes.arrivals.groups[number]
    found = yield from _verdicts(causes, number, np.array([row]))
    late = int(found.targets.late[0])
    first = _link(
        found,
        label=arrived.labels[late],
        number=number,
        row=row,
        kind=int(arrived.match.kind[row]),
        group=arrived.match.group,
        lag_ns=int(arrived.lag_ns[row]),
    )
    links = [first]
    labels = arrived.labels
    seen = {(first.label, number)}
    while links[-1].cause == OTHER_COLLECTIVE:
        if len(links) < MAX_LINKS:
            step = yield from _follow(causes, labels, links[-1])
        else:
            step = _TOO_LONG
        if isinstance(step, _ChainEnd):
            sure = min(links[-1].confidence, step.limit)
            links[-1] = replace(links[-1], cause=step.cause, confidence=sure)
            break
        labels, link = step
        if (link.label, link.number) in seen:
            links[-1] = replace(links[-1], cause=UNKNOWN, confidence=LOW)
            break
        seen.add((link.label, link.number))
        inherited = min(link.lag_ns, links[-1].lag_ns)
        sure = link.confidence if inherited >= MIN_INHERITED_SHARE * first.lag_ns else LOW
        links.append(replace(link, lag_ns=inherited, confidence=sure))
    return (*links[:-1], _root(first, links[-1]))


def _verdicts(causes: Causes, number: int, rows: I64) -> Search[Verdicts]:
    """Return the causes of last arrivals at instances; request them where not all are known."""
    found = causes.known_verdicts(number, rows)
    if found is None:
        found = yield causes.request(number, rows)
    return found


def _root(first: Link, last: Link) -> Link:
    """Return the end of a chain, its cause unknown where its share of the first lag is too small.

    The root of the remaining lag is unknown.
    """
    share = last.lag_ns / max(first.lag_ns, 1)
    if last.cause == PIPELINE or may_name(share, 1 - share):
        return last
    return replace(last, cause=UNKNOWN, confidence=LOW)


def _follow(causes: Causes, labels: tuple[str, ...], link: Link) -> Search[_Step]:
    """Return the link after this one, or the cause that ends the chain here."""
    waits = None if link.found is None else waits_of(causes, labels, link.found)
    if waits is None:
        return _ChainEnd(UNKNOWN, LOW)
    if not waits.partner or waits.waited_ns < MIN_WAITED_SHARE * waits.excess_ns:
        if waits.waited_ns + waits.unmatched_ns >= MIN_WAITED_SHARE * waits.excess_ns:
            return _link_to_absent(causes, link.label, waits) or _ChainEnd(UNKNOWN, LOW)
        return _ChainEnd(SLOW_TRANSFER, MEDIUM if waits.is_sure else LOW)
    if waits.number >= 0:
        return (yield from _link_to_last(causes, waits))
    return (yield from _link_to_partner(causes, waits))


def _link_to_last(causes: Causes, waits: Waits) -> Search[_Step]:
    """Return the link to the rank that arrived last at the collectives in which the rank waited."""
    arrived = causes.arrivals.groups[waits.number]
    rows = distinct_values(waits.rows[arrived.delays[waits.rows]])
    if not len(rows):
        return _ChainEnd(UNKNOWN, LOW)
    found = yield from _verdicts(causes, waits.number, rows)
    worst = int(rows[arrived.lag_ns[rows].argmax()])
    link = _link(
        found,
        label=waits.partner,
        number=waits.number,
        row=worst,
        kind=int(arrived.match.kind[worst]),
        group=arrived.match.group,
        lag_ns=min(waits.waited_ns, waits.excess_ns),
        count=len(rows),
    )
    return arrived.labels, link


def _link_to_absent(causes: Causes, label: str, waits: Waits) -> _Step | None:
    """Return the link to the only rank without a file among those that the rank waited with."""
    calls, recorded = causes.inputs[label].calls, {item.rank for item in causes.inputs.values()}
    rows = waits.unmatched
    others = [_others(causes, calls, int(row)) - recorded for row in rows]
    absent = set.intersection(*others) if others else set()
    if len(absent) != 1:
        return None
    row = int(rows[0])
    link = Link(
        label=str(absent.pop()),
        number=MISSING,
        row=row,
        kind=int(calls.kind[row]),
        group=int(calls.group[row]),
        count=len(rows),
        lag_ns=min(waits.unmatched_ns, waits.excess_ns),
        cause=NOT_RECORDED,
        share=1.0,
        confidence=MEDIUM if waits.is_sure else LOW,
    )
    return (link.label,), link


def _others(causes: Causes, calls: Calls, row: int) -> set[int | None]:
    """Return the global ranks that take part in a call: of a transfer two, else its group."""
    sides = {int(calls.src[row]), int(calls.dst[row])} - {MISSING}
    group = int(calls.group[row])
    return set(sides or (causes.groups[group].ranks if group >= 0 else ()))


def _link_to_partner(causes: Causes, waits: Waits) -> Search[_Step]:
    """Return the link to the other side of the transfers, compared with that of the peers."""
    calls = causes.inputs[waits.partner].calls
    row = int(waits.rows[waits.worst])
    in_turn = Link(
        label=waits.partner,
        number=MISSING,
        row=row,
        kind=int(calls.kind[row]),
        group=int(calls.group[row]),
        count=len(waits.rows),
        lag_ns=min(waits.waited_ns, waits.excess_ns),
        cause=PIPELINE,
        share=1.0,
        confidence=LOW,
    )
    peer_partners = waits.peer_partners
    if peer_partners is None:
        return (waits.partner,), in_turn
    labels, rows = peer_partners
    starts = [causes.inputs[label].calls.start_ns[rows[:, i]] for i, label in enumerate(labels)]
    times: I64 = np.stack(starts, axis=1)
    points = causes.points(labels)
    place = points.before(times)
    found = yield VerdictRequest(labels, Targets(times, np.zeros(len(times), np.int64), place))
    verdict = combined(found)
    if not verdict.excess_ns > MIN_SENDER_EXCESS * waits.waited_ns:  # NaN where nothing compares
        return labels, in_turn
    link = replace(
        in_turn,
        cause=verdict.cause,
        share=verdict.share,
        confidence=verdict.confidence,
        found=found,
    )
    return labels, link


def _link(
    found: Verdicts,
    *,
    label: str,
    number: int,
    row: int,
    kind: int,
    group: int,
    lag_ns: int,
    count: int = 1,
) -> Link:
    verdict = combined(found)
    return Link(
        label=label,
        number=number,
        row=row,
        kind=kind,
        group=group,
        count=count,
        lag_ns=lag_ns,
        cause=verdict.cause,
        share=verdict.share,
        confidence=verdict.confidence,
        found=found,
    )
