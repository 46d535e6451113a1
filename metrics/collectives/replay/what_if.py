"""Step times if no rank, or not one rank, were later than those that run the same program."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ccltui.metrics.collectives.replay.call_links import Links, link
from ccltui.metrics.collectives.replay.job_replay import Replay
from ccltui.metrics.collectives.replay.rank_timeline import MainLine, main_line
from ccltui.metrics.collectives.replay.replay_order import schedule_of
from ccltui.metrics.collectives.replay.roles import Stretch, stretched, stretches
from ccltui.parsers.array_types import F64, I64

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View


@dataclass(frozen=True, slots=True)
class StepEnds:
    """When the last rank ended each step, ns on one clock from the origin of the view.

    ``begin_ns`` is when the first rank began. Of several steps the first is not measured: how
    late its ranks were at its beginning is not known.
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
        """From the end of the step before to the end of each step; an only step from the start."""
        every = np.diff(self.end_ns, prepend=self.begin_ns)
        return every[1:] if len(every) > 1 else every


class WhatIf:
    """A job, all ranks of which were recorded on their devices, with some work changed.

    Whatever the view selects, all ranks are replayed. Raises StuckError.
    """

    def __init__(self, view: View) -> None:
        self._view = view
        self._inputs = view.match_inputs
        self.labels = tuple(item.label for item in self._inputs)

    @cached_property
    def _lines(self) -> list[MainLine]:
        facts = self._view.facts.ranks
        return [main_line(facts[item.label], item.calls) for item in self._inputs]

    @cached_property
    def _links(self) -> Links:
        view = self._view
        return link(self._inputs, view.matches, view.pairs, view.clocks)

    @cached_property
    def _replay(self) -> Replay:
        return Replay(schedule_of(self._lines, self._links))

    @property
    def unlinked_share(self) -> float:
        """Share of the time in collectives that is of calls matched to none: replayed as it was."""
        dur = np.concatenate([item.calls.dur_ns for item in self._inputs])
        alone = self._links.instance < 0
        return float(dur[alone].sum() / max(int(dur.sum()), 1))

    @cached_property
    def stretches(self) -> list[Stretch]:
        """What of the ranks' programs can be compared; the first step's beginning cannot."""
        causes = self._view.facts.causes
        sorts = [causes.activity(label).group_kinds.number for label in self.labels]
        return stretches(self._lines, [item.calls for item in self._inputs], sorts)

    @cached_property
    def measured(self) -> StepEnds:
        """As it was."""
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
        """As the replay has it when nothing is changed."""
        return self._replayed([line.progress_ns.astype(np.float64) for line in self._lines])

    def without(self, rank: str) -> StepEnds:
        """As it would be if one rank took as long as the median of its like."""
        chosen = frozenset({self.labels.index(rank)})
        return self._changed(lambda one: one.without(chosen))

    def even(self) -> StepEnds:
        """As it would be if all ranks that run one program took as long as their median."""
        return self._changed(Stretch.even)

    def _changed(self, lengths_of: Callable[[Stretch], F64]) -> StepEnds:
        operations: list[list[I64]] = [[] for _ in self._lines]
        lengths: list[list[F64]] = [[] for _ in self._lines]
        for one in self.stretches:
            changed = lengths_of(one)
            for place, rank in enumerate(one.ranks):
                operations[rank].append(one.operations[place])
                lengths[rank].append(np.asarray(changed[place]))
        return self._replayed(
            [
                stretched(line, places, longer)
                for line, places, longer in zip(self._lines, operations, lengths, strict=True)
            ]
        )

    @cached_property
    def _begin_ns(self) -> list[int]:
        clocks, origin = self._view.clocks, self._view.origin_ns
        return [
            int(clocks.corrected(label, np.array(line.begin_ns, np.int64))) - origin
            for label, line in zip(self.labels, self._lines, strict=True)
        ]

    def _replayed(self, progress: Sequence[F64]) -> StepEnds:
        return self._ends(self._replay.run(self._begin_ns, progress))

    def _ends(self, marks: Sequence[Mapping[int, float]]) -> StepEnds:
        """The last end of each step that all ranks have; of those that are known to be ranks."""
        skipped = self._view.matches.skipped
        known = [one for label, one in zip(self.labels, marks, strict=True) if label not in skipped]
        shared = set.intersection(*(set(one) for one in known)) if known else set()
        steps = tuple(sorted(shared))
        ends = np.array([max(one[step] for one in known) for step in steps])
        return StepEnds(steps, ends, min(self._begin_ns, default=0))
