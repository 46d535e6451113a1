"""Number the calls of all ranks and link them to their collectives and transfers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from ccltui.metrics.arrays.reductions import stable_order
from ccltui.metrics.collectives.clocks.clock_model import ClockModel
from ccltui.metrics.collectives.matching.match import MEDIUM, Matches, MatchInput
from ccltui.metrics.collectives.matching.p2p import Pairs
from ccltui.parsers.array_types import I32, I64
from ccltui.parsers.columns import MISSING

APART_NS: Final = 20_000
"""A member that ended more than this before the last one began did not wait for it."""


@dataclass(frozen=True, slots=True)
class Links:
    """The calls of all ranks, numbered consecutively: arrays of one length.

    ``first`` is the number of each rank's first call. ``instance`` is the collective or transfer
    of each call, -1 for none. A call that ``waits`` ends ``after_ns`` after the last start of its
    instance, any other call ``after_ns`` after its own start. The waiting calls of instance i are
    ``waiting[first_waiting[i]:first_waiting[i + 1]]``.
    """

    first: tuple[int, ...]
    instance: I32
    size: I32  # of each instance
    after_ns: I64
    waits: npt.NDArray[np.bool_]
    first_waiting: I32
    waiting: I32

    @classmethod
    def of(
        cls,
        first: tuple[int, ...],
        instance: I64,
        size: I64,
        after_ns: I64,
        waits: npt.NDArray[np.bool_],
    ) -> Links:
        """Create links, with the waiting calls by instance; calls of no instance do not wait."""
        waiting = np.flatnonzero(waits)
        waiting = waiting[stable_order(instance[waiting])]
        edges = np.searchsorted(instance[waiting], np.arange(len(size) + 1))
        return cls(
            first,
            instance.astype(np.int32),
            size.astype(np.int32),
            after_ns,
            waits,
            edges.astype(np.int32),
            waiting.astype(np.int32),
        )


def link(inputs: Sequence[MatchInput], matches: Matches, pairs: Pairs, clocks: ClockModel) -> Links:
    """Number the calls of ``inputs`` and link those of one collective or transfer.

    Only usable matches of at least MEDIUM confidence are linked.
    """
    first = np.concatenate(([0], np.cumsum([len(item.calls) for item in inputs])))
    start = np.concatenate([clocks.corrected(i.label, i.calls.start_ns) for i in inputs])
    end = np.concatenate([clocks.corrected(i.label, i.calls.end_ns) for i in inputs])
    own = np.concatenate([item.calls.dur_ns for item in inputs])
    instance = np.full(len(start), MISSING, np.int64)
    index = {item.label: number for number, item in enumerate(inputs)}
    sizes: list[I64] = []
    count = 0
    for match in matches.groups:
        rows = match.rows[match.usable & (match.confidence >= MEDIUM)]
        for member, label in enumerate(match.labels):
            instance[first[index[label]] + rows[:, member]] = count + np.arange(len(rows))
        sizes.append(np.full(len(rows), len(match.labels)))
        count += len(rows)
    for side, row in ((pairs.sender, pairs.send_row), (pairs.receiver, pairs.recv_row)):
        instance[first[side] + row] = count + np.arange(len(pairs))
    sizes.append(np.full(len(pairs), 2))
    size = np.concatenate(sizes).astype(np.int64)
    part = np.flatnonzero(instance >= 0)
    latest = np.full(len(size), np.iinfo(np.int64).min)
    np.maximum.at(latest, instance[part], start[part])
    after = own.copy()
    after[part] = end[part] - latest[instance[part]]
    waits = np.zeros(len(start), np.bool_)
    waits[part] = after[part] > -APART_NS
    after = np.where(waits, np.maximum(after, 0), own)
    return Links.of(tuple(first[:-1].tolist()), instance, size, after, waits)
