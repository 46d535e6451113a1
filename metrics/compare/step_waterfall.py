"""Divide the difference in time of two ranks or two steps completely into parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from ccltui.metrics.compare.step_diff import Side
from ccltui.metrics.device.device_time import device_ranks
from ccltui.metrics.findings.partition import Named, in_order, named_parts, partition

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View

OTHER_GROUPS: Final[Named] = ("communication", "other groups")
"""Time in collectives of groups that the view does not select."""


class Waterfall(Struct, frozen=True):
    """Time of two sides by part, in ns; absent parts take no time.

    The values of a side sum to its time, so that the changes sum to the whole difference.
    """

    one: Mapping[Named, int]
    other: Mapping[Named, int]

    @property
    def total_ns(self) -> tuple[int, int]:
        """Time of each side."""
        return sum(self.one.values()), sum(self.other.values())

    @property
    def difference_ns(self) -> int:
        """Time of the second side less that of the first."""
        return self.total_ns[1] - self.total_ns[0]

    @property
    def changes_ns(self) -> list[tuple[Named, int]]:
        """Every part whose time differs, with the change; by kind, the largest first."""
        change = {
            part: self.other.get(part, 0) - self.one.get(part, 0)
            for part in {**self.one, **self.other}
        }
        changed = [part for part, ns in change.items() if ns]
        size = {part: abs(ns) for part, ns in change.items()}
        return [(part, change[part]) for part in in_order(size, changed)]


def step_waterfall(view: View, one: Side, other: Side) -> Waterfall:
    """Divide the time of two sides, each a rank in a step or in all its measured time.

    Raises:
        KeyError: a rank has no device work in its step.
        Refusal: no rank has device work there.
    """
    return Waterfall(_divided(view, one), _divided(view, other))


def _divided(view: View, side: Side) -> Counter[Named]:
    """Return the parts of a side."""
    chosen = view
    if side.step is not None:
        chosen = view.with_options(steps=(side.step, side.step), window=None)
    ranks = {rank.label: rank for rank in device_ranks(chosen)}
    rank = ranks.get(side.label)
    if rank is None or not rank.window_ns:
        where = "its measured time" if side.step is None else f"step {side.step}"
        raise KeyError(f"rank {side.label} has no device work in {where}")
    parts = named_parts(chosen)[side.label]
    for part in partition(chosen).parts:
        if part.kind == "other_groups" and part.by_rank.get(side.label):
            parts[OTHER_GROUPS] += part.by_rank[side.label]
    return parts
