"""dominant_kernel: the costliest kernels of all ranks."""

from __future__ import annotations

import itertools

import pytest
from factories import allreduce, copy, kernel, rank_trace
from worked import cpu_only, measure, two_steps

from ccltui.parsers.columns import RankTrace
from ccltui.parsers.window import Window


def example(rank: int = 0) -> RankTrace:
    """500 µs of kernels: 300 of two instances of one template, 150 of a collective, 50 of add."""
    return rank_trace(
        rank,
        gpu=[
            kernel("void gemm<float, 1>(int)", 0, 100),
            kernel("void gemm<float, 2>(int)", 100, 150),
            kernel("void gemm<float, 1>(int)", 300, 50),
            kernel("add", 400, 50),
            allreduce(400, 150),
            copy(600, 400),
        ],
    )


def test_instances_of_one_template_are_one_kernel() -> None:
    result = measure("dominant_kernel", example())

    assert result.value == 0.6
    details = result.details
    assert details["dominant_kernel"] == "gemm"
    first, second, third = details["kernels"]
    assert (first["calls"], first["total_ms"], first["mean_us"]) == (3, 0.3, 100.0)
    assert (first["num_names"], first["example"]) == (2, "void gemm<float, 1>(int)")
    assert (first["class"], first["category"]) == ("comp", "gemm")
    assert first["share_of_step"] == 0.3  # of the 1000 µs of the window
    assert (second["class"], second["category"], second["share"]) == ("comm", "comm", 0.3)
    assert third["name"] == "add"
    assert (details["num_kernels"], details["num_names"]) == (5, 3)
    assert sum(row["share"] for row in details["kernels"]) == pytest.approx(1.0)


def test_ranks_add_up_in_any_order() -> None:
    ranks = [example(0), example(1), two_steps(2)]
    found = [measure("dominant_kernel", *order).details for order in itertools.permutations(ranks)]

    assert all(one == found[0] for one in found)
    assert found[0]["kernels"][0]["calls"] == 6 + 2


def test_a_window_cuts_durations_and_counts_by_start() -> None:
    details = measure("dominant_kernel", example(), window=Window(50_000, 120_000)).details

    assert details["kernel_time_ms"] == 0.07
    assert details["num_kernels"] == 1  # the one that starts at 100


def test_what_it_needs() -> None:
    assert measure("dominant_kernel", cpu_only()).reason == "no_gpu_events"


def test_a_device_that_only_copied_is_not_a_trace_of_the_host_alone() -> None:
    (alone,) = measure("dominant_kernel", rank_trace(0, gpu=[copy(0, 5)])).reasons
    result = measure("dominant_kernel", example(), rank_trace(1, gpu=[copy(0, 5)]))

    assert alone.message == (
        "only copies and the like ran on the device: no kernel was recorded on any rank"
    )
    (beside,) = [reason for reason in result.reasons if reason.code == "no_gpu_events"]
    assert beside.message == "rank 1 has device work, but no kernel"
