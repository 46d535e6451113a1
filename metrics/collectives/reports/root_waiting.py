"""Whom the waiting of a view is due to: chains of the worst late arrivals, and absent ranks."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ccltui.metrics.arrays.reductions import distinct_values, row_min
from ccltui.metrics.arrays.statistics import ratio
from ccltui.metrics.collectives.causes.cause_search import starts_recording
from ccltui.metrics.collectives.causes.cause_text import duration
from ccltui.metrics.collectives.causes.chain import NOT_RECORDED, PIPELINE, chains_of
from ccltui.metrics.collectives.causes.root_rule import (
    MEDIUM_MARGIN,
    MEDIUM_ROOT_SHARE,
    Behind,
    Named,
    Root,
    Roots,
    choose_root,
    roots_of,
)
from ccltui.metrics.collectives.causes.verdicts import Link
from ccltui.metrics.collectives.lateness.arrivals import GroupArrivals
from ccltui.metrics.collectives.lateness.blame import TIMES_EVEN_SHARE
from ccltui.metrics.collectives.matching.match import HIGH, LOW, MEDIUM
from ccltui.metrics.collectives.reports.instance_report import CONFIDENCES
from ccltui.metrics.collectives.reports.late_arrivals import late_arrivals_of, most_waiting
from ccltui.metrics.view.exposed_waits import ExposedWaits, exposed_waits, material_ns, rank_time_ns
from ccltui.metrics.view.match_quality import confidence_limit
from ccltui.parsers.columns import MISSING

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.parsers.array_types import F64, I64, Bool

MAX_FOLLOWED: Final = 100
"""Number of late arrivals, those with most waiting, that are followed to their roots."""
MIN_INSTANCES: Final = 3
"""Fewer collectives of a kind tell no transfer time that the waiting can be counted from."""


SAMPLES: Final = 200
HIGH_AGREEMENT: Final = 0.95
MEDIUM_AGREEMENT: Final = 0.8
"""Shares of the samples of steps in which a rank must be the root again."""


class RootWaiting(Struct, frozen=True):
    """Roots of the waiting of a view.

    ``behind`` are the followed chains with their waiting, ``places`` the matched group and instance
    of each, the worst first. ``whole_ns`` is all exposed waiting, followed or not, with that for
    absent ranks; ``rank_time_ns`` the measured time of all ranks; ``least_ns`` the followed waiting
    from which on a rank is named.
    """

    behind: tuple[Behind, ...]
    places: tuple[tuple[int, int], ...]
    roots: Roots
    whole_ns: int
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


def _root_waiting(view: View) -> RootWaiting:
    worst = most_waiting(late_arrivals_of(view, MAX_FOLLOWED), MAX_FOLLOWED)
    chains = chains_of(view.facts.causes, worst)
    worst, chains = _after_begin(worst, chains)
    waited = {one.part.number: one for one in exposed_waits(view)}
    behind = tuple(
        behind_of(waited[number], row, chain)
        for (number, row), chain in zip(worst, chains, strict=True)
    )
    absent = list(_waits_for_absent(view))
    every = sorted(
        [*roots_of(behind), *absent], key=lambda root: (-root.wait_ns, root.label, root.cause)
    )
    followed = sum(root.wait_ns for root in every)
    begun = starts_recording(view.facts.causes) if _is_begun(chains) else ()
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
        named = replace(roots.named, confidence=min(roots.named.confidence, limit))
        roots = dataclasses.replace(roots, named=named)
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
    if _agrees(waits).all():  # so does each sum of such steps, and numpy.random is slow to import
        return 1.0
    drawn = np.random.default_rng(0).multinomial(
        len(waits), np.full(len(waits), 1 / len(waits)), size=SAMPLES
    )
    return float(_agrees(drawn @ waits).mean())


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


def material_ranks(found: RootWaiting, num_ranks: int) -> list[str]:
    """Return the ranks that cause more waiting than chance, and material waiting; most first.

    waiting > 1.5 * (waiting behind all ranks) / num_ranks
    """
    total: dict[str, int] = {}
    for root in found.roots.every:
        if root.label and root.cause != PIPELINE:
            total[root.label] = total.get(root.label, 0) + root.wait_ns
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
        f"{prefix}_share": None if named is None else ratio(named.wait_ns, found.roots.counted_ns),
        f"{prefix}_share_of_time": None if named is None else found.of_time(named.wait_ns),
        f"{prefix}_why": why if named is None else _absence(found, named),
    }


def _absence(found: RootWaiting, named: Named) -> str | None:
    """Return a sentence on a root without a file, None for others."""
    if named.cause != NOT_RECORDED:
        return None
    waited = duration(named.wait_ns)
    return f"rank {named.label} is not here; the others wait {waited} for someone not recorded"


def behind_of(waited: ExposedWaits, row: int, chain: tuple[Link, ...]) -> Behind:
    """Return a chain with the exposed waiting at its collective, instance ``row`` of the group."""
    at = int(np.searchsorted(waited.rows, row))
    second = waited.part.labels[int(waited.second[at])]
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
