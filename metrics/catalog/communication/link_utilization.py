"""Bus bandwidth as a share of the peak of the links, while data moves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ccltui.metrics.arrays.reductions import distinct_values, median_along
from ccltui.metrics.arrays.statistics import ratio
from ccltui.metrics.metric import metric
from ccltui.metrics.model.bandwidth import wire_factor
from ccltui.metrics.model.classify import TYPES
from ccltui.metrics.model.dimensions import DIMS
from ccltui.metrics.result import Reason, Result
from ccltui.metrics.unavailable import Refusal, refuse, unknown_wire_bytes
from ccltui.metrics.view.instances import Instances, operations
from ccltui.metrics.view.provenance import call_answer, require_kernel_calls
from ccltui.metrics.workload.hardware import (
    LINK_OVERRIDE,
    LinkPeak,
    device_names,
    device_of,
    link_peak,
)
from ccltui.metrics.workload.measured_bandwidth import timed_collectives
from ccltui.parsers.array_types import F64

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View


class Part(Struct, frozen=True):
    """The collectives of one type on one group, with the peak of the links they use."""

    group: int
    kind: int
    dim: int
    bus_bytes: F64  # what one rank moves
    time_ns: npt.NDArray[np.int64]
    shared: bool
    peak: LinkPeak

    @property
    def moved(self) -> float:
        """Bytes that one rank moves in all collectives of the part."""
        return float(self.bus_bytes.sum())

    @property
    def possible(self) -> float:
        """Bytes that the links could have moved in the same time."""
        return float(self.time_ns.sum()) * self.peak.gbps


@metric(
    unit="ratio",
    definition=(
        "Bus bandwidth of collectives while data moves (the shortest duration over ranks), "
        "divided by the peak bandwidth of their links in one direction, weighted by time."
    ),
    needs=("collectives with sizes", "process groups", "a known device, or the peak of the links"),
    facts=("pairs", "matches"),
    keys=(
        "link_utilization_ratio",
        "by_group",
        "peak_GBps",
        "peak_source",
        "num_collectives",
    ),
    label="link utilization",
    higher_is_better=True,
    parameters={LINK_OVERRIDE: "peak bandwidth of one device in one direction, decimal GB/s"},
)
def link_utilization(view: View) -> Result:
    """Bus bandwidth over the peak of the links, by type and group."""
    require_kernel_calls(view)
    timed = timed_collectives(view)
    factor = wire_factor(timed.kind, timed.group_size)
    usable = ~np.isnan(factor) & (factor > 0)
    if not usable.any():
        raise unknown_wire_bytes(sized=True)
    peaks = {
        int(group): link_peak(view, int(group)) for group in distinct_values(timed.group[usable])
    }
    known = usable & np.isin(timed.group, [g for g, peak in peaks.items() if peak is not None])
    if not known.any():
        raise _unknown_peak(view)
    parts = _parts(timed.take(known), factor[known], peaks)
    whole = [part for part in parts if part.shared] or parts
    moved, possible = sum(p.moved for p in whole), sum(p.possible for p in whole)
    details: dict[str, Any] = {
        "link_utilization_ratio": ratio(moved, possible),
        "by_group": [_row(view, part) for part in parts],
        "peak_GBps": max(part.peak.gbps for part in whole),
        "peak_source": "; ".join(dict.fromkeys(part.peak.source for part in whole)),
        "num_collectives": sum(len(part.time_ns) for part in whole),
    }
    alone = not whole[0].shared
    return call_answer(
        link_utilization,
        view,
        details,
        basis={
            "time": "single_rank_dur" if alone else "shortest duration over ranks",
            "peak": "one direction of one device",
            "mean": "bytes over what the links could have moved in the same time",
        },
        reasons=_reasons(usable, known, alone=alone),
        warnings=_notes(view),
    )


def _parts(timed: Instances, factor: F64, peaks: Mapping[int, LinkPeak | None]) -> list[Part]:
    parts = []
    for group, kind, every in operations(timed):
        shared = every[timed.members[every] > 1]
        rows = shared if len(shared) else every
        peak = peaks[group]
        if peak is not None:
            parts.append(
                Part(
                    group=group,
                    kind=kind,
                    dim=int(timed.dim[rows][0]),
                    bus_bytes=timed.message_bytes[rows] * factor[rows],
                    time_ns=timed.time_ns[rows],
                    shared=len(shared) > 0,
                    peak=peak,
                )
            )
    return parts


def _row(view: View, part: Part) -> dict[str, Any]:
    share = part.bus_bytes / part.time_ns / part.peak.gbps
    return {
        "group": view.group_label(part.group),
        "type": TYPES[part.kind],
        "dim": DIMS[part.dim],
        "link_utilization_ratio": ratio(part.moved, part.possible),
        "p50_ratio": float(median_along(share)),
        "max_ratio": float(share.max()),
        "n": len(share),
        "peak_GBps": part.peak.gbps,
        "peak_source": part.peak.source,
    }


def _unknown_peak(view: View) -> Refusal:
    names = device_names(view)
    found = f"the device is {names[0]}" if names else "no trace or card names the device"
    return refuse(
        "unknown_peak",
        f"the peak of the links is not known ({found}, and hosts or card must show which links a "
        f"group uses): give {LINK_OVERRIDE}",
    )


def _reasons(
    usable: npt.NDArray[np.bool_], known: npt.NDArray[np.bool_], *, alone: bool
) -> list[Reason]:
    reasons = []
    if (usable & ~known).any():
        count = int((usable & ~known).sum())
        text = f"the peak of the links of {count} collectives is not known: they are left out"
        reasons.append(Reason("unknown_peak", text))
    if alone:
        text = "only one rank of each group is here: its durations include waiting"
        reasons.append(Reason("single_rank", text))
    return reasons


def _notes(view: View) -> list[str]:
    device = device_of(view)
    return [device.note] if device is not None and device.note else []


metric_cal = link_utilization.document_of
