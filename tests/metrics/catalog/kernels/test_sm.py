"""sm: four quantities under four names, and which of them the traces hold."""

from __future__ import annotations

from factories import allreduce, kernel, rank_trace
from msgspec.structs import replace
from worked import cpu_only, measure, worked_example


def test_busy_time_is_known_and_the_rest_says_that_it_is_not() -> None:
    result = measure("sm", worked_example())

    assert (result.status, result.reason, result.value) == ("partial", "no_gpu_metrics", 0.8)
    details = result.details
    for name in ("sm_coverage", "sm_coverage_of_step", "achieved_occupancy_pct", "sm_active_pct"):
        assert details[name] is None
        assert name == "sm_coverage_of_step" or name in result.reasons[0].message


def test_means_are_weighted_by_time_and_leave_out_collectives() -> None:
    trace = rank_trace(
        0,
        gpu=[
            replace(kernel("gemm", 0, 30), blocks_per_sm=8.0, occupancy_pct=50.0),
            replace(kernel("small", 30, 10), blocks_per_sm=0.5, occupancy_pct=0.0),
            kernel("unknown", 40, 10),
            replace(allreduce(50, 50), blocks_per_sm=0.1, occupancy_pct=90.0),
        ],
    )

    result = measure("sm", trace)

    details = result.details
    assert details["sm_coverage"] == (1.0 * 30 + 0.5 * 10) / 40  # never above 1
    assert details["sm_coverage_of_step"] == 0.35
    assert details["achieved_occupancy_pct"] == 50.0  # 0 is no estimate
    assert details["coverage_known_ratio"] == 0.8
    assert details["occupancy_known_ratio"] == 0.6
    assert details["per_rank"]["0"]["sm_coverage"] == 0.875
    assert "sm_active_pct" in result.reasons[0].message
    assert "sm_coverage" not in result.reasons[0].message


def test_what_it_needs() -> None:
    assert measure("sm", cpu_only()).reason == "no_gpu_events"
