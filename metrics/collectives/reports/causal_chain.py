"""Lay out the chain behind a late collective as events with times, from rank to rank.

For each late rank: its arrival, the kernel, the call that launched it, the operator around the
call and the device work before it; then what made the rank late since it last met its peers: the
longest idle time of the cause with what the host did in it, the longest of the kernels that cost
more than on the peers, or the collective of another group in which it waited for the next rank.
Ranks and causes are those of the blame chain.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from ccltui.metrics.arrays.intervals import union
from ccltui.metrics.arrays.reductions import distinct_values
from ccltui.metrics.collectives.causes.cause_text import CHAIN_WORDS
from ccltui.metrics.collectives.causes.chain import NOT_RECORDED
from ccltui.metrics.collectives.causes.evidence import evidence_of
from ccltui.metrics.collectives.causes.host_work import HOST_STALL, HOST_WORDS
from ccltui.metrics.collectives.causes.time_splits import COMPUTE, IDLE
from ccltui.metrics.collectives.causes.verdicts import (
    HOST_LATE,
    MEANINGS,
    MORE_KERNELS,
    UNEQUAL_WORK,
    Link,
)
from ccltui.metrics.collectives.reports.instance_report import CONFIDENCES, describe
from ccltui.metrics.model.classify import TYPES
from ccltui.metrics.model.launch_site import HostEvent, host_event, launch_site
from ccltui.metrics.view.collective_selection import describe_group
from ccltui.parsers.columns import GROUPS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ccltui.metrics.view.job_view import View
    from ccltui.parsers.columns import RankTrace

Role = Literal[
    "arrival", "kernel", "launch", "operator", "before", "idle", "host", "work", "wait", "since"
]
"""Place of an event in the chain of its rank, from the effect back to the cause."""


@dataclass(frozen=True, slots=True)
class ChainEvent:
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


@dataclass(frozen=True, slots=True)
class ChainRank:
    """One late rank of a chain, where it was late and why; its events from the effect back.

    ``cause`` is that of the blame chain, ``meaning`` says it in words, ``share`` is the part of
    the lateness that it explains. ``host_was_late`` is whether the launch came after the device
    had become idle, None where no launch is recorded. ``is_recorded`` is False for a rank whose
    file is missing: it has no events.
    """

    label: str
    group: str
    kind: str
    lag_ns: int
    cause: str
    meaning: str
    share: float
    confidence: str
    events: tuple[ChainEvent, ...] = ()
    host_was_late: bool | None = None
    is_recorded: bool = True


@dataclass(frozen=True, slots=True)
class CausalChain:
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
    found = describe(view, number, row)
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
    by_role = {event.role: event for event in events}
    late = None
    if "launch" in by_role:
        launch, before = by_role["launch"], by_role.get("before")
        late = before is None or launch.start_ns > before.end_ns
    return ChainRank(
        label=link.label,
        group=str(describe_group(view, link.group)["group"]),
        kind=TYPES[link.kind],
        lag_ns=link.lag_ns,
        cause=link.cause,
        meaning=CHAIN_WORDS.get(link.cause) or MEANINGS[link.cause],
        share=link.share,
        confidence=CONFIDENCES[link.confidence],
        events=events,
        host_was_late=late,
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
            yield self._at("since", "last met its peers", met, met)

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
        labels, causes = self._view.arrivals.groups[number].labels, self._view.facts.causes
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
        activity = self._view.facts.causes.activity(self._label)
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
        points = self._view.facts.causes.points(self._view.arrivals.groups[number].labels)
        for target, place in enumerate(found.segments.start.since.tolist()):
            late = int(found.targets.late[target])
            if place >= 0 and int(found.targets.time_ns[target, late]) == until:
                return int(points.arrival_ns[place, late])
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
