"""Why ranks came late to collectives, found in what each of them did since they last met."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from ccltui.metrics.arrays.reductions import row_any, unique_inverse
from ccltui.metrics.collectives.causes.activity import Activity, Sorts
from ccltui.metrics.collectives.causes.batched_queries import Question
from ccltui.metrics.collectives.causes.kernel_counts import KernelNames
from ccltui.metrics.collectives.causes.partners import Partners, partners_of
from ccltui.metrics.collectives.causes.segments import Segments, Targets, explain
from ccltui.metrics.collectives.causes.verdicts import OWN_WORK, Verdicts, cause_of, confidence_of
from ccltui.metrics.collectives.clocks.clock_model import ClockModel
from ccltui.metrics.collectives.lateness.arrivals import Arrivals
from ccltui.metrics.collectives.lateness.sync_points import SyncPoints, sync_points
from ccltui.metrics.collectives.matching.match import LOW, MatchInput
from ccltui.metrics.collectives.matching.p2p import Pairs
from ccltui.metrics.model.classify import TYPES
from ccltui.metrics.model.communicator_groups import CommGroup
from ccltui.metrics.model.rank_facts import RankFacts
from ccltui.parsers.array_types import I64, Bool

if TYPE_CHECKING:
    from ccltui.metrics.collectives.causes.chain import Link

_TRANSFERS: Final = [TYPES.index("Send"), TYPES.index("Recv")]
_SENDRECV: Final = TYPES.index("SendRecv")


class Causes:
    """Finds causes in a job; what has been looked at once is kept."""

    def __init__(
        self,
        facts: Mapping[str, RankFacts],
        inputs: Sequence[MatchInput],
        arrivals: Arrivals,
        clocks: ClockModel,
        *,
        groups: Sequence[CommGroup] = (),
        pairs: Callable[[], Pairs],
    ) -> None:
        self.arrivals = arrivals
        self.clocks = clocks
        self.groups = groups
        self.names = KernelNames()
        self._pairs = pairs
        self.inputs = {item.label: item for item in inputs}
        self._facts = facts
        self._activities: dict[str, Activity] = {}
        self._points: dict[tuple[str, ...], SyncPoints] = {}
        self.chains: dict[tuple[int, int], tuple[Link, ...]] = {}

    @cached_property
    def partners(self) -> Mapping[str, Partners]:
        """What each call of each rank is a part of."""
        return partners_of(list(self.inputs.values()), self.arrivals.groups, self._pairs())

    @cached_property
    def _sort_names(self) -> tuple[I64, npt.NDArray[np.str_]]:
        """Number of each group's kind (the last one serves calls of none), and all kinds by number.

        Behind those of groups come transfers of each type to lower, and to higher ranks.
        """
        names = [
            group.axis or (group.description if group.dim == "unknown" else "") or group.dim
            for group in self.groups
        ]
        kinds, number = unique_inverse(np.array([*names, "unknown"]))
        transfers = [f"{kind} {way}" for kind in TYPES for way in ("below", "above")]
        return number, np.array([*kinds.tolist(), *transfers])

    def _sorts(self, label: str) -> Sorts:
        """What kind of group each call of a rank serves; of a transfer, to or from whom.

        Stages of a pipeline do other things at the same time: only with the direction (higher or
        lower ranks) do transfers of two ranks of one stage compare.
        """
        item = self.inputs[label]
        of_group, names = self._sort_names
        above = np.array(
            [(one.rank or 0) > (item.rank or 0) for one in self.inputs.values()] + [False]
        )
        pairs = np.array([len(group.ranks) == 2 for group in self.groups] + [False])
        in_pair = (item.calls.kind == _SENDRECV) & pairs[item.calls.group]
        is_above = above[self.partners[label].other]
        if in_pair.any():
            highest = np.array([(group.ranks or (-1,))[-1] for group in self.groups] + [-1])
            is_above = np.where(in_pair, highest[item.calls.group] != item.rank, is_above)
        transfers = len(names) - 2 * len(TYPES) + 2 * item.calls.kind.astype(np.int64) + is_above
        is_transfer = np.isin(item.calls.kind, _TRANSFERS) | in_pair
        return Sorts(np.where(is_transfer, transfers, of_group[item.calls.group]), names)

    @cached_property
    def stages(self) -> Mapping[str, int]:
        """Place of each rank in the pipeline, 0 for the first stage and without any pipeline.

        Told from the transfers between ranks: one more than that of the ranks below it.
        """
        items = list(self.inputs.values())
        below: dict[str, set[str]] = {item.label: set() for item in items}
        pairs = self._pairs()
        links = {
            (items[a].label, items[b].label)
            for a, b in set(zip(pairs.sender.tolist(), pairs.receiver.tolist(), strict=True))
        }
        for match in (group.match for group in self.arrivals.groups):
            if len(match.labels) == 2 and (match.kind == _SENDRECV).any():
                links.add((match.labels[0], match.labels[1]))
        rank = {item.label: item.rank or 0 for item in items}
        for one, other in links:
            low, high = sorted((one, other), key=lambda label: rank[label])
            below[high].add(low)
        found: dict[str, int] = {}
        for label in sorted(below, key=lambda label: rank[label]):
            found[label] = max((found[other] + 1 for other in below[label]), default=0)
        return found

    def activity(self, label: str) -> Activity:
        """What a rank's time went into."""
        if label not in self._activities:
            calls = self.inputs[label].calls
            self._activities[label] = Activity(
                self._facts[label], calls, self._sorts(label), self.names
            )
        return self._activities[label]

    def points(self, labels: tuple[str, ...]) -> SyncPoints:
        """When these ranks waited for each other."""
        if labels not in self._points:
            self._points[labels] = sync_points(
                labels, self.arrivals.groups, self.inputs, together_ns=self.together(labels)
            )
        return self._points[labels]

    def together(self, labels: Sequence[str]) -> list[int] | None:
        """The moment from which all of these ranks were recorded, on the clock of each."""
        first = {label: self._facts[label].trace.first_ns for label in labels}
        if len(labels) < 2 or not self.clocks.comparable(labels) or None in first.values():
            return None
        common = max(
            int(self.clocks.corrected(label, np.array(start, np.int64)))
            for label, start in first.items()
            if start is not None
        )
        return [int(self.clocks.own(label, np.array(common, np.int64))) for label in labels]

    def targets(self, number: int, rows: I64, late: I64 | None = None) -> Targets:
        """Instances (rows, ascending) of a matched group; late is whom durations blame.

        ``rows`` must be eligible. ``late`` are members, by default the shortest duration.
        """
        group = self.arrivals.groups[number]
        points = self.points(group.labels)
        place = points.place_of(number, rows)
        shortest = group.dur_ns[rows].argmin(axis=1) if late is None else late
        return Targets(points.arrival_ns[place], np.asarray(shortest, np.int64), place)

    def question(self, number: int, rows: I64) -> Question:
        """Why the last member of each of these instances (as in `targets`) came last."""
        group = self.arrivals.groups[number]
        return Question(group.labels, self.targets(number, rows), group.confidence[rows])

    def verdicts(self, number: int, rows: I64) -> Verdicts:
        """Why the last member of each of these instances (as in `targets`) came last."""
        return self.judge(self.question(number, rows))

    def judge(self, asked: Question) -> Verdicts:
        """Why the late member of each target came after its peers."""
        labels, targets = asked.labels, asked.targets
        activities = [self.activity(label) for label in labels]
        segments = explain(self.points(labels), targets, activities)
        cause, share = cause_of(segments)
        sure = np.minimum(confidence_of(segments, cause, share), asked.limits).astype(np.int8)
        alike = self._has_like_peer(labels, targets, segments)
        sure[~alike & np.isin(cause, OWN_WORK)] = LOW
        return Verdicts(targets, segments, cause, share, sure, alike)

    def _has_like_peer(self, labels: tuple[str, ...], targets: Targets, segments: Segments) -> Bool:
        """Whether a punctual peer is in the late rank's stage: others do other work."""
        stage = np.array([self.stages[label] for label in labels])
        like = stage == stage[targets.late][:, np.newaxis]
        return row_any(like & segments.start.punctual)
