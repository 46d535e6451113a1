"""Find the cause of each late arrival at the collectives of a job.

The activity of the late rank since the ranks last waited for each other is compared with that of
its peers.

    cause = the part with the largest excess over the peers, if excess >= NAMED_SHARE * lateness
    share = excess of that part / lateness

Else the cause is unknown. The confidence is HIGH from ``HIGH_SHARE`` on and MEDIUM below; at most
MEDIUM for causes that only locate the loss in time, LOW for these with fewer than two peers and
where the start is common by clock offsets only, and never above that of the match.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ccltui.metrics.arrays.reductions import row_any, row_count, rows_by_value, unique_inverse
from ccltui.metrics.collectives.arrivals import Arrivals, GroupArrivals, SyncPoints, sync_points
from ccltui.metrics.collectives.clocks.clock_model import ClockModel
from ccltui.metrics.collectives.matching.match import HIGH, LOW, MEDIUM, MatchInput, Pairs, gather
from ccltui.metrics.findings.causes.activity import Activity, KernelNames
from ccltui.metrics.findings.causes.segments import (
    COMPUTE,
    COPIES,
    IDLE,
    OTHER_COLLECTIVE,
    PARTS,
    ByTarget,
    Segments,
    Targets,
    explain,
)
from ccltui.metrics.model.classify import TYPES, is_one_of
from ccltui.metrics.model.communicator_groups import CommGroup
from ccltui.metrics.model.rank_facts import RankFacts
from ccltui.parsers.array_types import F64, I8, I64, Bool
from ccltui.parsers.columns import MISSING

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View


class Link(Struct, frozen=True):
    """One late rank of a blame chain, where it was late, and why.

    ``number`` is the position of the matched group in the arrivals, -1 for a transfer between two
    ranks. ``row`` is the instance with most lag of the ``count`` that the link represents; of a
    transfer, the call of ``label``. ``lag_ns`` is how long the rank before it in the chain waited
    for it beyond its peers; of the first link, the lag. ``share`` is the part of its lateness that
    ``cause`` explains.
    """

    label: str
    number: int
    row: int
    kind: int
    group: int
    count: int
    lag_ns: int
    cause: str
    share: float
    confidence: int
    found: Verdicts | None = None  # the verdicts that the cause is from


class VerdictRequest(Struct, frozen=True):
    """Late arrivals of the ranks ``labels``, whose causes are requested.

    ``limit`` [t] is the confidence of the matches, an upper bound of that of the verdicts; None
    for no bound.
    """

    labels: tuple[str, ...]
    targets: Targets
    limit: I8 | None = None

    @property
    def limits(self) -> I8:
        """Upper bound of the confidence of each target, int8 [t]."""
        return np.full(len(self.targets), HIGH, np.int8) if self.limit is None else self.limit


MORE_KERNELS: Final = "more_kernels"
UNEQUAL_WORK: Final = "unequal_work"
HOST_LATE: Final = "host_late"
EARLIER_LAG: Final = "earlier_lag"
UNKNOWN: Final = "unknown"

CAUSES: Final = (
    COMPUTE,  # its kernels take longer
    MORE_KERNELS,  # it runs more of them
    UNEQUAL_WORK,  # it was given more: larger messages, or other work than its peers
    OTHER_COLLECTIVE,  # a collective of another group delayed it
    COPIES,
    *IDLE,  # the device idled while the host did this
    HOST_LATE,  # the same, of which no kind makes up half
    EARLIER_LAG,  # it was late at an earlier collective, at which nobody waited for it
    UNKNOWN,
)
MEANINGS: Final[Mapping[str, str]] = {
    COMPUTE: "its kernels take longer",
    MORE_KERNELS: "it runs more kernels",
    UNEQUAL_WORK: "it has more work: larger messages in its all-to-alls",
    OTHER_COLLECTIVE: "a collective of another group delayed it",
    COPIES: "copies and fills while nothing computes",
    "data_loading": "its device idles while the host waits for data",
    "checkpoint": "its device idles while the host saves a checkpoint",
    "garbage_collection": "its device idles while Python collects garbage",
    "compilation": "its device idles while the host compiles or loads code",
    "allocation": "its device idles while the host allocates or frees memory",
    "synchronisation": "its device idles while the host synchronises with it",
    "host_blocked": "its device idles during one long operation on the host",
    "host_work": "its device idles while the host runs operators",
    "host_stall": "its device idles, and nothing is recorded on the host",
    HOST_LATE: "its device idles while the host does several things",
    EARLIER_LAG: "it was already late at an earlier collective, where the others did not wait "
    "for it",
    UNKNOWN: "nothing recorded explains it",
}

OWN_WORK: Final = [
    CAUSES.index(name)
    for name in (COMPUTE, MORE_KERNELS, UNEQUAL_WORK, COPIES, "host_work", "host_stall", HOST_LATE)
]
"""Causes in own work, which differs between pipeline stages without any fault."""

_VAGUE: Final = np.array(
    [name in (EARLIER_LAG, HOST_LATE, "host_stall", "host_work") for name in CAUSES]
)
"""By cause, whether it locates the lost time without explaining it."""

NAMED_SHARE: Final = 0.5
"""Least share of the lateness that a cause explains."""
HIGH_SHARE: Final = 0.8
"""From this share on the confidence of a verdict is that of its match."""
MIN_ROOT_SHARE: Final = 0.2
MAX_UNKNOWN_SHARE: Final = 0.5
"""A rank with less than the first share of the waiting is named only where at most the second share
has no known cause."""
MORE_WORK: Final = 1.02
"""Ratio of elements to those of the peers from which on messages count as unequal."""


class Verdicts(ByTarget, frozen=True):
    """Causes of n late arrivals.

    ``cause`` indexes ``CAUSES``; ``share`` is the part of the lateness it explains, 0 where
    unknown; ``confidence`` LOW, MEDIUM or HIGH. ``has_stage_peer`` marks those with a punctual
    peer of the same pipeline stage: the others are compared with ranks that do other work, and
    may be late by the order of the pipeline.
    """

    targets: Targets
    segments: Segments
    cause: I8
    share: F64
    confidence: I8
    has_stage_peer: Bool

    def __len__(self) -> int:
        return len(self.cause)

    @property
    def starts_recording(self) -> Bool:
        """Mask of those before which the recording has no common point of the ranks."""
        return np.asarray(self.segments.start.since < 0)


class Verdict(Struct, frozen=True):
    """The cause of several late arrivals of one rank together."""

    cause: str
    share: float
    confidence: int
    excess_ns: float


def combined(found: Verdicts) -> Verdict:
    """Return one verdict on several targets of the same late rank, from their summed excess."""
    known = found.segments.start.since >= 0
    if not known.any():
        return Verdict(UNKNOWN, 0.0, LOW, 0.0)
    summed = found.segments.summed(known)
    cause, share = cause_of(summed)
    sure = int(confidence_of(summed, cause, share)[0])
    limit = majority_confidence(found.segments.start.excess_ns[known], found.confidence[known])
    excess = float(summed.start.excess_ns[0])
    return Verdict(CAUSES[cause[0]], float(share[0]), min(sure, limit), excess)


def may_name(share: float, unknown_share: float) -> bool:
    """Whether a rank with this share of the waiting may be named as its cause.

    ``unknown_share`` is the share of the waiting whose cause is unknown.
    """
    return share >= MIN_ROOT_SHARE or unknown_share <= MAX_UNKNOWN_SHARE


def majority_confidence(amount: Sequence[float] | F64, confidence: Sequence[int] | I8) -> int:
    """Return the highest confidence that more than half of an amount reaches; LOW without any.

    ``amount`` and ``confidence`` are those of n verdicts.
    """
    share = np.bincount(
        np.asarray(confidence, np.int64), np.maximum(np.asarray(amount, np.float64), 0), HIGH + 1
    )
    for level in (HIGH, MEDIUM):
        if 2 * share[level:].sum() > share.sum():
            return level
    return LOW


def cause_of(segments: Segments) -> tuple[I8, F64]:
    """Return the index into CAUSES and the share explained, int8 and float64 [t].

    Idle time is compared as a whole; its kind is named if it makes up ``NAMED_SHARE`` of the idle
    excess, else it is ``HOST_LATE``.
    """
    parts, excess = segments.parts_ns, segments.start.excess_ns
    idle = [PARTS.index(name) for name in IDLE]
    idle_ns = parts[:, idle].sum(axis=1)
    kinds = [COMPUTE, OTHER_COLLECTIVE, COPIES, *IDLE, EARLIER_LAG, HOST_LATE]
    inner = parts[:, idle].argmax(axis=1)
    choices = np.stack(
        [
            parts[:, PARTS.index(COMPUTE)],
            parts[:, PARTS.index(OTHER_COLLECTIVE)],
            parts[:, PARTS.index(COPIES)],
            idle_ns,
            segments.start.carried_ns,
        ],
        axis=1,
    )
    best = choices.argmax(axis=1)
    amount = choices[np.arange(len(best)), best]
    own = parts[np.arange(len(best)), np.array(idle)[inner]]
    mixed = (best == 3) & (own < NAMED_SHARE * amount)
    named_ns = np.where((best == 3) & ~mixed, own, amount)
    name = np.where(best < 3, best, np.where(best == 3, 3 + inner, len(kinds) - 2))
    name[mixed] = len(kinds) - 1
    index = np.array([CAUSES.index(kind) for kind in kinds])[name]
    index = np.where(index == CAUSES.index(COMPUTE), _kind_of_compute(segments), index)
    known = (segments.start.since >= 0) & (excess > 0)
    whole = np.where(known, excess, 1.0)
    named = known & (amount >= NAMED_SHARE * whole)
    share = named_ns / whole
    cause = np.where(named, index, CAUSES.index(UNKNOWN)).astype(np.int8)
    return cause, np.where(named, np.minimum(share, 1.0), 0.0)


def _kind_of_compute(segments: Segments) -> I64:
    """Return the kind of excess computation as an index into CAUSES.

    Unequal work where the messages are larger by at least a quarter of the growth of computation;
    else more kernels where these explain ``NAMED_SHARE`` of it; else longer kernels.
    """
    extra = segments.compute_ns - segments.peer_compute_ns
    with np.errstate(invalid="ignore", divide="ignore"):
        more = segments.extra_kernels_ns >= NAMED_SHARE * extra
        heavier = extra / segments.peer_compute_ns
        given = (segments.elements_ratio >= MORE_WORK) & (
            segments.elements_ratio - 1 >= heavier / 4
        )
    names = np.full(len(extra), CAUSES.index(COMPUTE))
    names[more] = CAUSES.index(MORE_KERNELS)
    names[given] = CAUSES.index(UNEQUAL_WORK)
    return names


def confidence_of(segments: Segments, cause: I8, share: F64) -> I8:
    """Return the confidence of the causes given certain matches, int8 [t]."""
    confidence = np.where(share >= HIGH_SHARE, HIGH, np.where(share >= NAMED_SHARE, MEDIUM, LOW))
    vague = _VAGUE[cause]
    confidence[vague] = np.minimum(confidence[vague], MEDIUM)
    few = row_count(segments.start.punctual) < 2
    confidence[few & vague] = LOW
    # work launched before the first event of a file continues unrecorded
    confidence[segments.by_clocks] = LOW
    confidence[cause == CAUSES.index(UNKNOWN)] = LOW
    return confidence.astype(np.int8)


def starts_recording(causes: Causes) -> tuple[Bool, ...]:
    """Mark the instances before which no common point of their ranks is recorded.

    For these, `Causes.verdicts` has no time to count from.

    Returns:
        One mask per group of ``causes.arrivals.groups``, bool [n]; False where a call is missing
        on a rank.
    """
    holding: defaultdict[str, list[_Members]] = defaultdict(list)
    for group in causes.arrivals.groups:
        column = {label: place for place, label in enumerate(group.labels)}
        for label in group.labels:
            holding[label].append((group, column))
    return tuple(
        _starts_recording(causes, group, holding[group.labels[0]])
        for group in causes.arrivals.groups
    )


_Members = tuple[GroupArrivals, Mapping[str, int]]
"""A group, and the column of each member in it."""


def _starts_recording(causes: Causes, group: GroupArrivals, near: Sequence[_Members]) -> Bool:
    """Return the mask of one group; ``near`` are the groups with its first rank."""
    labels = set(group.labels)
    found = np.zeros(len(group.eligible), np.bool_)
    moments = [
        moment
        for one, column in near
        if labels <= column.keys()
        and (moment := _first(causes, one, [column[label] for label in group.labels])) is not None
    ]
    common = causes.common_start(group.labels)
    if common is not None:
        moments.insert(0, np.array(common, np.int64))
    if not moments:
        return found
    usable = group.match.usable
    first = min(moments, key=lambda moment: int(moment[0]))
    for member, label in enumerate(group.labels):  # the calls of a rank ascend by start
        start = causes.inputs[label].calls.start_ns
        begun = int(np.searchsorted(start, first[member], side="right"))
        if begun:
            found |= group.match.rows[:, member] < begun
    return found & usable


def _first(causes: Causes, group: GroupArrivals, columns: Sequence[int]) -> I64 | None:
    """Return when some members joined the first eligible collective of a group; None without."""
    eligible = np.flatnonzero(group.eligible)
    if not len(eligible):
        return None
    rows = group.match.rows
    start = [causes.inputs[group.labels[column]].calls.start_ns for column in columns]
    row = eligible[start[0][rows[eligible, columns[0]]].argmin()]
    calls = rows[row, columns].tolist()
    return np.array([one[call] for one, call in zip(start, calls, strict=True)], np.int64)


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


def _durations(inputs: Sequence[MatchInput], index: I64, row: I64) -> I64:
    result = np.empty(len(index), np.int64)
    for one, here in rows_by_value(index):
        result[here] = inputs[one].calls.dur_ns[row[here]]
    return result


_TRANSFERS: Final = ("Send", "Recv")
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
        is_large: bool = False,
    ) -> None:
        self.arrivals = arrivals
        self.clocks = clocks
        self.groups = groups
        self.names = KernelNames()
        self._pairs = pairs
        self.inputs = {item.label: item for item in inputs}
        self._facts = facts
        self._is_large = is_large
        self._activities: dict[str, Activity] = {}
        self._partners: dict[str, Partners] = {}
        self._known: dict[int, tuple[I64, Verdicts]] = {}
        self._points: dict[tuple[str, ...], SyncPoints] = {}
        self.chains: dict[tuple[int, int], tuple[Link, ...]] = {}

    def partners(self, label: str) -> Partners:
        """Return the collective or transfer of each call of a rank."""
        if label not in self._partners:
            self._partners[label] = self._partners_of(label)
        return self._partners[label]

    def _partners_of(self, label: str) -> Partners:
        calls, inputs = self.inputs[label].calls, list(self.inputs.values())
        number, instance, other, other_row = np.full((4, len(calls)), MISSING, np.int64)
        wait_ns = np.zeros(len(calls), np.int64)
        for index, member in self._columns[label].items():
            group = self.arrivals.groups[index]
            usable = np.flatnonzero(group.match.usable)
            rows = group.match.rows[usable, member]
            number[rows], instance[rows] = index, usable
            wait_ns[rows] = group.wait_ns[usable, member]
        for (_, own_row, across, across_row), chosen in self._sides:
            mine = chosen.get(label, np.empty(0, np.int64))
            rows = own_row[mine]
            other[rows], other_row[rows] = across[mine], across_row[mine]
            waited = calls.dur_ns[rows] - _durations(inputs, across[mine], across_row[mine])
            wait_ns[rows] = np.maximum(waited, 0)
        return Partners(number, instance, other, other_row, wait_ns)

    @cached_property
    def _sides(self) -> list[tuple[tuple[I64, I64, I64, I64], Mapping[str, I64]]]:
        """Columns of the transfers from either side, and the transfers of each rank by label."""
        pairs, labels = self._pairs(), list(self.inputs)
        sent = pairs.sender, pairs.send_row, pairs.receiver, pairs.recv_row
        received = pairs.receiver, pairs.recv_row, pairs.sender, pairs.send_row
        return [
            (side, {labels[index]: rows for index, rows in rows_by_value(side[0])})
            for side in (sent, received)
        ]

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

    @property
    def kind_names(self) -> list[str]:
        """Kinds of groups and of transfers, by number."""
        names: list[str] = self._kind_names[1].tolist()
        return names

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

    def _group_kinds(self, label: str, rows: I64 | slice) -> I64:
        """Kind of group of some calls of a rank; of a transfer, its type and direction.

        Transfers of two ranks of one pipeline stage are comparable only where they go in the same
        direction, to higher or to lower ranks: the stages on either side do other work then.
        """
        item = self.inputs[label]
        kind, group = item.calls.kind[rows], item.calls.group[rows]
        of_group, names = self._kind_names
        in_pair = (kind == _SENDRECV) & self._is_pair[group]
        is_transfer = is_one_of(kind, _TRANSFERS) | in_pair
        number = of_group[group]
        if not is_transfer.any():
            return number
        is_above = self._ranks[self.partners(label).other[rows]] > (item.rank or 0)
        is_above = np.where(in_pair, self._highest_rank[group] != item.rank, is_above)
        transfers = len(names) - 2 * len(TYPES) + 2 * kind.astype(np.int64) + is_above
        return np.where(is_transfer, transfers, number)

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
                self._facts[label],
                calls,
                lambda rows: self._group_kinds(label, rows),
                self.names,
                is_large=self._is_large,
            )
        return self._activities[label]

    def forget_intervals(self) -> None:
        """Free the activities of all ranks: in a large job some 0.5 MB a rank, computed again."""
        self._activities.clear()

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
        when = points.arrival_ns(place) if times is None else times
        return Targets(when, np.asarray(shortest, np.int64), place)

    def request(self, number: int, rows: I64) -> VerdictRequest:
        """Return the request for the causes of these instances (as in `targets`)."""
        group = self.arrivals.groups[number]
        return VerdictRequest(group.labels, self.targets(number, rows), group.confidence[rows])

    def verdicts(self, number: int, rows: I64) -> Verdicts:
        """Return the causes of the last arrivals at these instances (as in `targets`)."""
        found = self.judge(self.request(number, rows))
        if number not in self._known or len(rows) >= len(self._known[number][0]):
            self._known[number] = rows, found
        return found

    def known_verdicts(self, number: int, rows: I64) -> Verdicts | None:
        """Return what `verdicts` found at these instances, None where it did not judge all of them.

        Kept is the largest request. The cause of an arrival does not depend on what is judged with
        it, but of many arrivals the last are judged without the names of kernels.
        """
        if number not in self._known:
            return None
        judged, found = self._known[number]
        place = np.searchsorted(judged, rows)
        if not len(judged) or (np.append(judged, MISSING)[place] != rows).any():
            return None
        some = found.take(place).segments
        unnamed = np.isnan(some.extra_kernels_ns) & row_any(some.start.punctual)
        return None if unnamed.any() else found.take(place)

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


def job_causes(view: View) -> Causes:
    """Return the search for causes in the job of a view, which all its views share."""
    facts = view.facts
    return facts.remember(
        job_causes,
        lambda: Causes(
            facts.ranks,
            facts.match_inputs,
            facts.arrivals,
            facts.clocks,
            groups=facts.groups,
            pairs=lambda: facts.pairs,
            is_large=facts.is_large,
        ),
    )
