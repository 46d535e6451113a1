"""Tables of kernels: by name, by category, the one that takes most time."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from factories import Coll, Event, allreduce, card, copy, kernel, launch, rank_trace, step, world
from msgspec.structs import replace
from worked import cpu_only, measure, two_steps

from ccltui.commands.measure import choose_metrics
from ccltui.metrics.catalog.kernels.moe_fraction import PATTERN
from ccltui.metrics.device import work_pivot
from ccltui.metrics.registry import metrics
from ccltui.parsers.columns import ProcessGroup, RankTrace
from ccltui.parsers.window import Window

SHAPES = "[[100, 200], [200, 50]]"
FLOPS = 2 * 100 * 200 * 50
TABLES = ("kernels", "operators", "modules")


def lengths(rank: int) -> RankTrace:
    """Twenty products of 1 to 20 µs, ten times as long on rank 1, and a reduction beside one."""
    times = [10 ** min(rank, 1) * (i + 1) for i in range(20)]
    products = [kernel("void gemm<1>(int)", 1000 * i, t) for i, t in enumerate(times)]
    return rank_trace(rank, gpu=[*products, allreduce(10_000, 8, stream=20), copy(30_000, 4)])


def row_of(table: list[dict[str, Any]], **cells: object) -> dict[str, Any]:
    (row,) = [row for row in table if all(row[key] == value for key, value in cells.items())]
    return row


def test_times_of_a_kernel_over_all_ranks() -> None:
    details = measure("kernels", lengths(0), lengths(1)).details
    gemm = row_of(details["kernels"], name="gemm")

    assert (gemm["class"], gemm["category"], gemm["calls"]) == ("comp", "gemm", 40)
    assert gemm["total_ms"] == (210 + 2100) / 1000
    assert gemm["mean_us"] == 2310 / 40
    # 1 to 9, then 10 twice: the twentieth and the twenty-first of all are 15 and 16
    both = sorted([*range(1, 21), *range(10, 201, 10)])
    assert gemm["median_us"] == (both[19] + both[20]) / 2
    assert (gemm["p95_us"], gemm["max_us"]) == (both[37], 200)
    assert gemm["imbalance_ratio"] == 2100 / (2310 / 2)
    assert gemm["num_ranks"] == 2
    assert details["num_events"] == 44
    assert sum(row["share"] for row in details["kernels"]) == pytest.approx(1)
    assert details["other"]["num_rows"] == details["other"]["calls"] == 0


def test_exposed_is_what_other_kinds_of_work_do_not_hide() -> None:
    trace = rank_trace(
        gpu=[
            kernel("gemm", 0, 10),
            kernel("add", 5, 10, stream=8),  # beside gemm: computation does not hide computation
            allreduce(12, 8),  # 3 hidden by add
            replace(copy(16, 10), track=9),  # 4 hidden by the reduction
        ]
    )
    table = measure("kernels", trace).details["kernels"]

    assert {row["name"]: row["exposed_ms"] for row in table} == {
        "gemm": 0.010,
        "add": 0.007,
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL": 0.005,
        "Memcpy HtoD": 0.006,
    }


def test_the_table_agrees_with_the_top_kernel() -> None:
    ranks = [lengths(0), lengths(1)]
    table = measure("kernels", *ranks).details["kernels"]
    top = measure("dominant_kernel", *ranks).details["kernels"]

    for row in top:
        same = ("class", "category", "calls", "total_ms", "mean_us", "example")
        mine = row_of(table, name=row["name"])
        assert [mine[key] for key in same] == [row[key] for key in same]


def test_a_window_cuts_totals_and_counts_by_start() -> None:
    details = measure("kernels", lengths(1), window=Window(19_000_100, 21_000_000)).details

    (gemm,) = details["kernels"]  # the last product begins before the window, 200 µs long
    assert (gemm["calls"], gemm["total_ms"]) == (0, 0.1999)
    assert gemm["mean_us"] is gemm["median_us"] is gemm["max_us"] is None


def test_rows_beyond_the_most_are_summed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work_pivot, "MOST_SHOWN", 1)
    details = measure("kernels", lengths(0)).details

    assert [row["name"] for row in details["kernels"]] == ["gemm"]
    assert details["other"]["num_rows"] == 2
    assert details["other"]["calls"] == 2
    assert details["other"]["total_ms"] == 0.012
    assert details["other"]["share"] == pytest.approx(12 / 222)


def launched(rank: int = 0) -> RankTrace:
    """A product by an operator that calls another, an addition, and work of unknown origin."""
    return rank_trace(
        rank,
        gpu=[
            kernel("gemm", 100, 10, correlation=1),
            kernel("splitKreduce", 110, 2, correlation=2),
            kernel("add", 120, 4, correlation=3, external_id=77),
            kernel("orphan", 130, 4),
        ],
        runtime=[launch(1, 12), launch(2, 14), launch(3, 31), launch(3, 50, thread=2)],
        cpu_ops=[
            Event("aten::linear", 10, 10, 1),
            Event("aten::mm", 11, 8, 1, shapes=SHAPES),
            Event("aten::empty", 13, 3, 1),
            Event("aten::add", 30, 5, 1, external_id=77),
            Event("aten::inner", 31, 3, 1),
        ],
        annotations=[
            step(1, 0, 200),
            Event("forward", 5, 20, 1),
            Event("other thread", 0, 300, 2),
        ],
        python=[
            Event("nn.Module: Net_0", 6, 16, 1),
            Event("model.py(3): forward", 7, 14, 1),
            Event("nn.Module: Linear_1", 9, 12, 1),
        ],
    )


def test_the_operator_that_launched_with_its_rate() -> None:
    table = measure("operators", launched(0), launched(1)).details["operators"]
    product = row_of(table, name="aten::mm")

    assert (product["shapes"], product["operator_calls"]) == (SHAPES, 2)
    # the second kernel is launched in an operator that the product calls
    assert (product["calls"], product["total_ms"]) == (4, 0.024)
    assert product["tflops"] == pytest.approx(FLOPS / 12e-6 / 1e12)
    # the External id names it, though another operator runs inside of it
    assert row_of(table, name="aten::add")["tflops"] is None
    assert row_of(table, name=None)["calls"] == 2
    assert measure("operators", launched()).value == 16 / 20


def test_an_external_id_of_an_operator_that_does_not_run_is_not_believed() -> None:
    trace = launched()
    gpu = trace.group("gpu").with_columns(external_id=np.full(4, 77, np.int64))
    late = replace(trace, events={**trace.events, "gpu": gpu})
    table = measure("operators", late).details["operators"]

    assert row_of(table, name="aten::mm")["calls"] == 2
    assert row_of(table, name="aten::add")["calls"] == 2  # the orphan has nothing else


def test_paths_of_modules_and_ranges() -> None:
    result = measure("modules", launched())
    table = result.details["modules"]

    inside = row_of(table, path="forward / Net_0 / Linear_1")
    assert (inside["calls"], inside["total_ms"]) == (2, 0.012)
    assert row_of(table, path=None)["calls"] == 2
    assert result.details["num_paths"] == 1
    assert result.value == 12 / 20


def test_deep_recursion_is_one_path() -> None:
    ranges = [Event(f"r{i}", i, 400 - 2 * i, 1) for i in range(100)]
    trace = rank_trace(
        gpu=[kernel("k", 500, 1, correlation=1)], runtime=[launch(1, 150)], annotations=ranges
    )
    (row,) = measure("modules", trace).details["modules"]

    assert row["path"] == " / ".join(f"r{i}" for i in range(32))


def test_ranks_without_operators_are_named() -> None:
    bare = rank_trace(1, gpu=[kernel("gemm", 100, 10)])
    result = measure("operators", launched(0), bare)

    assert result.status == "partial"
    assert [reason.rank for reason in result.reasons] == ["1"]
    assert row_of(result.details["operators"], name="aten::mm")["num_ranks"] == 1


@pytest.mark.parametrize("name", TABLES)
def test_tables_are_computed_by_name_only(name: str) -> None:
    assert not metrics()[name].in_all
    assert name not in {metric.name for metric in choose_metrics(["all"])}
    assert name in {metric.name for metric in choose_metrics(["all", name])}


@pytest.mark.parametrize("name", TABLES)
def test_what_they_need(name: str) -> None:
    assert measure(name, cpu_only()).reason == "no_gpu_events"


def categories_example(rank: int = 0, scale: int = 1) -> RankTrace:
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
    result = measure("kernel_categories", categories_example())

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
    one = measure("kernel_categories", categories_example()).details
    slow = measure("kernel_categories", categories_example(scale=7)).details
    two = measure("kernel_categories", categories_example(0), categories_example(1)).details

    for name, row in one["by_category"].items():
        assert slow["by_category"][name]["share"] == row["share"]
        assert two["by_category"][name]["share"] == row["share"]
        assert two["by_category"][name]["ms"] == row["ms"]


def test_what_kernel_categories_needs() -> None:
    assert measure("kernel_categories", cpu_only()).reason == "no_gpu_events"


def dominant_example(rank: int = 0) -> RankTrace:
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
    result = measure("dominant_kernel", dominant_example())

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
    ranks = [dominant_example(0), dominant_example(1), two_steps(2)]
    found = [measure("dominant_kernel", *order).details for order in itertools.permutations(ranks)]

    assert all(one == found[0] for one in found)
    assert found[0]["kernels"][0]["calls"] == 6 + 2


def test_a_window_cuts_durations_and_counts_by_start() -> None:
    details = measure("dominant_kernel", dominant_example(), window=Window(50_000, 120_000)).details

    assert details["kernel_time_ms"] == 0.07
    assert details["num_kernels"] == 1  # the one that starts at 100


def test_what_dominant_kernel_needs() -> None:
    assert measure("dominant_kernel", cpu_only()).reason == "no_gpu_events"


def test_a_device_that_only_copied_is_not_a_trace_of_the_host_alone() -> None:
    (alone,) = measure("dominant_kernel", rank_trace(0, gpu=[copy(0, 5)])).reasons
    result = measure("dominant_kernel", dominant_example(), rank_trace(1, gpu=[copy(0, 5)]))

    assert alone.message == (
        "only copies and the like ran on the device: no kernel was recorded on any rank"
    )
    (beside,) = [reason for reason in result.reasons if reason.code == "no_gpu_events"]
    assert beside.message == "rank 1 has device work, but no kernel"


SENDRECV = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"


def moe_example(rank: int = 0) -> RankTrace:
    """1000 µs of kernels: 200 by name, 100 inside an operator, 300 between experts."""
    return rank_trace(
        rank,
        gpu=[
            kernel("moe::dev::routing::histogram", 0, 200),
            Event("sgemm", 200, 100, correlation=1),
            Event("sgemm", 300, 400, correlation=2),
            kernel(SENDRECV, 700, 300, 20, Coll("all_to_allv", 8, 8, "Float", group=1)),
        ],
        runtime=[launch(1, 50), launch(2, 120)],
        cpu_ops=[Event("GroupedExperts.forward", 40, 30, 1), Event("aten::mm", 110, 30, 1)],
        groups=[world(2), ProcessGroup("1", "mesh_ep", (0, 1), 2)],
        world_size=2,
    )


def test_names_operators_and_groups() -> None:
    result = measure("moe_fraction", moe_example(0), moe_example(1))

    details = result.details
    assert result.value == 0.6
    assert (details["moe_ms"], details["expert_comm_ms"]) == (0.6, 0.3)
    assert details["matched_names"] == [
        {"name": "all-to-all of experts", "ms": 0.6},
        {"name": "moe::dev::routing::histogram", "ms": 0.4},
        {"name": "GroupedExperts.forward", "ms": 0.2},
    ]
    assert details["per_rank"]["1"] == {"moe_fraction": 0.6}


def test_an_operator_counts_on_its_own_thread_alone() -> None:
    trace = rank_trace(
        0,
        gpu=[Event("sgemm", 200, 100, correlation=1), kernel("moe_align", 400, 100)],
        runtime=[launch(1, 50, thread=2)],
        cpu_ops=[Event("GroupedExperts.forward", 40, 30, 1)],
    )

    assert measure("moe_fraction", trace).value == 0.5


def test_an_exchange_of_embeddings_is_no_expert() -> None:
    trace = rank_trace(
        0,
        gpu=[kernel("sgemm", 0, 5), kernel(SENDRECV, 9, 9, 20, Coll("all_to_all", 8, 8, "Float"))],
        groups=[world(2)],
    )

    assert measure("moe_fraction", trace).reason == "not_applicable"


@pytest.mark.parametrize(
    ("name", "is_part"),
    [
        ("void moe_align_block_size_kernel<int>(int*)", True),
        ("deep_ep::internode::dispatch<8>(int)", True),
        ("TokenDispatcher.forward", True),
        ("FusedMoE", True),
        ("aten::topk", True),
        ("aten::_grouped_mm", True),
        ("groupnorm_kernel_dispatch_down", False),
        ("combine_kernel", False),
        ("aten::stop_kernel", False),
        ("Momentum", False),
        ("enumerate(DataLoader)", False),
    ],
)
def test_the_pattern(name: str, is_part: bool) -> None:
    assert bool(PATTERN.search(name)) is is_part


def test_what_moe_fraction_needs() -> None:
    assert measure("moe_fraction", cpu_only()).reason == "no_gpu_events"
    dense = measure("moe_fraction", moe_example(), card=card(moe=False))
    assert (dense.reason, dense.value) == ("not_applicable", None)
    named = rank_trace(0, gpu=[kernel("sgemm", 0, 5)])
    assert measure("moe_fraction", named).reason == "not_applicable"
