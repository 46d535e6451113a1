"""Passes of inference servers by replica: how long decode and prefill take on each."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ccltui.metrics.arrays.statistics import median, milliseconds
from ccltui.metrics.workload.job_steps import iterations_of

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.rank_view import RankView


class ReplicaPasses(Struct, frozen=True):
    """Passes of one replica; times are medians over its ranks and passes, in ns.

    Attributes:
        replica: Its name.
        ranks: Labels of its ranks.
        decode_ns: From the first work of a decode pass to that of the pass after it; None where no
            two passes follow one another.
        prefill_ns: Device work of a prefill pass; None without one.
        prefills: Number of prefill passes of a rank.
    """

    replica: str
    ranks: tuple[str, ...]
    decode_ns: float | None
    prefill_ns: float | None
    prefills: int

    def to_dict(self) -> dict[str, Any]:
        """JSON form, in ms."""
        return {
            "replica": self.replica,
            "ranks": list(self.ranks),
            "decode_period_ms": None if self.decode_ns is None else milliseconds(self.decode_ns),
            "prefill_ms": None if self.prefill_ns is None else milliseconds(self.prefill_ns),
        }


def replicas_of(view: View) -> list[ReplicaPasses]:
    """Return the passes of each replica, empty where the job has none."""
    names = list(dict.fromkeys(rank.trace.replica for rank in view.ranks))
    if names in ([], [""]):
        return []
    return [_passes(name, [r for r in view.ranks if r.trace.replica == name]) for name in names]


def _passes(name: str, ranks: list[RankView]) -> ReplicaPasses:
    periods: list[int] = []
    prefills: list[int] = []
    most = 0
    for rank in ranks:
        found = iterations_of(rank)
        periods += [
            after.start_ns - one.start_ns
            for one, after in pairwise(found)
            if one.batch.phase == "decode" and one.on_device and after.on_device
        ]
        own = [one.dur_ns for one in found if one.batch.phase == "prefill"]
        prefills += own
        most = max(most, len(own))
    return ReplicaPasses(
        name,
        tuple(rank.label for rank in ranks),
        median(periods) if periods else None,
        median(prefills) if prefills else None,
        most,
    )
