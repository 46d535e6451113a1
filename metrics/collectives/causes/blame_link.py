"""One link of a blame chain: a late rank, where it was late, and why."""

from __future__ import annotations

from dataclasses import dataclass

from ccltui.metrics.collectives.causes.verdicts import Verdicts


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
