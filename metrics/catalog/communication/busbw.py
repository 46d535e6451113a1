"""Bandwidth of collectives by operation, size and group, as nccl-tests defines it.

The time of a collective is the shortest duration over its ranks: the last to arrive does not wait.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ccltui.metrics.arrays.reductions import distinct_values, median_along
from ccltui.metrics.arrays.statistics import microseconds
from ccltui.metrics.collectives.matching.end_deviation import middle_and_rank
from ccltui.metrics.metric import metric
from ccltui.metrics.model.bandwidth import matched_bandwidth
from ccltui.metrics.model.classify import TYPES
from ccltui.metrics.result import Reason, Result
from ccltui.metrics.unavailable import Refusal, refuse, unknown_wire_bytes
from ccltui.metrics.view.collective_selection import Part, describe_group, parts_of
from ccltui.metrics.view.instances import implied_size
from ccltui.metrics.view.provenance import answer, source_of
from ccltui.parsers.columns import MISSING

if TYPE_CHECKING:
    from ccltui.metrics.model.calls import Calls
    from ccltui.metrics.view.job_view import View
    from ccltui.parsers.array_types import F64, I64, Bool

_SEND: Final = TYPES.index("Send")
_RECV: Final = TYPES.index("Recv")


@dataclass(frozen=True, slots=True)
class _Measured:
    """Collectives of one group, arrays of one length; sizes in bytes, times in ns."""

    group: int
    kind: I64
    message: I64
    wire: I64  # of one rank; as the message where the type has no factor
    time: I64
    whole: bool  # over all ranks of the group that are here, not from one rank alone
    across_hosts: bool | None

    def __len__(self) -> int:
        return len(self.kind)


@metric(
    unit="GB/s",
    definition=(
        "Bus bandwidth of collectives in GB/s as nccl-tests defines it: bytes that each rank "
        "sends over the wire divided by the shortest duration over ranks; the mean over all "
        "collectives of known size is total bytes divided by total time."
    ),
    needs=("GPU kernels", "message sizes", "2 ranks of one group (of one rank: a lower bound)"),
    keys=(
        "busbw_GBps",
        "algbw_GBps",
        "num_collectives",
        "by_size",
        "by_group",
        "by_locality",
    ),
    headline="busbw_GBps",
    label="bus bandwidth",
    higher_is_better=True,
)
def busbw(view: View) -> Result:
    """Algorithm and bus bandwidth of the selected collectives whose size is known."""
    source, warnings = source_of(view.ranks)
    if source != "kernel":
        raise refuse("no_gpu_events", "CPU-only trace: operators do not tell when data moved")
    if not any(rank.facts.has_device for rank in view.ranks):
        raise refuse("no_gpu_events", "CPU-only trace without any recorded collective")
    if not any(len(rank.selected_calls) for rank in view.ranks):
        raise refuse("no_collectives", "no rank has a collective in the selection")
    measured = [one for one in _measured(view) if len(one)]
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
    return answer(
        busbw,
        view,
        details,
        source=source,
        basis={
            "time": "single_rank_dur" if alone else "shortest duration over ranks",
            "mean": "bytes over time, both summed",
            "unit": "decimal GB/s",
        },
        reasons=_reasons(view, alone=alone),
        warnings=warnings,
    )


def _nothing_measured(calls: Sequence[Calls]) -> Refusal:
    """Refusal that gives the reason why no call has a bandwidth."""
    if any(((one.message_bytes > 0) & (one.wire_bytes > 0)).any() for one in calls):
        return refuse("not_applicable", "no collective that moves bytes takes any time")
    return unknown_wire_bytes(sized=any((one.message_bytes > 0).any() for one in calls))


def _measured(view: View) -> Iterator[_Measured]:
    """Matched collectives of every group; with one rank present, the calls of that rank."""
    inputs = {item.label: item.calls for item in view.match_inputs}
    parts = parts_of(view)
    for part in parts:
        yield _of_part(view, part, inputs)
    matched = {max(part.arrived.match.group, MISSING) for part in parts}
    for rank in view.ranks:
        calls = rank.selected_calls
        alone = ~np.isin(calls.group, list(matched)) & ~np.isin(calls.kind, [_SEND, _RECV])
        for group in distinct_values(calls.group[alone]).tolist():
            yield _of_rank(calls.take(alone & (calls.group == group)), group)


def _of_part(view: View, part: Part, inputs: dict[str, Calls]) -> _Measured:
    rows = part.arrived.match.rows[part.usable][:, part.columns]
    columns = [inputs[label].message_bytes[rows[:, i]] for i, label in enumerate(part.labels)]
    size = np.stack(columns, axis=1)
    dur = part.arrived.dur_ns[part.usable][:, part.columns]
    kind = np.asarray(part.arrived.match.kind[part.usable], np.int64)
    hosts = {rank.trace.host for rank in view.ranks if rank.label in part.labels}
    across = None if "" in hosts else len(hosts) > 1
    match = part.arrived.match
    count = view.groups[match.group].size if match.group >= 0 else implied_size(view, match)
    found = matched_bandwidth(kind, size, dur, np.full(len(kind), count))
    known = ~np.isnan(found.algbw_gbps) & ~np.isnan(found.busbw_gbps) & (found.message_bytes > 0)
    wire = np.rint(found.busbw_gbps[known] * found.time_ns[known]).astype(np.int64)
    return _Measured(
        group=match.group,
        kind=kind[known],
        message=found.message_bytes[known],
        wire=wire,
        time=found.time_ns[known],
        whole=size.shape[1] > 1,
        across_hosts=across,
    )


def _of_rank(calls: Calls, group: int) -> _Measured:
    known = calls.take((calls.message_bytes > 0) & (calls.wire_bytes >= 0) & (calls.dur_ns > 0))
    return _Measured(
        group=group,
        kind=np.asarray(known.kind, np.int64),
        message=known.message_bytes,
        wire=known.wire_bytes,
        time=known.dur_ns,
        whole=False,
        across_hosts=None,
    )


def _statistics(parts: Sequence[tuple[_Measured, Bool]]) -> dict[str, Any]:
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


def _by_size(view: View, measured: Sequence[_Measured]) -> list[dict[str, Any]]:
    """One row an operation, dimension and power of two of the message size."""
    cells: dict[tuple[str, str, int], list[tuple[_Measured, Bool]]] = {}
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


def _by_group(view: View, measured: Sequence[_Measured]) -> list[dict[str, Any]]:
    return [
        {
            **describe_group(view, one.group),
            "across_hosts": one.across_hosts,
            **_statistics([(one, np.ones(len(one), np.bool_))]),
        }
        for one in measured
    ]


def _by_locality(measured: Sequence[_Measured]) -> dict[str, Any]:
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
