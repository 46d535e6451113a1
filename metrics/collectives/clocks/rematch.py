"""Matching in two rounds: what only order lines up is lined up again once the clocks are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from ccltui.metrics.collectives.clocks.clock_estimate import estimate_clocks
from ccltui.metrics.collectives.clocks.clock_model import ClockModel
from ccltui.metrics.collectives.matching.align_by_time import Ahead
from ccltui.metrics.collectives.matching.group_member import ORDER
from ccltui.metrics.collectives.matching.match import (
    LOW,
    GroupMatch,
    Matches,
    MatchInput,
    match_calls,
)
from ccltui.metrics.model.communicator_groups import CommGroup

DOUBTFUL: Final = 0.02
TELLS_CLOCKS: Final = 64
"""From so many believed collectives on a group lined itself up by clocks as good as any."""


def match_and_clock(
    inputs: Sequence[MatchInput], groups: Sequence[CommGroup]
) -> tuple[Matches, ClockModel]:
    """Which calls are one collective, and how far each rank's clock is from the others'.

    A large group tells the clocks of its members; a small one of few calls, some of which are
    missing, can then be lined up by time.
    """
    matches = match_calls(inputs, groups)
    clocks = estimate_clocks(matches, inputs)
    doubtful = frozenset(match.group for match in matches.groups if _open(match))
    if not doubtful:
        return matches, clocks
    known = {
        label: Ahead(clock.offset_ns, (clock.drift_ppb or 0) / 1e9, clocks.reference_ns)
        for label, clock in clocks.clocks.items()
        if clock.known
    }
    if not known:
        return matches, clocks
    again = {
        match.group: match
        for match in match_calls(inputs, groups, clocks=known, only=doubtful).groups
    }
    chosen = [
        again[match.group] if _believed(again.get(match.group)) > _believed(match) else match
        for match in matches.groups
    ]
    if all(new is old for new, old in zip(chosen, matches.groups, strict=True)):
        return matches, clocks
    matches = replace(matches, groups=tuple(chosen))
    return matches, estimate_clocks(matches, inputs)


def _open(match: GroupMatch) -> bool:
    """Whether order alone lined up calls of which not just a few are missing or doubtful."""
    doubtful = (match.level == ORDER) & (~match.usable | (match.confidence == LOW))
    return _believed(match) < TELLS_CLOCKS and int(doubtful.sum()) > DOUBTFUL * len(doubtful)


def _believed(match: GroupMatch | None) -> int:
    """Collectives that are believed."""
    if match is None:
        return 0
    return int(np.count_nonzero(match.usable & (match.confidence > LOW)))
