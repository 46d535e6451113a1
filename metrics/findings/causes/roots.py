"""Choose whom waiting is due to: of a whole job, of a step, and ranks without a file.

The worst late arrivals are followed to their roots. All metrics that name a rank for waiting use
the rule of this module. The statement is about the waiting as a whole: a rank that is behind a
small part of it is not named, however certain its cause is. Where the file of the culprit is
missing, only small differences between the other ranks can be explained, and these are not what
the job waited for. The rule for one step is that for the whole job, applied to the step.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec import Struct, structs
from msgspec.structs import replace

from ccltui.metrics.arrays.bootstrap import drawn_places
from ccltui.metrics.arrays.reductions import distinct_values, row_min
from ccltui.metrics.arrays.statistics import ratio
from ccltui.metrics.collectives.arrivals import GroupArrivals
from ccltui.metrics.collectives.lag_tables import TIMES_EVEN_SHARE
from ccltui.metrics.collectives.matching.match import CONFIDENCES, HIGH, LOW, MEDIUM
from ccltui.metrics.confidence import Level, Sure
from ccltui.metrics.facts import fact
from ccltui.metrics.findings.causes.cause_search import (
    MIN_ROOT_SHARE,
    UNKNOWN,
    Link,
    Verdicts,
    job_causes,
    majority_confidence,
    starts_recording,
)
from ccltui.metrics.findings.causes.chain import NOT_RECORDED, PIPELINE, chains_of
from ccltui.metrics.view.collective_selection import (
    ExposedWaits,
    Part,
    exposed_waits,
    material_ns,
    materiality_pct,
    parts_of,
    rank_time_ns,
    require_ranks,
)
from ccltui.metrics.view.match_quality import confidence_limit, possible_match
from ccltui.parsers.columns import MISSING
from ccltui.parsers.numbers import duration, percent

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.parsers.array_types import F64, I64, Bool


NOBODY_LATE: Final = "no rank is late by more than the error of the clocks"


class LateArrivals(Struct, frozen=True):
    """Late arrivals of one group, ascending ``rows`` of its instances.

    ``caused_wait_ns`` is the sum of the waits of all members for the last one. ``num_blamed``
    counts all late arrivals of the group, with those omitted because others caused more waiting.
    """

    part: Part
    rows: I64
    lag_ns: I64
    caused_wait_ns: I64
    verdicts: Verdicts
    num_blamed: int

    @property
    def lag(self) -> int:
        """Sum of the lags, ns."""
        return int(self.lag_ns.sum())

    @property
    def explained_ns(self) -> int:
        """Sum of the lags that causes explain, ns."""
        return round(float((self.lag_ns * self.verdicts.share).sum()))


MAX_EXAMINED: Final = 20_000
"""Number of late arrivals whose causes are searched; of more, those with the most waiting."""


def late_arrivals_of(view: View, limit: int) -> list[LateArrivals]:
    """Return the selected instances with a selected late rank, by group; at most ``limit`` in all.

    Those with most waiting are selected. Several metrics share them. Where all that
    `straggler_cause` examines will be asked for too, the causes are those that it finds: what the
    ranks did is listed once then.
    """
    if limit < MAX_EXAMINED and "straggler_cause" in view.expected:
        late_arrivals_of(view, MAX_EXAMINED)
    return view.remember((late_arrivals_of, limit), lambda: _late_arrivals(view, limit))


@fact("causes")
def _late_arrivals(view: View, limit: int) -> list[LateArrivals]:
    parts = parts_of(view)
    rows = [_rows(part) for part in parts]
    waits = [
        part.arrived.clock_free.caused_ns.take(one) for part, one in zip(parts, rows, strict=True)
    ]
    together = np.concatenate([np.empty(0, np.int64), *waits])
    least = 0
    if len(together) > limit:
        least = int(np.partition(together, len(together) - limit)[len(together) - limit])
    found = []
    for part, one, wait in zip(parts, rows, waits, strict=True):
        chosen = wait >= least
        if chosen.any():
            late_rows = one[chosen]
            causes = job_causes(view)
            known = causes.known_verdicts(part.number, late_rows)
            verdicts = known or causes.verdicts(part.number, late_rows)
            lag = part.arrived.lag_ns[late_rows]
            found.append(LateArrivals(part, late_rows, lag, wait[chosen], verdicts, len(one)))
    if view.facts.is_large:  # some 100 B a collective of every rank, where few are asked for again
        job_causes(view).forget_intervals()
    return found


def most_waiting(blamed: Sequence[LateArrivals], count: int) -> list[tuple[int, int]]:
    """Return (matched group, instance) of the late arrivals with most waiting, in falling order.

    Those before which the recording has no common point come last: their cause is not recorded.
    """
    ranked = [
        (bool(starts), -int(wait), one.part.number, int(row))
        for one in blamed
        for starts, wait, row in zip(*_most(one, count), strict=True)
    ]
    return [(number, row) for _, _, number, row in sorted(ranked)[:count]]


def _most(one: LateArrivals, count: int) -> tuple[Bool, I64, I64]:
    starts = one.verdicts.starts_recording
    order = np.lexsort((-one.caused_wait_ns, starts))[:count]
    return starts[order], one.caused_wait_ns[order], one.rows[order]


def _rows(part: Part) -> I64:
    """Return the blamed instances of a part whose last member is selected."""
    last = part.arrived.delaying
    return np.flatnonzero(part.rows & (last >= 0) & np.isin(last, part.columns))


SEVERAL: Final = "several_ranks"
"""Cause of waiting that ends no earlier without the last rank: another one came as late."""
BLAMELESS_CAUSES: Final = (PIPELINE, UNKNOWN, SEVERAL)
"""Causes that blame no rank: the order of the pipeline, unknown, and several ranks at once."""
HIGH_ROOT_SHARE: Final = 0.7
HIGH_SECOND_SHARE: Final = 0.2
"""A statement is sure from the first share of the waiting on, if no other rank has the second."""
MEDIUM_ROOT_SHARE: Final = 0.5
MEDIUM_MARGIN: Final = 0.15
"""Least share, and least lead over the next rank, of a statement with medium confidence."""


class Root(Struct, frozen=True):
    """A rank and a cause at the end of ``count`` chains, and the waiting that they explain.

    The label is empty where no rank is to blame.
    """

    label: str
    cause: str
    count: int
    wait_ns: int
    confidence: int


class Named(Struct, frozen=True):
    """The rank behind most waiting: its waiting with all causes, and the cause of most of it.

    ``who`` and ``why`` are the confidence of the rank and of the cause: LOW, MEDIUM or HIGH.
    """

    label: str
    cause: str
    wait_ns: int
    who: int
    why: int

    @property
    def confidence(self) -> int:
        """Confidence of the whole statement: LOW, MEDIUM or HIGH."""
        return min(self.who, self.why)

    @property
    def sure(self) -> Sure:
        """How sure rank and cause are; what fixing it saves is not stated here."""
        why: Level = "unknown" if self.cause == UNKNOWN else CONFIDENCES[self.why]
        return Sure(what=why, who=CONFIDENCES[self.who])


class Roots(Struct, frozen=True, dict=True):
    """All roots, most waiting first; ``named`` is the rank to blame, None for nobody.

    ``why_nobody`` is a sentence with the figures where there are roots and none is named.
    """

    every: tuple[Root, ...]
    named: Named | None
    why_nobody: str | None

    @cached_property
    def wait_ns(self) -> int:
        """Waiting of all roots, ns."""
        return sum(root.wait_ns for root in self.every)

    @cached_property
    def counted_ns(self) -> int:
        """Waiting that shares are counted of: without the order of a pipeline, nobody's fault."""
        return sum(root.wait_ns for root in self.every if root.cause != PIPELINE)

    @property
    def unknown_ns(self) -> int:
        """Waiting with an unknown cause, ns."""
        return sum(root.wait_ns for root in self.every if root.cause == UNKNOWN)


class Behind(Struct, frozen=True):
    """A chain, the waiting that it explains in ns, and the part due to its first rank alone.

    ``second`` is the last but one rank of the collective.
    """

    chain: tuple[Link, ...]
    wait_ns: int
    beyond_ns: int
    second: str = ""


def roots_of(behind: Sequence[Behind]) -> list[Root]:
    """Return the roots of chains, most waiting first.

    Waiting before the last but one rank arrived is that of the root too where this rank is a victim
    of the same root; else it is due to several ranks. The confidence of a root is the highest level
    that more than half of its waiting reaches.
    """
    ends_at = root_by_rank(behind)
    found: dict[tuple[str, str], tuple[list[int], list[int]]] = {}
    for one in behind:
        first, root = one.chain[0], one.chain[-1]
        is_shared = root.label == first.label and ends_at.get(one.second) != root.label
        own = min(one.beyond_ns, one.wait_ns) if is_shared else one.wait_ns
        parts = [((root.label, root.cause), own, root.confidence)]
        if own < one.wait_ns:
            parts.append((("", SEVERAL), one.wait_ns - own, LOW))
        for key, wait, confidence in parts:
            waits, sure = found.setdefault(key, ([], []))
            waits.append(wait)
            sure.append(confidence)
    ordered = sorted(found, key=lambda key: (-sum(found[key][0]), key))
    return [
        Root(*key, len(found[key][0]), sum(found[key][0]), majority_confidence(*found[key]))
        for key in ordered
    ]


def root_by_rank(behind: Sequence[Behind]) -> Mapping[str, str]:
    """Return the rank at which most of the waiting that begins with a late rank ends, by rank."""
    total: dict[str, dict[str, int]] = {}
    for one in behind:
        ends = total.setdefault(one.chain[0].label, {})
        root = one.chain[-1]
        if root.cause not in (PIPELINE, UNKNOWN) or root.label == one.chain[0].label:
            ends[root.label] = ends.get(root.label, 0) + one.wait_ns
    return {label: max(ends, key=lambda end: ends[end]) for label, ends in total.items() if ends}


def choose_root(every: Sequence[Root], *, least_ns: float = 0.0, limit: int = HIGH) -> Roots:
    """Return the roots together with the rank that is named.

    Args:
        every: Roots, most waiting first.
        least_ns: Waiting below which nobody is named.
        limit: Upper bound of the confidence.
    """
    roots = Roots(tuple(every), None, None)
    whole = roots.counted_ns
    if not roots.wait_ns:
        return roots
    waits = _by_rank(every)
    ranked = sorted(waits, key=lambda label: -waits[label])
    first_ns = waits[ranked[0]] if ranked else 0
    second_ns = waits[ranked[1]] if len(ranked) > 1 else 0
    is_shared = not ranked or first_ns < MIN_ROOT_SHARE * whole
    if is_shared and (whole >= least_ns or not ranked):
        return Roots(roots.every, None, _why_nobody(roots, ranked, first_ns))
    if first_ns < least_ns:
        return Roots(roots.every, None, _immaterial(ranked, first_ns, least_ns))
    label = ranked[0]
    own = [root for root in every if root.label == label]
    main = next(root for root in own if root.cause != PIPELINE)
    who = _who(first_ns / whole, second_ns / whole)
    known = majority_confidence([one.wait_ns for one in own], [one.confidence for one in own])
    known = min(known, limit)
    why = min(_why(main.wait_ns / first_ns), known)
    return Roots(roots.every, Named(label, main.cause, first_ns, min(who, known), why), None)


def _who(share: float, second: float) -> int:
    """Return how sure the rank is, by its share of the waiting and its lead over the next."""
    if share >= HIGH_ROOT_SHARE and second <= HIGH_SECOND_SHARE:
        return HIGH
    return MEDIUM if share >= MEDIUM_ROOT_SHARE and share - second >= MEDIUM_MARGIN else LOW


def _why(share: float) -> int:
    """Return how sure the cause is, by the share of the waiting behind the rank that it has."""
    return HIGH if share >= HIGH_ROOT_SHARE else MEDIUM if share >= MEDIUM_ROOT_SHARE else LOW


def _immaterial(ranked: Sequence[str], first_ns: int, least_ns: float) -> str:
    waited = f"rank {ranked[0]} makes the others wait {duration(first_ns)}"
    limit = f"below the threshold of {duration(least_ns)}"
    return f"nothing worth fixing: {waited}, {limit}"


def _why_nobody(roots: Roots, ranked: Sequence[str], first_ns: int) -> str:
    """Return a sentence on why no rank is named, where the waiting is material."""
    whole = roots.wait_ns
    several = sum(root.wait_ns for root in roots.every if root.cause == SEVERAL)
    order = sum(root.wait_ns for root in roots.every if root.cause == PIPELINE)
    parts = [f"no single rank causes most of the {duration(whole)} of waiting"]
    if several:
        parts.append(f"{percent(several / whole)} is due to several ranks that are equally late")
    if order:
        parts.append(f"{percent(order / whole)} follows from the order of the pipeline")
    if ranked:
        parts.append(f"rank {ranked[0]} has {duration(first_ns)} ({percent(first_ns / whole)})")
    return "; ".join(parts)


MAX_FOLLOWED: Final = 100
"""Number of late arrivals, those with most waiting, that are followed to their roots."""
MIN_INSTANCES: Final = 3
"""Fewer collectives of a kind tell no transfer time that the waiting can be counted from."""


SAMPLES: Final = 200
"""Draws of steps: an agreement of 0.95 then has a standard error of 0.015."""
HIGH_AGREEMENT: Final = 0.95
MEDIUM_AGREEMENT: Final = 0.8
"""Shares of the samples of steps in which a rank must be the root again."""


class Followed(Struct, frozen=True):
    """Late arrivals that are followed to their roots.

    ``behind`` are the chains with their waiting, ``places`` the matched group and instance of each,
    ``roots`` their roots with the rank that is named. ``whole_ns`` is all exposed waiting, followed
    or not.
    """

    behind: tuple[Behind, ...]
    places: tuple[tuple[int, int], ...]
    roots: Roots
    whole_ns: int

    def behind_ranks(self) -> dict[str, int]:
        """Return the waiting behind each rank, ns by label, without the order of the pipeline.

        Collectives that are not followed are taken to have the same causes.
        """
        followed = self.roots.wait_ns
        return {
            label: round(ns * self.whole_ns / followed)
            for label, ns in _by_rank(self.roots.every).items()
        }

    def place_of(self, label: str) -> tuple[int, int] | None:
        """Return the collective with most waiting behind a rank, where it was late itself first."""
        ends = [place for place, one in enumerate(self.behind) if one.chain[-1].label == label]
        own = [place for place in ends if len(self.behind[place].chain) == 1]
        chosen = own or ends
        return self.places[max(chosen, key=lambda i: self.behind[i].wait_ns)] if chosen else None


def _by_rank(every: Sequence[Root]) -> dict[str, int]:
    """Return the waiting of the roots of each rank, ns by label, without order of the pipeline."""
    found: defaultdict[str, int] = defaultdict(int)
    for root in every:
        if root.label and root.cause != PIPELINE:
            found[root.label] += root.wait_ns
    return found


class RootWaiting(Followed, frozen=True):
    """Roots of the waiting of a view, the worst first, with the waiting for absent ranks.

    ``rank_time_ns`` is the measured time of all ranks, ``least_ns`` the followed waiting from which
    on a rank is named.
    """

    rank_time_ns: int
    least_ns: float

    @property
    def followed_ns(self) -> int:
        """Waiting of the followed chains and for absent ranks, ns."""
        return self.roots.wait_ns

    def of_time(self, wait_ns: float) -> float | None:
        """Return the share of the time of all ranks that part of the followed waiting stands for.

        Collectives that are not followed are taken to have the same causes.
        """
        if not self.rank_time_ns or not self.followed_ns:
            return None
        return wait_ns / self.followed_ns * self.whole_ns / self.rank_time_ns


def root_waiting(view: View) -> RootWaiting:
    """Follow the worst late arrivals of a view to their roots and choose the rank to name."""
    return view.remember(root_waiting, lambda: _root_waiting(view))


@fact("roots")
def _root_waiting(view: View) -> RootWaiting:
    worst = most_waiting(late_arrivals_of(view, MAX_FOLLOWED), MAX_FOLLOWED)
    chains = chains_of(job_causes(view), worst)
    worst, chains = _after_begin(worst, chains)
    waited = {one.part.number: one for one in exposed_waits(view)}
    behind = tuple(
        behind_of(waited[number], row, chain)
        for (number, row), chain in zip(worst, chains, strict=True)
    )
    absent = list(_waits_for_absent(view))
    every = _ordered([*roots_of(behind), *absent])
    followed = sum(root.wait_ns for root in every)
    begun = starts_recording(job_causes(view)) if _is_begun(chains) else ()
    whole = sum(
        int(one.caused_ns[one.is_late & ~begun[number][one.rows] if begun else one.is_late].sum())
        for number, one in waited.items()
    )
    whole += sum(root.wait_ns for root in absent)
    time = rank_time_ns(view)
    # what is followed stands for all of the waiting, and is compared with as much less
    least = material_ns(view) * (followed / whole if whole else 1.0)
    roots = choose_root(every, least_ns=least, limit=confidence_limit(view))
    if roots.named is not None and roots.named.cause != NOT_RECORDED:
        limit = _limit_by_steps(view, roots.named.label, behind, worst)
        who, why = min(roots.named.who, limit), min(roots.named.why, limit)
        named = replace(roots.named, who=who, why=why)
        roots = structs.replace(roots, named=named)
    return RootWaiting(behind, tuple(worst), roots, whole, time, least)


def _limit_by_steps(
    view: View, label: str, behind: Sequence[Behind], places: Sequence[tuple[int, int]]
) -> int:
    """Return the highest confidence that the steps allow in which a rank was the root.

    LOW for one step and MEDIUM for two of more than one step: chance repeats itself less often. Of
    more, the rank must be behind most waiting again in nearly all samples of the steps, drawn with
    replacement. No bound where no step is marked.
    """
    groups = view.arrivals.groups
    known = distinct_values(np.concatenate([distinct_values(one.match.step) for one in groups]))
    known = known[known != MISSING]
    if len(known) < 2:
        return HIGH
    labels = [label, *sorted({one.chain[-1].label for one in behind} - {label})]
    waits = np.zeros((len(known), len(labels) + 1))  # the last column: several ranks
    hit = set()
    for one, (number, row) in zip(behind, places, strict=True):
        step = int(groups[number].match.step[row])
        if step == MISSING or one.chain[-1].cause == PIPELINE:
            continue
        at, who = int(np.searchsorted(known, step)), one.chain[-1].label
        own = one.beyond_ns if who == one.chain[0].label else one.wait_ns
        waits[at, labels.index(who)] += own
        waits[at, -1] += one.wait_ns - own
        hit |= {at} if who == label else set()
    if len(hit) < 3:
        return (LOW, LOW, MEDIUM)[len(hit)]
    again = _agreement(waits)
    return HIGH if again >= HIGH_AGREEMENT else MEDIUM if again >= MEDIUM_AGREEMENT else LOW


def _agreement(waits: F64) -> float:
    """Return the share of samples of steps in which the first column again has most waiting.

    ``waits`` is [step, rank], at least 0; its last column belongs to no rank.
    """
    if _agrees(waits).all():  # so does each sum of such steps
        return 1.0
    return float(_agrees(waits[drawn_places(len(waits), SAMPLES)].sum(axis=1)).mean())


def _agrees(waits: F64) -> Bool:
    """Return in which rows the first column has most waiting, with the margin of a root."""
    whole = np.maximum(waits.sum(axis=1), 1)
    share = waits[:, 0] / whole
    second = waits[:, 1:-1].max(axis=1, initial=0) / whole
    agrees: Bool = (share >= MEDIUM_ROOT_SHARE) & (share - second >= MEDIUM_MARGIN)
    return agrees


def _after_begin(
    worst: list[tuple[int, int]], chains: list[tuple[Link, ...]]
) -> tuple[list[tuple[int, int]], list[tuple[Link, ...]]]:
    """Return the late arrivals without those at the start of the recording, if there are others.

    Profilers begin at different times: waiting before the first common point is not that of a job.
    """
    if not _is_begun(chains):
        return worst, chains
    kept = [place for place, chain in enumerate(chains) if not begins_recording(chain)]
    return [worst[place] for place in kept], [chains[place] for place in kept]


def _is_begun(chains: Sequence[tuple[Link, ...]]) -> bool:
    return not all(begins_recording(chain) for chain in chains)


def begins_recording(chain: tuple[Link, ...]) -> bool:
    """Return whether a recording begins at a late arrival, so that its cause is not in it."""
    found = chain[0].found
    return found is not None and bool(found.starts_recording.all())


def may_name_a_rank(view: View) -> bool:
    """Return whether all waiting together is as much as names a rank, without a search for causes.

    No root has more waiting than all of it, with that of collectives that do not count.
    """
    whole = sum(int(one.caused_ns.sum()) for one in exposed_waits(view))
    whole += sum(root.wait_ns for root in _waits_for_absent(view))
    return whole >= material_ns(view)


def material_ranks(found: RootWaiting, num_ranks: int) -> list[str]:
    """Return the ranks that cause more waiting than chance, and material waiting; most first.

    waiting > 1.5 * (waiting behind all ranks) / num_ranks
    """
    total = _by_rank(found.roots.every)
    least = max(TIMES_EVEN_SHARE * sum(total.values()) / max(num_ranks, 1), found.least_ns)
    ordered = sorted(total, key=lambda label: -total[label])
    return [label for label in ordered if total[label] >= least and total[label]]


def root_statement(found: RootWaiting, prefix: str = "root") -> dict[str, Any]:
    """Return rank, cause, confidence and shares of the root as rows of a result.

    Without a rank, ``why`` has the reason; the cause is unknown where material waiting has none.
    """
    named, why = found.roots.named, found.roots.why_nobody
    return {
        f"{prefix}_rank": None if named is None else named.label,
        f"{prefix}_cause": None if named is None else named.cause,
        f"{prefix}_confidence": None if named is None else CONFIDENCES[named.confidence],
        f"{prefix}_sure": None if named is None else named.sure.to_dict(),
        f"{prefix}_share": None if named is None else ratio(named.wait_ns, found.roots.counted_ns),
        f"{prefix}_share_of_time": None if named is None else found.of_time(named.wait_ns),
        f"{prefix}_why": why if named is None else _absence(found, named),
    }


def _absence(found: RootWaiting, named: Named) -> str | None:
    """Return a sentence on a root without a file, None for others."""
    if named.cause != NOT_RECORDED:
        return None
    waited = duration(named.wait_ns)
    return f"no trace of rank {named.label} was read; the others wait {waited} for it"


def behind_of(waited: ExposedWaits, row: int, chain: tuple[Link, ...]) -> Behind:
    """Return a chain with the exposed waiting at its collective, instance ``row`` of the group."""
    at = int(np.searchsorted(waited.rows, row))
    second = waited.labels[int(waited.second[at])]
    return Behind(chain, int(waited.caused_ns[at]), int(waited.beyond_ns[at]), second)


def _waits_for_absent(view: View) -> Iterator[Root]:
    """Yield the waiting of all recorded ranks of a group for one that is not recorded.

    The shortest duration over the recorded ranks is the transfer where the last rank is recorded.
    What exceeds the shortest one of any call of the same type that moves as much or more is
    waiting for the rank that is absent.
    """
    found: dict[str, list[int]] = {}
    for waited in exposed_waits(view):
        arrived = waited.part.arrived
        missing = arrived.match.missing
        rows = waited.rows[waited.eligible]
        if len(missing) != 1 or not len(rows):
            continue
        least = row_min(arrived.dur_ns[rows])
        extra = least - _transfer_ns(view, arrived, rows, least)
        late = extra > view.arrivals.floor_ns
        if int(late.sum()):
            wait = int(extra[late].sum()) * len(waited.part.columns)
            sums = found.setdefault(str(missing[0]), [0, 0])
            sums[0] += wait
            sums[1] += int(late.sum())
    for label, (wait, count) in found.items():
        yield Root(label, NOT_RECORDED, count, wait, MEDIUM)


def _transfer_ns(view: View, arrived: GroupArrivals, instances: I64, least: I64) -> I64:
    """Return an upper bound of the transfer time of each instance: the quickest like call, ns."""
    label = arrived.labels[0]
    size = view.facts.named_calls[label].message_bytes[arrived.match.rows[instances, 0]]
    kind = arrived.match.kind[instances]
    bound = least.copy()
    for one in distinct_values(kind).tolist():
        rows = np.flatnonzero(kind == one)
        if len(rows) < MIN_INSTANCES:
            continue
        order = rows[np.argsort(-size[rows], kind="stable")]
        # ascending size from the end: the minimum over all calls that are as large or larger
        quickest = np.minimum.accumulate(least[order])
        ends = np.flatnonzero(np.append(np.diff(size[order]) != 0, True))
        bound[order] = quickest[ends[np.searchsorted(ends, np.arange(len(order)))]]
    return bound


MOST_FOLLOWED: Final = 400
"""Number of late arrivals that are followed to their roots, over all steps."""
MOST_PER_STEP: Final = 8
"""The same of one step: who is waited for in a step shows in those with most waiting."""


def step_roots(view: View) -> dict[int, Followed]:
    """Return the roots of the waiting of each step with a late rank, by step id.

    Of more steps than chains are followed, those with most waiting.
    """
    return view.remember(step_roots, lambda: _step_roots(view))


@fact("step_roots")
def _step_roots(view: View) -> dict[int, Followed]:
    worst, whole = _worst_by_step(view)
    places = [place for found in worst.values() for place in found]
    chains = chains_of(job_causes(view), places)
    waited = {one.part.number: one for one in exposed_waits(view)}
    limit, least = confidence_limit(view), _least_ns(view)
    followed = dict(zip(places, chains, strict=True))
    found = {}
    for step, own in worst.items():
        kept = [place for place in own if not begins_recording(followed[place])]
        behind = tuple(behind_of(waited[n], row, followed[n, row]) for n, row in kept)
        every = roots_of(behind)
        part = sum(root.wait_ns for root in every) / whole[step] if whole[step] else 1.0
        roots = choose_root(every, least_ns=least * part, limit=limit)
        found[step] = Followed(behind, tuple(kept), roots, whole[step])
    return found


def _least_ns(view: View) -> float:
    """Waiting in a step below which nobody is named: the share of the job, of a mean step."""
    steps = max((len(rank.step_windows) for rank in view.ranks), default=0)
    return rank_time_ns(view) * materiality_pct(view) / 100 / max(steps, 1)


def _ordered(roots: Sequence[Root]) -> list[Root]:
    return sorted(roots, key=lambda root: (-root.wait_ns, root.label, root.cause))


def _worst_by_step(view: View) -> tuple[dict[int, list[tuple[int, int]]], dict[int, int]]:
    """Return (matched group, instance) of the worst late arrivals of each step, and all waiting."""
    parts = [np.empty((4, 0), np.int64)]
    for one in exposed_waits(view):
        arrived = one.part.arrived
        last, step = arrived.delaying[one.rows], arrived.match.step[one.rows]
        late = one.is_late & (step >= 0) & (last >= 0) & np.isin(last, one.part.columns)
        caused = one.caused_ns
        at = np.flatnonzero(late & (caused > 0))
        group = np.full(len(at), one.part.number)
        parts.append(np.stack([step[at].astype(np.int64), caused[at], group, one.rows[at]]))
    steps, waited, groups, rows = np.concatenate(parts, axis=1)
    whole: defaultdict[int, int] = defaultdict(int)
    for number, ns in zip(steps.tolist(), waited.tolist(), strict=True):
        whole[number] += ns
    per_step = min(max(MOST_FOLLOWED // max(len(whole), 1), 1), MOST_PER_STEP)
    followed = set(sorted(whole, key=lambda step: -whole[step])[: MOST_FOLLOWED // per_step])
    worst: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    order = np.lexsort((rows, groups, -waited, steps))
    places = (one[order].tolist() for one in (steps, groups, rows))
    for number, group, row in zip(*places, strict=True):
        if number in followed and len(worst[number]) < per_step:
            worst[number].append((group, row))
    return {step: found for step, found in worst.items() if found}, dict(whole)


def beyond_usual(found: dict[int, Followed], step: int, limit: int = HIGH) -> Roots:
    """Return the roots of a step with their waiting beyond that in the median step.

    A rank that is as late in every step makes no single one of them slow.
    """
    if step not in found:
        return Roots((), None, None)
    others = [one.behind_ranks() for number, one in found.items() if number != step]
    behind = found[step].behind_ranks()
    own: defaultdict[str, list[Root]] = defaultdict(list)
    for root in found[step].roots.every:
        own[root.label].append(root)
    every = []
    for label, ns in behind.items():
        usual = sorted(other.get(label, 0) for other in others)
        beyond = ns - (usual[(len(usual) - 1) // 2] if usual else 0)
        if beyond > 0:
            main = max(own[label], key=lambda root: root.wait_ns)
            every.append(Root(label, main.cause, main.count, beyond, main.confidence))
    return choose_root(_ordered(every), limit=limit)


def reliable_step_roots(view: View) -> dict[int, Followed]:
    """Return `step_roots` of a view whose matches identify late ranks.

    Raises:
        Refusal: fewer than two ranks, nothing that ranks wait for, or matches that the clocks
            disprove.
    """
    require_ranks(view)
    possible_match(view)
    return step_roots(view)
