"""Compute step times with the excess of one or all ranks over their program peers removed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ccltui.metrics.collectives.replay.call_links import Links, link
from ccltui.metrics.collectives.replay.job_replay import Replay
from ccltui.metrics.collectives.replay.rank_timeline import RankTimeline, rank_timeline
from ccltui.metrics.collectives.replay.replay_order import schedule_of
from ccltui.metrics.collectives.replay.roles import (
    StepSegments,
    step_segments,
    with_segment_lengths,
)
from ccltui.parsers.array_types import F64, I64

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View


@dataclass(frozen=True, slots=True)
class StepEnds:
    """End of each step on its last rank, ns on one clock from the origin of the view.

    ``begin_ns`` is the start of the first rank. Of several steps the first is not measured: the
    lateness of its ranks at its start is not known.
    """

    steps: tuple[int, ...]
    end_ns: F64
    begin_ns: int

    @property
    def measured(self) -> tuple[int, ...]:
        """The steps of `length_ns`."""
        return self.steps[1:] if len(self.steps) > 1 else self.steps

    @property
    def length_ns(self) -> F64:
        """Time from the previous step end to each step end; of a single step, from the start."""
        every = np.diff(self.end_ns, prepend=self.begin_ns)
        return every[1:] if len(every) > 1 else every


class WhatIf:
    """Replays of a job with changed durations; the devices of all ranks must be recorded.

    All ranks are replayed, whatever the view selects.

    Raises:
        DeadlockError: By any replay, where the ranks wait for each other.
    """

    def __init__(self, view: View) -> None:
        self._view = view
        self._inputs = view.match_inputs
        self.labels = tuple(item.label for item in self._inputs)

    @cached_property
    def _timelines(self) -> list[RankTimeline]:
        facts = self._view.facts.ranks
        return [rank_timeline(facts[item.label], item.calls) for item in self._inputs]

    @cached_property
    def _links(self) -> Links:
        view = self._view
        return link(self._inputs, view.matches, view.pairs, view.clocks)

    @cached_property
    def _replay(self) -> Replay:
        return Replay(schedule_of(self._timelines, self._links))

    @property
    def unlinked_share(self) -> float:
        """Share of the time in collectives in unmatched calls, which are replayed as recorded."""
        dur = np.concatenate([item.calls.dur_ns for item in self._inputs])
        alone = self._links.instance < 0
        return float(dur[alone].sum() / max(int(dur.sum()), 1))

    @cached_property
    def segments(self) -> list[StepSegments]:
        """Comparable segments of all steps, without the start of the first step."""
        causes = self._view.facts.causes
        kinds = [causes.activity(label).group_kinds.number for label in self.labels]
        return step_segments(self._timelines, [item.calls for item in self._inputs], kinds)

    @cached_property
    def measured(self) -> StepEnds:
        """Step ends as recorded."""
        marks: list[Mapping[int, float]] = []
        for item in self._inputs:
            work = self._view.facts.ranks[item.label].work
            ends = self._view.clocks.corrected(item.label, work.end_ns) - self._view.origin_ns
            held = work.end_ns > work.start_ns
            marks.append(
                {
                    step.id: float(end)
                    for step, end, ours in zip(work.steps, ends, held, strict=True)
                    if ours
                }
            )
        return self._ends(marks)

    @cached_property
    def unchanged(self) -> StepEnds:
        """Step ends of the replay with recorded durations."""
        return self._replayed(
            [timeline.progress_ns.astype(np.float64) for timeline in self._timelines]
        )

    def without(self, rank: str) -> StepEnds:
        """Return the step ends with one rank set to the median of its program peers."""
        chosen = frozenset({self.labels.index(rank)})
        return self._changed(lambda one: one.without(chosen))

    def even(self) -> StepEnds:
        """Return the step ends with all ranks that run one program set to their median."""
        return self._changed(StepSegments.even)

    def _changed(self, lengths_of: Callable[[StepSegments], F64]) -> StepEnds:
        operations: list[list[I64]] = [[] for _ in self._timelines]
        lengths: list[list[F64]] = [[] for _ in self._timelines]
        for one in self.segments:
            changed = lengths_of(one)
            for place, rank in enumerate(one.ranks):
                operations[rank].append(one.operations[place])
                lengths[rank].append(np.asarray(changed[place]))
        return self._replayed(
            [
                with_segment_lengths(timeline, places, longer)
                for timeline, places, longer in zip(
                    self._timelines, operations, lengths, strict=True
                )
            ]
        )

    @cached_property
    def _begin_ns(self) -> list[int]:
        clocks, origin = self._view.clocks, self._view.origin_ns
        return [
            int(clocks.corrected(label, np.array(timeline.begin_ns, np.int64))) - origin
            for label, timeline in zip(self.labels, self._timelines, strict=True)
        ]

    def _replayed(self, progress: Sequence[F64]) -> StepEnds:
        return self._ends(self._replay.run(self._begin_ns, progress))

    def _ends(self, marks: Sequence[Mapping[int, float]]) -> StepEnds:
        """Return the last end of each step that all matched ranks have."""
        skipped = self._view.matches.skipped
        known = [one for label, one in zip(self.labels, marks, strict=True) if label not in skipped]
        shared = set.intersection(*(set(one) for one in known)) if known else set()
        steps = tuple(sorted(shared))
        ends = np.array([max(one[step] for one in known) for step in steps])
        return StepEnds(steps, ends, min(self._begin_ns, default=0))
