"""Divide the measured time of a rank completely into disjoint parts that are named for a reader.

Where parts meet the first of these has the time: computing, waiting for a late rank, exposed
communication by parallel dimension, copies, idle time by cause.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import numpy as np

from ccltui.metrics.arrays.reductions import distinct_values
from ccltui.metrics.device.time_losses import UNKNOWN, Loss, losses
from ccltui.metrics.model.classify import TYPES
from ccltui.metrics.model.dimensions import DIMS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.rank_view import RankView

COMPUTE: Final = "compute"
WAITING: Final = "waiting"
KINDS: Final = (COMPUTE, WAITING, "communication", "copies", "idle")
"""Kinds of parts in the order of the list; within a kind the largest part is first."""

Part = tuple[str, str]
"""Kind and name of a part."""


def parts_of(view: View, ranks: Sequence[RankView], rank: RankView) -> Counter[Part]:
    """Return the time of one rank by part, in ns; the sum is its window."""
    dims = view.remember(_dims_of_calls, lambda: _dims_of_calls(view, ranks))
    found: Counter[Part] = Counter()
    for loss in losses(view, ranks):
        found[_part(loss, dims)] += loss.by_rank.get(rank.label, 0)
    found[COMPUTE, COMPUTE] = rank.comp.total_ns
    return found


def _part(loss: Loss, dims: Mapping[tuple[str, int], str]) -> Part:
    if loss.kind == "straggler":
        return WAITING, WAITING
    if loss.kind == "communication":
        return loss.kind, dims.get((loss.what.partition(" of ")[0], loss.group), UNKNOWN)
    return loss.kind, loss.what


def _dims_of_calls(view: View, ranks: Sequence[RankView]) -> dict[tuple[str, int], str]:
    """Parallel dimension of the calls of each type and group: the one of most of them."""
    counts: dict[tuple[str, int], Counter[str]] = {}
    for rank in ranks:
        calls = rank.device_calls
        dims, _ = view.dims_of(calls)
        code = (calls.group.astype(np.int64) * len(TYPES) + calls.kind) * len(DIMS) + dims
        for one in distinct_values(code).tolist():
            rest, dim = divmod(one, len(DIMS))
            group, kind = divmod(rest, len(TYPES))
            number = int((code == one).sum())
            counts.setdefault((TYPES[kind], group), Counter())[DIMS[dim]] += number
    return {key: max(found, key=lambda dim: (found[dim], dim)) for key, found in counts.items()}


def ordered(total: Counter[Part]) -> list[Part]:
    """Return the parts with time: computing, then each kind with its largest part first."""
    kept = [part for part, ns in total.items() if ns > 0]
    return sorted(kept, key=lambda part: (KINDS.index(part[0]), -total[part], part[1]))
