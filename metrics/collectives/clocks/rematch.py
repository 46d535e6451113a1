"""Match calls that only their order lines up a second time, with known clock offsets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from ccltui.metrics.collectives.clocks.clock_estimate import estimate_clocks
from ccltui.metrics.collectives.clocks.clock_model import ClockModel
from ccltui.metrics.collectives.matching.align_calls import ClockDifference
from ccltui.metrics.collectives.matching.group_member import ORDER
from ccltui.metrics.collectives.matching.match import (
    LOW,
    GroupMatch,
    Matches,
    MatchInput,
    match_calls,
)
from ccltui.metrics.collectives.matching.p2p import Pairs
from ccltui.metrics.model.communicator_groups import CommGroup

MAX_DOUBTFUL_SHARE: Final = 0.02
"""Share of missing or doubtful collectives up to which a group is not matched again."""
ENOUGH_FOR_CLOCKS: Final = 64
"""Trusted collectives from which on a group estimates its clocks well enough by itself."""


def match_and_clock(
    inputs: Sequence[MatchInput], groups: Sequence[CommGroup], pairs: Pairs | None = None
) -> tuple[Matches, ClockModel]:
    """Match the calls of all ranks and estimate the clocks, matching doubtful groups twice.

    A large group determines the clocks of its members; a small group with few calls, some of
    which are missing, can then be lined up by time. ``pairs`` are transfers, for the clocks of
    ranks that no collective links.
    """
    matches = match_calls(inputs, groups)
    clocks = estimate_clocks(matches, inputs, pairs)
    doubtful = frozenset(match.group for match in matches.groups if _is_doubtful(match))
    if not doubtful:
        return matches, clocks
    known = {
        label: ClockDifference(clock.offset_ns, (clock.drift_ppb or 0) / 1e9, clocks.reference_ns)
        for label, clock in clocks.clocks.items()
        if clock.known
    }
    if not known:
        return matches, clocks
    rematched = {
        match.group: match
        for match in match_calls(inputs, groups, clocks=known, only=doubtful).groups
    }
    chosen = [
        rematched[match.group]
        if _num_trusted(rematched.get(match.group)) > _num_trusted(match)
        else match
        for match in matches.groups
    ]
    if all(new is old for new, old in zip(chosen, matches.groups, strict=True)):
        return matches, clocks
    matches = replace(matches, groups=tuple(chosen))
    return matches, estimate_clocks(matches, inputs, pairs)


def _is_doubtful(match: GroupMatch) -> bool:
    """Whether more than a few calls of a group lined up by order are missing or doubtful."""
    doubtful = (match.level == ORDER) & (~match.usable | (match.confidence == LOW))
    return _num_trusted(match) < ENOUGH_FOR_CLOCKS and int(
        doubtful.sum()
    ) > MAX_DOUBTFUL_SHARE * len(doubtful)


def _num_trusted(match: GroupMatch | None) -> int:
    """Return the number of usable collectives above LOW confidence."""
    if match is None:
        return 0
    return int(np.count_nonzero(match.usable & (match.confidence > LOW)))
