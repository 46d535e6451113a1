"""Bytes sent over the links per measured time, including the time without communication."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ccltui.metrics.arrays.reductions import distinct_values
from ccltui.metrics.arrays.statistics import ratio
from ccltui.metrics.device.device_time import device_ranks, device_reasons
from ccltui.metrics.metric import metric
from ccltui.metrics.model.dimensions import DIMS
from ccltui.metrics.result import Reason, Result
from ccltui.metrics.unavailable import refuse, unknown_wire_bytes
from ccltui.metrics.view.provenance import call_answer
from ccltui.metrics.view.rank_view import of_rank, totals
from ccltui.metrics.workload.hardware import LINK_OVERRIDE, LinkPeak, group_crosses_hosts, link_peak

if TYPE_CHECKING:
    from ccltui.metrics.model.calls import Calls
    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.rank_view import RankView
    from ccltui.parsers.array_types import Bool


@metric(
    unit="GB/s",
    definition=(
        "Bytes that a rank sends in collectives divided by the measured time, mean over ranks, "
        "in GB/s; also as a share of the peak of the links where it is known and the same for "
        "all groups."
    ),
    needs=("GPU kernels", "collectives with sizes", "process groups"),
    facts=("calls", "sums"),
    keys=(
        "wire_GBps",
        "wire_GBps_while_communicating",
        "network_utilization_ratio",
        "peak_GBps",
        "peak_source",
        "wire_bytes",
        "by_dim",
        "by_locality",
        "per_rank",
    ),
    sums=(of_rank(totals),),
    label="network throughput",
    parameters={LINK_OVERRIDE: "peak bandwidth of one device in one direction, decimal GB/s"},
)
def network_utilization(view: View) -> Result:
    """Bytes that ranks send over the measured time."""
    ranks = device_ranks(view)
    calls = [rank.selected_calls for rank in ranks]
    countable = sum(int(np.count_nonzero(of_rank.counts_bytes)) for of_rank in calls)
    if not countable:
        raise refuse("no_collectives", "no collective that moves bytes in the selection")
    sized = sum(int(np.count_nonzero(_sends(view, of_rank))) for of_rank in calls)
    if not sized:
        raise unknown_wire_bytes(sized=any((one.message_bytes >= 0).any() for one in calls))
    sent = {rank.label: _sent(view, rank.selected_calls) for rank in ranks}
    window, total = sum(rank.window_ns for rank in ranks), sum(sent.values())
    peak = _peak(view, calls)
    details: dict[str, Any] = {
        "wire_GBps": ratio(total, window),
        "wire_GBps_while_communicating": ratio(total, sum(rank.comm_ns for rank in ranks)),
        "network_utilization_ratio": ratio(total, window * peak.gbps) if peak else None,
        "peak_GBps": peak.gbps if peak else None,
        "peak_source": peak.source if peak else None,
        "wire_bytes": total,
        "by_dim": _by_dim(view, ranks, window),
        "by_locality": _by_locality(view, calls, window),
        "per_rank": {
            rank.label: {"wire_GBps": ratio(sent[rank.label], rank.window_ns)} for rank in ranks
        },
    }
    return call_answer(
        network_utilization,
        view,
        details,
        basis={
            "bytes": "what a rank sends by the cost of a ring; a receive sends nothing",
            "time": "the measured time, whether data moves or not",
        },
        reasons=[*_unsized(sized, countable), *device_reasons(view)],
    )


def _sends(view: View, calls: Calls) -> Bool:
    """Mask of the calls that send a known number of bytes."""
    return view.of_alike(
        _sends,
        calls,
        lambda: np.asarray(calls.counts_bytes & (calls.wire_bytes >= 0)),
        calls.wire_bytes,
    )


def _sending(view: View, calls: Calls) -> Calls:
    """Return the calls that send a known number of bytes."""
    sends = _sends(view, calls)
    return calls if sends.all() else calls.take(sends)


def _sent(view: View, calls: Calls) -> int:
    return view.of_alike(
        _sent,
        calls,
        lambda: int(calls.wire_bytes[_sends(view, calls)].sum()),
        calls.wire_bytes,
    )


def _peak(view: View, calls: Sequence[Calls]) -> LinkPeak | None:
    """Peak of the links, where every group that sends anything uses the same links."""
    groups = {group for one in calls for group in _groups(view, one)}
    peaks = [link_peak(view, group) for group in sorted(groups)]
    return peaks[0] if peaks and all(peak == peaks[0] for peak in peaks) else None


def _groups(view: View, calls: Calls) -> list[int]:
    """Return the groups that send anything."""
    return view.of_alike(
        _groups,
        calls,
        lambda: distinct_values(calls.group[_sends(view, calls)]).tolist(),
        calls.wire_bytes,
    )


def _sums_by_dim(view: View, calls: Calls) -> dict[str, int]:
    dims, _ = view.dims_of(calls)
    return {DIMS[dim]: int(calls.wire_bytes[dims == dim].sum()) for dim in distinct_values(dims)}


def _by_dim(view: View, ranks: Sequence[RankView], window: int) -> dict[str, Any]:
    found: defaultdict[str, int] = defaultdict(int)
    for rank in ranks:
        calls = view.with_dims(rank, _sending(view, rank.selected_calls))
        sums = partial(_sums_by_dim, view, calls)
        for dim, num_bytes in view.of_alike(_by_dim, calls, sums, calls.wire_bytes).items():
            found[dim] += num_bytes
    return {dim: _row(num_bytes, window) for dim, num_bytes in sorted(found.items())}


def _sums_by_group(view: View, calls: Calls) -> dict[int, int]:
    sending = _sending(view, calls)
    return {
        group: int(sending.wire_bytes[sending.group == group].sum())
        for group in distinct_values(sending.group).tolist()
    }


def _by_locality(view: View, calls: Sequence[Calls], window: int) -> dict[str, Any]:
    """Bytes inside hosts, between hosts, or unknown, by the ranks of each group."""
    names = {True: "between_hosts", False: "inside_host", None: "unknown"}
    found: defaultdict[str, int] = defaultdict(int)
    for one in calls:
        sums = view.of_alike(_by_locality, one, partial(_sums_by_group, view, one), one.wire_bytes)
        for group, num_bytes in sums.items():
            found[names[group_crosses_hosts(view, group)]] += num_bytes
    return {name: _row(num_bytes, window) for name, num_bytes in sorted(found.items())}


def _row(num_bytes: int, window: int) -> dict[str, Any]:
    return {"wire_bytes": num_bytes, "wire_GBps": ratio(num_bytes, window)}


def _unsized(sized: int, countable: int) -> list[Reason]:
    if sized == countable:
        return []
    text = f"{countable - sized} of {countable} calls do not record what they send"
    return [Reason("no_message_size", text)]


metric_cal = network_utilization.document_of
