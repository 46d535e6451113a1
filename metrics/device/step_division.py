"""Divide the measured time of ranks completely into parts that are named for a reader.

The parts are computing, and while nothing computes waiting for a late rank, exposed communication
by parallel dimension, copies, and idle time by cause.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from ccltui.metrics.device.time_losses import UNKNOWN, Loss, losses
from ccltui.metrics.workload.call_parts import dims_of_types

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.rank_view import RankView

COMPUTE: Final = "compute"
WAITING: Final = "waiting"
KINDS: Final = (COMPUTE, WAITING, "communication", "copies", "idle")
"""Kinds of parts in the order of the list; within a kind the largest part is first."""

Part = tuple[str, str]
"""Kind and name of a part."""


def divisions_of(view: View, ranks: Sequence[RankView]) -> dict[str, Counter[Part]]:
    """Return the time of each rank by part, in ns, by label; each sum is the measured time.

    Args:
        view: the view of the ranks.
        ranks: all ranks of the view with device work.
    """
    dims = dims_of_types(view)
    found: dict[str, Counter[Part]] = {rank.label: Counter() for rank in ranks}
    for loss in losses(view, ranks):
        part = _part(loss, dims)
        for label, lost_ns in loss.by_rank.items():
            found[label][part] += lost_ns
    for rank in ranks:
        found[rank.label][COMPUTE, COMPUTE] = rank.comp.total_ns
    return found


def in_order(total: Mapping[Part, int], parts: Iterable[Part] | None = None) -> list[Part]:
    """Return parts by kind, the largest of each kind first.

    Args:
        total: time by part, in ns.
        parts: the parts to list; those with time where None.
    """
    kept = [part for part, ns in total.items() if ns > 0] if parts is None else list(parts)
    return sorted(kept, key=lambda part: (KINDS.index(part[0]), -total[part], part[1]))


def _part(loss: Loss, dims: Mapping[tuple[str, int], str]) -> Part:
    if loss.kind == "straggler":
        return WAITING, WAITING
    if loss.kind == "communication":
        return loss.kind, dims.get((loss.what.partition(" of ")[0], loss.group), UNKNOWN)
    return loss.kind, loss.what
