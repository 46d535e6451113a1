"""Compare the segments between calls of ranks that run the same program.

Ranks that issue the same calls in a step run the same program; the time between two calls is
compared between them. The excess of a rank is removed by giving it what is typical of the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ccltui.metrics.arrays.typical import typical_of_rows
from ccltui.metrics.collectives.replay.rank_timeline import MARK, POST, RankTimeline
from ccltui.metrics.model.calls import Calls
from ccltui.parsers.array_types import F64, I64


@dataclass(frozen=True, slots=True)
class StepSegments:
    """One step of the ranks that run one program: the times between its calls without waits.

    ``length_ns`` is float64 [rank, n]: from the end of the step before (in the first step, the
    start of the timeline) to the first call, between calls, and to the end of the step.
    ``operations`` are the places of the segment ends among the operations of each rank, int64
    [rank, n].
    """

    step: int
    ranks: tuple[int, ...]
    length_ns: F64
    operations: I64
    is_first: bool = False  # how long before its first call its ranks began is not known

    def without(self, chosen: frozenset[int]) -> F64:
        """Return the lengths with each chosen rank at what is typical of the others, [rank, n]."""
        changed = self.length_ns.copy()
        for place, rank in enumerate(self.ranks):
            if rank in chosen and len(self.ranks) > 1:
                changed[place] = self._typical(np.delete(self.length_ns, place, axis=0))
        return self._from_known(changed)

    def even(self) -> F64:
        """Return the lengths with every rank at what is typical of all, [rank, n]."""
        typical = self._typical(self.length_ns)
        return self._from_known(np.tile(typical, (len(self.length_ns), 1)))

    def _typical(self, length_ns: F64) -> F64:
        """Typical lengths, [n]; a first one that is not known makes no rank slow."""
        if not self.is_first:
            return typical_of_rows(length_ns)
        return np.append(length_ns[0, :1], typical_of_rows(length_ns[:, 1:]))

    def _from_known(self, changed: F64) -> F64:
        if self.is_first:
            changed[:, 0] = self.length_ns[:, 0]
        return changed


def step_segments(
    timelines: Sequence[RankTimeline], calls: Sequence[Calls], kinds: Sequence[I64]
) -> list[StepSegments]:
    """Return every step of every program that at least two ranks run.

    ``kinds`` is the kind of group of each call, by rank.
    """
    found: list[StepSegments] = []
    steps = sorted({step for timeline in timelines for step in timeline.steps})
    segments = [
        _segments_of(timeline, one.step) for timeline, one in zip(timelines, calls, strict=True)
    ]
    for step in steps:
        programs: dict[bytes, list[int]] = {}
        for rank, known in enumerate(segments):
            if step in known:
                part = known[step].calls
                program = np.stack((calls[rank].kind[part], kinds[rank][part]))
                programs.setdefault(program.tobytes(), []).append(rank)
        for ranks in programs.values():
            if len(ranks) > 1:
                here = [segments[rank][step] for rank in ranks]
                found.append(
                    StepSegments(
                        step,
                        tuple(ranks),
                        np.stack([one.length_ns for one in here]),
                        np.stack([one.operations for one in here]),
                        is_first=step == steps[0],
                    )
                )
    return found


def with_segment_lengths(
    timeline: RankTimeline, operations: Sequence[I64], lengths: Sequence[F64]
) -> F64:
    """Return the progress of a timeline whose segments have other lengths, float64 ns.

    Segments are given by the operations at their ends. Operations inside a segment are moved in
    proportion.
    """
    was = timeline.progress_ns.astype(np.float64)
    if not operations:
        return was
    places = np.concatenate(operations)
    order = np.argsort(places, kind="stable")
    ends = places[order]
    longer = np.concatenate(lengths)[order]
    starts = np.concatenate(([0.0], was[ends[:-1]]))
    old = was[ends] - starts
    moved = np.cumsum(longer - old)
    shift_before = np.concatenate(([0.0], moved))
    here = np.bincount(ends, minlength=len(was))
    after = np.cumsum(here) - here  # the segment of each operation: the number of ends before it
    inside = np.minimum(after, len(ends) - 1)
    share = np.where(
        old[inside] > 0, (was - starts[inside]) / np.where(old > 0, old, 1)[inside], 1.0
    )
    share = np.where(after < len(ends), np.clip(share, 0, 1), 1.0)
    change = shift_before[inside] + share * (moved[inside] - shift_before[inside])
    return np.asarray(np.maximum.accumulate(was + change))


@dataclass(frozen=True, slots=True)
class _RankSegments:
    """The calls of one rank in one step, in program order, and the ends and lengths of segments."""

    calls: I64
    operations: I64
    length_ns: F64


def _segments_of(timeline: RankTimeline, step_of_call: I64) -> dict[int, _RankSegments]:
    post = np.flatnonzero(timeline.kind == POST)
    place_of = np.empty(len(timeline.posted_ns), np.int64)
    place_of[timeline.which[post]] = post
    found: dict[int, _RankSegments] = {}
    begin = 0
    for place in np.flatnonzero(timeline.kind == MARK).tolist():
        step = timeline.steps[int(timeline.which[place])]
        mine = np.flatnonzero(step_of_call == step)
        mine = mine[np.argsort(timeline.launched_ns[mine], kind="stable")]
        mine = mine[place_of[mine] < place]  # posted before the last work of the step ended
        operations = (
            np.append(np.maximum.accumulate(place_of[mine]), place)
            if len(mine)
            else np.array([place])
        )
        ends = timeline.progress_ns[operations].astype(np.float64)
        length = np.diff(np.concatenate(([begin], ends)))
        found[step] = _RankSegments(mine, operations, length)
        begin = int(timeline.progress_ns[place])
    return found
