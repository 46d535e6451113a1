"""Rates of operators against the roofline, on a trace with planted times."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ccltui.metrics.device.work_pivot import pivot_columns
from ccltui.metrics.registry import find
from ccltui.metrics.view.job_view import View
from ccltui.parsers.job import open_job

BF16 = "c10::BFloat16"


def job(
    directory: Path,
    operators: list[tuple[str, list[Any], list[str] | None, float, str]],
    device: str = "NVIDIA H100 80GB HBM3",
) -> View:
    """One rank; each operator (name, shapes, types, us, kernel) launches one kernel."""
    events: list[dict[str, Any]] = []
    for number, (name, shapes, types, dur_us, kernel) in enumerate(operators):
        at = 1000 * number
        stated: dict[str, Any] = {"Input Dims": shapes}
        if types is not None:
            stated["Input type"] = types
        events += [
            {"cat": "cpu_op", "name": name, "tid": 1, "ts": at, "dur": 20, "args": stated},
            {
                "cat": "cuda_runtime",
                "name": "cudaLaunchKernel",
                "tid": 1,
                "ts": at + 5,
                "dur": 2,
                "args": {"correlation": number + 1},
            },
            {
                "cat": "kernel",
                "name": kernel,
                "tid": 7,
                "ts": at + 30,
                "dur": dur_us,
                "args": {"device": 0, "stream": 7, "correlation": number + 1},
            },
        ]
    data = {
        "deviceProperties": [{"id": 0, "name": device}],
        "distributedInfo": {"rank": 0, "world_size": 1},
        "traceEvents": [{"ph": "X", "pid": 0, **event} for event in events],
    }
    (directory / "rank0.json").write_text(json.dumps(data))
    return View(open_job(directory))


def products(view: View) -> dict[str, dict[str, Any]]:
    """Rows of the table of products by shapes."""
    rows = find("kernels").run(view).details["products"]
    return {row["shapes"]: row for row in rows}


def test_rates_are_those_that_were_planted(tmp_path: Path) -> None:
    # 2 * 4096^3 FLOPs take 138.97 us at 989 TFLOPS; 3 * 32 MiB take 30.05 us at 3.35 TB/s.
    large, thin = [[4096, 4096], [4096, 4096]], [[8, 4096], [4096, 4096]]
    view = job(
        tmp_path,
        [
            ("aten::mm", large, [BF16, BF16], 200.0, "gemm_bf16"),
            ("aten::mm", large, [BF16, BF16], 300.0, "gemm_bf16"),
            ("aten::mm", thin, [BF16, BF16], 20.0, "gemv"),
        ],
    )
    rows = products(view)

    one = rows[json.dumps(large)]
    flops, moved = 2 * 2 * 4096**3, 2 * 3 * 2 * 4096**2
    assert (one["operator_calls"], one["flops"], one["bytes"]) == (2, flops, moved)
    assert one["device_ms"] == pytest.approx(0.5)
    assert one["tflops"] == pytest.approx(flops / 500e-6 / 1e12)
    assert one["tbps"] == pytest.approx(moved / 500e-6 / 1e12)
    assert one["roofline_share"] == pytest.approx(flops / 989e12 / 500e-6)
    assert (one["roofline_limit"], one["precision"], one["roofline_reason"]) == (
        "compute",
        "bf16",
        None,
    )
    two = rows[json.dumps(thin)]
    moved = 2 * (8 * 4096 + 4096**2 + 8 * 4096)
    assert two["roofline_limit"] == "memory"
    assert two["roofline_share"] == pytest.approx(moved / 3350e9 / 20e-6)
    assert find("kernels").run(view).details["roofline_of"]["device"] == "H100 SXM"


def test_calls_of_two_types_are_measured_each_against_its_own_peak(tmp_path: Path) -> None:
    shapes = [[4096, 4096], [4096, 4096]]
    view = job(
        tmp_path,
        [
            ("aten::mm", shapes, [BF16, BF16], 200.0, "gemm_bf16"),
            ("aten::mm", shapes, ["float", "float"], 4000.0, "ampere_sgemm_128x64_nn"),
        ],
    )
    row = products(view)[json.dumps(shapes)]

    flops = 2 * 4096**3
    assert row["precision"] == "bf16, fp32"
    attainable = flops / 989e12 + flops / 67e12
    assert row["roofline_share"] == pytest.approx(attainable / 4200e-6)
    assert row["bytes"] == 3 * 4096**2 * (2 + 4)


@pytest.mark.parametrize(
    ("types", "kernel", "device", "why"),
    [
        (None, "gemm", "NVIDIA H100 80GB HBM3", "types of the inputs"),
        (["float", "float"], "gemm", "NVIDIA H100 80GB HBM3", "precision is not known"),
        ([BF16, BF16], "gemm", "some device", "device"),
        ([BF16, BF16], "gemm", "Tesla V100-SXM2-16GB", "no known peak of V100 SXM in bf16"),
    ],
)
def test_an_unknown_roofline_is_absent_with_its_reason(
    tmp_path: Path, types: list[str] | None, kernel: str, device: str, why: str
) -> None:
    shapes = [[64, 64], [64, 64]]
    view = job(tmp_path, [("aten::mm", shapes, types, 10.0, kernel)], device)
    row = products(view)[json.dumps(shapes)]

    assert row["roofline_share"] is None
    assert row["roofline_limit"] is None
    assert why in row["roofline_reason"]
    assert row["tflops"] == pytest.approx(2 * 64**3 / 10e-6 / 1e12)


def test_the_explorer_has_the_same_numbers(tmp_path: Path) -> None:
    shapes = [[4096, 4096], [4096, 4096]]
    view = job(
        tmp_path,
        [
            ("aten::mm", shapes, [BF16, BF16], 200.0, "gemm_bf16"),
            ("aten::add", [[4, 4]], ["float"], 5.0, "add"),
        ],
    )
    columns = pivot_columns(view, "operator")
    table = {row["name"]: row for row in find("operators").run(view).details["operators"]}

    at = columns.name.index("aten::mm")
    assert columns.roofline[at] == table["aten::mm"]["roofline_share"]
    assert columns.tbps[at] == table["aten::mm"]["tbps"]
    assert columns.roofline_text[at] == "compute limits"
    other = columns.name.index("aten::add")
    assert columns.roofline[other] != columns.roofline[other]  # NaN
    assert columns.roofline_text[other] == table["aten::add"]["roofline_reason"]


def test_without_shapes_the_reason_is_stated(tmp_path: Path) -> None:
    view = job(tmp_path, [("aten::add", [[4]], ["float"], 5.0, "add")])
    details = find("kernels").run(view).details

    assert details["products"] == []
    assert "record_shapes" in details["products_reason"]


def test_damaged_shapes_have_no_rate(tmp_path: Path) -> None:
    huge = 10**100
    view = job(tmp_path, [("aten::mm", [[huge, 2], [2, huge]], [BF16, BF16], 5.0, "gemm")])

    assert products(view) == {}
