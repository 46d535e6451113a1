"""kernels, operators and modules: tables of device work over all ranks, by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from factories import Event, allreduce, copy, kernel, launch, rank_trace, step
from msgspec.structs import replace
from worked import cpu_only, measure

from ccltui.commands.measure import choose_metrics
from ccltui.metrics.device import work_pivot
from ccltui.metrics.registry import metrics
from ccltui.parsers.columns import RankTrace
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
