"""Reports of several captures together, with distinct processes and threads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from nsys_exports import Export

from ccltui.metrics.nsys_reports import Chosen, Filter, Report, make_pooled_report, make_report
from ccltui.parsers.nsys.report_reader import read_report_tables
from ccltui.parsers.nsys.report_tables import ReportTables


def capture(path: Path, durations: list[int], *, gemm: str = "gemm") -> ReportTables:
    """One process of the same number on every node: a range "step" that launched its kernels."""
    export = Export()
    rank = export.process(100)
    rank.domain(2, "train")
    rank.range("step", 0, 1000, domain=2)
    for index, dur in enumerate(durations):
        start = 100 * index
        rank.kernel(gemm, start + 10, start + 10 + dur, launched=start)
    return read_report_tables(export.write(path))


def cells(report: Report, *names: str) -> list[tuple[object, ...]]:
    columns = [report.column(name).values for name in names]
    lists = [list(c.tolist() if isinstance(c, np.ndarray) else c) for c in columns]
    return list(zip(*lists, strict=True))


@pytest.fixture
def nodes(tmp_path: Path) -> list[Chosen]:
    first = capture(tmp_path / "a.sqlite", [10, 30], gemm="gemm")
    second = capture(tmp_path / "b.sqlite", [50, 70, 20], gemm="other")
    third = capture(tmp_path / "c.sqlite", [90], gemm="gemm")
    return [Chosen(first), Chosen(second), Chosen(third)]


def test_medians_are_those_of_all_rows(nodes: list[Chosen]) -> None:
    report = make_pooled_report("cuda_gpu_kern_sum", nodes)

    assert cells(report, "Name", "Instances", "Total Time", "Med", "Max") == [
        ("other", 3, 140, 50.0, 70),
        ("gemm", 3, 130, 30.0, 90),
    ]


def test_launches_of_one_capture_are_not_found_in_another(nodes: list[Chosen]) -> None:
    """Processes, threads, correlations and times are the same on all nodes."""
    report = make_pooled_report("nvtx_gpu_proj_sum", nodes)

    names = ("Range", "Range Instances", "Total GPU Ops", "Total Proj Time")
    assert cells(report, *names) == [("train:step", 3, 6, (140 - 10) + (230 - 10) + 90)]


def test_a_filter_is_of_each_captures_own_time(nodes: list[Chosen]) -> None:
    late = [Chosen(one.tables, Filter(100, 1 << 62)) for one in nodes[:2]]

    kernels = make_pooled_report("cuda_gpu_kern_sum", late)
    projected = make_pooled_report("nvtx_gpu_proj_sum", late)

    assert cells(kernels, "Name", "Instances") == [("other", 2), ("gemm", 1)]
    assert cells(projected, "Total GPU Ops") == [(3,)]  # calls before are still looked up
    nothing = make_pooled_report("cuda_api_sum", [Chosen(nodes[0].tables, Filter(5000, 6000))])
    assert nothing.absent == "the capture does not contain CUDA trace data in the chosen time."


def test_a_trace_is_of_one_capture(nodes: list[Chosen]) -> None:
    report = make_pooled_report("cuda_gpu_trace", nodes)

    assert (report.columns, report.absent) == (
        (),
        "its times are those of one capture: --each prints one a capture.",
    )


@pytest.mark.parametrize(
    "name", ["cuda_gpu_sum", "cuda_gpu_kern_sum", "cuda_api_sum", "nvtx_sum", "nvtx_gpu_proj_sum"]
)
def test_a_pool_of_one_capture_equals_it(nodes: list[Chosen], name: str) -> None:
    pooled, alone = make_pooled_report(name, nodes[1:2]), make_report(name, nodes[1].tables)

    columns = [column.name for column in alone.columns]
    assert columns
    assert cells(pooled, *columns) == cells(alone, *columns)


def test_real_captures_pool_to_their_sums(shared: Path) -> None:
    paths = [
        shared / "nsys" / "nsys-ai" / "mfu_2gpu_before.sqlite",
        shared / "nsys" / "ddp53" / "profiles" / "ddp53_profile.sqlite",
    ]
    captures = [read_report_tables(path) for path in paths]
    for name, counted in (("cuda_gpu_kern_sum", "Instances"), ("cuda_api_sum", "Num Calls")):
        pooled = make_pooled_report(name, [Chosen(one) for one in captures])
        each = [make_report(name, one) for one in captures]
        for column in (counted, "Total Time"):
            total = sum(int(np.sum(one.column(column).values)) for one in each if one.columns)
            assert int(np.sum(pooled.column(column).values)) == total > 0
