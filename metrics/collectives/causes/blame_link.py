"""Link of a blame chain."""

from __future__ import annotations

from msgspec import Struct

from ccltui.metrics.collectives.causes.verdicts import Verdicts


class Link(Struct, frozen=True):
    """One late rank of a blame chain, where it was late, and why.

    ``number`` is the position of the matched group in the arrivals, -1 for a transfer between two
    ranks. ``row`` is the instance with most lag of the ``count`` that the link represents; of a
    transfer, the call of ``label``. ``lag_ns`` is how long the rank before it in the chain waited
    for it beyond its peers; of the first link, the lag. ``share`` is the part of its lateness that
    ``cause`` explains.
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
    found: Verdicts | None = None  # the verdicts that the cause is from
