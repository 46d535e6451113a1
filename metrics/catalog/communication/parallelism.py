"""Communication by parallel dimension and group: traffic, bandwidth, what is hidden, who is late.

Every column has the definition of the metric that has it for the whole job. The keys of all sums
are a dimension and the index of a group; for a whole dimension the index is `WHOLE`. The group -1
are calls that name none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec import Struct, field

from ccltui.metrics.arrays.statistics import microseconds, milliseconds, ratio
from ccltui.metrics.collectives import lag_tables
from ccltui.metrics.collectives.lag_tables import TIMES_EVEN_SHARE, Chosen, wait_and_transfer
from ccltui.metrics.device.device_time import (
    device_ranks,
    device_reasons,
    require_communication_on_device,
)
from ccltui.metrics.metric import metric
from ccltui.metrics.result import Reason, Result
from ccltui.metrics.unavailable import Refusal, refuse
from ccltui.metrics.view.collective_selection import (
    ExposedWaits,
    chosen_of,
    exposed_waits,
    require_ranks,
)
from ccltui.metrics.view.data_quality import without_device_times
from ccltui.metrics.view.match_quality import possible_match
from ccltui.metrics.view.provenance import call_answer
from ccltui.metrics.view.rank_view import of_rank, totals
from ccltui.metrics.workload.call_parts import (
    Traffic,
    by_dim,
    by_dim_and_group,
    dims_of_matched,
    exposed_by,
    exposed_parts,
    rows_of_parts,
)
from ccltui.metrics.workload.measured_bandwidth import Measured, measured_bandwidths

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.rank_view import RankView
    from ccltui.parsers.array_types import I64, Bool

WHOLE: Final = -2
"""In the place of a group: all groups of the dimension."""

Key = tuple[str, int]
"""Dimension, and index of a group, -1 for none named, `WHOLE` for all."""


class Bandwidth(Struct):
    """Bytes on the wire of a rank and shortest durations in ns, over collectives.

    ``alone_*`` are those of calls that no other rank matches: their durations include waiting.
    """

    wire_bytes: int = 0
    time_ns: int = 0
    alone_bytes: int = 0
    alone_ns: int = 0

    def add(self, one: Measured, rows: Bool) -> None:
        """Add some collectives (mask)."""
        wire, time = int(one.wire[rows].sum()), int(one.time[rows].sum())
        if one.whole:
            self.wire_bytes += wire
            self.time_ns += time
        else:
            self.alone_bytes += wire
            self.alone_ns += time

    @property
    def busbw_gbps(self) -> float | None:
        """Bus bandwidth in decimal GB/s, a lower bound where `is_bound`; None without any."""
        if self.time_ns:
            return self.wire_bytes / self.time_ns
        return self.alone_bytes / self.alone_ns if self.alone_ns else None

    @property
    def is_bound(self) -> bool:
        """Whether the bandwidth is a lower bound, from calls of single ranks."""
        return not self.time_ns and bool(self.alone_ns)


class Waits(Struct):
    """Waiting at the matched collectives of a key.

    Attributes:
        wait_ns: waiting of all members.
        transfer_ns: transfer over all members.
        lags_ns: lags of the collectives, arrays to be joined.
        due_ns: waiting, while nothing computes, beyond the next latest rank, by label of the last.
        members: labels of the ranks that take part.
        worst: matched group, its instance and the rank that was last, of the most waiting.
        worst_ns: waiting of all members at that instance.
    """

    wait_ns: int = 0
    transfer_ns: int = 0
    lags_ns: list[I64] = field(default_factory=list)
    due_ns: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    members: set[str] = field(default_factory=set)
    worst: tuple[int, int, str] | None = None
    worst_ns: int = 0

    def add(self, one: Chosen, waited: ExposedWaits, rows: Bool, labels: Sequence[str]) -> None:
        """Add some collectives (mask) of a group; ``waited`` covers the same and more."""
        wait, transfer = wait_and_transfer(one, rows)
        self.wait_ns += wait
        self.transfer_ns += transfer
        self.lags_ns.append(one.lateness.lag_ns[rows])
        own = [labels[index] for index in one.members.tolist()]
        self.members |= set(own)
        late = np.flatnonzero(rows & (one.lateness.last >= 0))
        if not len(late):
            return
        last = one.lateness.last[late]
        due = np.zeros(len(own), np.int64)
        np.add.at(due, last, waited.beyond_ns[waited.eligible][late])
        for label, amount in zip(own, due.tolist(), strict=True):
            self.due_ns[label] += amount
        caused = one.lateness.caused_ns[late]
        at = int(caused.argmax())
        if int(caused[at]) > self.worst_ns:
            place = int(waited.rows[waited.eligible][late[at]])
            self.worst = waited.part.number, place, own[int(last[at])]
            self.worst_ns = int(caused[at])

    @property
    def worst_rank(self) -> str | None:
        """The rank that more waiting is due to than chance brings, None where there is none.

        waiting due to it > 1.5 * (waiting due to all ranks) / (number of ranks)
        """
        whole = sum(self.due_ns.values())
        if not whole:
            return None
        first = max(self.due_ns, key=lambda label: self.due_ns[label])
        least = TIMES_EVEN_SHARE * whole / len(self.members)
        return first if self.due_ns[first] > least else None


def traffic_of(view: View) -> dict[Key, Traffic]:
    """Return calls and bytes of the selected collectives of all ranks."""
    found: defaultdict[Key, Traffic] = defaultdict(Traffic)
    for rank in view.ranks:
        calls = rank.counted(rank.named(rank.running_calls))
        for dim, rows, _ in rows_of_parts(view, calls, by_dim):
            found[dim, WHOLE].add(view, rank, calls, rows)
        for key, rows, _ in rows_of_parts(view, calls, by_dim_and_group):
            found[key].add(view, rank, calls, rows)
    return dict(found)


def exposed_of(
    view: View, ranks: Sequence[RankView]
) -> tuple[dict[Key, dict[str, tuple[int, int]]], dict[str, tuple[int, int]]]:
    """Return time in collectives and the exposed part of it, ns by rank label.

    Returns:
        Those of each key, and those of all collectives of a rank.
    """
    found: dict[Key, dict[str, tuple[int, int]]] = {}
    total: dict[str, tuple[int, int]] = {}
    for rank in ranks:
        for dim, times in exposed_parts(view, [rank], by_dim, named=True).items():
            found.setdefault((dim, WHOLE), {}).update(times)
        for key, times in exposed_parts(view, [rank], by_dim_and_group, named=True).items():
            found.setdefault(key, {}).update(times)
        total[rank.label] = rank.comm_ns, rank.exposed_ns
    return found, total


def bandwidths_of(view: View) -> dict[Key, Bandwidth]:
    """Return the bandwidth of the selected collectives of known size."""
    found: defaultdict[Key, Bandwidth] = defaultdict(Bandwidth)
    for one in measured_bandwidths(view):
        for key, rows in _keys(view, one.group, one.kind):
            found[key].add(one, rows)
    return dict(found)


def waits_of(view: View) -> dict[Key, Waits]:
    """Return the waiting at the selected collectives that all ranks of a group wait for.

    Raises:
        Refusal: fewer than two ranks, no such collective, or matches that the clocks disprove.
    """
    require_ranks(view)
    possible_match(view)
    chosen = chosen_of(view)
    waited = [one for one in exposed_waits(view) if one.eligible.any()]
    labels = [rank.label for rank in view.ranks]
    found: defaultdict[Key, Waits] = defaultdict(Waits)
    for one, its in zip(chosen, waited, strict=True):
        for key, rows in _keys(view, one.group, np.asarray(one.kind, np.int64)):
            found[key].add(one, its, rows, labels)
    return dict(found)


def _keys(view: View, group: int, kind: I64) -> Iterator[tuple[Key, Bool]]:
    """Yield each key of the matched collectives of a group with a mask of them."""
    for dim, rows in dims_of_matched(view, group, kind).items():
        yield (dim, WHOLE), rows
        yield (dim, max(group, -1)), rows


ORDER: Final = ("tp", "pp", "dp", "ep", "cp", "world", "unknown")
"""Dimensions in the order of the table."""
_ONE_SIDED: Final = "no collective that all its ranks wait for: sends and receives wait in pairs"


@metric(
    unit="ratio",
    definition=(
        "Share of the time in collectives in which the device also computes or copies, both "
        "summed over ranks; by parallel dimension and group with calls, bytes, bus bandwidth, "
        "exposed time, share of waiting, lag, and the rank that waiting is due to."
    ),
    needs=("GPU kernels", "process groups", "2 ranks of one group"),
    facts=("sums", "waits"),
    keys=(
        "hidden_ratio",
        "comm_ms",
        "exposed_ms",
        "exposed_pct",
        "dimensions",
        "groups",
        "absent",
        "per_rank",
    ),
    sums=(
        of_rank(totals),
        exposed_by(by_dim, named=True),
        exposed_by(by_dim_and_group, named=True),
    ),
    label="communication by dimension",
    higher_is_better=True,
)
def parallelism(view: View) -> Result:
    """Set traffic, exposure, bandwidth and waiting of each dimension side by side."""
    found = _collected(view)
    keys = sorted(found.traffic, key=lambda key: _place(view, key))
    device = found.device
    comm, total = (sum(times[part] for times in found.per_rank.values()) for part in (0, 1))
    window = sum(rank.window_ns for rank in device)
    details: dict[str, Any] = {
        "hidden_ratio": _hidden(comm, total),
        "comm_ms": milliseconds(comm) / len(device) if device else None,
        "exposed_ms": milliseconds(total) / len(device) if device else None,
        "exposed_pct": 100 * total / window if window else None,
        "dimensions": [_row(view, found, key) for key in keys if key[1] == WHOLE],
        "groups": [_row(view, found, key) for key in keys if key[1] != WHOLE],
        "absent": _absent(found.traffic),
        "per_rank": {
            label: {
                "comm_ms": milliseconds(own),
                "exposed_ms": milliseconds(exposed),
                "hidden_ratio": _hidden(own, exposed),
            }
            for label, (own, exposed) in found.per_rank.items()
        },
    }
    return call_answer(
        parallelism,
        view,
        details,
        basis={
            "hidden_by": "computation and copies",
            "exposed": "of a dimension mean over the ranks with kernels, of a group over its own",
            "comm": "time in collectives, overlapping ones once; dimensions may overlap",
            "wait": "duration beyond the shortest over ranks, over the duration",
            "busbw": "bytes over the shortest duration over ranks, both summed",
            "worst_rank": "the rank that causes more than 1.5 times an even share of the waiting "
            "beyond the next latest rank",
        },
        reasons=[*found.reasons, *_unknown_dimension(found.traffic)],
    )


class _Collected(Struct):
    """Sums by key, and why some of them could not be computed."""

    traffic: dict[Key, Traffic]
    device: Sequence[RankView] = ()
    exposed: Mapping[Key, Mapping[str, tuple[int, int]]] = field(default_factory=dict)
    per_rank: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    bandwidth: Mapping[Key, Bandwidth] = field(default_factory=dict)
    waits: Mapping[Key, Waits] = field(default_factory=dict)
    no_exposed: str = ""
    no_waits: str = ""
    reasons: list[Reason] = field(default_factory=list)


def _collected(view: View) -> _Collected:
    """Compute every column; one that cannot be computed leaves the others.

    Raises:
        Refusal: no collective is selected.
    """
    found = _Collected(traffic_of(view))
    if not found.traffic:
        if not any(rank.facts.has_device for rank in view.ranks):
            raise without_device_times(view, "CPU-only trace without any recorded collective")
        raise refuse("no_collectives", "no collective in the selection")
    try:
        ranks = device_ranks(view)
        require_communication_on_device(ranks)
        found.exposed, found.per_rank = exposed_of(view, ranks)
        found.device = ranks
        found.reasons += device_reasons(view)
    except Refusal as refusal:
        found.no_exposed = str(refusal)
        found.reasons += refusal.reasons
    if not found.no_exposed:
        found.bandwidth = bandwidths_of(view)
    try:
        found.waits = waits_of(view)
    except Refusal as refusal:
        found.no_waits = str(refusal)
        found.reasons += refusal.reasons
    return found


def _place(view: View, key: Key) -> tuple[int, int, int, str]:
    """Place of a key in the table: by dimension, then by the ranks of its group."""
    dim, group = key
    members = view.groups[group].ranks if group >= 0 else ()
    return ORDER.index(dim), len(members), members[0] if members else -1, str(group)


def _row(view: View, found: _Collected, key: Key) -> dict[str, Any]:
    dim, group = key
    traffic = found.traffic[key]
    why: dict[str, str] = {}
    if dim == "unknown":
        why["dim"] = _why_unknown(traffic)
    row: dict[str, Any] = {
        "dim": dim,
        "group": None if group == WHOLE else view.group_label(group),
        "ranks": len(traffic.ranks),
        "calls": traffic.calls,
        "message_bytes": traffic.message_bytes,
        **_exposed(found, key, why),
        **_bandwidth(found, key, why),
        **_waiting(found, key, why),
    }
    if traffic.message_bytes is None:
        why["message_bytes"] = "no call states its size"
    elif traffic.sized < traffic.countable:
        why["message_bytes"] = (
            f"{traffic.countable - traffic.sized} of {traffic.countable} calls "
            "do not state their size and are not in the sum"
        )
    return {**row, "why": why}


def _exposed(found: _Collected, key: Key, why: dict[str, str]) -> dict[str, Any]:
    times = found.exposed.get(key)
    if times is None:
        why["hidden_ratio"] = found.no_exposed or "none of its kernels is in the measured time"
        return {"comm_ms": None, "exposed_ms": None, "hidden_ratio": None}
    count = len(found.device) if key[1] == WHOLE else len(times)
    comm, exposed = (sum(part) for part in zip(*times.values(), strict=True))
    if not comm:
        why["hidden_ratio"] = "its kernels take no time"
    return {
        "comm_ms": milliseconds(comm) / count,
        "exposed_ms": milliseconds(exposed) / count,
        "hidden_ratio": _hidden(comm, exposed),
    }


def _hidden(comm_ns: int, exposed_ns: int) -> float | None:
    """Share of the time in collectives that is hidden, None where there is no such time."""
    return ratio(comm_ns - exposed_ns, comm_ns)


def _bandwidth(found: _Collected, key: Key, why: dict[str, str]) -> dict[str, Any]:
    known = found.bandwidth.get(key)
    if known is None:
        traffic = found.traffic[key]
        if not traffic.sized:
            text = "no call states its size"
        elif key[0] == "pp":
            text = "sends and receives of one pair are no collective"
        else:
            text = "no matched collective of known size takes any time"
        why["busbw_GBps"] = found.no_exposed or text
    elif known.is_bound:
        why["busbw_GBps"] = "a lower bound: durations of single ranks include their waiting"
    return {"busbw_GBps": None if known is None else known.busbw_gbps}


def _waiting(found: _Collected, key: Key, why: dict[str, str]) -> dict[str, Any]:
    known = found.waits.get(key)
    columns = (
        *("num_matched", "wait_ratio", "wait_ms", "mean_lag_us", "p95_lag_us"),
        *("worst_rank", "worst_wait_ms", "worst"),
    )
    if known is None:
        why["wait_ratio"] = found.no_waits or _ONE_SIDED
        return dict.fromkeys(columns)
    lags = lag_tables.summary(np.concatenate(known.lags_ns))
    rank = known.worst_rank
    if rank is None:
        why["worst_rank"] = "no rank is last by more, and more often, than chance explains"
    worst = known.worst
    values = (
        lags["n"],
        ratio(known.wait_ns, known.wait_ns + known.transfer_ns),
        milliseconds(known.wait_ns),
        lags["mean_lag_us"],
        lags["p95_lag_us"],
        rank,
        None if rank is None else milliseconds(known.due_ns[rank]),
        None
        if worst is None
        else {
            "group_number": worst[0],
            "index": worst[1],
            "rank": worst[2],
            "wait_us": microseconds(known.worst_ns),
        },
    )
    return dict(zip(columns, values, strict=True))


def _why_unknown(traffic: Traffic) -> str:
    return f"no group, degree or operation tells the dimension of {traffic.calls} calls"


def _unknown_dimension(traffic: Mapping[Key, Traffic]) -> list[Reason]:
    unknown = traffic.get(("unknown", WHOLE))
    return [] if unknown is None else [Reason("no_process_groups", _why_unknown(unknown))]


def _absent(traffic: Mapping[Key, Traffic]) -> dict[str, str]:
    """Why a dimension has no row: no call, or none that is known while some are not told."""
    unknown = ("unknown", WHOLE) in traffic
    why = (
        "no call is known to belong to it, and the dimension of some is not known"
        if unknown
        else "no call"
    )
    return {dim: why for dim in ORDER[:5] if (dim, WHOLE) not in traffic}


metric_cal = parallelism.document_of
