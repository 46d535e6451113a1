"""sm: four quantities under four names, and which of them the traces hold."""

from __future__ import annotations

import numpy as np
import pytest
from factories import allreduce, job, kernel, rank_trace
from worked import cpu_only, measure, worked_example

from metrics import sm
from metrics.view import View


def test_busy_time_is_known_and_the_rest_says_that_it_is_not() -> None:
    result = measure("sm", worked_example())

    assert (result.status, result.reason, result.value) == ("partial", "no_gpu_metrics", 0.8)
    details = result.details
    for name in ("sm_coverage", "sm_coverage_of_step", "achieved_occupancy_pct", "sm_active_pct"):
        assert details[name] is None
        assert name == "sm_coverage_of_step" or name in result.reasons[0].message


def test_means_are_weighted_by_time_and_leave_out_collectives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    columns = {
        "blocks_per_sm": np.array([8.0, 0.5, np.nan, 0.1]),
        "occupancy_pct": np.array([50.0, 0.0, -1.0, 90.0]),
    }
    monkeypatch.setattr(sm, "_kernel_column", lambda _rank, name: columns[name])
    trace = rank_trace(
        0,
        gpu=[
            kernel("gemm", 0, 30),
            kernel("small", 30, 10),
            kernel("unknown", 40, 10),
            allreduce(50, 50),
        ],
    )

    result = measure("sm", trace)

    details = result.details
    assert details["sm_coverage"] == (1.0 * 30 + 0.5 * 10) / 40  # never above 1
    assert details["sm_coverage_of_step"] == 0.35
    assert details["achieved_occupancy_pct"] == 50.0  # 0 is no estimate
    assert details["per_rank"]["0"]["sm_coverage"] == 0.875
    assert "sm_active_pct" in result.reasons[0].message
    assert "sm_coverage" not in result.reasons[0].message


def test_a_column_that_no_reader_filled_is_absent() -> None:
    (rank,) = View(job(worked_example())).ranks

    assert sm._kernel_column(rank, "of_no_reader") is None


def test_what_it_needs() -> None:
    assert measure("sm", cpu_only()).reason == "no_gpu_events"
