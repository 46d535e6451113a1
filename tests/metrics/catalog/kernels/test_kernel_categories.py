"""kernel_categories: device time by the kind of work."""

from __future__ import annotations

import pytest
from factories import allreduce, copy, kernel, rank_trace
from worked import cpu_only, measure

from ccltui.parsers.columns import RankTrace


def example(rank: int = 0, scale: int = 1) -> RankTrace:
    return rank_trace(
        rank,
        gpu=[
            kernel("ampere_sgemm_128x64_tn", 0, 40 * scale),
            kernel("flash_fwd_kernel", 50 * scale, 20 * scale),
            kernel("my_kernel", 80 * scale, 5 * scale),
            allreduce(90 * scale, 30 * scale),
            copy(130 * scale, 5 * scale),
        ],
    )


def test_every_kind_of_work_and_the_rest() -> None:
    result = measure("kernel_categories", example())

    details = result.details
    assert result.value == details["gemm_share"] == 0.4
    assert (details["attention_share"], details["other_share"]) == (0.2, 0.05)
    assert details["by_category"]["comm"] == {
        "ms": 0.03,
        "share": 0.3,
        "calls": 1,
        "top": "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
    }
    assert list(details["by_category"]) == ["attention", "gemm", "comm", "mem", "other"]
    assert sum(row["share"] for row in details["by_category"].values()) == pytest.approx(1.0)
    assert details["per_rank"]["0"]["gemm_ms"] == 0.04


def test_a_kernel_of_no_product_is_a_real_zero() -> None:
    assert measure("kernel_categories", rank_trace(0, gpu=[kernel("add", 0, 1)])).value == 0.0


def test_shares_do_not_depend_on_speed_or_on_the_number_of_like_ranks() -> None:
    one = measure("kernel_categories", example()).details
    slow = measure("kernel_categories", example(scale=7)).details
    two = measure("kernel_categories", example(0), example(1)).details

    for name, row in one["by_category"].items():
        assert slow["by_category"][name]["share"] == row["share"]
        assert two["by_category"][name]["share"] == row["share"]
        assert two["by_category"][name]["ms"] == row["ms"]


def test_what_it_needs() -> None:
    assert measure("kernel_categories", cpu_only()).reason == "no_gpu_events"
