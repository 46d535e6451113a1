"""How long each rank keeps the others waiting by its own time, without any matched call.

A rank that others wait for is busy longer than they are: it computes, copies, or idles for its
host while they wait in collectives. One that waits itself is not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.typical import lower_median
from ccltui.metrics.confidence import Level
from ccltui.metrics.device.device_time import device_ranks
from ccltui.metrics.findings.idle_causes import causes_of
from ccltui.metrics.model.classify import TYPES

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.rank_view import RankView

SUPPORTED: Final = 0.25
"""Share of the waiting for a rank by which it has to be busy longer than the typical rank: what is
not supported by that may as well be a slow transfer, or a rank that waits itself."""
LEAST_EXCESS: Final = 0.05
"""Share of the time by which the busiest rank exceeds the typical one, to be named by that."""
CLEAR_EXCESS: Final = 0.08
SECOND, CLEAR_SECOND = 0.5, 0.25
"""Shares of its excess that no other rank reaches: to be named, and to be named surely."""
TRANSFERS: Final = tuple(TYPES.index(one) for one in ("Send", "Recv", "SendRecv"))
SEEN: Final = 0.5
"""Share of its excess that the others wait for anything, on average."""


class Busiest(Struct, frozen=True):
    """The rank that is busy longest by far; ``share`` is what the others wait at most."""

    label: str
    share: float
    sure: Level


def busy_excess(view: View) -> Mapping[str, float]:
    """Return by how much each rank is busy longer than the typical rank, as a share of its time."""
    return view.remember(busy_excess, lambda: _excess(view))


def _excess(view: View) -> Mapping[str, float]:
    ranks = device_ranks(view)
    busy = {rank.label: busy_share(rank) for rank in ranks}
    typical = lower_median(np.array(list(busy.values())))
    return {label: one - typical for label, one in busy.items()}


def busy_share(rank: RankView) -> float:
    """Return the share of its time that a rank does not spend waiting for others."""
    idle = causes_of(rank)
    waits = idle["dependency"].total_ns if "dependency" in idle else 0
    exposed = (rank.comm - (rank.comp | rank.mem)).total_ns
    return 1 - (exposed + waits) / max(rank.window_ns, 1)


def is_supported(view: View, label: str, share: float) -> bool:
    """Whether a rank is busy long enough to be what others wait a share of their time for."""
    excess = busy_excess(view)
    return label not in excess or excess[label] >= SUPPORTED * share


def has_stages(ranks: Sequence[RankView]) -> bool:
    """Whether ranks send to each other as the stages of a pipeline do, which differ anyway."""
    return any(np.isin(rank.device_calls.kind, TRANSFERS).any() for rank in ranks)


def busiest(view: View) -> Busiest | None:
    """Return the rank that is busy longer than all others by far, None where none is."""
    excess = busy_excess(view)
    if len(excess) < 2:
        return None
    label = max(excess, key=lambda one: excess[one])
    most = excess[label]
    second = max(value for one, value in excess.items() if one != label)
    waiting = [1 - busy_share(rank) for rank in device_ranks(view) if rank.label != label]
    others = float(np.mean(waiting))
    if most < LEAST_EXCESS or second > SECOND * most or others < SEEN * most:
        return None
    clear = most >= CLEAR_EXCESS and second <= CLEAR_SECOND * most and len(excess) > 2
    clear &= not has_stages(device_ranks(view))
    return Busiest(label, min(most, others), "medium" if clear else "low")
