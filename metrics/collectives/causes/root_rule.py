"""Choose the rank behind most waiting, whether or not its cause is known, or none.

All metrics that name a rank for the waiting of a job use this rule. The statement is about the
waiting as a whole: a rank that is behind a small part of it is not named, however certain its cause
is. Where the file of the culprit is missing, only small differences between the other ranks can be
explained, and these are not what the job waited for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from msgspec import Struct

from ccltui.metrics.collectives.causes.cause_text import duration
from ccltui.metrics.collectives.causes.chain import PIPELINE
from ccltui.metrics.collectives.causes.verdicts import (
    MIN_ROOT_SHARE,
    UNKNOWN,
    Link,
    majority_confidence,
)
from ccltui.metrics.collectives.matching.match import HIGH, LOW, MEDIUM

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
    """The rank behind most waiting: its waiting with all causes, and the cause of most of it."""

    label: str
    cause: str
    wait_ns: int
    confidence: int


@dataclass(frozen=True)
class Roots:
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
    by_rank: dict[str, list[Root]] = {}
    for root in every:
        if root.label and root.cause != PIPELINE:
            by_rank.setdefault(root.label, []).append(root)
    waits = {label: sum(root.wait_ns for root in own) for label, own in by_rank.items()}
    ranked = sorted(waits, key=lambda label: -waits[label])
    first_ns = waits[ranked[0]] if ranked else 0
    second_ns = waits[ranked[1]] if len(ranked) > 1 else 0
    is_shared = not ranked or first_ns < MIN_ROOT_SHARE * whole
    if is_shared and (whole >= least_ns or not ranked):
        return Roots(roots.every, None, _why_nobody(roots, ranked, first_ns))
    if first_ns < least_ns:
        return Roots(roots.every, None, _immaterial(ranked, first_ns, least_ns))
    label = ranked[0]
    main = by_rank[label][0]
    sure = _confidence(first_ns / whole, second_ns / whole, main.wait_ns / first_ns)
    known = majority_confidence(
        [r.wait_ns for r in every if r.label == label], _levels(every, label)
    )
    return Roots(roots.every, Named(label, main.cause, first_ns, min(sure, known, limit)), None)


def _levels(every: Sequence[Root], label: str) -> list[int]:
    return [root.confidence for root in every if root.label == label]


def _confidence(share: float, second: float, cause_share: float) -> int:
    """Return how sure it is who, why and how much: by share, lead, and share of the main cause."""
    if share >= HIGH_ROOT_SHARE and second <= HIGH_SECOND_SHARE and cause_share >= HIGH_ROOT_SHARE:
        return HIGH
    if (
        share >= MEDIUM_ROOT_SHARE
        and share - second >= MEDIUM_MARGIN
        and cause_share >= MEDIUM_ROOT_SHARE
    ):
        return MEDIUM
    return LOW


def _immaterial(ranked: Sequence[str], first_ns: int, least_ns: float) -> str:
    waited = f"rank {ranked[0]} makes the others wait {duration(first_ns)}"
    limit = f"less than the {duration(least_ns)} that would matter"
    return f"nothing worth fixing: {waited}, {limit}"


def _why_nobody(roots: Roots, ranked: Sequence[str], first_ns: int) -> str:
    """Return a sentence on why no rank is named, where the waiting is material."""
    whole = roots.wait_ns
    several = sum(root.wait_ns for root in roots.every if root.cause == SEVERAL)
    order = sum(root.wait_ns for root in roots.every if root.cause == PIPELINE)
    parts = [f"no rank is behind most of {duration(whole)} of waiting"]
    if several:
        parts.append(f"{several / whole:.0%} is due to several ranks that come equally late")
    if order:
        parts.append(f"{order / whole:.0%} follows from the order of the pipeline")
    if ranked:
        parts.append(f"rank {ranked[0]} has {duration(first_ns)} ({first_ns / whole:.1%})")
    return "; ".join(parts)
