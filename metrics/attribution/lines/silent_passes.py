"""Where the passes of the first and the last stage begin that end without a send.

The first stage sends no gradients and the last no activations. All passes of one direction have the
same number of kernels, so the distances between the sends of the other direction tell where these
passes lie, also where no receive was ever waited for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ccltui.parsers.array_types import I64


class SilentStage(NamedTuple):
    """The transfers of a first or last stage.

    Attributes:
        cuts: positions of the sends, ascending: ends of the passes of the one direction.
        receives: number of receives of the other direction.
        size: number of kernels of the line.
        is_first: whether it is the first stage, where backward passes are silent.
        seen: positions of receives that were waited for, by their number.
    """

    cuts: Sequence[int]
    receives: int
    size: int
    is_first: bool
    seen: dict[int, int]


def kernels_per_pass(stage: SilentStage) -> tuple[int, int] | None:
    """Return the number of kernels of a forward and a backward pass, None where it is not told."""
    sizes = np.diff(stage.cuts)
    if not len(sizes):
        return None
    least = int(sizes.min())
    if stage.is_first:
        longer = [int(one) - least for one in sizes if one > least]
        steps = [
            b - a
            for k, a in stage.seen.items()
            if (b := stage.seen.get(k + 1)) is not None and a >= stage.cuts[-1]
        ]
        other = [*longer, *(one for one in steps if one > 0)]
        return (least, Counter(other).most_common(1)[0][0]) if other else None
    usual = Counter(sizes.tolist()).most_common(1)[0][0]
    rest = stage.cuts[0] - usual  # forward passes before the first backward one, but for GPipe one
    each = rest // stage.receives
    return (each, usual) if each > 0 and rest >= stage.receives and rest > usual else None


def silent_starts(stage: SilentStage, ratio: float | None) -> I64 | None:
    """Return the position at which each silent pass begins, None where it is not told.

    ``ratio`` is kernels of a backward pass over those of a forward pass on the other stages.
    """
    found = _backward(stage, ratio) if stage.is_first else _forward(stage)
    if found is None or len(found) != stage.receives:
        return None
    starts = np.array(found, np.int64)
    agrees = all(starts[number] == place for number, place in stage.seen.items())
    return starts if agrees and (starts < stage.size).all() else None


def _forward(stage: SilentStage) -> list[int] | None:
    """The last stage: forward passes before the backward pass that a send ends."""
    sizes = np.diff(stage.cuts)
    told = kernels_per_pass(stage)
    if len(stage.cuts) == stage.receives and (told is None or _is_even(stage)):
        return [0, *stage.cuts[:-1]]
    if told is None or not len(sizes):
        return None
    each, usual = told
    begin = stage.cuts[0] - usual - each * stage.receives
    return [begin + each * number for number in range(stage.receives)] if begin >= 0 else None


def _is_even(stage: SilentStage) -> bool:
    """Whether as many kernels lie before the first send as between the others: one pass each."""
    usual = Counter(np.diff(stage.cuts).tolist()).most_common(1)[0][0]
    return stage.cuts[0] < 2 * usual


def _backward(stage: SilentStage, ratio: float | None) -> list[int] | None:
    """The first stage: backward passes before forward ones that a send ends, the rest behind."""
    sizes = np.diff(stage.cuts)
    if not len(sizes):
        return None
    least = int(sizes.min())
    told = kernels_per_pass(stage)
    each = told[1] if told else round(least * ratio) if ratio else 0
    if each < 1:
        return None
    starts = [cut for cut, size in zip(stage.cuts[:-1], sizes, strict=True) if size > least]
    left = stage.receives - len(starts)
    return [*starts, *(stage.cuts[-1] + each * number for number in range(left))]
