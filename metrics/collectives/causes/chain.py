"""Follow late arrivals through collectives of other groups to the root cause.

A rank that was delayed by a collective of another group is not to blame. Of the groups in which it
waited, the one in which it waited most beyond its peers is followed to the rank that arrived last
there, and so on. A receive is followed to its sender, which is compared with the senders of the
peers' receives: where those sent as late, the delay follows from the order of the pipeline and
blames no rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
from msgspec.structs import replace

from ccltui.metrics.arrays.reductions import distinct_values
from ccltui.metrics.collectives.causes.batched_queries import Search, run_searches
from ccltui.metrics.collectives.causes.cause_search import Causes
from ccltui.metrics.collectives.causes.segments import Targets
from ccltui.metrics.collectives.causes.time_splits import OTHER_COLLECTIVE
from ccltui.metrics.collectives.causes.verdicts import (
    UNKNOWN,
    Link,
    VerdictRequest,
    Verdicts,
    combined,
    may_name,
)
from ccltui.metrics.collectives.causes.waits import Waits, waits_of
from ccltui.metrics.collectives.matching.match import LOW, MEDIUM
from ccltui.metrics.model.calls import Calls
from ccltui.parsers.array_types import I64
from ccltui.parsers.columns import MISSING
from ccltui.parsers.system.quick_dataclass import dataclass

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


@dataclass(frozen=True, slots=True)
class _ChainEnd:
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
    found = yield causes.request(number, np.array([row]))
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
    if waits.waited_ns < MIN_WAITED_SHARE * waits.excess_ns:
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
    found = yield causes.request(waits.number, rows)
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
