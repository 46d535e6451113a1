"""Say why a rank was late: the evidence of a cause, and the sentences on it with their figures."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.intervals import union
from ccltui.metrics.arrays.reductions import median_along, unique_inverse
from ccltui.metrics.device.device_counters import (
    SM_CLOCK,
    ClockGap,
    clock_gap,
    typical_reading,
)
from ccltui.metrics.findings.causes.activity import HOST_STALL, HOST_WORDS, Activity
from ccltui.metrics.findings.causes.cause_search import (
    EARLIER_LAG,
    HOST_LATE,
    MEANINGS,
    MIN_ROOT_SHARE,
    MORE_KERNELS,
    NAMED_SHARE,
    UNEQUAL_WORK,
    UNKNOWN,
    Causes,
    Link,
    Verdicts,
)
from ccltui.metrics.findings.causes.chain import NOT_RECORDED, PIPELINE, SLOW_TRANSFER
from ccltui.metrics.findings.causes.segments import COMPUTE, COPIES, IDLE, OTHER_COLLECTIVE, PARTS
from ccltui.metrics.model.classify import TYPES
from ccltui.parsers.array_types import I64
from ccltui.parsers.numbers import duration, percent

MAX_KERNELS: Final = 5
MAX_PEERS: Final = 16
"""Number of punctual peers whose kernel names are compared."""
MIN_PART_SHARE: Final = 0.02
"""Parts below this share of the lateness are omitted."""


class KernelDelta(Struct, frozen=True):
    """Kernels of one name on the late rank, compared with the median of its peers."""

    name: str
    more_ns: float
    late_ns: int
    late_count: int
    peers_count: float


class HostRange(Struct, frozen=True):
    """Host activity of one kind while the device idled: the name with most time."""

    cause: str
    name: str
    dur_ns: int


class Evidence(Struct, frozen=True):
    """Activity of a late rank since its last sync point with its peers, compared with theirs.

    ``since`` is that sync point (matched group, instance): (-1, -1) for a time that is common by
    clock offsets only, None where there is none. ``parts_ns`` is the excess time of each part,
    largest first, negative where the late rank spent less. ``elements_ratio`` is the number of
    elements of its all-to-alls over that of the peers. ``clock`` are the SM clocks where that of
    its device is clearly lower.
    """

    since: tuple[int, int] | None
    segment_ns: int
    peers_segment_ns: float
    excess_ns: float
    parts_ns: Mapping[str, float]
    kernels: tuple[KernelDelta, ...] = ()
    host: tuple[HostRange, ...] = ()
    elements_ratio: float | None = None
    clock: ClockGap | None = None


def evidence_of(causes: Causes, labels: tuple[str, ...], found: Verdicts) -> Evidence:
    """Return the evidence of all targets of ``found``, which have one late rank."""
    start = found.segments.start
    known = np.flatnonzero(start.since >= 0)
    if not len(known):
        return Evidence(None, 0, 0.0, 0.0, {})
    points = causes.points(labels)
    begin, end = points.arrival_ns(start.since[known]), found.targets.time_ns[known]
    late = int(found.targets.late[0])
    peers = np.flatnonzero(start.punctual[known].any(axis=0))[:MAX_PEERS].tolist()
    length = (end - begin).sum(axis=0)
    excess = float(start.excess_ns[known].sum())
    first = int(start.since[known[0]])
    ratio = float(found.segments.elements_ratio[known[0]])
    activities = [causes.activity(label) for label in labels]
    parts = _parts(found.segments.parts_ns[known].sum(axis=0), excess)
    return Evidence(
        since=(int(points.number[first]), int(points.row[first])),
        segment_ns=int(length[late]),
        peers_segment_ns=float(median_along(length[peers])) if peers else 0.0,
        excess_ns=excess,
        parts_ns=parts,
        kernels=_kernels(causes.names.texts, activities, begin, end, [late, *peers]),
        host=_host(activities[late], parts, begin[:, late], end[:, late]),
        elements_ratio=None if np.isnan(ratio) else ratio,
        clock=clock_gap(
            [typical_reading(activities[late].trace, SM_CLOCK)],
            [typical_reading(activities[peer].trace, SM_CLOCK) for peer in peers],
        ),
    )


def _parts(parts_ns: Sequence[float], excess_ns: float) -> dict[str, float]:
    found = zip(PARTS, [float(part) for part in parts_ns], strict=True)
    least = MIN_PART_SHARE * abs(excess_ns)
    large = [(name, ns) for name, ns in found if abs(ns) > least]
    return dict(sorted(large, key=lambda item: -item[1]))


def _kernels(
    texts: Sequence[str],
    activities: Sequence[Activity],
    begin: I64,
    end: I64,
    members: Sequence[int],
) -> tuple[KernelDelta, ...]:
    """Return the names with most excess time on the first member, at most ``MAX_KERNELS``."""
    mine, *theirs = [_by_name(activities[i], begin[:, i], end[:, i]) for i in members]
    if not theirs:
        return ()
    found = []
    for name, (count, total) in mine.items():
        others = [one.get(name, (0, 0)) for one in theirs]
        usual = float(median_along([other[1] for other in others]))
        times = float(median_along([other[0] for other in others]))
        found.append(KernelDelta(texts[name], total - usual, total, count, times))
    found.sort(key=lambda one: -one.more_ns)
    return tuple(one for one in found[:MAX_KERNELS] if one.more_ns > 0)


def _by_name(activity: Activity, begin: I64, end: I64) -> dict[int, tuple[int, int]]:
    """Return count and total ns by name of the computation that begins in any [begin, end)."""
    start, dur, name = activity.work
    spans = union(begin, end)
    first, stop = np.searchsorted(start, spans.start_ns), np.searchsorted(start, spans.end_ns)
    rows = np.concatenate(
        [np.empty(0, np.int64), *map(np.arange, first.tolist(), stop.tolist())]
    ).astype(np.int64)
    names, place = unique_inverse(name[rows])
    counts = np.bincount(place, minlength=len(names))
    total = np.zeros(len(names), np.int64)
    np.add.at(total, place, dur[rows])
    found: dict[int, tuple[int, int]] = {}
    for index, count, ns in zip(names.tolist(), counts.tolist(), total.tolist(), strict=True):
        found[index] = (count, ns)
    return found


def _host(
    activity: Activity, parts: Mapping[str, float], begin: I64, end: I64
) -> tuple[HostRange, ...]:
    """Return the host activity in the longest gap of each kind of excess idle time."""
    ranges = []
    spans = union(begin, end)
    for cause in IDLE:
        if parts.get(cause, 0.0) <= 0:
            continue
        gaps = activity.idle[cause] & spans
        if not len(gaps):
            continue
        longest = int((gaps.end_ns - gaps.start_ns).argmax())
        limits = int(gaps.start_ns[longest]), int(gaps.end_ns[longest])
        if cause == HOST_STALL:
            named = activity.host.around(*limits)
        else:
            named = activity.host.name_of(cause, *limits)
        if named is not None:
            ranges.append(HostRange(cause, *named))
    return tuple(ranges)


LONGEST_NAME: Final = 48
_TEMPLATES = re.compile(r"<[^<>]*>")
_LEAD = re.compile(r"^(?:void |static |__global__ )+")


def short_name(name: str) -> str:
    """Return a kernel name without template arguments, parameters and namespaces."""
    bare = _LEAD.sub("", name.replace("(anonymous namespace)::", ""))
    while _TEMPLATES.search(bare):
        bare = _TEMPLATES.sub("", bare)
    bare = bare.partition("(")[0].strip() or name
    bare = bare.rpartition("::")[2] or bare
    return bare if len(bare) <= LONGEST_NAME else bare[: LONGEST_NAME - 1] + "…"


GroupLabel = Callable[[int], str]

CHAIN_WORDS: Final = {
    OTHER_COLLECTIVE: "delayed by a collective of another group",
    SLOW_TRANSFER: "its transfers take longer than those of its peers",
    PIPELINE: "the normal order of the pipeline, not a fault",
    NOT_RECORDED: "no trace of it was read",
}
"""Causes that only chains have."""


def sentence(chain: Sequence[Link], evidence: Evidence, group_label: GroupLabel) -> str:
    """Return one sentence on why the last rank of a collective was late."""
    link = chain[0]
    if link.cause == UNKNOWN:
        return _unknown(evidence)
    if link.cause in (OTHER_COLLECTIVE, SLOW_TRANSFER, PIPELINE):
        return _other_group(chain, evidence, group_label)
    text = f"{_own_cause(link.cause, evidence)} ({percent(link.share)} of its delay)"
    return f"rank {link.label}: {text}"


def cause_words(cause: str) -> str:
    """Return a cause in a few words, without figures."""
    if cause in HOST_WORDS:
        return f"its host {HOST_WORDS[cause]}"
    return CHAIN_WORDS.get(cause) or MEANINGS.get(cause) or cause.replace("_", " ")


def link_sentence(link: Link, group_label: GroupLabel) -> str:
    """Return one sentence on a link of a blame chain."""
    where = f"{group_label(link.group)} {TYPES[link.kind]}"
    times = f" ×{link.count}" if link.count > 1 else ""
    return f"rank {link.label} at {where}{times}, {duration(link.lag_ns)}: {meaning_of(link.cause)}"


def _own_cause(cause: str, evidence: Evidence) -> str:
    part = evidence.parts_ns.get(cause, 0.0)
    if cause in (COMPUTE, MORE_KERNELS, UNEQUAL_WORK):
        return _more_computation(cause, evidence)
    if cause == COPIES:
        return f"copies take {duration(part)} longer"
    if cause == EARLIER_LAG:
        return MEANINGS[EARLIER_LAG]
    if cause == HOST_LATE:
        return "its device idles while the host does several things"
    names = [one for one in evidence.host if one.cause == cause]
    inside = f" ({shortened(names[0].name)})" if names else ""
    return f"its device idles {duration(part)} longer while the host {HOST_WORDS[cause]}{inside}"


def shortened(name: str) -> str:
    """Return a name of at most 80 characters; an ellipsis stands for its middle."""
    return name if len(name) <= 80 else f"{name[:52]}…{name[-27:]}"


def _more_computation(cause: str, evidence: Evidence) -> str:
    total = duration(evidence.parts_ns.get(COMPUTE, 0.0))
    clock = "" if evidence.clock is None else f"; {evidence.clock.text}"
    if not evidence.kernels:
        return f"{total} more computation{clock}"
    worst = evidence.kernels[0]
    name = short_name(worst.name)
    if cause == MORE_KERNELS:
        return (
            f"{total} more computation: {name} {worst.late_count} times, "
            f"against {worst.peers_count:g} on its peers"
        )
    if cause == UNEQUAL_WORK:
        ratio = evidence.elements_ratio or 1.0
        return f"{ratio:.3g} times the elements of its peers, {total} more computation in {name}"
    return f"{total} more computation, {duration(worst.more_ns)} of it in {name}{clock}"


def _other_group(chain: Sequence[Link], evidence: Evidence, group_label: GroupLabel) -> str:
    first, part = chain[0], duration(evidence.parts_ns.get(OTHER_COLLECTIVE, 0.0))
    if len(chain) < 2:
        slow = ": its transfers take longer" if first.cause == SLOW_TRANSFER else ""
        return f"rank {first.label} was delayed {part} by collectives of other groups{slow}"
    after = chain[1]
    where = f"{group_label(after.group)} {TYPES[after.kind]}"
    text = f"rank {first.label} was delayed {part} at {where}, where rank {after.label} was late"
    if after.cause == NOT_RECORDED:
        return (
            f"rank {first.label} was delayed {part} at {where}, with rank {after.label}, "
            "of which no trace was read"
        )
    root = chain[-1]
    if root.cause == UNKNOWN:
        return f"{text}; the root is unknown: {_why_unknown(first, root)}"
    if len(chain) > 2:
        return f"{text}; the root is rank {root.label}: {meaning_of(root.cause)}"
    return f"{text}: {meaning_of(root.cause)}"


def _why_unknown(first: Link, root: Link) -> str:
    share = root.lag_ns / max(first.lag_ns, 1)
    if share < MIN_ROOT_SHARE:
        return f"rank {root.label} accounts for {percent(share)} of the lag"
    return f"the trace does not show why rank {root.label} was late"


def meaning_of(cause: str) -> str:
    """Return what a cause of a chain means."""
    return CHAIN_WORDS.get(cause) or MEANINGS[cause]


def _unknown(evidence: Evidence) -> str:
    if evidence.since is None:
        return "unknown: the recording begins here, without an earlier collective of these ranks"
    if not evidence.parts_ns:
        return "unknown: nothing recorded differs from its peers"
    delayed_ns = evidence.parts_ns.get(OTHER_COLLECTIVE, 0.0)
    if delayed_ns >= NAMED_SHARE * evidence.excess_ns:
        return (
            f"unknown: collectives of other groups delayed it by {duration(delayed_ns)}, and the "
            "trace does not show which rank was late there"
        )
    names = {part: HOST_WORDS[part] for part in IDLE}
    parts = [
        f"{names.get(name, name)} {duration(ns)}"
        for name, ns in list(evidence.parts_ns.items())[:3]
        if ns > 0
    ]
    return (
        f"unknown: no single cause explains half of {duration(evidence.excess_ns)}: "
        + ", ".join(parts)
    )
