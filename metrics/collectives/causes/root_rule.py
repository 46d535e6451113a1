"""Choose the rank to blame for waiting, or none where the cause of most of it is unknown.

All metrics that name a rank use this rule. Where the file of the culprit is missing, only the
small differences between the other ranks can be explained, and these are not what the job waited
for. A rank with a small part of the waiting is therefore not named while the cause of most of it
is unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ccltui.metrics.collectives.causes.blame_link import Link
from ccltui.metrics.collectives.causes.cause_text import duration
from ccltui.metrics.collectives.causes.chain import PIPELINE
from ccltui.metrics.collectives.causes.verdicts import UNKNOWN, majority_confidence, may_name

BLAMELESS_CAUSES: Final = (PIPELINE, UNKNOWN)
"""Causes that blame no rank: the order of the pipeline, and unknown."""


@dataclass(frozen=True, slots=True)
class Root:
    """A rank and a cause at the end of ``count`` chains, and the waiting that they explain."""

    label: str
    cause: str
    count: int
    wait_ns: int
    confidence: int


@dataclass(frozen=True, slots=True)
class Roots:
    """All roots, most waiting first; ``named`` is the one to blame, None for unknown.

    ``why_unknown`` is a sentence with the figures where there are roots and none is named.
    """

    every: tuple[Root, ...]
    named: Root | None
    why_unknown: str | None

    @property
    def wait_ns(self) -> int:
        """Waiting of all roots, ns."""
        return sum(root.wait_ns for root in self.every)

    @property
    def unknown_ns(self) -> int:
        """Waiting with an unknown root, ns."""
        return sum(root.wait_ns for root in self.every if root.cause == UNKNOWN)


def roots_of(chains: Sequence[tuple[Link, ...]], waits: Sequence[int]) -> Roots:
    """Return the roots of chains; ``waits`` is the waiting that each chain explains, in ns.

    The confidence of a root is the highest level that more than half of its waiting reaches.
    """
    found: dict[tuple[str, str], tuple[list[int], list[int]]] = {}
    for chain, wait in zip(chains, waits, strict=True):
        root = chain[-1]
        behind, sure = found.setdefault((root.label, root.cause), ([], []))
        behind.append(wait)
        sure.append(root.confidence)
    ordered = sorted(found, key=lambda key: (-sum(found[key][0]), key))
    return choose_root(
        [
            Root(*key, len(found[key][0]), sum(found[key][0]), majority_confidence(*found[key]))
            for key in ordered
        ]
    )


def choose_root(every: Sequence[Root]) -> Roots:
    """Return ordered roots together with the one that is named.

    That is the first root that blames a rank, else the first one of the pipeline.
    """
    roots = Roots(tuple(every), None, None)
    blamed = [root for root in every if root.cause not in BLAMELESS_CAUSES]
    ordered = [root for root in every if root.cause != UNKNOWN]
    first = next(iter([*blamed, *ordered]), None)
    if not roots.wait_ns:
        return roots
    if first is not None:
        shares = first.wait_ns / roots.wait_ns, roots.unknown_ns / roots.wait_ns
        if may_name(*shares):
            return Roots(roots.every, first, None)
    candidate = None if first is None else (first.label, first.cause, first.wait_ns)
    why = why_unknown("waiting", roots.wait_ns, roots.unknown_ns, candidate)
    return Roots(roots.every, None, why)


def why_unknown(
    what: str, whole_ns: int, unknown_ns: int, candidate: tuple[str, str, int] | None
) -> str:
    """Return a sentence on why no rank is named; the candidate is (rank, cause, its ns)."""
    part = f"the cause of {duration(unknown_ns)} of {duration(whole_ns)} of {what}"
    text = f"unknown: {part} ({unknown_ns / whole_ns:.1%}) is not known"
    if candidate is None:
        return text
    label, cause, own_ns = candidate
    share = own_ns / whole_ns
    return f"{text}; rank {label} ({cause}) has {duration(own_ns)} ({share:.2%}), too little"
