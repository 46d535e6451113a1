"""Rank time as a first screen shows it: six kinds of time, of the job and of every rank.

The kinds are those of `partition`, with waiting for ranks in one, and all causes of idle time
together; exposed communication is `transfer` here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from ccltui.metrics.findings.rank_time.partition import OTHERS, partition

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View

KINDS: Final = ("compute", "waiting", "transfer", "bubble", "copies", "idle", "other_groups")
"""Kinds of time of devices, in the order of a bar; that of groups that are not selected is last."""
HOST_KINDS: Final = ("operators", "collectives", "idle")
"""Kinds of time of hosts, in jobs without devices; idle is time in no recorded operator."""
_NAMES: Final = {"straggler": "waiting", "communication": "transfer"}


ALIKE: Final = 0.03
"""Ranks whose shares of each kind of time differ by less are alike: the scatter between ranks that
run one program without a fault."""


class RankPortions(Struct, frozen=True):
    """Shares of the time of one rank by kind, and the share of all rank time that waits for it.

    ``waited_for`` is None where waiting is not known by rank.
    """

    rank: str
    shares: Mapping[str, float]
    waited_for: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """JSON form: one member for each kind."""
        return {**self.shares, "waited_for": self.waited_for}


class Portions(Struct, frozen=True):
    """Shares of rank time by kind, in the order of a bar, and of every rank."""

    shares: Mapping[str, float]
    ranks: tuple[RankPortions, ...]


def portions_of(view: View) -> Portions:
    """Return the kinds of time of devices; of the job and of each rank they add up to 1.

    Raises:
        Refusal: no rank has kernels, or the selection has no device work.
    """
    divided = partition(view)
    by_rank = divided.times_by(lambda part: _NAMES.get(part.kind, part.kind))
    waited = {
        part.what: part.total_ns
        for part in divided.parts
        if part.kind == "straggler" and part.what != OTHERS
    }
    return in_portions(KINDS, divided.span_ns, by_rank, waited)


def in_portions(
    kinds: Sequence[str],
    span_ns: Mapping[str, int],
    by_rank: Mapping[str, Mapping[str, int]],
    waited_ns: Mapping[str, int] | None = None,
) -> Portions:
    """Return times of ranks as shares of their spans, and of all ranks of all spans.

    Args:
        kinds: all kinds, in order; those without time on any rank are left out.
        span_ns: length of each rank's measured time.
        by_rank: time of each rank by kind.
        waited_ns: time of all ranks that waits for one, None where that is not known.
    """
    whole = max(sum(span_ns.values()), 1)
    total = {kind: sum(own.get(kind, 0) for own in by_rank.values()) for kind in kinds}
    there = [kind for kind in kinds if total[kind]]
    ranks = tuple(
        RankPortions(
            label,
            {kind: own.get(kind, 0) / max(span_ns[label], 1) for kind in there},
            None if waited_ns is None else waited_ns.get(label, 0) / whole,
        )
        for label, own in by_rank.items()
    )
    return Portions({kind: total[kind] / whole for kind in there}, ranks)
