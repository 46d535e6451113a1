"""Why a rank came late to a collective: one word, the share it explains, and how sure that is.

The largest of the things that the late rank spent more time on than its peers is the cause where
it makes up at least half of the lateness; else the cause is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from metrics.classify import TYPES
from metrics.collectives.activity import Activity, Sorts
from metrics.collectives.clocks import ClockModel
from metrics.collectives.kernel_names import KernelNames
from metrics.collectives.match import HIGH, LOW, MEDIUM, MatchInput
from metrics.collectives.p2p import Pairs
from metrics.collectives.partners import Partners, partners_of
from metrics.collectives.segments import (
    COMPUTE,
    COPIES,
    F64,
    IDLE,
    OTHER_COLLECTIVE,
    PARTS,
    Segments,
    Targets,
    explain,
)
from metrics.collectives.stragglers import Arrivals
from metrics.collectives.sync_points import SyncPoints, sync_points
from metrics.groups import CommGroup
from metrics.rank_facts import RankFacts
from parsers.columns import I8, I64, Bool

if TYPE_CHECKING:
    from metrics.collectives.chain import Link

_TRANSFERS: Final = [TYPES.index("Send"), TYPES.index("Recv")]
_SENDRECV: Final = TYPES.index("SendRecv")

MORE_KERNELS: Final = "more_kernels"
UNEQUAL_WORK: Final = "unequal_work"
HOST_LATE: Final = "host_late"
EARLIER_LAG: Final = "earlier_lag"
UNKNOWN: Final = "unknown"

CAUSES: Final = (
    COMPUTE,  # its kernels take longer
    MORE_KERNELS,  # it runs more of them
    UNEQUAL_WORK,  # it was given more: larger messages, or other work than its peers
    OTHER_COLLECTIVE,  # a collective of another group kept it
    COPIES,
    *IDLE,  # the device idled while the host did this
    HOST_LATE,  # the same, of which no kind makes up half
    EARLIER_LAG,  # it was late before, and never stopped to be waited for
    UNKNOWN,
)
MEANINGS: Final[Mapping[str, str]] = {
    COMPUTE: "its kernels take longer",
    MORE_KERNELS: "it runs more kernels",
    UNEQUAL_WORK: "it has more work: larger messages in its all-to-alls",
    OTHER_COLLECTIVE: "a collective of another group kept it",
    COPIES: "copies and fills that nothing hides",
    "data_loading": "its device idles while the host waits for data",
    "checkpoint": "its device idles while the host saves a checkpoint",
    "garbage_collection": "its device idles while Python collects garbage",
    "compilation": "its device idles while the host compiles or loads code",
    "allocation": "its device idles while the host allocates or frees memory",
    "synchronisation": "its device idles while the host waits in a synchronisation",
    "host_blocked": "its device idles while one operation on the host lasts and lasts",
    "host_work": "its device idles while the host runs operators",
    "host_stall": "its device idles and nothing is recorded on the host",
    HOST_LATE: "its device idles while the host does several things",
    EARLIER_LAG: "it was late before, at a collective that its peers did not stop for",
    UNKNOWN: "the trace does not tell",
}

_OWN_WORK: Final = [
    CAUSES.index(name)
    for name in (COMPUTE, MORE_KERNELS, UNEQUAL_WORK, COPIES, "host_work", "host_stall", HOST_LATE)
]
"""What ranks of different stages of a pipeline spend different times on anyway."""

NAMED_SHARE: Final = 0.5
"""A cause explains at least this share of the lateness."""
SURE_SHARE: Final = 0.8
"""From this share on a verdict is as sure as the match it rests on."""
MORE_WORK: Final = 1.02
"""Elements over those of the peers from which on messages count as unequal."""


@dataclass(frozen=True, slots=True)
class Verdicts:
    """Causes of n late arrivals.

    ``cause`` indexes ``CAUSES``; ``share`` is the part of the lateness it explains, 0 where
    unknown; ``confidence`` LOW, MEDIUM or HIGH. ``alike`` marks those that a rank of the same
    stage of the pipeline came before: the others are late against other work, as their turn may
    have it. The rest is as in `Segments`.
    """

    targets: Targets
    segments: Segments
    cause: I8
    share: F64
    confidence: I8
    alike: Bool

    def __len__(self) -> int:
        return len(self.cause)

    def take(self, rows: I64) -> Verdicts:
        """Some of them."""
        return Verdicts(
            self.targets.take(rows),
            self.segments.take(rows),
            self.cause[rows],
            self.share[rows],
            self.confidence[rows],
            self.alike[rows],
        )


@dataclass(frozen=True, slots=True)
class Verdict:
    """The cause of several late arrivals of one rank together."""

    cause: str
    share: float
    confidence: int
    excess_ns: float


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
        kinds, number = np.unique(np.array([*names, "unknown"]), return_inverse=True)
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
                labels, self.arrivals.groups, self.inputs, together_ns=self._together(labels)
            )
        return self._points[labels]

    def _together(self, labels: Sequence[str]) -> list[int] | None:
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

    def verdicts(self, number: int, rows: I64) -> Verdicts:
        """Why the last member of each of these instances came last."""
        group = self.arrivals.groups[number]
        targets = self.targets(number, rows)
        return self.judge(group.labels, targets, limit=group.confidence[rows])

    def judge(
        self, labels: tuple[str, ...], targets: Targets, *, limit: I8 | None = None
    ) -> Verdicts:
        """Why the late member of each target came after its peers.

        ``limit`` is the confidence of the matches, above which no verdict's can be.
        """
        activities = [self.activity(label) for label in labels]
        segments = explain(self.points(labels), targets, activities)
        cause, share = _cause(segments)
        sure = _confidence(segments, cause, share)
        if limit is not None:
            sure = np.minimum(sure, limit).astype(np.int8)
        alike = self._has_like_peer(labels, targets, segments)
        sure[~alike & np.isin(cause, _OWN_WORK)] = LOW
        return Verdicts(targets, segments, cause, share, sure, alike)

    def _has_like_peer(self, labels: tuple[str, ...], targets: Targets, segments: Segments) -> Bool:
        """Whether a punctual peer is in the late rank's stage: others do other work."""
        stage = np.array([self.stages[label] for label in labels])
        like = stage == stage[targets.late][:, np.newaxis]
        return np.asarray((like & segments.start.punctual).any(axis=1))


def together(found: Verdicts) -> Verdict:
    """One verdict on several targets of the same late rank: of all that it did more."""
    known = found.segments.start.since >= 0
    if not known.any():
        return Verdict(UNKNOWN, 0.0, LOW, 0.0)
    summed = found.segments.summed(known)
    cause, share = _cause(summed)
    sure = int(_confidence(summed, cause, share)[0])
    limit = int(found.confidence[known].max())
    excess = float(summed.start.excess_ns[0])
    return Verdict(CAUSES[cause[0]], float(share[0]), min(sure, limit), excess)


def _cause(segments: Segments) -> tuple[I8, F64]:
    """Index into CAUSES and share explained."""
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
    told = np.where((best == 3) & ~mixed, own, amount)
    name = np.where(best < 3, best, np.where(best == 3, 3 + inner, len(kinds) - 2))
    name[mixed] = len(kinds) - 1
    index = np.array([CAUSES.index(kind) for kind in kinds])[name]
    index = np.where(index == CAUSES.index(COMPUTE), _kind_of_compute(segments), index)
    known = (segments.start.since >= 0) & (excess > 0)
    whole = np.where(known, excess, 1.0)
    named = known & (amount >= NAMED_SHARE * whole)
    share = told / whole
    cause = np.where(named, index, CAUSES.index(UNKNOWN)).astype(np.int8)
    return cause, np.where(named, np.minimum(share, 1.0), 0.0)


def _kind_of_compute(segments: Segments) -> I64:
    """Longer kernels, more of them, or more work to do, as an index into CAUSES."""
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


def _confidence(segments: Segments, cause: I8, share: F64) -> I8:
    """How sure the cause is, were the match certain."""
    confidence = np.where(share >= SURE_SHARE, HIGH, np.where(share >= NAMED_SHARE, MEDIUM, LOW))
    vague = [CAUSES.index(name) for name in (EARLIER_LAG, HOST_LATE, "host_stall", "host_work")]
    confidence[np.isin(cause, vague)] = np.minimum(confidence[np.isin(cause, vague)], MEDIUM)
    few = segments.start.punctual.sum(axis=1) < 2
    confidence[few & np.isin(cause, vague)] = LOW
    # what was launched before the first event of a file runs on unrecorded
    confidence[segments.by_clocks] = LOW
    confidence[cause == CAUSES.index(UNKNOWN)] = LOW
    return confidence.astype(np.int8)
