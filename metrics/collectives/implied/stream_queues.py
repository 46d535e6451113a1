"""Group the calls of a job by rank and stream, where no file names their communicators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from ccltui.metrics.arrays.reductions import distinct_values
from ccltui.metrics.collectives.matching.match import MatchInput, taking_part
from ccltui.parsers.array_types import I64
from ccltui.parsers.columns import MISSING
from ccltui.parsers.communication_kernels import LIBRARIES

FEWEST: Final = 3
"""Fewer calls are no evidence of a communicator: they may end together by chance."""
_KINDS: Final = 64


@dataclass(frozen=True, slots=True)
class Queue:
    """Calls of one rank (``owner``, an index of the inputs) on one stream, in order of their ends.

    All are kernels of one ``library`` (an index of `LIBRARIES`): those of different libraries are
    never one collective.

    ``what`` differs for calls that cannot be one collective: by type, and by step where all ranks
    have steps in common.
    """

    owner: int
    stream: int
    library: int
    rows: I64
    kind: I64
    what: I64
    end_ns: I64
    dur_ns: I64


def queues_of(inputs: Sequence[MatchInput], streams: Mapping[str, I64]) -> list[Queue]:
    """Return the queues of at least ``FEWEST`` calls; ``streams`` is by label, one per call."""
    part = taking_part(inputs)
    marked = _share_steps([inputs[owner].calls.step for owner in part])
    found = []
    for owner in part:
        calls, stream = inputs[owner].calls, streams[inputs[owner].label]
        pairs = stream * len(LIBRARIES) + calls.library
        for pair in distinct_values(pairs[stream >= 0]).tolist():
            one, library = divmod(pair, len(LIBRARIES))
            rows = np.flatnonzero(pairs == pair)
            if len(rows) < FEWEST:
                continue
            rows = rows[np.argsort(calls.end_ns[rows], kind="stable")]
            kind = calls.kind[rows].astype(np.int64)
            what = kind + _KINDS * (calls.step[rows] + 1) if marked else kind
            found.append(
                Queue(owner, one, library, rows, kind, what, calls.end_ns[rows], calls.dur_ns[rows])
            )
    return found


def places_of(queue: Queue) -> I64 | None:
    """Return the place of each call in its step, int64 [n]; None where steps are not told.

    A call outside of the steps has a place of its own.
    """
    step = queue.what // _KINDS
    if not step.any():
        return None
    edges = np.flatnonzero(np.diff(step, prepend=-1))
    sizes = np.diff(edges, append=len(step))
    place = np.arange(len(step)) - np.repeat(edges, sizes)
    return np.where(step > 0, place, len(step) + np.arange(len(step)))


def _share_steps(steps: Sequence[I64]) -> bool:
    """Whether all ranks have a step in common."""
    known = [set(distinct_values(step[step != MISSING]).tolist()) for step in steps]
    return bool(known) and bool(set.intersection(*known))
