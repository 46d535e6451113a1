"""Describe one collective: arrivals, waits, bandwidth, cause of the lag and blame chain."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.reductions import median_along
from ccltui.metrics.arrays.statistics import microseconds
from ccltui.metrics.collectives.causes.cause_text import link_sentence, sentence
from ccltui.metrics.collectives.causes.chain import chain_of
from ccltui.metrics.collectives.causes.evidence import Evidence, evidence_of
from ccltui.metrics.collectives.causes.time_splits import PARTS, split, triggers_of
from ccltui.metrics.collectives.causes.verdicts import UNKNOWN, Link, Verdicts
from ccltui.metrics.collectives.lateness.arrivals import NO_RANK, GroupArrivals
from ccltui.metrics.collectives.matching.match import LOW, gather
from ccltui.metrics.model.bandwidth import matched_bandwidth
from ccltui.metrics.model.calls import DTYPES
from ccltui.metrics.model.classify import TYPES
from ccltui.metrics.view.collective_selection import describe_group
from ccltui.metrics.view.instances import implied_size
from ccltui.parsers.array_types import I64
from ccltui.parsers.system.quick_dataclass import dataclass

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.parsers.array_types import I64

BINS = 12
_LEAST_NS = 1_000


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class LagHistory:
    """Lags of the n complete collectives of one type of a group, int64 ns.

    ``edges_ns`` [BINS + 1] are even on a logarithmic scale from the smallest lag (at least 1 us)
    to the largest; ``counts`` [BINS] counts smaller lags in the first bin. ``trend_ns`` [n] is in
    order of time. ``bin`` and ``place`` are the bin and the place in time of the collective that
    the history was computed for.
    """

    edges_ns: I64
    counts: I64
    bin: int
    trend_ns: I64
    place: int

    @property
    def median_ns(self) -> int:
        """Median lag."""
        return int(median_along(self.trend_ns))


def lag_history(arrived: GroupArrivals, row: int) -> LagHistory | None:
    """Return the lags of all collectives of the type of ``row``; None where its lag is unknown."""
    lag, kind = arrived.lag_ns, arrived.match.kind
    if lag[row] < 0:
        return None
    rows = np.flatnonzero((kind == kind[row]) & (lag >= 0))
    rows = rows[np.argsort(arrived.first_start_ns[rows], kind="stable")]
    lags = lag[rows]
    low = max(int(lags.min()), _LEAST_NS)
    high = max(int(lags.max()), low + BINS)
    edges = np.rint(np.geomspace(low, high, BINS + 1)).astype(np.int64)
    at = np.clip(np.searchsorted(edges, lags, side="right") - 1, 0, BINS - 1)
    place = int(np.flatnonzero(rows == row)[0])
    return LagHistory(edges, np.bincount(at, minlength=BINS), int(at[place]), lags, place)


CONFIDENCES: Final = ("low", "medium", "high")
METHODS: Final = {
    1: "communicator id and sequence number",
    2: "group and sequence number",
    3: "step and ordinal",
    4: "order",
}


@dataclass(frozen=True, slots=True)
class Member:
    """One rank at a collective, times in ns.

    ``late_ns`` is its arrival after the first rank, from durations; ``start_late_ns`` the same
    from corrected starts, None where the clocks are not known. ``doing`` is the part (of
    ``PARTS``) with most of its time since the last sync point of the ranks, ``doing_ns`` that
    time.
    """

    label: str
    rank: int | None
    host: str
    late_ns: int
    start_late_ns: int | None
    wait_ns: int
    dur_ns: int
    is_last: bool
    doing: str | None = None
    doing_ns: int = 0


class Instance(Struct, frozen=True):
    """One matched collective. Sizes in bytes, times in ns, bandwidth in decimal GB/s.

    ``last`` is the label of the rank that arrived last, None in a tie or where no rank can be
    blamed; ``cause`` is then None too. ``chain`` begins with the last rank and ends at the root.
    ``members`` are the present ranks, the latest first. ``absent`` are the labels of the others.
    """

    number: int
    row: int
    group: str
    dim: str
    kind: str
    step: int | None
    dtype: str | None
    message_bytes: int | None
    transfer_ns: int | None
    algbw_gbps: float | None
    busbw_gbps: float | None
    lag_ns: int | None
    last: str | None
    members: tuple[Member, ...]
    absent: tuple[str, ...]
    agrees: bool
    method: str
    confidence: str
    overlaps: bool | None
    uncertainty_ns: int | None  # of every start: the error bar of the clocks
    cause: str | None = None
    share: float = 0.0
    cause_confidence: str = "low"
    why: str | None = None
    evidence: Evidence | None = None
    chain: tuple[Link, ...] = ()
    chain_sentences: tuple[str, ...] = ()

    @property
    def root(self) -> Link | None:
        """Last link of the chain, None where no rank is blamed."""
        return self.chain[-1] if self.chain else None

    @property
    def root_is_unknown(self) -> bool:
        """Whether a rank was late and the root cause is unknown."""
        return self.root is not None and self.root.cause == UNKNOWN

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form, times in µs."""
        return {
            "group": self.group,
            "dim": self.dim,
            "type": self.kind,
            "index": self.row,
            "step": self.step,
            "dtype": self.dtype,
            "message_bytes": self.message_bytes,
            "transfer_us": _us(self.transfer_ns),
            "algbw_GBps": self.algbw_gbps,
            "busbw_GBps": self.busbw_gbps,
            "lag_us": _us(self.lag_ns),
            "last": self.last,
            "method": self.method,
            "match_confidence": self.confidence,
            "cause": self.cause,
            "explained": self.share,
            "confidence": self.cause_confidence,
            "why": self.why,
            "chain": list(self.chain_sentences),
            "arrivals_us": {m.label: microseconds(m.late_ns) for m in self.members},
            "wait_us": {m.label: microseconds(m.wait_ns) for m in self.members},
        }


def describe(view: View, number: int, row: int) -> Instance:
    """Describe instance ``row`` of the matched group at ``number`` of ``view.arrivals.groups``.

    Arrivals are those of all ranks of the group, whatever ranks the view selects.

    Raises:
        IndexError: There is no such group or instance.
    """
    arrived = view.arrivals.groups[number]
    if not 0 <= row < len(arrived.match.rows):
        raise IndexError(f"instance {row} of {len(arrived.match.rows)}")
    last = int(arrived.last[row])

    def named(index: int) -> str:
        return str(describe_group(view, index)["group"])

    chain: tuple[Link, ...] = ()
    if last != NO_RANK:
        chain = chain_of(view.facts.causes, number, row)
    found = chain[0].found if chain else None
    evidence = None if found is None else evidence_of(view.facts.causes, arrived.labels, found)
    match = arrived.match
    size, transfer, algbw, busbw, dtype = _bandwidth(view, arrived, row)
    overlap = int(match.overlap[row])
    group = describe_group(view, match.group)
    why = None if evidence is None else sentence(chain, evidence, named)
    return Instance(
        number=number,
        row=row,
        group=group["group"],
        dim=group["dim"],
        kind=TYPES[match.kind[row]],
        step=int(match.step[row]) if match.step[row] >= 0 else None,
        dtype=dtype,
        message_bytes=size,
        transfer_ns=transfer,
        algbw_gbps=algbw,
        busbw_gbps=busbw,
        lag_ns=int(arrived.lag_ns[row]) if arrived.lag_ns[row] >= 0 else None,
        last=None if last == NO_RANK else arrived.labels[last],
        members=_members(view, arrived, row, found),
        absent=tuple(
            label for label, r in zip(match.labels, match.rows[row], strict=True) if r < 0
        ),
        agrees=bool(match.agrees[row]),
        method=METHODS[int(match.level[row])],
        confidence=CONFIDENCES[int(arrived.confidence[row])],
        overlaps=None if overlap < 0 else bool(overlap),
        uncertainty_ns=view.clocks.error_bar_ns if arrived.by_start is not None else None,
        cause=chain[0].cause if chain else None,
        share=chain[0].share if chain else 0.0,
        cause_confidence=CONFIDENCES[
            min(chain[0].confidence, chain[-1].confidence) if chain else LOW
        ],
        why=why,
        evidence=evidence,
        chain=chain,
        chain_sentences=tuple(link_sentence(link, named) for link in chain),
    )


def _bandwidth(
    view: View, arrived: GroupArrivals, row: int
) -> tuple[int | None, int | None, float | None, float | None, str | None]:
    """Return message size, transfer time, algbw, busbw and dtype; None where not known."""
    inputs = view.facts.causes.inputs
    one = arrived.match.instance(row)
    size, dur = gather(one, inputs, "message_bytes"), gather(one, inputs, "dur_ns")
    dtypes = gather(one, inputs, "dtype")
    count = view.groups[one.group].size if one.group >= 0 else implied_size(view, arrived.match)
    found = matched_bandwidth(one.kind, size, dur, np.array([count]))
    known = not np.isnan(found.algbw_gbps[0])
    has_busbw = known and not np.isnan(found.busbw_gbps[0])
    dtype = int(dtypes.max())
    return (
        int(found.message_bytes[0]) if found.message_bytes[0] >= 0 else None,
        int(found.time_ns[0]) if found.time_ns[0] >= 0 else None,
        float(found.algbw_gbps[0]) if known else None,
        float(found.busbw_gbps[0]) if has_busbw else None,
        DTYPES[dtype] if dtype >= 0 else None,
    )


def _members(
    view: View, arrived: GroupArrivals, row: int, found: Verdicts | None
) -> tuple[Member, ...]:
    doing = (
        [(None, 0)] * len(arrived.labels) if found is None else _main_parts(view, arrived, found)
    )
    starts = arrived.by_start
    members = [
        Member(
            label=label,
            rank=view.facts.ranks[label].trace.rank,
            host=view.facts.ranks[label].trace.host,
            late_ns=int(arrived.late_ns[row, i]),
            start_late_ns=None if starts is None else int(starts.late_ns[row, i]),
            wait_ns=int(arrived.wait_ns[row, i]),
            dur_ns=int(arrived.dur_ns[row, i]),
            is_last=i == int(arrived.last[row]),
            doing=doing[i][0],
            doing_ns=doing[i][1],
        )
        for i, label in enumerate(arrived.labels)
        if arrived.match.rows[row, i] >= 0
    ]
    return tuple(sorted(members, key=lambda member: -member.late_ns))


def _main_parts(
    view: View, arrived: GroupArrivals, found: Verdicts
) -> list[tuple[str | None, int]]:
    """Return the part with most time since the last sync point, and its ns, for each member."""
    causes = view.facts.causes
    since = int(found.segments.start.since[0])
    if since < 0:
        return [(None, 0)] * len(arrived.labels)
    points = causes.points(arrived.labels)
    begin, end = points.arrival_ns[since : since + 1], found.targets.time_ns
    activities = [causes.activity(label) for label in arrived.labels]
    triggers = triggers_of(activities, end, points.groups)
    spent = split(begin, end, activities, points.groups, triggers)
    table: I64 = np.stack([spent[name][0] for name in PARTS])
    most = table.argmax(axis=0)
    return [(PARTS[part], int(table[part, i])) for i, part in enumerate(most.tolist())]


def _us(nanoseconds: int | None) -> float | None:
    return None if nanoseconds is None else microseconds(nanoseconds)
