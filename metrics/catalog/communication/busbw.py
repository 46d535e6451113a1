"""Bandwidth of collectives by operation, size and group, as nccl-tests defines it.

The time of a collective is the shortest duration over its ranks: the last to arrive does not wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ccltui.metrics.arrays.reductions import median_along
from ccltui.metrics.arrays.statistics import microseconds
from ccltui.metrics.collectives.matching.validity import middle_and_rank
from ccltui.metrics.metric import metric
from ccltui.metrics.model.classify import TYPES
from ccltui.metrics.result import Reason, Result
from ccltui.metrics.unavailable import Refusal, refuse, unknown_wire_bytes
from ccltui.metrics.view.collective_selection import describe_group
from ccltui.metrics.view.data_quality import without_device_times
from ccltui.metrics.view.instances import require_sized_calls
from ccltui.metrics.view.provenance import call_answer, require_kernel_calls
from ccltui.metrics.workload.measured_bandwidth import Measured, measured_bandwidths

if TYPE_CHECKING:
    from ccltui.metrics.model.calls import Calls
    from ccltui.metrics.view.job_view import View
    from ccltui.parsers.array_types import F64, Bool


@metric(
    unit="GB/s",
    definition=(
        "Bus bandwidth of collectives in GB/s as nccl-tests defines it: bytes that each rank "
        "sends over the wire divided by the shortest duration over ranks; the mean over all "
        "collectives of known size is total bytes divided by total time."
    ),
    needs=("GPU kernels", "message sizes", "2 ranks of one group (of one rank: a lower bound)"),
    facts=("arrivals",),
    keys=(
        "busbw_GBps",
        "algbw_GBps",
        "num_collectives",
        "by_size",
        "by_group",
        "by_locality",
    ),
    label="bus bandwidth",
    higher_is_better=True,
)
def busbw(view: View) -> Result:
    """Algorithm and bus bandwidth of the selected collectives whose size is known."""
    require_kernel_calls(view)
    if not any(rank.facts.has_device for rank in view.ranks):
        raise without_device_times(view, "CPU-only trace without any recorded collective")
    if not any(len(rank.selected_calls) for rank in view.ranks):
        raise refuse("no_collectives", "no rank has a collective in the selection")
    require_sized_calls(view)
    measured = measured_bandwidths(view)
    if not measured:
        raise _nothing_measured([rank.selected_calls for rank in view.ranks])
    whole = [one for one in measured if one.whole] or measured
    wire, time = (sum(int(getattr(one, name).sum()) for one in whole) for name in ("wire", "time"))
    message = sum(int(one.message.sum()) for one in whole)
    details: dict[str, Any] = {
        "busbw_GBps": wire / time,
        "algbw_GBps": message / time,
        "num_collectives": sum(len(one) for one in whole),
        "by_size": _by_size(view, whole),
        "by_group": _by_group(view, whole),
        "by_locality": _by_locality(whole),
    }
    alone = not whole[0].whole
    return call_answer(
        busbw,
        view,
        details,
        basis={
            "time": "single_rank_dur" if alone else "shortest duration over ranks",
            "mean": "bytes over time, both summed",
            "unit": "decimal GB/s",
        },
        reasons=_reasons(view, alone=alone),
    )


def _nothing_measured(calls: Sequence[Calls]) -> Refusal:
    """Refusal that gives the reason why no call has a bandwidth."""
    if any(((one.message_bytes > 0) & (one.wire_bytes > 0)).any() for one in calls):
        return refuse("not_applicable", "no collective of known size takes any time")
    return unknown_wire_bytes(sized=any((one.message_bytes > 0).any() for one in calls))


def _statistics(parts: Sequence[tuple[Measured, Bool]]) -> dict[str, Any]:
    """Bandwidths of some rows (masks) of several groups."""
    message, wire, time = (
        np.concatenate([getattr(one, name)[rows] for one, rows in parts])
        for name in ("message", "wire", "time")
    )
    return {
        "n": len(time),
        "message_bytes": int(message.sum()),
        "time_p50_us": microseconds(float(median_along(time))),
        "algbw_GBps": _spread(message / time),
        "busbw_GBps": _spread(wire / time),
    }


def _spread(values: F64) -> dict[str, float]:
    middle, p95 = middle_and_rank(values, 0.95)
    return {"p50": middle, "p95": p95, "max": float(values.max())}


def _by_size(view: View, measured: Sequence[Measured]) -> list[dict[str, Any]]:
    """One row an operation, dimension and power of two of the message size."""
    cells: dict[tuple[str, str, int], list[tuple[Measured, Bool]]] = {}
    for one in measured:
        dim = str(describe_group(view, one.group)["dim"])
        power = np.floor(np.log2(one.message)).astype(np.int64)
        for kind, exponent in sorted(set(zip(one.kind.tolist(), power.tolist(), strict=True))):
            rows = (one.kind == kind) & (power == exponent)
            cells.setdefault((TYPES[kind], dim, exponent), []).append((one, rows))
    return [
        {
            "type": kind,
            "dim": dim,
            "from_bytes": 1 << exponent,
            "below_bytes": 2 << exponent,
            **_statistics(parts),
        }
        for (kind, dim, exponent), parts in sorted(cells.items())
    ]


def _by_group(view: View, measured: Sequence[Measured]) -> list[dict[str, Any]]:
    return [
        {
            **describe_group(view, one.group),
            "across_hosts": one.across_hosts,
            **_statistics([(one, np.ones(len(one), np.bool_))]),
        }
        for one in measured
    ]


def _by_locality(measured: Sequence[Measured]) -> dict[str, Any]:
    """Groups inside one host and across several, where all hosts are known."""
    names = {"intra_node": False, "inter_node": True}
    found = {
        name: [(one, np.ones(len(one), np.bool_)) for one in measured if one.across_hosts is across]
        for name, across in names.items()
    }
    return {name: _statistics(parts) for name, parts in found.items() if parts}


def _reasons(view: View, *, alone: bool) -> list[Reason]:
    if not alone:
        return []
    text = "durations of one rank alone include its waiting: the bandwidths are lower bounds"
    return [Reason("single_rank" if len(view.ranks) < 2 else "unmatched_collectives", text)]


metric_cal = busbw.document_of
