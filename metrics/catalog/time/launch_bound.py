"""Idle gaps of the device that end with a kernel launched too late by the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ccltui.metrics.arrays.reductions import joined
from ccltui.metrics.arrays.statistics import microseconds, milliseconds, ratio
from ccltui.metrics.collectives.matching.validity import middle_and_rank
from ccltui.metrics.device.device_time import device_answer, device_ranks
from ccltui.metrics.findings.rank_time.idle_causes import GapCounts, idle_of, require_launches
from ccltui.metrics.metric import metric
from ccltui.metrics.result import Result
from ccltui.metrics.unavailable import refuse
from ccltui.metrics.view.rank_view import in_turn, of_rank
from ccltui.parsers.array_types import I64

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.rank_view import RankView


@metric(
    unit="ratio",
    definition=(
        "Share of the idle gaps of the device that end with work launched after the gap began, "
        "out of the gaps whose end has a launch record."
    ),
    needs=("GPU kernels", "launch records (correlation ids)"),
    facts=("classes", "idle_causes"),
    keys=(
        "launch_bound_ratio",
        "launch_bound_time_ratio",
        "launch_bound_ms",
        "num_gaps",
        "num_gaps_unknown",
        "launch_delay_p50_us",
        "launch_delay_p95_us",
        "num_launches",
        "per_rank",
    ),
    sums=(of_rank(idle_of),),
    label="launch-bound gaps",
    higher_is_better=False,
)
def launch_bound(view: View) -> Result:
    """Share of gaps, and of idle time, whose end was launched after the gap began."""
    ranks = device_ranks(view)
    require_launches(ranks)
    gaps = {rank.label: idle_of(rank).gaps for rank in ranks}
    known = sum(gap.known for gap in gaps.values())
    if not known:
        raise refuse("not_applicable", "the device is never idle between launched work")
    late = sum(gap.late for gap in gaps.values())
    late_ns = sum(gap.late_ns for gap in gaps.values())
    delays = joined(_delays(rank) for rank in in_turn(ranks))
    p50, p95 = middle_and_rank(delays, 0.95) if len(delays) else (None, None)
    details: dict[str, Any] = {
        "launch_bound_ratio": late / known,
        "launch_bound_time_ratio": ratio(late_ns, sum(gap.known_ns for gap in gaps.values())),
        "launch_bound_ms": milliseconds(late_ns) / len(ranks),
        "num_gaps": sum(gap.number for gap in gaps.values()),
        "num_gaps_unknown": sum(gap.number for gap in gaps.values()) - known,
        "launch_delay_p50_us": None if p50 is None else microseconds(p50),
        "launch_delay_p95_us": None if p95 is None else microseconds(p95),
        "num_launches": len(delays),
        "per_rank": {label: _row(gap) for label, gap in gaps.items()},
    }
    return device_answer(
        launch_bound,
        view,
        details,
        basis={
            "gap": "between pieces of device work, inside the windows",
            "late": "the launch of what ends the gap began after the gap did",
            "launch_delay": "start on the device minus start of the launch, at least 0",
        },
    )


def _delays(rank: RankView) -> I64:
    """Delay from launch to start of all work in the windows, ns; 0 where clocks disagree."""
    gpu, launched = rank.trace.group("gpu"), rank.facts.launched_ns
    rows = (rank.facts.launch_row >= 0) & rank.starts_inside
    return np.asarray(np.maximum(gpu.start_ns[rows] - launched[rows], 0))


def _row(gap: GapCounts) -> dict[str, Any]:
    return {
        "launch_bound_ratio": ratio(gap.late, gap.known),
        "launch_bound_ms": milliseconds(gap.late_ns),
        "num_gaps": gap.number,
    }


metric_cal = launch_bound.document_of
