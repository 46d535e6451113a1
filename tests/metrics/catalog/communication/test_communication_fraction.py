"""communication_fraction: of busy time, of kernel time, of the window."""

from __future__ import annotations

import pytest
from factories import Event, allreduce, kernel, rank_trace
from worked import cpu_only, gloo, measure, worked_example


def test_worked_example() -> None:
    result = measure("communication_fraction", worked_example())

    assert result.value == 0.5  # 40 of the 80 µs in which anything runs
    details = result.details
    assert details["communication_fraction_of_kernel_time"] == pytest.approx(40 / 90)
    assert details["communication_fraction_of_window"] == 0.4
    assert (details["comm_time_ms"], details["busy_ms"]) == (0.04, 0.08)


def test_streams_that_run_at_once_count_twice_in_the_sum_alone() -> None:
    details = measure(
        "communication_fraction",
        rank_trace(0, gpu=[allreduce(0, 50), allreduce(0, 50, stream=21), kernel("gemm", 50, 50)]),
    ).details

    assert details["communication_fraction"] == 0.5
    assert details["communication_fraction_of_kernel_time"] == pytest.approx(2 / 3)


def test_a_job_without_collectives_spends_nothing_on_them() -> None:
    result = measure("communication_fraction", rank_trace(0, gpu=[kernel("gemm", 0, 5)]))

    assert (result.value, result.status) == (0.0, "ok")


def test_what_it_needs() -> None:
    assert measure("communication_fraction", cpu_only()).reason == "no_gpu_events"
    hosted = measure("communication_fraction", gloo())
    assert hosted.reason == "no_collectives"
    assert "on the host" in hosted.reasons[0].message


def test_communication_by_library_and_what_may_be_communication() -> None:
    peer = Event("Memcpy PtoP (Device -> Device)", 90, 4, 9, category="gpu_memcpy", bytes=64)
    details = measure(
        "communication_fraction",
        rank_trace(
            0,
            gpu=[
                allreduce(0, 50),
                kernel("void deep_ep::intranode::combine<8>(int*)", 50, 10),
                kernel("_fast_all_gather_kernel", 60, 5),
                kernel("void acme::ring_allreduce<float>(float*)", 70, 7),
                kernel("gemm", 80, 5),
                peer,
            ],
        ),
    ).details

    assert {name: row["time_ms"] for name, row in details["by_library"].items()} == {
        "nccl": 0.05,
        "deepep": 0.01,
        "triton": 0.005,
    }
    assert details["kernels_by_words"] == [
        {"name": "_fast_all_gather_kernel", "calls": 1, "time_ms": 0.005}
    ]
    assert details["kernels_like_communication"] == [
        {"name": "acme::ring_allreduce", "calls": 1, "time_ms": 0.007}
    ]
    assert [row["calls"] for row in details["copies_between_devices"]] == [1]
