"""Differences between the clocks of the ranks, with their error bars."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ccltui.metrics.arrays.reductions import median_along
from ccltui.metrics.arrays.statistics import microseconds
from ccltui.metrics.collectives import lag_tables
from ccltui.metrics.collectives.clocks.clock_model import MAX_RESIDUAL_NS, Clock
from ccltui.metrics.metric import metric
from ccltui.metrics.result import Reason, Result
from ccltui.metrics.unavailable import Refusal, refuse
from ccltui.metrics.view.collective_selection import chosen_of, require_ranks
from ccltui.metrics.view.provenance import call_answer
from ccltui.parsers.numbers import duration

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View


@metric(
    unit="us",
    definition=(
        "Largest difference in µs between the clocks of two ranks, estimated from when the "
        "collectives that all ranks wait for end on each rank."
    ),
    needs=("collectives that all ranks of a group wait for", "2 ranks of one group"),
    facts=("arrivals",),
    keys=(
        "max_offset_us",
        "residual_p95_us",
        "evidence",
        "components",
        "per_rank",
        "per_host",
        "end_spread_us",
    ),
    label="largest clock difference",
)
def clock_offsets(view: View) -> Result:
    """Offset and drift of the clock of every selected rank, with error bars."""
    require_ranks(view)
    labels = [rank.label for rank in view.ranks]
    clocks = view.clocks
    known = {label: clocks.clocks[label] for label in labels if clocks.clocks[label].known}
    if not known:
        raise refuse("clock_unknown", _why(view))
    offsets = [clock.offset_ns for clock in known.values()]
    hosts = {rank.label: rank.trace.host for rank in view.ranks}
    residual = clocks.error_bar_ns
    details: dict[str, Any] = {
        "max_offset_us": microseconds(_widest(known)),
        "residual_p95_us": None if residual is None else microseconds(residual),
        "evidence": clocks.evidence,
        "components": sorted({clock.component for clock in known.values()}),
        "per_rank": {
            label: {**row, "component": clocks.clocks[label].component, "host": hosts[label]}
            for label, row in lag_tables.clock_table(clocks, labels).items()
        },
        "per_host": _per_host(known, hosts),
        "end_spread_us": _end_spread(view),
    }
    unknown = [label for label in labels if label not in known]
    reasons = [
        Reason(
            "clock_unknown",
            f"rank {label} shares no collective that could compare its clock with the others",
            rank=label,
        )
        for label in unknown
    ]
    if len(details["components"]) > 1:
        sets = len(details["components"])
        text = f"no collective links {sets} sets of ranks, so their clocks cannot be compared"
        reasons.append(Reason("clock_unknown", text))
    warnings = []
    if any(abs(offset) > 0 for offset in offsets) and view.options.raw_clocks:
        warnings.append("times elsewhere are as recorded: the offsets are not applied")
    return call_answer(
        clock_offsets,
        view,
        details,
        basis={
            "offset": "own time minus that of the lowest rank that collectives link it to",
            "evidence": "ends of collectives that all ranks wait for",
            "residual": "how far single ends lie from the offset, p95, or the 95 % prediction "
            "interval where two to four collectives tell it: its error bar",
            "hosts": "ranks of one host share a clock unless they disagree beyond the residual",
        },
        reasons=reasons,
        warnings=warnings,
    )


def _why(view: View) -> str:
    residual = view.clocks.residual_p95_ns or 0
    if residual > MAX_RESIDUAL_NS:
        text = f"matched collectives end up to {duration(residual)} apart on different ranks"
        return f"{text}: they cannot be used to compare clocks"
    if view.clocks.evidence == "uncertain matches":
        return (
            "collectives are matched by order alone, with low confidence: they cannot be used to "
            "compare clocks"
        )
    return "no collective that all ranks of a group wait for links two of these ranks"


def _widest(known: Mapping[str, Clock]) -> int:
    """Largest difference of two clocks whose relation is known."""
    by_component: dict[int, list[int]] = {}
    for clock in known.values():
        by_component.setdefault(clock.component, []).append(clock.offset_ns)
    return max(max(values) - min(values) for values in by_component.values())


def _per_host(known: Mapping[str, Clock], hosts: Mapping[str, str]) -> dict[str, Any]:
    """Median offset and its spread over the ranks of each host, where hosts are known."""
    found: dict[str, list[int]] = {}
    for label, clock in known.items():
        if hosts[label]:
            found.setdefault(hosts[label], []).append(clock.offset_ns)
    return {
        host: {
            "ranks": len(values),
            "offset_us": microseconds(float(median_along(values))),
            "spread_us": microseconds(max(values) - min(values)),
        }
        for host, values in found.items()
    }


def _end_spread(view: View) -> dict[str, Any]:
    try:
        return lag_tables.end_spread(chosen_of(view))
    except Refusal:
        return lag_tables.distribution(np.empty(0, np.int64))


metric_cal = clock_offsets.document_of
