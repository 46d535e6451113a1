"""Divide the difference in time of two ranks or two steps completely into parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from ccltui.metrics.compare.step_diff import Side
from ccltui.metrics.device.device_time import device_ranks
from ccltui.metrics.device.step_division import Part, divisions_of, in_order
from ccltui.metrics.device.step_parts import periods

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View

BETWEEN: Final[Part] = ("idle", "between_steps")
"""From the last device work of the step before to the first of this one; negative on overlap."""
OTHER_GROUPS: Final[Part] = ("communication", "other groups")
"""Time in collectives of groups that the view does not select."""


class Waterfall(Struct, frozen=True):
    """Time of two sides by part, in ns; absent parts take no time.

    The values of a side sum to its time, so that the changes sum to the whole difference.
    ``spans_steps`` tells whether the time of each side begins at the end of the step before;
    otherwise it begins with the first device work.
    """

    one: Mapping[Part, int]
    other: Mapping[Part, int]
    spans_steps: bool = False

    @property
    def total_ns(self) -> tuple[int, int]:
        """Time of each side."""
        return sum(self.one.values()), sum(self.other.values())

    @property
    def difference_ns(self) -> int:
        """Time of the second side less that of the first."""
        return self.total_ns[1] - self.total_ns[0]

    @property
    def changes_ns(self) -> list[tuple[Part, int]]:
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

    Where both are steps whose predecessors are recorded, the time before the first work counts.

    Raises:
        KeyError: a rank has no device work in its step.
        Refusal: no rank has device work there.
    """
    sides = [_divided(view, side) for side in (one, other)]
    spans = all(before is not None for _, before in sides)
    for parts, before in sides:
        if spans and before is not None:
            parts[BETWEEN] = before
    first, second = (dict(parts) for parts, _ in sides)
    return Waterfall(first, second, spans)


def _divided(view: View, side: Side) -> tuple[Counter[Part], int | None]:
    """Return the parts of a side, and the time before its first work, None where it is unknown."""
    chosen = view
    if side.step is not None:
        chosen = view.with_options(steps=(side.step, side.step), window=None)
    ranks = {rank.label: rank for rank in device_ranks(chosen)}
    rank = ranks.get(side.label)
    if rank is None or not rank.window_ns:
        where = "its measured time" if side.step is None else f"step {side.step}"
        raise KeyError(f"rank {side.label} has no device work in {where}")
    parts = divisions_of(chosen, list(ranks.values()))[side.label]
    rest = rank.window_ns - sum(parts.values())
    if rest:
        parts[OTHER_GROUPS] += rest
    period = periods(rank)[0] if side.step is not None else -1
    return parts, None if period < 0 else period - rank.window_ns
