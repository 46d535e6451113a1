"""Copies of memory, and use of multiprocessors."""

from __future__ import annotations

import itertools

import pytest
from factories import Event, allreduce, copy, kernel, rank_trace
from msgspec.structs import replace
from worked import cpu_only, measure, worked_example

from ccltui.parsers.columns import RankTrace
from ccltui.parsers.window import Window


def move(name: str, start_us: float, dur_us: float, size: int = -1) -> Event:
    category = "gpu_memset" if "emset" in name else "gpu_memcpy"
    return Event(name, start_us, dur_us, 7, category=category, bytes=size)


def example(rank: int = 0) -> RankTrace:
    return rank_trace(
        rank,
        gpu=[
            kernel("gemm", 0, 100),
            move("Memcpy HtoD (Pinned -> Device)", 50, 100, 1_000_000),
            move("CopyHostToDevice", 200, 100, 3_000_000),
            move("Memcpy DtoH (Device -> Pageable)", 300, 50, 500),
            move("Memcpy DtoD (Device -> Device)", 400, 10, 40),
            move("Memcpy PtoP (Device -> Device)", 410, 10, 40),
            move("Memset (Device)", 420, 5, 64),
            move("Memcpy Unknown", 430, 5),
        ],
    )


def test_directions_and_bandwidth() -> None:
    result = measure("memory_transfer", example())

    details = result.details
    assert details["by_kind"] == {
        "HtoD": {"count": 2, "bytes": 4_000_000, "time_ms": 0.2, "GBps": 20.0},
        "DtoH": {"count": 1, "bytes": 500, "time_ms": 0.05, "GBps": 0.01},
        "DtoD": {"count": 1, "bytes": 40, "time_ms": 0.01, "GBps": 0.004},
        "PtoP": {"count": 1, "bytes": 40, "time_ms": 0.01, "GBps": 0.004},
        "Memset": {"count": 1, "bytes": 64, "time_ms": 0.005, "GBps": 0.0128},
        "other": {"count": 1, "bytes": None, "time_ms": 0.005, "GBps": None},
    }
    assert (details["total_bytes"], details["num_copies"]) == (4_000_644, 7)
    assert details["mem_time_ms"] == 0.28
    assert result.value == 0.23  # the kernel covers 50 µs
    assert details["uncovered_mem_pct_of_step"] == pytest.approx(100 * 230 / 435)


def test_worked_example() -> None:
    assert measure("memory_transfer", worked_example()).value == 0.015


def test_windows_add_up() -> None:
    parts = [
        measure("memory_transfer", example(), window=Window(a, b)).details
        for a, b in itertools.pairwise([None, 120_000, 305_000, None])
    ]

    assert sum(part["total_bytes"] for part in parts) == 4_000_644
    assert sum(part["uncovered_mem_ms"] for part in parts) == pytest.approx(0.23)


def test_copies_alone_are_device_work_too() -> None:
    assert measure("memory_transfer", rank_trace(0, gpu=[copy(0, 5)])).value == 0.005


def test_a_rank_without_work_in_the_window_leaves_the_others() -> None:
    late = rank_trace(1, gpu=[copy(900, 10)])

    details = measure(
        "memory_transfer", rank_trace(0, gpu=[copy(0, 10)]), late, window=Window(0, 100_000)
    ).details

    assert (details["num_copies"], details["uncovered_mem_ms"]) == (1, 0.005)


def test_no_copy_is_a_real_zero() -> None:
    result = measure("memory_transfer", rank_trace(0, gpu=[kernel("gemm", 0, 5)]))

    assert (result.status, result.value, result.details["by_kind"]) == ("ok", 0.0, {})


def test_what_memory_transfer_needs() -> None:
    assert measure("memory_transfer", cpu_only()).reason == "no_gpu_events"
    late = measure("memory_transfer", example(), window=Window(500_000, None))
    assert late.reason == "window_empty"


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


def test_what_sm_needs() -> None:
    assert measure("sm", cpu_only()).reason == "no_gpu_events"
