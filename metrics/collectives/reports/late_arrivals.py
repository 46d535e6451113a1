"""Select the late arrivals of a view with their causes, those with most waiting first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.reductions import row_sum
from ccltui.metrics.collectives.causes.verdicts import Verdicts
from ccltui.metrics.view.collective_selection import Part, parts_of

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.parsers.array_types import I64, Bool

NOBODY_LATE: Final = "no lag exceeds the floor: no rank is late"


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


def late_arrivals_of(view: View, limit: int) -> list[LateArrivals]:
    """Return the selected instances with a selected late rank, by group; at most ``limit`` in all.

    Those with most waiting are selected. Several metrics share them.
    """
    return view.remember((late_arrivals_of, limit), lambda: _late_arrivals(view, limit))


def _late_arrivals(view: View, limit: int) -> list[LateArrivals]:
    parts = parts_of(view)
    rows = [_rows(part) for part in parts]
    waits = [row_sum(part.arrived.wait_ns[one]) for part, one in zip(parts, rows, strict=True)]
    together = np.concatenate([np.empty(0, np.int64), *waits])
    least = 0
    if len(together) > limit:
        least = int(np.partition(together, len(together) - limit)[len(together) - limit])
    found = []
    for part, one, wait in zip(parts, rows, waits, strict=True):
        chosen = wait >= least
        if chosen.any():
            late_rows = one[chosen]
            verdicts = view.facts.causes.verdicts(part.number, late_rows)
            lag = part.arrived.lag_ns[late_rows]
            found.append(LateArrivals(part, late_rows, lag, wait[chosen], verdicts, len(one)))
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
