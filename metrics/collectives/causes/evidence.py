"""Collect the evidence of a cause: time by part, longer kernels and host activity."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.intervals import union
from ccltui.metrics.arrays.reductions import median_along, unique_inverse
from ccltui.metrics.collectives.causes.activity import Activity
from ccltui.metrics.collectives.causes.cause_search import Causes
from ccltui.metrics.collectives.causes.host_work import HOST_STALL
from ccltui.metrics.collectives.causes.time_splits import IDLE, PARTS
from ccltui.metrics.collectives.causes.verdicts import Verdicts
from ccltui.parsers.array_types import I64

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
    elements of its all-to-alls over that of the peers.
    """

    since: tuple[int, int] | None
    segment_ns: int
    peers_segment_ns: float
    excess_ns: float
    parts_ns: Mapping[str, float]
    kernels: tuple[KernelDelta, ...] = ()
    host: tuple[HostRange, ...] = ()
    elements_ratio: float | None = None


def evidence_of(causes: Causes, labels: tuple[str, ...], found: Verdicts) -> Evidence:
    """Return the evidence of all targets of ``found``, which have one late rank."""
    start = found.segments.start
    known = np.flatnonzero(start.since >= 0)
    if not len(known):
        return Evidence(None, 0, 0.0, 0.0, {})
    points = causes.points(labels)
    begin, end = points.arrival_ns[start.since[known]], found.targets.time_ns[known]
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
