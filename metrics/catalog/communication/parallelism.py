"""Communication by parallel dimension: traffic, bandwidth, what is hidden, and who is waited for.

Every column has the definition of the metric that has it for the whole job.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ccltui.metrics.arrays.statistics import microseconds, milliseconds, ratio
from ccltui.metrics.collectives import lag_tables
from ccltui.metrics.device.device_time import (
    device_ranks,
    device_reasons,
    require_communication_on_device,
)
from ccltui.metrics.metric import metric
from ccltui.metrics.result import Reason, Result
from ccltui.metrics.unavailable import Refusal, refuse
from ccltui.metrics.view.data_quality import without_device_times
from ccltui.metrics.view.provenance import answer, source_of
from ccltui.metrics.workload.call_traffic import Traffic
from ccltui.metrics.workload.dimension_sums import (
    WHOLE,
    Bandwidth,
    Key,
    Waits,
    bandwidths_of,
    exposed_of,
    traffic_of,
    waits_of,
)

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.rank_view import RankView

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
    headline="hidden_ratio",
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
    source, warnings = source_of(view.ranks)
    return answer(
        parallelism,
        view,
        details,
        source=source,
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
        warnings=warnings,
    )


@dataclass(slots=True)
class _Collected:
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
