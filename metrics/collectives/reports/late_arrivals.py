"""The late arrivals of a view with their causes, the worst first where there are too many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from ccltui.metrics.arrays.reductions import row_sum
from ccltui.metrics.collectives.causes.verdicts import Verdicts
from ccltui.metrics.view.collective_selection import Part

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.parsers.array_types import I64, Bool

NOBODY_LATE: Final = "nobody came later than the floor: there is nothing to explain"


@dataclass(frozen=True, slots=True)
class Blamed:
    """Late arrivals of one group, ascending ``rows`` of its instances.

    ``caused_wait_ns`` is what all members waited for the last. ``num_blamed`` counts those that
    were left out because others are worse.
    """

    part: Part
    rows: I64
    lag_ns: I64
    caused_wait_ns: I64
    verdicts: Verdicts
    num_blamed: int

    @property
    def lag(self) -> int:
        """Lag of all of them, ns."""
        return int(self.lag_ns.sum())

    @property
    def explained_ns(self) -> int:
        """The part of it that causes explain."""
        return round(float((self.lag_ns * self.verdicts.share).sum()))


def blamed_of(view: View, parts: Sequence[Part], limit: int) -> list[Blamed]:
    """Selected instances that a selected rank came late to, by group; at most ``limit`` in all.

    Those with most waiting are kept.
    """
    rows = [_rows(part) for part in parts]
    waits = [row_sum(part.arrived.wait_ns[one]) for part, one in zip(parts, rows, strict=True)]
    together = np.concatenate([np.empty(0, np.int64), *waits])
    least = 0
    if len(together) > limit:
        least = int(np.partition(together, len(together) - limit)[len(together) - limit])
    found = []
    for part, one, wait in zip(parts, rows, waits, strict=True):
        kept = wait >= least
        if kept.any():
            chosen = one[kept]
            verdicts = view.facts.causes.verdicts(part.number, chosen)
            lag = part.arrived.lag_ns[chosen]
            found.append(Blamed(part, chosen, lag, wait[kept], verdicts, len(one)))
    return found


def worst_of(blamed: Sequence[Blamed], count: int) -> list[tuple[int, int]]:
    """(matched group, instance) of those with most waiting, the worst first.

    Those with which the recording begins come last: what is before them is not seen.
    """
    ranked = [
        (bool(begins), -int(wait), one.part.number, int(row))
        for one in blamed
        for begins, wait, row in zip(*_most(one, count), strict=True)
    ]
    return [(number, row) for _, _, number, row in sorted(ranked)[:count]]


def _most(one: Blamed, count: int) -> tuple[Bool, I64, I64]:
    begins = one.verdicts.begins
    order = np.lexsort((-one.caused_wait_ns, begins))[:count]
    return begins[order], one.caused_wait_ns[order], one.rows[order]


def _rows(part: Part) -> I64:
    """Blamed instances of a part whose last member is selected."""
    last = part.arrived.last
    return np.flatnonzero(part.rows & (last >= 0) & np.isin(last, part.columns))
