"""What follows from the traces of a job alone, whatever the view: computed once, shared."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from ccltui.metrics.collectives.clocks.clock_model import ClockModel
from ccltui.metrics.collectives.clocks.rematch import match_and_clock
from ccltui.metrics.collectives.lateness.arrivals import Arrivals, arrivals
from ccltui.metrics.collectives.matching.match import Matches, MatchInput
from ccltui.metrics.collectives.matching.p2p import Pairs, match_p2p
from ccltui.metrics.model.calls import Calls, calls_of, streams_of
from ccltui.metrics.model.communicator_groups import (
    CommGroup,
    GroupTable,
    group_table,
    world_of_groups,
)
from ccltui.metrics.model.dimensions import Degrees, with_dimensions
from ccltui.metrics.model.rank_facts import RankFacts

if TYPE_CHECKING:
    from ccltui.metrics.collectives.causes.cause_search import Causes
    from ccltui.parsers.job import Job

_MANY_ROWS: Final = 1 << 22
"""Merged intervals alone take some 80 B a row."""


class JobFacts:
    """The groups, collectives, matches and clocks of all ranks of a job.

    What was known of a trace in ``previous`` is kept, so that a job that grows by one rank does
    not classify the others again.
    """

    def __init__(self, job: Job, degrees: Degrees, previous: JobFacts | None = None) -> None:
        self.job = job
        self.degrees = degrees
        kept = {} if previous is None else {id(f.trace.events): f for f in previous.ranks.values()}
        self.ranks: Mapping[str, RankFacts] = {
            trace.label: kept[id(trace.events)].relabelled(trace)
            if id(trace.events) in kept
            else RankFacts(trace)
            for trace in job.ranks
        }

    @cached_property
    def world_size(self) -> int | None:
        """Ranks of the job: as the files state it, else as many as the group of all ranks has."""
        return self.job.world_size or world_of_groups(self.job.ranks)

    @cached_property
    def is_large(self) -> bool:
        """Whether all ranks together have more device work than a value each is kept for."""
        return sum(len(trace.group("gpu")) for trace in self.job.ranks) > _MANY_ROWS

    @cached_property
    def _table(self) -> GroupTable:
        return group_table(self.job.ranks, self.world_size)

    @cached_property
    def _stated(self) -> tuple[CommGroup, ...]:
        """The communicators that files name."""
        return with_dimensions(self._table.groups, self.degrees, self.world_size)

    @cached_property
    def _recorded(self) -> Mapping[str, Calls]:
        """Collectives of every rank by label, with the groups that files name."""
        found: dict[str, Calls] = {}
        for label, facts in self.ranks.items():
            found[label] = calls_of(
                facts.trace,
                work=facts.work,
                classes=facts.classes,
                group_index=self._table.index[label],
                groups=self._stated,
            )
            if self.is_large:
                facts.forget_launches()
        return found

    @cached_property
    def _named(self) -> tuple[tuple[MatchInput, ...], tuple[CommGroup, ...]]:
        """Collectives and communicators; where files name none, those that streams tell."""
        inputs = tuple(
            MatchInput(label, facts.trace.rank, facts.trace.host, self._recorded[label])
            for label, facts in self.ranks.items()
        )
        known = np.array([bool(group.ranks) for group in self._stated] + [False])
        if any(known[item.calls.group].any() for item in inputs):
            return inputs, self._stated
        from ccltui.metrics.collectives.implied.implied_groups import implied_groups  # noqa: PLC0415 - rarely needed

        streams = {
            item.label: streams_of(self.ranks[item.label].trace, item.calls) for item in inputs
        }
        told = implied_groups(inputs, streams, self.world_size)
        if told is None:
            return inputs, self._stated
        named, groups = told.applied(inputs, self._table.groups)
        return tuple(named), with_dimensions(groups, self.degrees, self.world_size)

    @property
    def groups(self) -> tuple[CommGroup, ...]:
        """All communicators of the job, with their dimension."""
        return self._named[1]

    @property
    def match_inputs(self) -> tuple[MatchInput, ...]:
        """What the matching across ranks starts from."""
        return self._named[0]

    @cached_property
    def calls(self) -> Mapping[str, Calls]:
        """Collectives of every rank by label."""
        return {item.label: item.calls for item in self.match_inputs}

    @cached_property
    def _matched(self) -> tuple[Matches, ClockModel]:
        return match_and_clock(self.match_inputs, self.groups)

    @property
    def matches(self) -> Matches:
        """Which calls of different ranks are one collective."""
        return self._matched[0]

    @cached_property
    def pairs(self) -> Pairs:
        """Which send of one rank is which receive of another."""
        return match_p2p(self.match_inputs, self.groups)

    @property
    def clocks(self) -> ClockModel:
        """How far each rank's clock is from the others'."""
        return self._matched[1]

    @cached_property
    def arrivals(self) -> Arrivals:
        """Arrivals, lags and waits, starts on corrected clocks."""
        return arrivals(self.matches, self.match_inputs, self.clocks)

    @cached_property
    def raw_arrivals(self) -> Arrivals:
        """The same with starts as recorded."""
        return arrivals(self.matches, self.match_inputs, self.clocks, raw_clocks=True)

    def forget_details(self) -> None:
        """Drop what can be computed again from calls, matches and the traces."""
        self.__dict__.pop("causes", None)
        for facts in self.ranks.values():
            facts.forget_details()

    @cached_property
    def causes(self) -> Causes:
        """Why ranks came late."""
        from ccltui.metrics.collectives.causes.cause_search import Causes  # noqa: PLC0415 - few metrics ask

        return Causes(
            self.ranks,
            self.match_inputs,
            self.arrivals,
            self.clocks,
            groups=self.groups,
            pairs=lambda: self.pairs,
        )
