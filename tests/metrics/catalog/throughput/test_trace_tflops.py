"""trace_tflops: what was computed by the shapes in the trace, and where nothing tells them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from factories import Event, card, kernel, launch, rank_trace, step
from worked import cpu_only, measure

from ccltui.metrics.registry import find
from ccltui.metrics.view.job_view import View
from ccltui.parsers.columns import Device, RankTrace
from ccltui.parsers.job import open_job
from ccltui.parsers.window import Window

MM = "[[1000, 100], [100, 500]]"  # 100 MFLOP
FLOPS = 100_000_000


def product(start: float, name: str = "aten::mm", shapes: str = MM) -> Event:
    return Event(name, start, 2, 1, shapes=shapes)


def two_marked(rank: int = 0) -> RankTrace:
    """Steps of 100 µs of device work; two products in the first, one in the second, one outside."""
    return rank_trace(
        rank,
        annotations=[step(1, 0, 100), step(2, 100, 100)],
        cpu_ops=[product(5), product(10), product(110), product(300), Event("aten::relu", 7, 1, 1)],
        runtime=[launch(1, 5), launch(2, 105)],
        gpu=[kernel("gemm", 10, 100, correlation=1), kernel("gemm", 110, 100, correlation=2)],
        devices=[Device(0, "NVIDIA A100-SXM4-80GB")],
    )


def test_flops_over_the_measured_time() -> None:
    result = measure("trace_tflops", two_marked())

    assert result.status == "ok"
    assert result.details["total_flops"] == 3 * FLOPS
    assert result.value == pytest.approx(3 * FLOPS / 200e-6 / 1e12)
    assert result.details["num_products"] == 3
    assert result.details["by_operator"] == [
        {"name": "aten::mm", "calls": 3, "flops": 3 * FLOPS, "share": 1.0}
    ]


def test_steps_and_the_whole_trace() -> None:
    second = measure("trace_tflops", two_marked(), steps=(2, 2))
    whole = measure("trace_tflops", two_marked(), span="trace")

    assert second.details["total_flops"] == FLOPS
    assert second.value == pytest.approx(FLOPS / 100e-6 / 1e12)
    assert whole.details["total_flops"] == 4 * FLOPS


@pytest.mark.parametrize("cut", [12_000, 50_000, 107_000])
def test_a_window_may_begin_in_the_middle_of_a_step(cut: int) -> None:
    parts = [
        measure("trace_tflops", two_marked(), window=window)
        for window in (Window(None, cut), Window(cut, None))
    ]

    assert sum(part.details["total_flops"] for part in parts) == 3 * FLOPS
    assert all(part.details["total_flops"] for part in parts)


def test_a_peak_that_is_none_is_refused() -> None:
    result = measure("trace_tflops", two_marked(), overrides={"peak_tflops": "-1"})

    assert (result.status, result.reason) == ("unavailable", "card_invalid")


def test_ranks_are_summed_and_told_apart() -> None:
    result = measure("trace_tflops", two_marked(0), two_marked(1))

    assert result.details["total_flops"] == 6 * FLOPS
    assert result.details["per_rank"] == {"0": 1.5, "1": 1.5}
    assert result.value == 1.5


def test_a_share_of_the_peak_where_the_precision_is_known() -> None:
    stated = measure("trace_tflops", two_marked(), card=card(precision="bf16"))

    assert stated.details["peak_tflops_per_gpu"] == 312.0
    assert stated.details["of_peak_pct"] == pytest.approx(100 * 1.5 / 312)
    assert measure("trace_tflops", two_marked()).details["of_peak_pct"] is None
    given = measure("trace_tflops", two_marked(), overrides={"peak_tflops": "3"})
    assert given.details["of_peak_pct"] == 50.0


def test_shapes_that_tell_nothing_are_numbered() -> None:
    odd = [
        product(5),
        product(10, shapes="[[1]]"),
        product(12, shapes="x"),
        product(13, "aten::bmm"),  # one product of a batch
    ]
    trace = rank_trace(0, cpu_ops=odd, gpu=[kernel("gemm", 0, 100)])

    details = measure("trace_tflops", trace).details

    assert (details["num_products"], details["num_without_flops"]) == (2, 2)


def test_a_rank_without_shapes_makes_it_partial() -> None:
    bare = rank_trace(1, cpu_ops=[Event("aten::mm", 5, 1, 1)], gpu=[kernel("gemm", 0, 100)])

    result = measure("trace_tflops", two_marked(), bare)

    assert (result.status, result.value) == ("partial", 1.5)
    assert [reason.rank for reason in result.reasons] == ["1"]


def test_operators_that_a_graph_captures_compute_nothing() -> None:
    """Twelve products in 3 µs of one kernel would be 400 TFLOPS."""
    captured = rank_trace(
        0,
        cpu_ops=[product(0.1 * i) for i in range(12)],
        gpu=[kernel("void replayed()", 0, 3)],
    )

    alone = measure("trace_tflops", captured)
    beside = measure("trace_tflops", captured, two_marked(1))

    assert (alone.status, alone.reason, alone.value) == ("unavailable", "not_applicable", None)
    assert "12 products were issued, and computing kernels ran 1 times" in alone.reasons[0].message
    assert (beside.status, beside.value) == ("partial", 1.5)
    assert [reason.rank for reason in beside.reasons] == ["0"]


def test_what_no_device_can_do_is_said_to_be_so() -> None:
    result = measure("trace_tflops", two_marked(), overrides={"peak_tflops": "1"})

    assert (result.status, result.value) == ("partial", 1.5)
    assert "more than the peak of 1" in result.reasons[0].message


def test_convolutions_make_it_a_lower_bound() -> None:
    ops = [
        *(Event(name, 5 + i, 1, 1) for i, name in enumerate(("aten::conv2d", "aten::convolution"))),
        Event("aten::convolution_backward", 20, 1, 1),
        Event("aten::convolution", 150, 1, 1),  # outside of the marked step
        product(30),
    ]
    gpu = [kernel("gemm", 10, 50, correlation=1), kernel("conv", 60, 40, correlation=1)]
    trace = rank_trace(
        0, cpu_ops=ops, gpu=gpu, runtime=[launch(1, 5)], annotations=[step(1, 0, 100)]
    )

    result = measure("trace_tflops", trace)

    assert (result.status, result.details["num_convolutions"]) == ("partial", 2)
    assert result.reasons[0].message == ("2 convolutions are not counted: this is a lower bound")


def test_what_it_needs() -> None:
    refused = measure("trace_tflops", cpu_only())

    assert (refused.status, refused.reason) == ("unavailable", "not_applicable")
    assert "record_shapes=True" in refused.reasons[0].message


NODES = [
    {"name": "ProfilerStep#1", "id": 3, "rf_id": 1, "parent": 2},
    {"name": "aten::mm", "id": 4, "rf_id": 2, "parent": 3, "input_shapes": [[8, 4], [4, 2]]},
    {"name": "ProfilerStep#2", "id": 5, "rf_id": 3, "parent": 2},
    {"name": "aten::mm", "id": 6, "rf_id": 4, "parent": 5, "input_shapes": [[8, 4], [4, 4]]},
    {"name": "aten::mm", "id": 7, "rf_id": 5, "parent": 5, "input_shapes": [[8, 4], [4, 4]]},
]


def without_shapes(folder: Path, *, steps: bool = True, nodes: str | None = None) -> View:
    """A Kineto trace that records no shapes, and the execution trace of the same rank."""
    marks = [(1, 0, 100), (2, 100, 100)] if steps else []
    events: list[dict[str, Any]] = [
        {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{n}", "ts": ts, "dur": dur}
        for n, ts, dur in marks
    ]
    work = {"ph": "X", "cat": "kernel", "name": "gemm", "dur": 100}
    events += [{**work, "ts": ts} for ts in (0, 100)]
    document = {"distributedInfo": {"rank": 0}, "traceEvents": events}
    (folder / "kineto_trace_0.json").write_text(json.dumps(document))
    text = json.dumps({"schema": "1.0.1", "nodes": NODES}) if nodes is None else nodes
    (folder / "torch_et_0.json").write_text(text)
    return View(open_job(folder, cache_dir=folder / "cache", jobs=1))


def test_execution_traces_tell_shapes_step_by_step(tmp_path: Path) -> None:
    view = without_shapes(tmp_path)
    metric = find("trace_tflops")

    whole = metric.run(view).details
    assert (whole["total_flops"], whole["num_products"]) == (128 + 2 * 256, 3)
    assert metric.run(view).value == pytest.approx(640 / 200e-6 / 1e12)
    # of a part of the job an execution trace, which has no times, tells nothing
    assert metric.run(view.with_options(steps=(2, 2))).reason == "not_applicable"


def test_an_execution_trace_of_steps_says_nothing_of_a_trace_without(tmp_path: Path) -> None:
    view = without_shapes(tmp_path, steps=False)

    assert find("trace_tflops").run(view).reason == "not_applicable"


def test_a_broken_execution_trace_says_nothing(tmp_path: Path) -> None:
    view = without_shapes(tmp_path, nodes='{"schema":"1.0.1","nodes":[7]}')

    assert find("trace_tflops").run(view).reason == "not_applicable"
