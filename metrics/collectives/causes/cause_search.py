"""Find the causes of late arrivals at the collectives of a job.

The activity of the late rank since the ranks last waited for each other is compared with that of
its peers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ccltui.metrics.arrays.reductions import row_any, rows_by_value, unique_inverse
from ccltui.metrics.collectives.causes.activity import Activity, GroupKinds, KernelNames
from ccltui.metrics.collectives.causes.segments import Segments, Targets, explain
from ccltui.metrics.collectives.causes.verdicts import (
    OWN_WORK,
    Link,
    VerdictRequest,
    Verdicts,
    cause_of,
    confidence_of,
)
from ccltui.metrics.collectives.clocks.clock_model import ClockModel
from ccltui.metrics.collectives.lateness.arrivals import Arrivals, GroupArrivals
from ccltui.metrics.collectives.lateness.sync_points import SyncPoints, sync_points
from ccltui.metrics.collectives.matching.match import LOW, MatchInput, gather
from ccltui.metrics.collectives.matching.p2p import Pairs
from ccltui.metrics.model.classify import TYPES
from ccltui.metrics.model.communicator_groups import CommGroup
from ccltui.metrics.model.rank_facts import RankFacts
from ccltui.parsers.array_types import I64, Bool
from ccltui.parsers.columns import MISSING


def starts_recording(causes: Causes) -> tuple[Bool, ...]:
    """Mark the instances before which no common point of their ranks is recorded.

    For these, `Causes.verdicts` has no time to count from.

    Returns:
        One mask per group of ``causes.arrivals.groups``, bool [n]; False where a call is missing
        on a rank.
    """
    holding: defaultdict[str, list[GroupArrivals]] = defaultdict(list)
    for group in causes.arrivals.groups:
        for label in group.labels:
            holding[label].append(group)
    return tuple(
        _starts_recording(causes, group, holding[group.labels[0]])
        for group in causes.arrivals.groups
    )


def _starts_recording(causes: Causes, group: GroupArrivals, near: Sequence[GroupArrivals]) -> Bool:
    """Return the mask of one group; ``near`` are the groups with its first rank."""
    labels = set(group.labels)
    found = np.zeros(len(group.eligible), np.bool_)
    moments = [
        moment
        for one in near
        if labels <= set(one.labels) and (moment := _first(causes, one, group.labels)) is not None
    ]
    common = causes.common_start(group.labels)
    if common is not None:
        moments.insert(0, np.array(common, np.int64))
    if not moments:
        return found
    usable = group.match.usable
    start = gather(group.match.where(usable), causes.inputs, "start_ns")
    first = min(moments, key=lambda moment: int(moment[0]))
    found[usable] = row_any(start <= first)
    return found


def _first(causes: Causes, group: GroupArrivals, labels: Sequence[str]) -> I64 | None:
    """Return when ``labels`` joined the first eligible collective of a group; None without one."""
    rows = group.match.rows[group.eligible]
    if not len(rows):
        return None
    columns = [group.labels.index(label) for label in labels]
    start = [causes.inputs[label].calls.start_ns for label in labels]
    at = int(start[0][rows[:, columns[0]]].argmin())
    return np.array([one[rows[at, i]] for one, i in zip(start, columns, strict=True)], np.int64)


class Partners(Struct, frozen=True):
    """Matched collective or transfer of every call of a rank; int64 arrays, -1 for none.

    ``number`` and ``instance`` are the matched group and its row; ``other`` and ``other_row`` the
    input on the other side of a transfer and the call there. ``wait_ns`` is how long the call
    waited for the last member, or for the other side: 0 where there is neither.
    """

    number: I64
    instance: I64
    other: I64
    other_row: I64
    wait_ns: I64


def partners_of(
    inputs: Sequence[MatchInput], groups: Sequence[GroupArrivals], pairs: Pairs
) -> Mapping[str, Partners]:
    """Return the partners of all calls of all ranks, by label."""
    found = {item.label: _no_partners(len(item.calls)) for item in inputs}
    for number, group in enumerate(groups):
        usable = np.flatnonzero(group.match.usable)
        for member, label in enumerate(group.labels):
            rows = group.match.rows[usable, member]
            found[label].number[rows] = number
            found[label].instance[rows] = usable
            found[label].wait_ns[rows] = group.wait_ns[usable, member]
    sides = (
        (pairs.sender, pairs.send_row, pairs.receiver, pairs.recv_row),
        (pairs.receiver, pairs.recv_row, pairs.sender, pairs.send_row),
    )
    for own, own_row, other, other_row in sides:
        for index, mine in rows_by_value(own):
            partners = found[inputs[index].label]
            partners.other[own_row[mine]] = other[mine]
            partners.other_row[own_row[mine]] = other_row[mine]
            duration = _durations(inputs, other[mine], other_row[mine])
            waited = inputs[index].calls.dur_ns[own_row[mine]] - duration
            partners.wait_ns[own_row[mine]] = np.maximum(waited, 0)
    return found


def _no_partners(count: int) -> Partners:
    number, instance, other, other_row = np.full((4, count), MISSING, np.int64)
    return Partners(number, instance, other, other_row, np.zeros(count, np.int64))


def _durations(inputs: Sequence[MatchInput], index: I64, row: I64) -> I64:
    result = np.empty(len(index), np.int64)
    for one, here in rows_by_value(index):
        result[here] = inputs[one].calls.dur_ns[row[here]]
    return result


_TRANSFERS: Final = [TYPES.index("Send"), TYPES.index("Recv")]
_SENDRECV: Final = TYPES.index("SendRecv")
_BELOW_ALL: Final = np.iinfo(np.int64).min


class Causes:
    """Causes of late arrivals of a job. Activities, sync points and chains are cached."""

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
        """Collective or transfer of each call, by label of the rank."""
        return partners_of(list(self.inputs.values()), self.arrivals.groups, self._pairs())

    @cached_property
    def _kind_names(self) -> tuple[I64, npt.NDArray[np.str_]]:
        """Kind number of each group (the last one for calls of no group), and all kinds by number.

        The kinds of groups are followed by transfers of each type to lower and to higher ranks.
        """
        names = [
            group.axis or (group.description if group.dim == "unknown" else "") or group.dim
            for group in self.groups
        ]
        kinds, number = unique_inverse(np.array([*names, "unknown"]))
        transfers = [f"{kind} {way}" for kind in TYPES for way in ("below", "above")]
        return number, np.array([*kinds.tolist(), *transfers])

    @cached_property
    def _ranks(self) -> I64:
        """Rank of each input, 0 where it is unknown; the last one, of no input, is below all."""
        return np.array([one.rank or 0 for one in self.inputs.values()] + [_BELOW_ALL], np.int64)

    @cached_property
    def _is_pair(self) -> Bool:
        """Whether each group has two ranks; the last one is no group."""
        return np.array([len(group.ranks) == 2 for group in self.groups] + [False])

    @cached_property
    def _highest_rank(self) -> I64:
        """Highest rank of each group, -1 where unknown; the last one is no group."""
        return np.array([(group.ranks or (-1,))[-1] for group in self.groups] + [-1], np.int64)

    def _group_kinds(self, label: str) -> GroupKinds:
        """Kind of group of each call of a rank; of a transfer, its type and direction.

        Transfers of two ranks of one pipeline stage are comparable only where they go in the same
        direction, to higher or to lower ranks: the stages on either side do other work then.
        """
        item = self.inputs[label]
        of_group, names = self._kind_names
        in_pair = (item.calls.kind == _SENDRECV) & self._is_pair[item.calls.group]
        is_above = self._ranks[self.partners[label].other] > (item.rank or 0)
        if in_pair.any():
            is_above = np.where(
                in_pair, self._highest_rank[item.calls.group] != item.rank, is_above
            )
        transfers = len(names) - 2 * len(TYPES) + 2 * item.calls.kind.astype(np.int64) + is_above
        is_transfer = np.isin(item.calls.kind, _TRANSFERS) | in_pair
        return GroupKinds(np.where(is_transfer, transfers, of_group[item.calls.group]), names)

    @cached_property
    def stages(self) -> Mapping[str, int]:
        """Place of each rank in the pipeline, 0 for the first stage and without any pipeline.

        Derived from the transfers between ranks: one more than the highest stage of the lower
        ranks that a rank exchanges data with.
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
        """Return the activity of a rank."""
        if label not in self._activities:
            calls = self.inputs[label].calls
            self._activities[label] = Activity(
                self._facts[label], calls, self._group_kinds(label), self.names
            )
        return self._activities[label]

    def points(self, labels: tuple[str, ...]) -> SyncPoints:
        """Return the collectives at which these ranks waited for each other."""
        if labels not in self._points:
            self._points[labels] = sync_points(
                labels,
                self.arrivals.groups,
                self.inputs,
                holding=self._groups_of(labels),
                common_start_ns=self.common_start(labels),
            )
        return self._points[labels]

    @cached_property
    def _columns(self) -> Mapping[str, Mapping[int, int]]:
        """Member of each matched group that a rank is, by label and number of the group."""
        found: dict[str, dict[int, int]] = {label: {} for label in self.inputs}
        for number, group in enumerate(self.arrivals.groups):
            for member, label in enumerate(group.labels):
                found[label][number] = member
        return found

    def _groups_of(self, labels: Sequence[str]) -> dict[int, list[int]]:
        """Return the members that ranks are, by number of the matched groups that contain all."""
        mine = [self._columns[label] for label in labels]
        shared = [number for number in mine[0] if all(number in one for one in mine)]
        return {number: [one[number] for one in mine] for number in shared}

    def common_start(self, labels: Sequence[str]) -> list[int] | None:
        """Return the time from which all of these ranks were recorded, ns on the clock of each.

        None for a single rank, and where the clocks or the first events are not known.
        """
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
        """Return the late arrivals at instances of a matched group.

        Args:
            number: Position of the group in the arrivals.
            rows: Usable instances, ascending.
            late: Late member of each; by default the one with the shortest duration.
        """
        group = self.arrivals.groups[number]
        points = self.points(group.labels)
        if group.eligible[rows].all():
            times, place = None, points.place_of(number, rows)
        else:  # not all ranks wait for each other: no point that lateness is counted from
            columns = [group.labels.index(label) for label in points.labels]
            times = gather(group.match.where(rows), self.inputs, "start_ns")[:, columns]
            place = points.before(times)
        shortest = group.dur_ns[rows].argmin(axis=1) if late is None else late
        when = points.arrival_ns[place] if times is None else times
        return Targets(when, np.asarray(shortest, np.int64), place)

    def request(self, number: int, rows: I64) -> VerdictRequest:
        """Return the request for the causes of these instances (as in `targets`)."""
        group = self.arrivals.groups[number]
        return VerdictRequest(group.labels, self.targets(number, rows), group.confidence[rows])

    def verdicts(self, number: int, rows: I64) -> Verdicts:
        """Return the causes of the last arrivals at these instances (as in `targets`)."""
        return self.judge(self.request(number, rows))

    def judge(self, request: VerdictRequest) -> Verdicts:
        """Return the cause of each late arrival of a request.

        The confidence of causes in own work is LOW where no punctual peer is of the same pipeline
        stage: ranks of other stages do other work.
        """
        labels, targets = request.labels, request.targets
        activities = [self.activity(label) for label in labels]
        segments = explain(self.points(labels), targets, activities)
        cause, share = cause_of(segments)
        sure = np.minimum(confidence_of(segments, cause, share), request.limits).astype(np.int8)
        has_stage_peer = self._has_stage_peer(labels, targets, segments)
        sure[~has_stage_peer & np.isin(cause, OWN_WORK)] = LOW
        return Verdicts(targets, segments, cause, share, sure, has_stage_peer)

    def _has_stage_peer(
        self, labels: tuple[str, ...], targets: Targets, segments: Segments
    ) -> Bool:
        """Whether a punctual peer is in the pipeline stage of the late rank, bool [t]."""
        stage = np.array([self.stages[label] for label in labels])
        like = stage == stage[targets.late][:, np.newaxis]
        return row_any(like & segments.start.punctual)
