"""Who made the late rank late: from collective to collective of other groups, to the root.

A rank that a collective of another group kept is not the one to blame. Of the groups that it
waited in, the one in which it waited most beyond its peers is followed to the rank that came last
there, and so on. A receive is followed to its sender, which is compared with the senders of the
peers' receives: where those sent as late, it was the pipeline's turn and nobody's fault.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import numpy as np

from ccltui.metrics.arrays.reductions import distinct_values
from ccltui.metrics.collectives.causes.batched_queries import Question, Walk, walk_together
from ccltui.metrics.collectives.causes.cause_search import Causes
from ccltui.metrics.collectives.causes.segments import Targets
from ccltui.metrics.collectives.causes.time_splits import OTHER_COLLECTIVE
from ccltui.metrics.collectives.causes.verdicts import UNKNOWN, Verdicts, may_name, together
from ccltui.metrics.collectives.causes.waits import Waits, waits_of
from ccltui.metrics.collectives.matching.match import LOW, MEDIUM
from ccltui.parsers.array_types import I64
from ccltui.parsers.columns import MISSING

PIPELINE: Final = "pipeline"
SLOW_TRANSFER: Final = "slow_transfer"

LONGEST: Final = 256
"""A pipeline of many stages hands lateness on as often as it has stages, there and back."""
WAITED: Final = 0.3
"""Below this share of what kept a rank, waiting did not: its transfers took longer."""
HANDED_ON: Final = 0.25
"""A link that hands on less than this share of the lag explains little of it: it is not sure."""
ITS_OWN: Final = 0.25
"""A sender less behind the other senders than this share of the wait sent when it was its turn."""


@dataclass(frozen=True, slots=True)
class Link:
    """A late rank, where it was late, and why.

    ``number`` is the position of the matched group in the arrivals, -1 for a transfer between two
    ranks, of which ``row`` is the call of ``label``; else ``row`` is the instance with most
    waiting of the ``count`` that it stands for. ``lag_ns`` is what the rank before it in the
    chain waited for it beyond its peers; for the first, the lag. ``share`` is the part of its
    lateness that ``cause`` explains.
    """

    label: str
    number: int
    row: int
    kind: int
    group: int
    count: int
    lag_ns: int
    cause: str
    share: float
    confidence: int
    found: Verdicts | None = None  # what the cause was told from


@dataclass(frozen=True, slots=True)
class _End:
    """A cause that ends a chain, and how sure it can be at most."""

    cause: str
    limit: int


_Step: TypeAlias = tuple[tuple[str, ...], Link] | _End
"""The next link and the ranks that it is told from, or the end."""
_CUT_OFF: Final = _End(UNKNOWN, LOW)


def chain_of(causes: Causes, number: int, row: int) -> tuple[Link, ...]:
    """From one instance (of a matched group, eligible) to the root: the last link's cause.

    The first link is the last rank of the instance itself; its lag is that of the instance.
    """
    return chains_of(causes, [(number, row)])[0]


def chains_of(causes: Causes, starts: Sequence[tuple[int, int]]) -> list[tuple[Link, ...]]:
    """The same from several instances, whose causes are told together step by step."""
    new = {start: _links(causes, *start) for start in starts if start not in causes.chains}
    causes.chains.update(zip(new, walk_together(causes, list(new.values())), strict=True))
    return [causes.chains[start] for start in starts]


def _links(causes: Causes, number: int, row: int) -> Walk[tuple[Link, ...]]:
    arrived = causes.arrivals.groups[number]
    found = yield causes.question(number, np.array([row]))
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
        if len(links) < LONGEST:
            step = yield from _follow(causes, labels, links[-1])
        else:
            step = _CUT_OFF
        if isinstance(step, _End):
            sure = min(links[-1].confidence, step.limit)
            links[-1] = replace(links[-1], cause=step.cause, confidence=sure)
            break
        labels, link = step
        if (link.label, link.number) in seen:
            links[-1] = replace(links[-1], cause=UNKNOWN, confidence=LOW)
            break
        seen.add((link.label, link.number))
        handed = min(link.lag_ns, links[-1].lag_ns)
        sure = link.confidence if handed >= HANDED_ON * first.lag_ns else LOW
        links.append(replace(link, lag_ns=handed, confidence=sure))
    return (*links[:-1], _root(first, links[-1]))


def _root(first: Link, last: Link) -> Link:
    """The end of a chain, its cause unknown where it hands on too little to be named.

    Of what it does not hand on nobody is known to be the root.
    """
    share = last.lag_ns / max(first.lag_ns, 1)
    if last.cause == PIPELINE or may_name(share, 1 - share):
        return last
    return replace(last, cause=UNKNOWN, confidence=LOW)


def _follow(causes: Causes, labels: tuple[str, ...], link: Link) -> Walk[_Step]:
    """The link after this one, or the cause that ends the chain here."""
    waits = None if link.found is None else waits_of(causes, labels, link.found)
    if waits is None:
        return _End(UNKNOWN, LOW)
    if waits.waited_ns < WAITED * waits.more_ns:
        if waits.waited_ns + waits.untold_ns >= WAITED * waits.more_ns:
            return _End(UNKNOWN, LOW)
        return _End(SLOW_TRANSFER, MEDIUM if waits.is_sure else LOW)
    if waits.number >= 0:
        return (yield from _to_last(causes, waits))
    return (yield from _to_partner(causes, waits))


def _to_last(causes: Causes, waits: Waits) -> Walk[_Step]:
    """To the rank that came last at the collectives that were waited in."""
    arrived = causes.arrivals.groups[waits.number]
    rows = distinct_values(waits.rows[arrived.eligible[waits.rows]])
    if not len(rows):
        return _End(UNKNOWN, LOW)
    found = yield causes.question(waits.number, rows)
    worst = int(rows[arrived.lag_ns[rows].argmax()])
    link = _link(
        found,
        label=waits.partner,
        number=waits.number,
        row=worst,
        kind=int(arrived.match.kind[worst]),
        group=arrived.match.group,
        lag_ns=min(waits.waited_ns, waits.more_ns),
        count=len(rows),
    )
    return arrived.labels, link


def _to_partner(causes: Causes, waits: Waits) -> Walk[_Step]:
    """To the other side of the transfers, beside those that did the same for the peers."""
    calls = causes.inputs[waits.partner].calls
    row = int(waits.rows[waits.worst])
    bare = Link(
        label=waits.partner,
        number=MISSING,
        row=row,
        kind=int(calls.kind[row]),
        group=int(calls.group[row]),
        count=len(waits.rows),
        lag_ns=min(waits.waited_ns, waits.more_ns),
        cause=PIPELINE,
        share=1.0,
        confidence=LOW,
    )
    beside = waits.beside
    if beside is None:
        return (waits.partner,), bare
    labels, rows = beside
    starts = [causes.inputs[label].calls.start_ns[rows[:, i]] for i, label in enumerate(labels)]
    times: I64 = np.stack(starts, axis=1)
    points = causes.points(labels)
    place = points.before(times)
    found = yield Question(labels, Targets(times, np.zeros(len(times), np.int64), place))
    verdict = together(found)
    if not verdict.excess_ns > ITS_OWN * waits.waited_ns:  # NaN where nothing compares
        return labels, bare
    link = replace(
        bare,
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
    verdict = together(found)
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
