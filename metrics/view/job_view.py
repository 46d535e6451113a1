"""A job under a selection of time, steps, ranks and group: the input of metrics and panes.

Everything is computed at first use and cached. Results that depend on the traces alone are in
`JobFacts`, which the views of one job share, so that a new window recomputes only what depends
on it.
"""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, runtime_checkable

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from ccltui.metrics.card import effective_config
from ccltui.metrics.card.effective_config import config_of
from ccltui.metrics.collectives.arrivals import Arrivals, arrivals
from ccltui.metrics.collectives.clocks.clock_estimate import doubtful_groups, match_and_clock
from ccltui.metrics.collectives.clocks.clock_model import ClockModel
from ccltui.metrics.collectives.matching.match import (
    SENDRECV,
    Matches,
    MatchInput,
    Pairs,
    match_calls,
    match_p2p,
)
from ccltui.metrics.collectives.matching.validity import ComparedEnds
from ccltui.metrics.facts import fact
from ccltui.metrics.model.calls import Calls, KnownCalls, calls_of, streams_of, untimed_calls_of
from ccltui.metrics.model.communicator_groups import (
    CommGroup,
    GroupTable,
    group_table,
    world_of_groups,
)
from ccltui.metrics.model.dimensions import (
    DIMS,
    Degrees,
    dims_of_calls,
    dims_of_groups,
    rank_grid,
    with_dimensions,
)
from ccltui.metrics.model.rank_facts import RankFacts, SharedResults, remembered
from ccltui.metrics.unavailable import refuse
from ccltui.metrics.view.rank_view import FOREVER_NS, RankSum, RankView, Selection
from ccltui.metrics.view.view_options import ViewOptions
from ccltui.parsers.array_types import I8, I64, Bool

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ccltui.metrics.collectives.implied.implied_groups import Implied
    from ccltui.parsers.job import Job


_MANY_ROWS: Final = 1 << 22
"""Rows of device work from which a job is large: merged intervals alone take some 80 B a row."""


@runtime_checkable
class Forgetful(Protocol):
    """A result that can compute the intervals that it keeps again."""

    def forget_intervals(self) -> None:
        """Free them."""


class JobFacts:
    """The groups, collectives, matches and clocks of all ranks of a job.

    Results on single traces are taken from ``previous``, so that a job that grows by one rank does
    not classify the others again.
    """

    def __init__(self, job: Job, degrees: Degrees, previous: JobFacts | None = None) -> None:
        self.job = job
        self.degrees = degrees
        self._recorded: dict[str, Calls] = {}
        self._listed_before: Calls | None = None
        self._known_calls: KnownCalls | None = None
        self._remembered: dict[object, Any] = {}
        self._compared_ends: dict[int, ComparedEnds] = {}  # until clocks are known
        shared = SharedResults()
        kept = {} if previous is None else {id(f.trace.events): f for f in previous.ranks.values()}
        self.ranks: Mapping[str, RankFacts] = {
            trace.label: kept[id(trace.events)].relabelled(trace)
            if id(trace.events) in kept
            else RankFacts(trace, shared)
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
    @fact("groups")
    def _table(self) -> GroupTable:
        return group_table(self.job.ranks, self.world_size)

    @cached_property
    @fact("groups")
    def stated_groups(self) -> tuple[CommGroup, ...]:
        """Communicators that files name, with their dimensions; the first of `groups`."""
        return with_dimensions(self._table.groups, self.degrees, self.world_size)

    def recorded_calls(self, label: str) -> Calls:
        """Return the collectives of one rank as its file records them; infers nothing."""
        if label not in self._recorded:
            self._recorded[label] = self._list_calls(label)
        return self._recorded[label]

    @fact("calls")
    def _list_calls(self, label: str) -> Calls:
        facts = self.ranks[label]
        with facts.held():  # listing the calls gives the columns back
            work, classes, trace = facts.work, facts.classes, facts.trace
            index, known = self._table.index[label], self._known_calls
            found = (
                None
                if known is None
                else known.of_rank(trace, work=work, classes=classes, group_index=index)
            )
            if found is None:
                groups = self.stated_groups
                found = calls_of(
                    trace, work=work, classes=classes, group_index=index, groups=groups
                )
                found = found.sharing(self._listed_before)
                given = trace, found, work, classes, index
                self._known_calls = KnownCalls.of(*given) or known
        self._listed_before = found
        if self.is_large:
            facts.forget_launches()
        return found

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
    @fact("named_calls")
    def _named(self) -> tuple[tuple[MatchInput, ...], tuple[CommGroup, ...]]:
        """Collectives and communicators; where a file names none, those inferred from streams.

        The inference compares the streams of all ranks with one another. Then batches of sends and
        receives are paired by their ends, on the clocks that the other calls tell.
        """
        inputs, groups = self._with_groups()
        if not any((item.calls.kind == SENDRECV).any() for item in inputs):
            return inputs, groups
        from ccltui.metrics.collectives.implied import implied_transfers  # noqa: PLC0415 - rarely needed

        if not implied_transfers.has_batches(inputs):
            return inputs, groups
        _, clocks = match_and_clock(inputs, groups, match_p2p(inputs, groups))
        clock = implied_transfers.CommonClock.of_model(clocks, inputs)
        facts_of = self.ranks.__getitem__
        found = implied_transfers.with_batches(
            inputs, groups, clock, facts_of, world_size=self.world_size
        )
        return found or (inputs, groups)

    def _with_groups(self) -> tuple[tuple[MatchInput, ...], tuple[CommGroup, ...]]:
        """The same with batches as they are recorded."""
        inputs = tuple(
            MatchInput(label, facts.rank, facts.trace.host, self.recorded_calls(label))
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
            from ccltui.metrics.collectives.implied.implied_groups import (  # noqa: PLC0415
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
        from ccltui.metrics.collectives.implied.implied_transfers import with_sides  # noqa: PLC0415 - rarely needed

        told = with_sides(named, groups, streams, self.ranks.__getitem__)
        changed, every = self._batched(named, told, groups, implied) or (tuple(told), groups)
        inferred = with_dimensions(every[: len(groups)], self.degrees, self.world_size)
        return tuple(changed), (*inferred, *every[len(groups) :])  # pipelines are told by batches

    def _batched(
        self,
        named: Sequence[MatchInput],
        told: Sequence[MatchInput],
        groups: Sequence[CommGroup],
        implied: Implied,
    ) -> tuple[Sequence[MatchInput], Sequence[CommGroup]] | None:
        """Return the calls of a job without metadata whose transfers are batches, else None."""
        if not any((item.calls.kind == SENDRECV).any() for item in told):
            return None
        from ccltui.metrics.collectives.implied import implied_transfers  # noqa: PLC0415 - rarely needed

        clock = implied_transfers.CommonClock.of_streams(implied.clocks)
        facts_of = self.ranks.__getitem__
        return implied_transfers.batches_of_streams(
            named, told, groups, clock, facts_of, world_size=self.world_size
        )

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
        matches, ends = self._first_matches, self._compared_ends
        return match_and_clock(self.match_inputs, self.groups, self.pairs, matches, ends)

    @cached_property
    def _first_matches(self) -> Matches:
        return match_calls(self.match_inputs, self.groups, ends=self._compared_ends)

    @cached_property
    def matches(self) -> Matches:
        """Calls of different ranks, matched to collectives; doubtful ones with clocks."""
        first = self._first_matches
        return self._matched[0] if doubtful_groups(first) else first

    @cached_property
    @fact("pairs")
    def pairs(self) -> Pairs:
        """Sends, paired with the receives of other ranks."""
        return match_p2p(self.match_inputs, self.groups)

    @property
    def clocks(self) -> ClockModel:
        """Offset and drift of each rank's clock."""
        return self._matched[1]

    @cached_property
    @fact("arrivals")
    def arrivals(self) -> Arrivals:
        """Arrivals, lags and waits, with starts on corrected clocks."""
        return arrivals(self.matches, self.match_inputs, self.clocks)

    @cached_property
    @fact("arrivals")
    def raw_arrivals(self) -> Arrivals:
        """Arrivals, lags and waits, with starts as recorded."""
        return arrivals(self.matches, self.match_inputs, self.clocks, raw_clocks=True)

    def remember(self, key: object, make: Callable[[], _T]) -> _T:
        """Return the cached result of ``make`` for ``key``, which all views of the job share."""
        return remembered(self._remembered, key, make)

    def forget_intervals(self) -> None:
        """Free the intervals that cached results keep beside what they state."""
        for one in self._remembered.values():
            if isinstance(one, Forgetful):
                one.forget_intervals()

    def forget_details(self) -> None:
        """Free cached results that can be computed again from calls, matches and the traces."""
        self._remembered.clear()
        self._compared_ends.clear()
        for facts in self.ranks.values():
            facts.forget_details()

    def release(self) -> None:
        """Free like `forget_details`, and the merged intervals and mapped columns of the ranks."""
        self.forget_details()
        for facts in self.ranks.values():
            facts.forget_intervals()


_T = TypeVar("_T")

__all__ = ["View", "ViewOptions"]


class View:
    """A job under options.

    Args:
        job: the traces.
        options: the selection; everything by default.
        previous: a view of the same or a smaller job, whose results on each rank are reused.
    """

    def __init__(
        self, job: Job, options: ViewOptions | None = None, *, previous: View | None = None
    ) -> None:
        self.job = job
        self.options = options or ViewOptions()
        self.run_config = config_of(job)
        self.card = effective_config.CardFacts(
            job.card, job.card_problem, self.options.overrides, self.run_config.values
        )
        degrees = self.card.degrees
        facts = None if previous is None else previous.facts
        if facts is None or facts.job is not job or facts.degrees != degrees:
            facts = JobFacts(job, degrees, facts)
        self.facts: JobFacts = facts
        self._remembered: dict[object, Any] = {}
        self.expected: frozenset[str] = frozenset()
        self._expected_sums: tuple[RankSum, ...] = ()
        self._sums: defaultdict[str, dict[object, Any]] = defaultdict(dict)
        self._alike: dict[object, tuple[tuple[object, ...], Any]] = {}

    def with_options(self, **changes: Any) -> View:
        """Return a view of the same job with some options changed."""
        return View(self.job, self.options.changed(**changes), previous=self)

    def remember(self, key: object, make: Callable[[], _T]) -> _T:
        """Return the cached result of ``make`` for ``key``; several metrics share intermediates."""
        return remembered(self._remembered, key, make)

    def expect(
        self, names: Iterable[str], sums: Iterable[Callable[[View, RankView], object]]
    ) -> None:
        """Name the metrics that will be computed: a large job finds what they share at once.

        In a small one what they share stays in memory anyway.

        Args:
            names: names of the metrics.
            sums: functions that keep few numbers of a rank with `RankView.sum_up`.
        """
        if not self.facts.is_large:
            return
        self.expected = frozenset(names)
        self._expected_sums = tuple(partial(one, self) for one in dict.fromkeys(sums))

    def forget_details(self) -> None:
        """Free cached intermediates of single metrics; next use computes them again.

        Calls, matches, clocks and arrivals stay. For callers that hold a view long after all
        metrics are computed.
        """
        self.__dict__.pop("ranks", None)
        self._remembered.clear()
        self.facts.forget_details()

    def forget_intervals(self) -> None:
        """Free the intervals of the ranks, which in a large job take more than all results."""
        for rank in self.__dict__.get("ranks", ()):
            rank.forget_intervals()
        self.facts.forget_intervals()

    def release(self) -> None:
        """Free all that can be computed again from calls, matches, clocks and arrivals.

        Unlike `forget_details` also merged intervals of the ranks, and their mapped columns. The
        few numbers that `RankView.sum_up` keeps of each rank stay.
        """
        self.forget_details()
        self.facts.release()

    @cached_property
    def card_contradictions(self) -> tuple[str, ...]:
        """Contradictions between the workload card and the traces, one sentence each."""
        if self.job.card is None:  # as of most jobs: what checks cards is not imported for them
            return ()
        from ccltui.metrics.card.check_and_draft import check_card  # noqa: PLC0415

        return check_card(self.job)

    @cached_property
    def ranks(self) -> tuple[RankView, ...]:
        """The selected ranks, in the order of the job."""
        chosen = self.options.ranks
        return tuple(
            RankView(
                facts,
                *self._lists_of_calls(label),
                self._selection(label),
                partial(self.facts.untimed_calls, label),
                is_large=self.facts.is_large,
                expected=lambda: self._expected_sums,
                sums=self._sums[label],
            )
            for label, facts in self.facts.ranks.items()
            if chosen is None or facts.rank in chosen
        )

    def _lists_of_calls(self, label: str) -> tuple[Callable[[], Calls], Callable[[], Calls]]:
        """Return functions that list the calls of a rank as recorded, and with inferred groups."""
        return lambda: self.facts.recorded_calls(label), lambda: self.facts.named_calls[label]

    @property
    def degrees(self) -> Degrees:
        """Parallel degrees that the card or the user states."""
        return self.facts.degrees

    @property
    def groups(self) -> tuple[CommGroup, ...]:
        """All communicators of the job; infers those that no file names."""
        return self.facts.groups

    @property
    def groups_with_dims(self) -> tuple[CommGroup, ...]:
        """The communicators of which a dimension may be known; infers where that needs it."""
        return self.groups if self.facts.groups_tell_dims else self.facts.stated_groups

    def group(self, index: int) -> CommGroup:
        """Return a communicator; nothing is inferred for one that a file names."""
        stated = self.facts.stated_groups
        return stated[index] if index < len(stated) else self.groups[index]

    @property
    def match_inputs(self) -> tuple[MatchInput, ...]:
        """The unfiltered collectives of every rank."""
        return self.facts.match_inputs

    @cached_property
    def inputs_by_label(self) -> Mapping[str, MatchInput]:
        """`match_inputs` by the label of the rank."""
        return {item.label: item for item in self.facts.match_inputs}

    @property
    def matches(self) -> Matches:
        """Unfiltered calls of different ranks, matched to collectives."""
        return self.facts.matches

    @property
    def pairs(self) -> Pairs:
        """Unfiltered sends, paired with the receives of other ranks."""
        return self.facts.pairs

    @property
    def clocks(self) -> ClockModel:
        """Clock model of all ranks, estimated from unfiltered calls."""
        return self.facts.clocks

    @property
    def arrivals(self) -> Arrivals:
        """Arrivals at all unfiltered collectives, on raw clocks where these are selected."""
        return self.facts.raw_arrivals if self.options.raw_clocks else self.facts.arrivals

    @cached_property
    def offsets_ns(self) -> Mapping[str, int]:
        """Own clock minus reference clock of every rank in ns; 0 where unknown or clocks are raw.

        The offset of a clock that drifts is that in the middle of the job; `on_job_clock` also
        corrects the drift.
        """
        if self.is_as_recorded:
            return {trace.label: 0 for trace in self.job.ranks}
        return self.clocks.offsets_ns

    def on_job_clock(self, label: str, times_ns: I64) -> I64:
        """Convert times (int64 ns, any shape) of one rank's clock to the job's, drift included."""
        return (
            np.asarray(times_ns) if self.is_as_recorded else self.clocks.corrected(label, times_ns)
        )

    def on_own_clock(self, label: str, times_ns: I64) -> I64:
        """Convert times (int64 ns, any shape) of the job's clock to that of one rank."""
        return np.asarray(times_ns) if self.is_as_recorded else self.clocks.own(label, times_ns)

    @property
    def is_as_recorded(self) -> bool:
        """Whether times stay as recorded: raw clocks are selected, or there is only one rank."""
        return self.options.raw_clocks or len(self.job.ranks) < 2

    @cached_property
    def origin_ns(self) -> int:
        """Origin of windows and of the timeline: the earliest event of any rank, in ns.

        The earliest on the job's clock: a rank whose clock is behind must not shift the origin of
        all others.
        """
        starts = {trace.label: trace.first_ns for trace in self.job.ranks}
        corrected = [
            int(self.on_job_clock(label, np.array(start, np.int64)))
            for label, start in starts.items()
            if start is not None
        ]
        return min(corrected, default=0)

    @property
    def world_size(self) -> int | None:
        """Number of ranks that the files state or list, else the device count of the card."""
        return self.facts.world_size or self.card.number("total_count")

    def dims_of(self, calls: Calls) -> tuple[I8, I8]:
        """Return the indices into DIMS and into MODES of each call.

        Nothing is inferred for calls of groups that files name, or of none.
        """
        return self.of_alike("dims", calls, lambda: self._dims_of(calls))

    def _dims_of(self, calls: Calls) -> tuple[I8, I8]:
        stated = calls.group.max(initial=-1) < len(self.facts.stated_groups)
        groups = self.facts.dims_of_stated_groups if stated else self.facts.dims_of_groups
        return dims_of_calls(calls, groups, self.degrees)

    def of_alike(
        self, key: object, calls: Calls, make: Callable[[], _T], *others: npt.NDArray[Any]
    ) -> _T:
        """Return what ``make`` finds from the types and groups of some calls, and other columns.

        Where these are the same arrays as in the call before, as they are of ranks that do the same
        work (`KnownCalls`), so is the result.
        """
        columns = calls.source, calls.kind, calls.group, calls.has_metadata, *others
        known = self._alike.get(key)
        if known is None or any(map(operator.is_not, known[0], columns)):
            known = self._alike[key] = columns, make()
        found: _T = known[1]
        return found

    def with_dims(self, rank: RankView, calls: Calls) -> Calls:
        """Return calls of a rank with all that tells their dimension.

        Groups that no file names are inferred only where their ranks would tell a dimension.
        """
        return rank.named(calls) if self.facts.groups_tell_dims else calls

    def group_label(self, index: int) -> str:
        """Return the label of a group index; "unknown" for calls that name no group (-1)."""
        return self.group(index).label if index >= 0 else "unknown"

    def _selection(self, label: str) -> Selection:
        window, options = self.options.window, self.options
        start, end = -FOREVER_NS, FOREVER_NS
        if window is not None:
            start = start if window.start_ns is None else self._from_origin(label, window.start_ns)
            end = end if window.end_ns is None else self._from_origin(label, window.end_ns)
        return Selection(start, end, options.steps, options.span, self._chosen)

    def _from_origin(self, label: str, since_ns: int) -> int:
        """Convert ns since the origin to the clock of one rank."""
        return int(self.on_own_clock(label, np.array(self.origin_ns + since_ns, np.int64)))

    @cached_property
    def _chosen_groups(self) -> list[int]:
        text = (self.options.group or "").lower()
        if not text:
            return []
        return [
            index
            for index, group in enumerate(self.groups)
            if text in (group.label.lower(), group.description.lower(), group.name.lower())
            or text == group.axis
        ]

    @property
    def _chosen(self) -> Callable[[Calls], Bool] | None:
        """Function that masks the calls of the selected group, None where none is selected."""
        if self.options.group is None:
            return None
        return self._is_chosen

    def _is_chosen(self, calls: Calls) -> Bool:
        text = (self.options.group or "").lower()
        chosen = np.isin(calls.group, self._chosen_groups)
        return chosen | self._has_dim(calls, text) if text in DIMS else chosen

    def require_group(self) -> None:
        """Refuse a group option that names neither a group nor a dimension that is known.

        A dimension without calls is a result of 0 only where the dimension of every call is known.

        Raises:
            Refusal: the option selects nothing that can be identified.
        """
        wanted = self.options.group
        if wanted is None or self._chosen_groups:
            return
        labels = ", ".join(group.label for group in self.groups[:12]) or "none"
        if wanted.lower() not in DIMS:
            raise refuse("no_process_groups", f"no group {wanted!r}; groups here: {labels}")
        every = self.facts.named_calls.values()
        if any(self._has_dim(calls, wanted.lower()).any() for calls in every):
            return
        unknown = sum(int(self._has_dim(calls, "unknown").sum()) for calls in every)
        if unknown:
            raise refuse(
                "no_process_groups",
                f"no collective is known to belong to {wanted.lower()}, and the dimension of "
                f"{unknown} is not known; groups here: {labels}",
            )

    def _has_dim(self, calls: Calls, dim: str) -> Bool:
        return np.asarray(self.dims_of(calls)[0] == DIMS.index(dim))
