"""Measure the waiting at collectives during which nothing computes, and whom it is due to.

    exposed wait  = time from the arrival of a rank to that of the last one, without computation
    beyond        = the part of it after the arrival of the last but one rank

Computation hides waiting: it costs the step nothing. Before the last but one rank arrives, another
rank is as late, and the last one alone is not the cause.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct

from ccltui.metrics.collectives.arrivals import Lateness, clock_free
from ccltui.metrics.facts import fact
from ccltui.metrics.view.collective_selection import Part, parts_of
from ccltui.metrics.view.overrides import positive_number
from ccltui.parsers.array_types import I64, Bool

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.rank_view import RankView

MATERIALITY: Final = "materiality_pct"
"""Name of the parameter: share of the measured time, %, below which nobody is named."""
DEFAULT_MATERIALITY_PCT: Final = 1.0
MATERIALITY_TEXT: Final = (
    "percentage of the time of all ranks below which no rank is named; 1 unless given"
)


class ExposedWaits(Struct, frozen=True):
    """Exposed waiting at the selected instances of one group at which ranks wait for one of them.

    ``rows`` [n] are the instances of ``part.arrived``, broadcasts among them; ``is_late`` marks
    those with a lag above the floor, ``eligible`` those that `chosen_of` has too.
    ``wait_ns`` is int64 [n, m] over the selected members, ``beyond_ns`` [n] the sum over members of
    the part that is due to the last one alone, ``second`` [n] the last but one member.
    """

    part: Part
    rows: I64
    is_late: Bool
    eligible: Bool
    wait_ns: I64
    beyond_ns: I64
    second: I64

    @property
    def caused_ns(self) -> I64:
        """Waiting of all members at each instance, int64 ns [n]."""
        return np.asarray(self.wait_ns.sum(axis=1))


def exposed_waits(view: View) -> list[ExposedWaits]:
    """Return the exposed waits of each group with selected instances."""
    return view.remember(exposed_waits, lambda: _exposed_waits(view))


def rank_time_ns(view: View) -> int:
    """Return the measured time of all ranks together, in ns."""
    return sum(rank.window_ns for rank in view.ranks)


def materiality_pct(view: View) -> float:
    """Return the share of the measured time below which nobody is named, in %.

    Raises:
        Refusal: the parameter is no positive number.
    """
    given = positive_number(view, MATERIALITY)
    return DEFAULT_MATERIALITY_PCT if given is None else given


def material_ns(view: View) -> float:
    """Return the waiting below which no rank is named, in ns.

    Raises:
        Refusal: see `materiality_pct`.
    """
    return rank_time_ns(view) * materiality_pct(view) / 100


@fact("waits")
def _exposed_waits(view: View) -> list[ExposedWaits]:
    ranks = {rank.label: rank for rank in view.ranks}
    floor_ns = view.arrivals.floor_ns
    return [_of_part(part, ranks, floor_ns) for part in parts_of(view) if _rows(part).any()]


def _rows(part: Part) -> Bool:
    return part.rows & part.arrived.delays


def _lateness_of(part: Part, mask: Bool, floor_ns: int) -> Lateness:
    """Return the lateness of some instances among the members of the part."""
    if len(part.columns) == len(part.arrived.labels):
        return part.arrived.clock_free.take(slice(None) if mask.all() else mask)
    return clock_free(part.arrived.dur_ns[mask][:, part.columns], floor_ns)


def _of_part(part: Part, ranks: Mapping[str, RankView], floor_ns: int) -> ExposedWaits:
    mask = _rows(part)
    rows = np.flatnonzero(mask)
    lateness = _lateness_of(part, mask, floor_ns)
    wait = lateness.wait_ns
    two = np.argpartition(wait, 1, axis=1)[:, :2]
    second = np.where(two[:, 0] == wait.argmin(axis=1), two[:, 1], two[:, 0])
    gap = wait[np.arange(len(wait)), second]
    # By member, as the loop goes: with a thousand members each row of instances is 8 KB.
    wait = np.asfortranarray(wait)
    exposed, beyond = np.zeros_like(wait), np.zeros(len(wait), np.int64)
    for place, column in enumerate(part.columns.tolist()):
        rank = ranks[part.arrived.labels[column]]
        start = rank.recorded_calls.start_ns[part.arrived.match.rows[rows, column]]
        end = start + wait[:, place]
        exposed[:, place] = wait[:, place] - rank.comp.within(start, end)
        alone = np.minimum(gap, wait[:, place])
        beyond += alone - rank.comp.within(end - alone, end)
    late = lateness.last >= 0
    return ExposedWaits(part, rows, late, part.arrived.eligible[rows], exposed, beyond, second)
