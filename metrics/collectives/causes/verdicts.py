"""Choose the cause of each late arrival, the share it explains and its confidence.

    cause = the part with the largest excess over the peers, if excess >= NAMED_SHARE * lateness
    share = excess of that part / lateness

Else the cause is unknown. The confidence is HIGH from ``HIGH_SHARE`` on and MEDIUM below; at most
MEDIUM for causes that only locate the loss in time, LOW for these with fewer than two peers and
where the start is common by clock offsets only, and never above that of the match.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.reductions import row_count
from ccltui.metrics.collectives.causes.segments import Segments, Targets
from ccltui.metrics.collectives.causes.time_splits import (
    COMPUTE,
    COPIES,
    IDLE,
    OTHER_COLLECTIVE,
    PARTS,
)
from ccltui.metrics.collectives.matching.match import HIGH, LOW, MEDIUM
from ccltui.parsers.array_types import F64, I8, I64, Bool


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
    "synchronisation": "its device idles while the host waits in a synchronisation",
    "host_blocked": "its device idles during one long operation on the host",
    "host_work": "its device idles while the host runs operators",
    "host_stall": "its device idles and nothing is recorded on the host",
    HOST_LATE: "its device idles while the host does several things",
    EARLIER_LAG: "it was late at an earlier collective, at which the others did not wait for it",
    UNKNOWN: "nothing that is recorded explains it",
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
"""A rank with less of the waiting is named only where most of the waiting has a known cause."""
MAX_UNKNOWN_SHARE: Final = 0.5
MORE_WORK: Final = 1.02
"""Ratio of elements to those of the peers from which on messages count as unequal."""


class Verdicts(Struct, frozen=True):
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

    def take(self, rows: I64) -> Verdicts:
        """Select some of them by index."""
        return Verdicts(
            self.targets.take(rows),
            self.segments.take(rows),
            self.cause[rows],
            self.share[rows],
            self.confidence[rows],
            self.has_stage_peer[rows],
        )


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
