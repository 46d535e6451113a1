"""The calls of all ranks and what links them, with each batch of transfers as a send and a receive.

One kernel that sends and receives ends a pass and begins the next one: as two calls of the same
time it is replayed as such transfers are that have a kernel each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from msgspec.structs import replace

from ccltui.metrics.collectives.matching.match import (
    RECV,
    SEND,
    SENDRECV,
    GroupMatch,
    Matches,
    MatchInput,
    Pairs,
    match_p2p,
)
from ccltui.parsers.array_types import I64, Bool

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View


class LinkedCalls(NamedTuple):
    """Calls of each rank, matched collectives and pairs of transfers, which index these calls."""

    inputs: Sequence[MatchInput]
    matches: Matches
    pairs: Pairs


def linked_calls(view: View) -> LinkedCalls:
    """Return the calls of a view: those that it has where none is a batch, else copies."""
    inputs = view.match_inputs
    batches = [(item.calls.kind == SENDRECV) & (item.calls.dst >= 0) for item in inputs]
    if not any(one.any() for one in batches):
        return LinkedCalls(inputs, view.matches, view.pairs)
    separate = [_separate(item, one) for item, one in zip(inputs, batches, strict=True)]
    moved = {
        item.label: np.cumsum(1 + one) - (1 + one)
        for item, one in zip(inputs, batches, strict=True)
    }
    groups = tuple(_moved(match, moved) for match in view.matches.groups)
    matches = replace(view.matches, groups=groups)
    return LinkedCalls(separate, matches, match_p2p(separate, view.groups))


def _separate(item: MatchInput, batch: Bool) -> MatchInput:
    """Return the calls of a rank with a send and a receive for each batch."""
    source = np.repeat(np.arange(len(batch)), 1 + batch)
    calls, both = item.calls.take(source), batch[source]
    second = both & (np.diff(source, prepend=-1) == 0)
    kind = np.where(both, np.where(second, RECV, SEND), calls.kind).astype(calls.kind.dtype)
    own = -1 if item.rank is None else item.rank
    src, dst = np.where(both & ~second, own, calls.src), np.where(second, own, calls.dst)
    return replace(item, calls=replace(calls, kind=kind, src=src, dst=dst))


def _moved(match: GroupMatch, moved: dict[str, I64]) -> GroupMatch:
    columns = [
        np.where(column >= 0, moved[label][np.maximum(column, 0)], column)
        for label, column in zip(match.labels, match.rows.T, strict=True)
    ]
    return replace(match, rows=np.stack(columns, axis=1))
