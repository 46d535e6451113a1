"""Reports over several files, from traces, and with a filter."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from nsys_exports import Export

from ccltui.demo import Spec, write_job
from ccltui.metrics.nsys_reports.make_report import make_pooled_report, make_report
from ccltui.metrics.nsys_reports.pooled import Chosen, tables_of_traces
from ccltui.metrics.nsys_reports.report import Report, filtered_report, report_of_section
from ccltui.metrics.nsys_reports.row_filter import Filter
from ccltui.parsers.job import open_job
from ccltui.parsers.nsys.report_tables import ReportTables, read_report_tables
from ccltui.parsers.nsys.stats_text import parse_stats_text, read_stats_text
from ccltui.parsers.nsys.typed_table import Section
from ccltui.parsers.window import parse_window


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


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> ReportTables:
    directory = tmp_path_factory.mktemp("job")
    write_job(directory, Spec(tp=1, steps=3, layers=2, gpus_per_node=2, stragglers=()))
    job = open_job(directory, cache_dir=directory / "cache", jobs=1)
    return tables_of_traces(job.ranks, job.origin_ns)


def texts(report: Report, name: str) -> list[str]:
    return list(report.column(name).values)


def test_work_of_all_ranks_is_pooled(tables: ReportTables) -> None:
    trace = make_report("cuda_gpu_trace", tables)
    kernels = make_report("cuda_gpu_kern_sum", tables)
    copies = make_report("cuda_gpu_mem_time_sum", tables)

    counts = np.asarray(kernels.column("Instances").values).sum()
    counts += np.asarray(copies.column("Count").values).sum()
    assert counts == len(trace)
    assert any(name.startswith("ncclDevKernel_") for name in texts(kernels, "Name"))
    assert "[CUDA memcpy Host-to-Device]" in texts(copies, "Operation")
    assert np.asarray(trace.column("Start").values).min() >= 0


def test_calls_and_annotations(tables: ReportTables) -> None:
    calls = make_report("cuda_api_sum", tables)
    steps = make_report("nvtx_sum", tables)
    projected = make_report("nvtx_gpu_proj_sum", tables)

    assert "cudaLaunchKernel" in texts(calls, "Name")
    assert any(name.startswith("ProfilerStep#") for name in texts(steps, "Range"))
    assert set(texts(projected, "Range")) <= set(texts(steps, "Range"))
    assert projected.columns


def test_unrecorded_columns_are_absent_or_blank(tables: ReportTables) -> None:
    registers = make_report("cuda_gpu_trace", tables).column("Reg/Trd").known

    assert registers is not None
    assert not registers.any()
    assert make_report("osrt_sum", tables).absent


def test_no_rank_gives_no_report() -> None:
    assert make_report("cuda_gpu_sum", tables_of_traces([], 0)).absent


def test_a_text_becomes_the_same_columns() -> None:
    text = "Time (%),Total Time (us),Instances,Avg (us),Name\n99.5,1.234,2,0.617,k…\n,,,,\n"

    report = report_of_section(parse_stats_text(text).sections[0])

    total, average = report.column("Total Time"), report.column("Avg")
    assert (total.kind, np.asarray(total.values).tolist()) == ("time", [1234, -1])
    assert (average.kind, np.asarray(average.values).tolist()) == ("mean_time", [617.0, 0.0])
    assert average.known is not None
    assert average.known.tolist() == [True, False]
    assert texts(report, "Name") == ["k…", ""]
    assert report.notes == ("Name: 1 texts are cut off",)


def test_an_absent_section_keeps_its_reason() -> None:
    text = (
        "Exporting [/o/osrtsum.py x.sqlite] to console... SKIPPED: x.sqlite does not contain y.\n"
    )

    report = report_of_section(parse_stats_text(text).sections[0])

    assert (report.name, report.absent) == ("osrt_sum", "the capture does not contain y.")


HEADER = "Start (us),Duration (us),CorrId,Device,Name\n"
ROWS = (
    "10.000,5.000,1,A100 (0),first\n20.000,5.000,2,A100 (0),second\n30.000,5.000,3,A100 (0),third\n"
)


def section(text: str) -> Section:
    (found,) = parse_stats_text(text, path="node_cuda_gpu_trace.csv").tables
    return found


def names(report: Report) -> list[str]:
    return list(map(str, report.column("Name").values)) if report.columns else []


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        ("15us/30us", ["first", "second"]),  # one that ends at A is in, one that starts at B is not
        ("16us/31us", ["second", "third"]),
        ("/20us", ["first"]),
        ("26us/", ["third"]),
        ("0/1s", ["first", "second", "third"]),
    ],
)
def test_rows_that_touch_the_window_are_taken_whole(window: str, expected: list[str]) -> None:
    report = filtered_report(section(HEADER + ROWS), parse_window(window))

    assert names(report) == expected
    durations = np.asarray(report.column("Duration").values)
    assert durations.tolist() == [5000] * len(expected)


def test_a_window_without_rows_is_absent_with_its_reason() -> None:
    report = filtered_report(section(HEADER + ROWS), parse_window("1s/2s"))

    assert (report.columns, report.absent) == ((), "no row of it is in 1s/2s.")


def test_totals_have_no_times_to_filter_by() -> None:
    totals = "Time (%),Total Time (ns),Instances,Name\n100.0,5,1,k\n"
    (found,) = parse_stats_text(totals, path="n_cuda_gpu_kern_sum.csv").tables

    report = filtered_report(found, parse_window("0/1s"))

    assert report.absent == (
        "the text has totals of it, which cannot be filtered by time: filter the capture."
    )


def test_what_the_text_never_had_and_what_it_cuts_is_stated() -> None:
    banner = "Processing [a.sqlite] with [reports/cuda_gpu_trace.py](start=5000:end=40000)... \n"
    cut = "40.0…,5.000,4,A100 (0),cut\n4…,5.000,5,A100 (0),lost\n"

    report = filtered_report(section(banner + HEADER + ROWS + cut), parse_window("25us/40us500ns"))

    assert names(report) == ["second", "third", "cut"]
    assert report.notes == (
        "Start: 1 numbers are cut after the decimal point",
        "1 row without start or duration cannot be filtered: left out",
        "1 cut start less than 1 us from the edge of the window: in it or not is unsure",
        "the text holds 5us/40us only: what the window has beyond is not in it",
    )


@pytest.mark.shared
def test_a_printed_trace_is_filtered_as_the_capture_is(shared: Path) -> None:
    """The published trace: a window's rows, counted from its lines by their first two numbers."""
    path = shared / "nsys" / "aristos" / "multi_8x4_1.3B_trace.txt"
    lines = [line.split() for line in path.read_text(encoding="utf-8").splitlines()[2:]]
    times = [(float(line[0]), float(line[1])) for line in lines if not line[0].endswith("…")]
    expected = [(a, d) for a, d in times if a + d >= 4_000_000 and a < 6_000_000]
    (found,) = read_stats_text(path, shown=path.name).tables

    report = filtered_report(found, parse_window("4s/6s"))
    whole = filtered_report(found, parse_window("3s730ms/12s500ms"))

    durations = np.asarray(report.column("Duration").values).tolist()
    assert durations == [round(1000 * duration) for _, duration in expected]
    assert (len(expected), len(whole), len(report_of_section(found))) == (548, 2312, 2312)


@pytest.mark.shared
def test_the_oracle_of_a_window_comes_from_the_text_of_the_whole(shared: Path) -> None:
    """nsys filtered the capture, we filter what nsys printed of all of it: the same rows."""
    oracle = shared / "nsys" / "oracle"
    (whole,) = read_stats_text(oracle / "ddp53_cuda_gpu_trace.csv", shown="whole").tables
    (wanted,) = read_stats_text(oracle / "ddp53_grep_trace.txt", shown="window").tables

    report = filtered_report(whole, parse_window("6s/6s480ms"))

    chosen = [
        (start, duration)
        for start, duration, name in zip(
            np.asarray(report.column("Start").values).tolist(),
            np.asarray(report.column("Duration").values).tolist(),
            names(report),
            strict=True,
        )
        if name.startswith("ncclDevKernel_AllReduce")
    ]
    oracle_times = zip(
        wanted.number("Start").ns().tolist(), wanted.number("Duration").ns().tolist(), strict=True
    )
    assert sorted(chosen) == sorted(oracle_times)
