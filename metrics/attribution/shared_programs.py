"""Ranks of a job without a pipeline that can be compared: those that make mostly the same calls.

Ranks are alike where most of their steps make the same calls. A rank that is like no other is
compared with those most of whose calls it makes too: rank 0 of a job often writes a log, checks a
loss or collects a checkpoint in calls of its own, and computes all that the others do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from ccltui.parsers.array_types import F64, I64, Bool

if TYPE_CHECKING:
    from ccltui.metrics.attribution.lines.job_lines import JobLines

SHARED: Final = 0.5
"""A rank that is like no other makes more than this share of the calls of those that it is compared
with: one with fewer has another part in the job."""
FEWEST_STEPS: Final = 2
"""Of a single step nothing tells calls that are never made from those that are not recorded."""


def program_places(job: JobLines) -> I64:
    """Return the number of the set of ranks that each rank is compared with, int64 by rank."""
    program = _programs_of_steps(job)
    usual = np.array([_usual(one) for one in program], np.int64)
    first = len(job.positions.programs)
    numbers: dict[bytes, int] = {}
    place = usual.copy()
    for rank in np.flatnonzero(usual < 0).tolist():
        # Ranks are alike too where their steps differ in the same way; without steps none is.
        key = program[rank].tobytes() or f"rank {rank}".encode()
        place[rank] = numbers.setdefault(key, first + len(numbers))
    return _joined(job, place, usual >= 0) if job.num_steps >= FEWEST_STEPS else place


def _programs_of_steps(job: JobLines) -> list[I64]:
    """Program of each step of each rank."""
    edges = np.searchsorted(job.table.rank, np.arange(1, len(job.labels)))  # lines ascend by rank
    return np.split(job.program_of_line, edges)


def _usual(program: I64) -> int:
    """Program of more than half of the steps of a rank, -1 for none."""
    if not len(program):
        return -1
    counts = np.bincount(program)
    most = int(counts.argmax())
    return most if counts[most] * 2 > len(program) else -1


def _joined(job: JobLines, place: I64, regular: Bool) -> I64:
    """Give the ranks that are alone the place of those most of whose calls they make.

    One whose steps differ has to make all of them: it may lack records otherwise, and compute less
    than it did. For the same reason nothing is compared with a single rank whose steps differ.
    """
    here = np.unique(job.table.rank)
    size = np.bincount(place[here], minlength=int(place.max(initial=0)) + 1)
    alone = here[size[place[here]] == 1]
    if not len(alone):
        return place
    leaders = here[np.unique(place[here], return_index=True)[1]]
    leaders = leaders[regular[leaders] | (size[place[leaders]] > 1)]
    calls = _calls_a_step(job)
    theirs = calls[leaders]
    total = theirs.sum(axis=1)
    found = place.copy()
    for rank in alone.tolist():
        shared = np.minimum(calls[rank], theirs).sum(axis=1) / np.maximum(total, 1e-9)
        likes = (shared > SHARED if regular[rank] else shared >= 1) & (leaders != rank)
        if likes.any():
            best = np.lexsort((size[place[leaders]], shared, likes))[-1]
            found[found == found[rank]] = found[leaders[best]]
    return found


def _calls_a_step(job: JobLines) -> F64:
    """Mean number of calls of each kind in a step, [ranks, kinds]."""
    table = job.table
    kinds, kind = np.unique(table.token, return_inverse=True)
    rank = table.rank[table.line]
    counts = np.bincount(rank * len(kinds) + kind, minlength=len(job.labels) * len(kinds))
    steps = np.maximum(np.bincount(table.rank, minlength=len(job.labels)), 1)
    return np.asarray(counts.reshape(len(job.labels), -1) / steps[:, np.newaxis])
