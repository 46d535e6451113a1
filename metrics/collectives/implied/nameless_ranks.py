"""Find the groups of the calls of a rank whose file names none, where files of other ranks do.

A communicator has a stream of its own on each rank, and its calls end nearly at once on all ranks.
The calls of a stream are paired by type and end with those that another rank made in each group
that contains the rank; the group with most pairs is that of the stream.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ccltui.metrics.arrays.reductions import distinct_values, median_along
from ccltui.metrics.collectives.implied.stream_evidence import FEWEST
from ccltui.metrics.collectives.matching.align_calls import pair
from ccltui.metrics.collectives.matching.match import MatchInput, taking_part
from ccltui.metrics.collectives.matching.validity import EQUAL_INPUTS, EQUAL_OUTPUTS
from ccltui.metrics.model.calls import Calls
from ccltui.metrics.model.classify import TYPES
from ccltui.metrics.model.communicator_groups import CommGroup
from ccltui.parsers.array_types import I64, Bool

MIN_PAIRED: Final = 0.5
"""Least share of the shorter of two sequences that is paired if they are of one group."""
NEARLY_AS_MANY: Final = 0.95
"""Of groups with at least this share of the most pairs, that with the closest ends is taken."""
_COPIED: Final = ("kind", "dtype", "in_elems", "out_elems")
_SENDRECV: Final = TYPES.index("SendRecv")
_EXCHANGES: Final = np.array([name in ("AllToAll", "SendRecv") for name in TYPES])
"""Types whose kernels are named alike."""


class _Fit(Struct, frozen=True):
    """Group whose calls fit those of a stream: the rows that are paired, and those of the other."""

    group: int
    rows: I64
    other: Calls
    other_rows: I64
    scatter_ns: float


def with_groups_of_others(
    inputs: Sequence[MatchInput], streams: Mapping[str, I64], groups: Sequence[CommGroup]
) -> tuple[MatchInput, ...]:
    """Return the calls with the groups of ranks that name none inferred from those of others.

    Args:
        inputs: The calls of each rank.
        streams: Stream of each call, by label of the ranks that name no group.
        groups: The communicators that files name, with their ranks.

    Returns:
        The inputs. Calls that are paired have the group, type, dtype and, where all members have
        the same, sizes of their pair and no sequence number, so that they are matched by their
        order. Others are unchanged.
    """
    known = np.array([bool(group.ranks) for group in groups] + [False])
    part = set(taking_part(inputs))
    named = [item for item in inputs if known[item.calls.group].any()]
    return tuple(
        _named(item, streams[item.label], named, groups)
        if index in part and item.label in streams
        else item
        for index, item in enumerate(inputs)
    )


def _named(
    item: MatchInput, stream: I64, others: Sequence[MatchInput], groups: Sequence[CommGroup]
) -> MatchInput:
    calls = item.calls
    columns = {name: getattr(calls, name).copy() for name in ("group", *_COPIED)}
    for one in distinct_values(stream[stream >= 0]).tolist():
        rows = np.flatnonzero(stream == one)
        if len(rows) < FEWEST:
            continue
        fits = [
            fit
            for index, group in enumerate(groups)
            if item.rank in group.ranks and (fit := _fit(calls, rows, index, others)) is not None
        ]
        if not fits:
            continue
        most = max(len(fit.rows) for fit in fits)
        near = [fit for fit in fits if len(fit.rows) >= NEARLY_AS_MANY * most]
        best = min(near, key=lambda fit: fit.scatter_ns)
        columns["group"][rows] = best.group
        for name in _COPIED:
            columns[name][best.rows] = getattr(best.other, name)[best.other_rows]
        # Of an exchange each member has sizes of its own.
        for name, equal in (("in_elems", EQUAL_INPUTS), ("out_elems", EQUAL_OUTPUTS)):
            own = best.rows[~equal[columns["kind"][best.rows]]]
            columns[name][own] = getattr(calls, name)[own]
    return replace(item, calls=replace(calls, **columns))


def _fit(calls: Calls, rows: I64, group: int, others: Sequence[MatchInput]) -> _Fit | None:
    """Pair the calls of a stream with those of the rank that made most calls in a group."""
    number = [int(np.count_nonzero(item.calls.group == group)) for item in others]
    most = int(np.argmax(number))
    if number[most] < FEWEST:
        return None
    other = others[most].calls
    there = _by_end(other, np.flatnonzero(other.group == group))
    here = _by_end(calls, rows)
    ends, other_ends = calls.end_ns[here], other.end_ns[there]
    found = pair(_tokens(calls, here), ends, _tokens(other, there), other_ends, least=MIN_PAIRED)
    if found is None:
        return None
    paired: Bool = found.positions >= 0
    at = found.positions[paired]
    apart = np.abs((ends - found.ahead.of(ends))[paired] - other_ends[at])
    return _Fit(group, here[paired], other, there[at], float(median_along(apart)))


def _by_end(calls: Calls, rows: I64) -> I64:
    return np.asarray(rows[np.argsort(calls.end_ns[rows], kind="stable")])


def _tokens(calls: Calls, rows: I64) -> I64:
    kind = calls.kind[rows].astype(np.int64)
    return np.where(_EXCHANGES[kind], _SENDRECV, kind)
