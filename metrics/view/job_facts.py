"""Results that depend on the traces of a job alone, shared by all views of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
from msgspec.structs import replace

from ccltui.metrics.collectives.arrivals import Arrivals, arrivals
from ccltui.metrics.collectives.clocks.clock_estimate import match_and_clock
from ccltui.metrics.collectives.clocks.clock_model import ClockModel
from ccltui.metrics.collectives.matching.match import Matches, MatchInput
from ccltui.metrics.collectives.matching.p2p import Pairs, match_p2p
from ccltui.metrics.model.calls import Calls, calls_of, streams_of, untimed_calls_of
from ccltui.metrics.model.communicator_groups import (
    CommGroup,
    GroupTable,
    group_table,
    world_of_groups,
)
from ccltui.metrics.model.dimensions import Degrees, dims_of_groups, rank_grid, with_dimensions
from ccltui.metrics.model.rank_facts import RankFacts
from ccltui.parsers.array_types import I8

if TYPE_CHECKING:
    from ccltui.parsers.job import Job

_T = TypeVar("_T")

_MANY_ROWS: Final = 1 << 22
"""Rows of device work from which a job is large: merged intervals alone take some 80 B a row."""


class JobFacts:
    """The groups, collectives, matches and clocks of all ranks of a job.

    Results on single traces are taken from ``previous``, so that a job that grows by one rank does
    not classify the others again.
    """

    def __init__(self, job: Job, degrees: Degrees, previous: JobFacts | None = None) -> None:
        self.job = job
        self.degrees = degrees
        self._recorded: dict[str, Calls] = {}
        self._remembered: dict[object, Any] = {}
        kept = {} if previous is None else {id(f.trace.events): f for f in previous.ranks.values()}
        self.ranks: Mapping[str, RankFacts] = {
            trace.label: kept[id(trace.events)].relabelled(trace)
            if id(trace.events) in kept
            else RankFacts(trace)
            for trace in job.ranks
        }

    @cached_property
    def world_size(self) -> int | None:
        """Number of ranks that the files state, else the size of the group of all ranks."""
        return self.job.world_size or world_of_groups(self.job.ranks)

    @cached_property
    def is_large(self) -> bool:
        """Whether all ranks have too many rows of device work to cache a value for each."""
        return sum(len(trace.group("gpu")) for trace in self.job.ranks) > _MANY_ROWS

    @cached_property
    def _table(self) -> GroupTable:
        return group_table(self.job.ranks, self.world_size)

    @cached_property
    def stated_groups(self) -> tuple[CommGroup, ...]:
        """Communicators that files name, with their dimensions; the first of `groups`."""
        return with_dimensions(self._table.groups, self.degrees, self.world_size)

    def recorded_calls(self, label: str) -> Calls:
        """Return the collectives of one rank as its file records them; infers nothing."""
        if label not in self._recorded:
            facts = self.ranks[label]
            self._recorded[label] = calls_of(
                facts.trace,
                work=facts.work,
                classes=facts.classes,
                group_index=self._table.index[label],
                groups=self.stated_groups,
            )
            if self.is_large:
                facts.forget_launches()
        return self._recorded[label]

    def untimed_calls(self, label: str) -> Calls:
        """Collectives of a rank whose kernels have impossible times, with the groups of files."""
        facts = self.ranks[label]
        return untimed_calls_of(
            facts.trace,
            work=facts.work,
            group_index=self._table.index[label],
            groups=self.stated_groups,
        )

    @cached_property
    def _named(self) -> tuple[tuple[MatchInput, ...], tuple[CommGroup, ...]]:
        """Collectives and communicators; where a file names none, those inferred from streams.

        The inference compares the streams of all ranks with one another.
        """
        inputs = tuple(
            MatchInput(label, facts.trace.rank, facts.trace.host, self.recorded_calls(label))
            for label, facts in self.ranks.items()
        )
        known = np.array([bool(group.ranks) for group in self.stated_groups] + [False])
        names_none = [item for item in inputs if not known[item.calls.group].any()]
        nameless = {
            item.label: streams_of(self.ranks[item.label].trace, item.calls)
            for item in names_none
            if len(item.calls)
        }
        if len(names_none) < len(inputs):
            if not nameless:
                return self._with_foreign_groups(inputs)
            from ccltui.metrics.collectives.implied.nameless_ranks import (  # noqa: PLC0415 - rare
                with_groups_of_others,
            )

            completed = with_groups_of_others(inputs, nameless, self.stated_groups)
            return self._with_foreign_groups(tuple(completed))
        from ccltui.metrics.collectives.implied.implied_groups import implied_groups  # noqa: PLC0415 - rarely needed

        streams = {item.label: nameless.get(item.label, np.empty(0, np.int64)) for item in inputs}
        implied = implied_groups(inputs, streams, self.world_size)
        if implied is None:
            return inputs, self.stated_groups
        named, groups = implied.applied(inputs, self._table.groups)
        from ccltui.metrics.collectives.implied.transfer_sides import with_sides  # noqa: PLC0415 - rarely needed

        told = with_sides(named, groups, streams, self.ranks.__getitem__)
        return tuple(told), with_dimensions(groups, self.degrees, self.world_size)

    def _with_foreign_groups(
        self, inputs: tuple[MatchInput, ...]
    ) -> tuple[tuple[MatchInput, ...], tuple[CommGroup, ...]]:
        """Infer the groups of kernels of other libraries than NCCL, which no file names."""
        rows = {
            item.label: np.flatnonzero((item.calls.library > 0) & (item.calls.group < 0))
            for item in inputs
        }
        if sum(map(len, rows.values())) == 0:
            return inputs, self.stated_groups
        from ccltui.metrics.collectives.implied.implied_groups import implied_groups  # noqa: PLC0415 - rarely needed

        parts = [replace(item, calls=item.calls.take(rows[item.label])) for item in inputs]
        parts = [part for part in parts if len(part.calls)]
        streams = {
            part.label: streams_of(self.ranks[part.label].trace, part.calls) for part in parts
        }
        implied = implied_groups(parts, streams, self.world_size, also_single=True)
        if implied is None:
            return inputs, self.stated_groups
        named, groups = implied.applied(parts, self.stated_groups)
        found = {part.label: part.calls.group for part in named}
        completed = []
        for item in inputs:
            group = item.calls.group.copy()
            if item.label in found:
                group[rows[item.label]] = found[item.label]
            completed.append(replace(item, calls=replace(item.calls, group=group)))
        return tuple(completed), with_dimensions(groups, self.degrees, self.world_size)

    @property
    def groups(self) -> tuple[CommGroup, ...]:
        """All communicators of the job, with their dimensions; infers those that no file names."""
        return self._named[1]

    @cached_property
    def dims_of_stated_groups(self) -> tuple[I8, I8]:
        """As `dims_of_groups`, of the groups that files name."""
        return dims_of_groups(self.stated_groups)

    @cached_property
    def dims_of_groups(self) -> tuple[I8, I8]:
        """Indices into DIMS and into MODES of each group; the last ones of no group."""
        return dims_of_groups(self.groups)

    @cached_property
    def groups_tell_dims(self) -> bool:
        """Whether the ranks of a group without a name tell its dimension, by degrees of the job."""
        return bool(rank_grid(self.degrees, self.world_size))

    @property
    def match_inputs(self) -> tuple[MatchInput, ...]:
        """Collectives of every rank, as input of the matching across ranks; infers groups."""
        return self._named[0]

    @cached_property
    def named_calls(self) -> Mapping[str, Calls]:
        """Collectives of every rank by label; infers the groups that no file names."""
        return {item.label: item.calls for item in self.match_inputs}

    @cached_property
    def _matched(self) -> tuple[Matches, ClockModel]:
        return match_and_clock(self.match_inputs, self.groups, self.pairs)

    @property
    def matches(self) -> Matches:
        """Calls of different ranks, matched to collectives."""
        return self._matched[0]

    @cached_property
    def pairs(self) -> Pairs:
        """Sends, paired with the receives of other ranks."""
        return match_p2p(self.match_inputs, self.groups)

    @property
    def clocks(self) -> ClockModel:
        """Offset and drift of each rank's clock."""
        return self._matched[1]

    @cached_property
    def arrivals(self) -> Arrivals:
        """Arrivals, lags and waits, with starts on corrected clocks."""
        return arrivals(self.matches, self.match_inputs, self.clocks)

    @cached_property
    def raw_arrivals(self) -> Arrivals:
        """Arrivals, lags and waits, with starts as recorded."""
        return arrivals(self.matches, self.match_inputs, self.clocks, raw_clocks=True)

    def remember(self, key: object, make: Callable[[], _T]) -> _T:
        """Return the cached result of ``make`` for ``key``, which all views of the job share."""
        if key not in self._remembered:
            self._remembered[key] = make()
        found: _T = self._remembered[key]
        return found

    def forget_details(self) -> None:
        """Free cached results that can be computed again from calls, matches and the traces."""
        self._remembered.clear()
        for facts in self.ranks.values():
            facts.forget_details()

    def release(self) -> None:
        """Free like `forget_details`, and the merged intervals and mapped columns of the ranks."""
        self.forget_details()
        for facts in self.ranks.values():
            facts.forget_intervals()
