"""Describe one collective: arrivals, waits, bandwidth, cause of the lag, and what led to it.

The causal chain lays the cause out as events with times, from rank to rank. For each late rank: its
arrival, the kernel, the call that launched it, the operator around the call and the device work
before it; then what made the rank late since it last met its peers: the longest idle time of the
cause with what the host did in it, the longest of the kernels that cost more than on the peers, or
the collective of another group in which it waited for the next rank.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.intervals import union
from ccltui.metrics.arrays.reductions import distinct_values, median_along
from ccltui.metrics.arrays.statistics import microseconds
from ccltui.metrics.collectives.arrivals import NO_RANK, GroupArrivals
from ccltui.metrics.collectives.matching.match import CONFIDENCES, LOW, METHODS, gather
from ccltui.metrics.confidence import Level, Sure
from ccltui.metrics.findings.causes.activity import HOST_STALL, HOST_WORDS
from ccltui.metrics.findings.causes.cause_search import (
    HOST_LATE,
    MORE_KERNELS,
    UNEQUAL_WORK,
    UNKNOWN,
    Link,
    Verdicts,
    job_causes,
)
from ccltui.metrics.findings.causes.chain import NOT_RECORDED, chain_of
from ccltui.metrics.findings.causes.evidence import (
    Evidence,
    evidence_of,
    link_sentence,
    meaning_of,
    sentence,
)
from ccltui.metrics.findings.causes.segments import COMPUTE, IDLE, PARTS, spent
from ccltui.metrics.model.bandwidth import matched_bandwidth
from ccltui.metrics.model.calls import DTYPES
from ccltui.metrics.model.classify import TYPES
from ccltui.metrics.model.launch_site import HostEvent, host_event, launch_site
from ccltui.metrics.view.collective_selection import describe_group
from ccltui.metrics.view.instances import implied_size
from ccltui.parsers.array_types import I64
from ccltui.parsers.columns import GROUPS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ccltui.metrics.view.job_view import View
    from ccltui.parsers.array_types import I64
    from ccltui.parsers.columns import RankTrace


BINS = 12
_LEAST_NS = 1_000


class LagHistory(Struct, frozen=True, eq=False):
    """Lags of the n complete collectives of one type of a group, int64 ns.

    ``edges_ns`` [BINS + 1] are even on a logarithmic scale from the smallest lag (at least 1 us)
    to the largest; ``counts`` [BINS] counts smaller lags in the first bin. ``trend_ns`` [n] is in
    order of time, ``place`` the place in it of the collective that the history was computed for.
    """

    edges_ns: I64
    counts: I64
    trend_ns: I64
    place: int

    @property
    def median_ns(self) -> int:
        """Median lag."""
        return int(median_along(self.trend_ns))


def lag_history(arrived: GroupArrivals, row: int) -> LagHistory | None:
    """Return the lags of all collectives of the type of ``row``; None where its lag is unknown."""
    lag, kind = arrived.lag_ns, arrived.match.kind
    if lag[row] < 0:
        return None
    rows = np.flatnonzero((kind == kind[row]) & (lag >= 0))
    rows = rows[np.argsort(arrived.first_start_ns[rows], kind="stable")]
    lags = lag[rows]
    low = max(int(lags.min()), _LEAST_NS)
    high = max(int(lags.max()), low + BINS)
    edges = np.rint(np.geomspace(low, high, BINS + 1)).astype(np.int64)
    at = np.clip(np.searchsorted(edges, lags, side="right") - 1, 0, BINS - 1)
    place = int(np.flatnonzero(rows == row)[0])
    return LagHistory(edges, np.bincount(at, minlength=BINS), lags, place)


class Member(Struct, frozen=True):
    """One rank at a collective, times in ns.

    ``late_ns`` is its arrival after the first rank, from durations; ``start_late_ns`` the same
    from corrected starts, None where the clocks are not known. ``doing`` is the part (of
    ``PARTS``) with most of its time since the last sync point of the ranks, ``doing_ns`` that
    time.
    """

    label: str
    rank: int | None
    host: str
    late_ns: int
    start_late_ns: int | None
    wait_ns: int
    dur_ns: int
    is_last: bool
    doing: str | None = None
    doing_ns: int = 0


class Instance(Struct, frozen=True):
    """One matched collective. Sizes in bytes, times in ns, bandwidth in decimal GB/s.

    ``last`` is the label of the rank that arrived last, None in a tie or where no rank can be
    blamed; ``cause`` is then None too. ``chain`` begins with the last rank and ends at the root.
    ``members`` are the present ranks, the latest first. ``absent`` are the labels of the others.
    """

    number: int
    row: int
    group: str
    dim: str
    kind: str
    step: int | None
    dtype: str | None
    message_bytes: int | None
    transfer_ns: int | None
    algbw_gbps: float | None
    busbw_gbps: float | None
    lag_ns: int | None
    last: str | None
    members: tuple[Member, ...]
    absent: tuple[str, ...]
    agrees: bool
    method: str
    confidence: Level
    cause: str | None = None
    share: float = 0.0
    cause_confidence: Level = "low"
    why: str | None = None
    evidence: Evidence | None = None
    chain: tuple[Link, ...] = ()
    chain_sentences: tuple[str, ...] = ()

    @property
    def sure(self) -> Sure:
        """How sure the cause is, and the rank that arrived last: the match tells who took part."""
        named = self.last is not None
        known = named and self.cause not in (None, UNKNOWN)
        return Sure(
            what=self.cause_confidence if known else "unknown",
            who=self.confidence if named else "unknown",
        )

    @property
    def root(self) -> Link | None:
        """Last link of the chain, None where no rank is blamed."""
        return self.chain[-1] if self.chain else None

    @property
    def root_is_unknown(self) -> bool:
        """Whether a rank was late and the root cause is unknown."""
        return self.root is not None and self.root.cause == UNKNOWN

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form, times in µs."""
        return {
            "group": self.group,
            "dim": self.dim,
            "type": self.kind,
            "index": self.row,
            "step": self.step,
            "dtype": self.dtype,
            "message_bytes": self.message_bytes,
            "transfer_us": _us(self.transfer_ns),
            "algbw_GBps": self.algbw_gbps,
            "busbw_GBps": self.busbw_gbps,
            "lag_us": _us(self.lag_ns),
            "last": self.last,
            "method": self.method,
            "match_confidence": self.confidence,
            "cause": self.cause,
            "explained": self.share,
            "confidence": self.cause_confidence,
            "sure": self.sure.to_dict(),
            "why": self.why,
            "chain": list(self.chain_sentences),
            "arrivals_us": {m.label: microseconds(m.late_ns) for m in self.members},
            "wait_us": {m.label: microseconds(m.wait_ns) for m in self.members},
        }


def describe(view: View, number: int, row: int, *, doing: bool = True) -> Instance:
    """Describe instance ``row`` of the matched group at ``number`` of ``view.arrivals.groups``.

    Arrivals are those of all ranks of the group, whatever ranks the view selects.

    Args:
        view: The job.
        number: Position of the group.
        row: Instance.
        doing: Whether to tell what each member did before, which takes the times of all of them.

    Raises:
        IndexError: There is no such group or instance.
    """
    arrived = view.arrivals.groups[number]
    if not 0 <= row < len(arrived.match.rows):
        raise IndexError(f"instance {row} of {len(arrived.match.rows)}")
    last = int(arrived.last[row])

    def named(index: int) -> str:
        return str(describe_group(view, index)["group"])

    chain: tuple[Link, ...] = ()
    if last != NO_RANK:
        chain = chain_of(job_causes(view), number, row)
    found = chain[0].found if chain else None
    evidence = None if found is None else evidence_of(job_causes(view), arrived.labels, found)
    match = arrived.match
    size, transfer, algbw, busbw, dtype = _bandwidth(view, arrived, row)
    group = describe_group(view, match.group)
    why = None if evidence is None else sentence(chain, evidence, named)
    return Instance(
        number=number,
        row=row,
        group=group["group"],
        dim=group["dim"],
        kind=TYPES[match.kind[row]],
        step=int(match.step[row]) if match.step[row] >= 0 else None,
        dtype=dtype,
        message_bytes=size,
        transfer_ns=transfer,
        algbw_gbps=algbw,
        busbw_gbps=busbw,
        lag_ns=int(arrived.lag_ns[row]) if arrived.lag_ns[row] >= 0 else None,
        last=None if last == NO_RANK else arrived.labels[last],
        members=_members(view, arrived, row, found if doing else None),
        absent=tuple(
            label for label, r in zip(match.labels, match.rows[row], strict=True) if r < 0
        ),
        agrees=bool(match.agrees[row]),
        method=METHODS[int(match.level[row])],
        confidence=CONFIDENCES[int(arrived.confidence[row])],
        cause=chain[0].cause if chain else None,
        share=chain[0].share if chain else 0.0,
        cause_confidence=CONFIDENCES[
            min(chain[0].confidence, chain[-1].confidence) if chain else LOW
        ],
        why=why,
        evidence=evidence,
        chain=chain,
        chain_sentences=tuple(link_sentence(link, named) for link in chain),
    )


def _bandwidth(
    view: View, arrived: GroupArrivals, row: int
) -> tuple[int | None, int | None, float | None, float | None, str | None]:
    """Return message size, transfer time, algbw, busbw and dtype; None where not known."""
    inputs = view.inputs_by_label
    one = arrived.match.instance(row)
    size, dtypes = gather(one, inputs, "message_bytes"), gather(one, inputs, "dtype")
    count = view.groups[one.group].size if one.group >= 0 else implied_size(view, arrived.match)
    found = matched_bandwidth(one.kind, size, arrived.dur_ns[row : row + 1], np.array([count]))
    known = not np.isnan(found.algbw_gbps[0])
    has_busbw = known and not np.isnan(found.busbw_gbps[0])
    dtype = int(dtypes.max())
    return (
        int(found.message_bytes[0]) if found.message_bytes[0] >= 0 else None,
        int(found.time_ns[0]) if found.time_ns[0] >= 0 else None,
        float(found.algbw_gbps[0]) if known else None,
        float(found.busbw_gbps[0]) if has_busbw else None,
        DTYPES[dtype] if dtype >= 0 else None,
    )


def _members(
    view: View, arrived: GroupArrivals, row: int, found: Verdicts | None
) -> tuple[Member, ...]:
    doing = (
        [(None, 0)] * len(arrived.labels) if found is None else _main_parts(view, arrived, found)
    )
    late, last = arrived.clock_free.late_at(row), int(arrived.last[row])
    by_start = None if arrived.by_start is None else arrived.by_start.late_at(row)
    members = [
        Member(
            label=label,
            rank=view.facts.ranks[label].trace.rank,
            host=view.facts.ranks[label].trace.host,
            late_ns=int(late[i]),
            start_late_ns=None if by_start is None else int(by_start[i]),
            wait_ns=int(arrived.wait_ns[row, i]),
            dur_ns=int(arrived.dur_ns[row, i]),
            is_last=i == last,
            doing=doing[i][0],
            doing_ns=doing[i][1],
        )
        for i, label in enumerate(arrived.labels)
        if arrived.match.rows[row, i] >= 0
    ]
    return tuple(sorted(members, key=lambda member: -member.late_ns))


def _main_parts(
    view: View, arrived: GroupArrivals, found: Verdicts
) -> list[tuple[str | None, int]]:
    """Return the part with most time since the last sync point, and its ns, for each member."""
    causes = job_causes(view)
    since = int(found.segments.start.since[0])
    if since < 0:
        return [(None, 0)] * len(arrived.labels)
    points = causes.points(arrived.labels)
    begin, end = points.arrival_ns(np.array([since])), found.targets.time_ns
    activities = [causes.activity(label) for label in arrived.labels]
    times = spent(begin, end, activities, points.groups, found.segments.start.triggers)
    none = np.zeros_like(begin)
    table = np.stack([times.get(name, none)[0] for name in PARTS])
    most = table.argmax(axis=0)
    return [(PARTS[part], int(table[part, i])) for i, part in enumerate(most.tolist())]


def _us(nanoseconds: int | None) -> float | None:
    return None if nanoseconds is None else microseconds(nanoseconds)


Role = Literal[
    "arrival", "kernel", "launch", "operator", "before", "idle", "host", "work", "wait", "since"
]
"""Place of an event in the chain of its rank, from the effect back to the cause."""


class ChainEvent(Struct, frozen=True):
    """One event of a chain; times in ns since the origin of the job, on its clock.

    ``gap_ns`` is, by role:

    - arrival: the lag;
    - launch: from the start of the call to the start of the kernel;
    - operator: from its start to the launch;
    - before: from the end of this work to the start of the kernel, 0 where it still ran;
    - idle: all idle time of the cause since the rank met its peers, this stretch included;
    - host: its part of the idle stretch;
    - work: what the kernels of this name cost more than on the peers, over all of them.

    None in other roles.
    """

    role: Role
    name: str
    start_ns: int
    end_ns: int
    gap_ns: int | None = None


class ChainRank(Struct, frozen=True):
    """One late rank of a chain, where it was late and why; its events from the effect back.

    ``cause`` is that of the blame chain, ``meaning`` says it in words, ``share`` is the part of
    the lateness that it explains. ``is_recorded`` is False for a rank whose file is missing: it has
    no events.
    """

    label: str
    group: str
    kind: str
    lag_ns: int
    cause: str
    meaning: str
    share: float
    confidence: Level
    events: tuple[ChainEvent, ...] = ()
    is_recorded: bool = True

    @property
    def sure(self) -> Sure:
        """How sure the cause is; it is stated of each rank, whoever comes before it."""
        return Sure(what="unknown" if self.cause == UNKNOWN else self.confidence)


class CausalChain(Struct, frozen=True):
    """The chain of one collective: the rank that arrived last, then the rank before it, ...

    ``ranks`` is empty where nobody is blamed.
    """

    number: int
    row: int
    group: str
    kind: str
    step: int | None
    lag_ns: int | None
    ranks: tuple[ChainRank, ...]

    @property
    def events(self) -> tuple[tuple[str, ChainEvent], ...]:
        """All events in order, each with the label of its rank."""
        return tuple((rank.label, event) for rank in self.ranks for event in rank.events)


def causal_chain(view: View, number: int, row: int) -> CausalChain:
    """Return the chain behind instance ``row`` of the matched group at ``number``.

    Raises:
        IndexError: There is no such group or instance.
    """
    found = describe(view, number, row, doing=False)
    links = found.chain
    return CausalChain(
        number=number,
        row=row,
        group=found.group,
        kind=found.kind,
        step=found.step,
        lag_ns=found.lag_ns,
        ranks=tuple(
            _rank(view, link, links[place + 1] if place + 1 < len(links) else None)
            for place, link in enumerate(links)
        ),
    )


def _rank(view: View, link: Link, after: Link | None) -> ChainRank:
    known = link.label in view.facts.ranks and link.cause != NOT_RECORDED
    events = tuple(_Walk(view, link).events(after)) if known else ()
    return ChainRank(
        label=link.label,
        group=str(describe_group(view, link.group)["group"]),
        kind=TYPES[link.kind],
        lag_ns=link.lag_ns,
        cause=link.cause,
        meaning=meaning_of(link.cause),
        share=link.share,
        confidence=CONFIDENCES[link.confidence],
        events=events,
        is_recorded=known,
    )


class _Walk:
    """Collects the events of one late rank."""

    def __init__(self, view: View, link: Link) -> None:
        self._view, self._link, self._label = view, link, link.label
        self._trace: RankTrace = view.facts.ranks[link.label].trace
        self._calls = view.facts.named_calls[link.label]

    def events(self, after: Link | None) -> Iterator[ChainEvent]:
        """Yield the events from the effect back; ``after`` is the next link of the chain."""
        call = self._call_row(self._link)
        if call is None:
            return
        kernel = self._event_of(call)
        met = self._met(kernel.start_ns)
        since = kernel.start_ns - self._link.lag_ns if met is None else met
        name = f"{describe_group(self._view, self._link.group)['group']} {TYPES[self._link.kind]}"
        yield self._at("arrival", name, kernel.start_ns, kernel.start_ns, self._link.lag_ns)
        if self._calls.event_group == "gpu":
            yield from self._launched(int(self._calls.rows.of("gpu")[call]), kernel)
        else:  # no kernel: the host recorded the collective itself
            yield self._event("operator", kernel, 0)
        yield from self._reason(since, kernel.start_ns, after)
        if met is not None:
            yield self._at("since", "last common wait", met, met)

    def _launched(self, row: int, kernel: HostEvent) -> Iterator[ChainEvent]:
        """Yield the kernel, where it was launched, and the device work before it."""
        yield self._event("kernel", kernel)
        site = launch_site(self._trace, row)
        if site is not None:
            yield self._event("launch", site.call, site.delay_ns)
            if site.operator is not None:
                inside = site.call.start_ns - site.operator.start_ns
                yield self._event("operator", site.operator, inside)
        if row:
            gpu = self._trace.group("gpu")
            last = int((gpu.start_ns[:row] + gpu.dur_ns[:row]).argmax())
            before = host_event(self._trace, gpu, last)
            yield self._event("before", before, max(kernel.start_ns - before.end_ns, 0))

    def _reason(self, since: int, until: int, after: Link | None) -> Iterator[ChainEvent]:
        """Yield the event that shows the cause of the link in [since, until)."""
        if after is not None:
            yield from self._waited(after)
        elif self._link.cause in (COMPUTE, MORE_KERNELS, UNEQUAL_WORK):
            yield from self._costliest(since, until)
        elif self._link.cause in IDLE:
            yield from self._idle((self._link.cause,), since, until)
        elif self._link.cause == HOST_LATE:
            yield from self._idle(IDLE, since, until)

    def _waited(self, after: Link) -> Iterator[ChainEvent]:
        """Yield the rank's own call of the collective at which the next rank was late."""
        if after.number < 0:
            return
        call = self._call_row(after)
        if call is not None:
            yield self._event("wait", self._event_of(call))

    def _event_of(self, call: int) -> HostEvent:
        rows = self._calls.rows
        return host_event(self._trace, rows.events_of(self._trace), int(rows.numbers[call]))

    def _costliest(self, since: int, until: int) -> Iterator[ChainEvent]:
        """Yield the longest kernel of the name that costs most more than on the peers."""
        found, number = self._link.found, self._link.number
        if found is None or number < 0:
            return
        labels, causes = self._view.arrivals.groups[number].labels, job_causes(self._view)
        kernels = evidence_of(causes, labels, found).kernels
        if not kernels:
            return
        start, dur, name = causes.activity(self._label).work
        first, stop = np.searchsorted(start, (since, until)).tolist()
        texts = causes.names.texts
        chosen = [
            one
            for one in distinct_values(name[first:stop]).tolist()
            if texts[one] == kernels[0].name
        ]
        rows = first + np.flatnonzero(np.isin(name[first:stop], chosen))
        if len(rows):
            longest = int(rows[dur[rows].argmax()])
            begin = int(start[longest])
            one = HostEvent(kernels[0].name, begin, begin + int(dur[longest]), -1)
            yield self._event("work", one, round(kernels[0].more_ns))

    def _idle(self, causes: tuple[str, ...], since: int, until: int) -> Iterator[ChainEvent]:
        """Yield the longest idle time of some causes, and what the host did in it."""
        activity = job_causes(self._view).activity(self._label)
        span = union([since], [until])
        stretches = [
            (int(end - start), cause, int(start), int(end))
            for cause in causes
            for gaps in (activity.idle[cause] & span,)
            for start, end in zip(gaps.start_ns.tolist(), gaps.end_ns.tolist(), strict=True)
        ]
        if not stretches:
            return
        _, cause, start, end = max(stretches)
        total = sum(length for length, of, _, _ in stretches if of == cause)
        yield self._at("idle", f"the host {HOST_WORDS[cause]}", start, end, total)
        host = activity.host
        named = host.around(start, end) if cause == HOST_STALL else host.name_of(cause, start, end)
        event = None if named is None else _present(self._trace, named[0], start, end)
        if named is not None and event is not None:
            yield self._event("host", event, named[1])

    def _met(self, until: int) -> int | None:
        """Return when the rank last met its peers before a time of its own clock, None: never."""
        found, number = self._link.found, self._link.number
        if found is None or number < 0:
            return None
        points = job_causes(self._view).points(self._view.arrivals.groups[number].labels)
        for target, place in enumerate(found.segments.start.since.tolist()):
            late = int(found.targets.late[target])
            if place >= 0 and int(found.targets.time_ns[target, late]) == until:
                return int(points.arrivals_of(late)[place])
        return None

    def _call_row(self, link: Link) -> int | None:
        """Return this rank's call of a link: of a transfer its own, None where it has none."""
        if link.number < 0:
            return link.row
        match = self._view.arrivals.groups[link.number].match
        if self._label not in match.labels:
            return None
        row = int(match.rows[link.row, match.labels.index(self._label)])
        return row if row >= 0 else None

    def _event(self, role: Role, one: HostEvent, gap_ns: int | None = None) -> ChainEvent:
        return self._at(role, one.name, one.start_ns, one.end_ns, gap_ns)

    def _at(
        self, role: Role, name: str, start_ns: int, end_ns: int, gap_ns: int | None = None
    ) -> ChainEvent:
        times = np.array([start_ns, end_ns], np.int64)
        start, end = (self._view.on_job_clock(self._label, times) - self._view.origin_ns).tolist()
        return ChainEvent(role, name, start, end, gap_ns)


def _present(trace: RankTrace, name: str, start_ns: int, end_ns: int) -> HostEvent | None:
    """Return the event of the host of a name with most time in [start, end), None without any."""
    found: list[tuple[int, HostEvent]] = []
    name_id = trace.strings.find(name)
    for group in GROUPS:
        events = trace.group(group)
        rows = np.flatnonzero(events.name == name_id) if not group.startswith("gpu") else ()
        if len(rows):
            ends = np.minimum(events.start_ns[rows] + events.dur_ns[rows], end_ns)
            inside = ends - np.maximum(events.start_ns[rows], start_ns)
            found.append((int(inside.max()), host_event(trace, events, int(rows[inside.argmax()]))))
    return max(found, key=lambda one: one[0])[1] if found else None
