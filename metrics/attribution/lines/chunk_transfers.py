"""Direction of transfers between two stages that hold several chunks of the model each.

With two stages both directions lead both ways: an activation of the last stage goes to the next
chunk on the first, as gradients do. What a rank computed last before it launched the send tells
which of them it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from ccltui.metrics.attribution.lines.stage_order import BACKWARD, FORWARD, UNKNOWN, Stages
from ccltui.metrics.attribution.lines.step_lines import IN_BACKWARD, IN_FORWARD, StepLines
from ccltui.parsers.array_types import I8, I64

if TYPE_CHECKING:
    from ccltui.metrics.collectives.matching.match import MatchInput
    from ccltui.metrics.collectives.matching.p2p import Pairs
    from ccltui.metrics.model.rank_facts import RankFacts

LEAST_AGAINST: Final = 0.1
"""Share of the sends that carry the other direction than their stages tell, from which the stages
hold several chunks: single sends may be launched late."""


def told_by_passes(
    stages: Stages,
    pairs: Pairs,
    ranks: Sequence[tuple[MatchInput, StepLines, RankFacts | None]],
    label_of: Callable[[int], I8],
) -> Stages:
    """Return the stages with the direction of every transfer by the pass that made its content.

    They are unchanged where there are not two stages, where launches are not recorded, and where
    every stage holds one chunk.

    Args:
        stages: with directions by stage.
        pairs: the transfers.
        ranks: by input its calls, its lines, and what is known of it (None: not compared).
        label_of: returns the label of each row of ``gpu`` of a rank (an index).
    """
    if stages.count != 2 or not len(pairs):
        return stages
    found = np.full(len(pairs), UNKNOWN, np.int8)
    for index, (item, lines, facts) in enumerate(ranks):
        mine = np.flatnonzero(pairs.sender == index)
        if facts is None or not len(mine) or item.calls.event_group != "gpu":
            continue
        launched = facts.launched_ns
        sent = launched.take(item.calls.rows.of("gpu")[pairs.send_row[mine]])
        found[mine] = _passes_before(sent, launched.take(lines.gpu_row), label_of(index), lines)
    known = (found != UNKNOWN) & (stages.direction != UNKNOWN)
    against = known & (found != stages.direction)
    if not known.all() or against.sum() < LEAST_AGAINST * len(pairs):
        return stages
    return replace(stages, direction=found, wraps=True)


def _passes_before(sent: I64, launched: I64, labels: I8, lines: StepLines) -> I8:
    """Direction of the last pass of which a kernel was launched before each send."""
    label = labels.take(lines.gpu_row)
    kernels = np.flatnonzero((label != 0) & (launched > np.iinfo(np.int64).min))
    if not len(kernels):
        return np.full(len(sent), UNKNOWN, np.int8)
    order = kernels[np.argsort(launched[kernels], kind="stable")]
    before = np.searchsorted(launched[order], sent, side="left") - 1
    told = label[order[np.maximum(before, 0)]]
    towards = np.where(told == IN_FORWARD, FORWARD, np.where(told == IN_BACKWARD, BACKWARD, 0))
    known = (before >= 0) & (sent > np.iinfo(np.int64).min)
    return np.where(known, towards, UNKNOWN).astype(np.int8)
