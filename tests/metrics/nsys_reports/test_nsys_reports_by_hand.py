"""Reports of captures small enough to compute by hand."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import numpy as np
import pytest

from ccltui.metrics.nsys_reports.make_report import REPORTS, make_report
from ccltui.metrics.nsys_reports.report import Report
from ccltui.metrics.nsys_reports.row_filter import (
    Filter,
    RangeFilter,
    filter_of_range,
    parse_range_filter,
)
from ccltui.parsers.array_types import I64
from ccltui.parsers.errors import NotFoundError, TraceError
from ccltui.parsers.nsys.report_tables import (
    COPY,
    KERNEL,
    Calls,
    Ranges,
    ReportTables,
    Work,
    read_report_tables,
)
from ccltui.parsers.window import Window

NAMES = ("k1", "k2", "[CUDA memcpy Host-to-Device]", "outer", "inner", "NCCL", "f_v7000", "f")


def numbers(*values: int) -> I64:
    return np.array(values, np.int64)


def work() -> Work:
    """k1 twice (10 and 30 ns), k2 once (20 ns), a copy of 1000 bytes in 3 ns."""
    return Work(
        numbers(100, 200, 300, 400),
        numbers(110, 230, 320, 403),
        np.array([KERNEL, KERNEL, KERNEL, COPY], np.int8),
        np.array([0, 0, 1, 2], np.int32),
        numbers(7, 7, 7, 7),
        numbers(1, 2, 3, 4),
        np.array([0, 0, 1, 1], np.int32),
        {"bytes": numbers(-1, -1, -1, 1000), "green_context": numbers(0, 0, 5, -1)},
    )


def calls() -> Calls:
    return Calls(
        numbers(50, 60, 70, 90),
        numbers(55, 65, 75, 95),
        np.array([6, 7, 6, 6], np.int32),
        numbers(1, 1, 1, 1),
        numbers(7, 7, 7, 7),
        numbers(1, 2, 3, 4),
    )


def ranges() -> Ranges:
    """outer 40–100, inner 58–80 with k1's second launch and k2's, one of domain NCCL."""
    return Ranges(
        numbers(40, 58, 500),
        numbers(100, 80, 510),
        np.zeros(3, np.int8),
        np.array([3, 4, 4], np.int32),
        np.array([-1, -1, 5], np.int32),
        numbers(1, 1, 1),
    )


def capture() -> ReportTables:
    return ReportTables(NAMES, work(), calls(), None, ranges(), {0: "A100", 1: "A100"})


def column(report: Report, name: str) -> list[object]:
    values = report.column(name).values
    return list(values) if isinstance(values, list) else np.asarray(values).tolist()


def test_kernels_by_name_with_the_deviation_of_a_sample() -> None:
    report = make_report("cuda_gpu_kern_sum", capture())

    assert column(report, "Name") == ["k1", "k2"]
    assert column(report, "Total Time") == [40, 20]
    assert column(report, "Instances") == [2, 1]
    assert column(report, "Avg") == [20.0, 20.0]
    assert column(report, "Med") == [20.0, 20.0]
    assert column(report, "StdDev") == [pytest.approx(200**0.5), 0.0]
    assert column(report, "Time") == [pytest.approx(200 / 3), pytest.approx(100 / 3)]


def test_sizes_of_copies() -> None:
    report = make_report("cuda_gpu_mem_size_sum", capture())

    assert (column(report, "Total"), column(report, "Count")) == ([1000], [1])


def test_categories_of_device_work() -> None:
    report = make_report("cuda_gpu_sum", capture())

    assert column(report, "Category") == ["CUDA_KERNEL", "CUDA_KERNEL", "MEMORY_OPER"]


def test_versions_of_four_digits_are_dropped_from_calls() -> None:
    report = make_report("cuda_api_sum", capture())

    assert (column(report, "Name"), column(report, "Num Calls")) == (["f"], [4])


def test_throughput_divides_whole_numbers_first() -> None:
    report = make_report("cuda_gpu_trace", capture())

    rate = report.column("Throughput")

    assert rate.known is not None
    assert rate.known.tolist() == [False, False, False, True]
    assert column(report, "Throughput")[3] == 1000.0 * (1_000_000_000 // 3)
    assert column(report, "Device") == ["A100 (0)", "A100 (0)", "A100 (1)", "A100 (1)"]
    green = report.column("GreenCtx").known
    assert green is not None
    assert green.tolist() == [False, False, True, False]


def test_ranges_of_a_domain_are_apart() -> None:
    report = make_report("nvtx_sum", capture())

    assert column(report, "Range") == ["outer", "inner", "NCCL:inner"]
    assert column(report, "Total Time") == [60, 22, 10]


def test_a_range_is_projected_onto_the_work_it_launched() -> None:
    report = make_report("nvtx_gpu_proj_sum", capture())

    assert column(report, "Range") == ["outer", "inner"]
    assert column(report, "Total Proj Time") == [303, 120]
    assert column(report, "Total Range Time") == [60, 22]
    assert column(report, "Total GPU Ops") == [4, 2]
    assert column(report, "Avg Range Lvl") == [0.0, 1.0]
    assert column(report, "Avg Num Child") == [1.0, 0.0]


def test_the_window_is_closed_at_its_start_and_open_at_its_end() -> None:
    at_the_end_of_k1 = Filter.of(Window(110, 200))
    after_it = Filter.of(Window(111, 200))

    assert len(make_report("cuda_gpu_trace", capture(), at_the_end_of_k1)) == 1
    absent = make_report("cuda_gpu_trace", capture(), after_it).absent
    assert absent == "the capture does not contain GPU trace data in the chosen time."
    assert len(make_report("cuda_gpu_trace", capture(), Filter.of(Window(None, 201)))) == 2


def test_a_capture_without_os_calls_has_a_message() -> None:
    absent = make_report("osrt_sum", capture()).absent

    assert absent == "the capture does not contain OS Runtime trace data."
    assert all(make_report(name, ReportTables(())).absent for name in REPORTS)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("train", RangeFilter("train")),
        ("ncclAllReduce@NCCL/10", RangeFilter("ncclAllReduce", "NCCL", 10)),
        ("a/b", RangeFilter("a/b")),
        ("a/b/2", RangeFilter("a/b", "", 2)),
    ],
)
def test_grammar_of_range_filters(text: str, wanted: RangeFilter) -> None:
    assert parse_range_filter(text) == wanted


def test_a_range_needs_its_domain() -> None:
    tables = capture()

    assert filter_of_range(tables, RangeFilter("inner")) == Filter(58, 80)
    assert filter_of_range(tables, RangeFilter("inner", "NCCL")) == Filter(500, 510)
    assert filter_of_range(tables, RangeFilter("inner", "", 1)) == (
        "NVTX range 'inner/1' could not be found."
    )
    assert filter_of_range(tables, RangeFilter("outer", "NCCL")) == (
        "NVTX range 'outer@NCCL' could not be found."
    )


def export(path: Path, *statements: str) -> Path:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE StringIds (id INTEGER, value TEXT)")
        for statement in statements:
            connection.execute(statement)
    connection.close()
    return path


def test_open_ranges_end_with_the_last_of_all_ranges(tmp_path: Path) -> None:
    path = export(
        tmp_path / "x.sqlite",
        "CREATE TABLE NVTX_EVENTS (start, end, eventType, text, textId, globalTid, domainId)",
        "INSERT INTO StringIds VALUES (5, 'stored'), (6, 'SECRET=1')",
        "INSERT INTO NVTX_EVENTS VALUES (10, NULL, 59, 'open', NULL, 1, 0)",
        "INSERT INTO NVTX_EVENTS VALUES (20, 50, 60, NULL, 5, 1, 3)",
        "INSERT INTO NVTX_EVENTS VALUES (70, NULL, 34, 'mark', NULL, 1, 0)",
        "INSERT INTO NVTX_EVENTS VALUES (0, NULL, 75, 'lib', NULL, 1, 3)",
    )

    tables = read_report_tables(path)

    report = make_report("nvtx_sum", tables)
    assert column(report, "Range") == ["open", "lib:stored"]
    assert column(report, "Style") == ["PushPop", "StartEnd"]
    assert column(report, "Total Time") == [60, 30]
    assert "SECRET=1" not in tables.names


def test_an_export_of_2020_lacks_columns_and_tables(tmp_path: Path) -> None:
    path = export(
        tmp_path / "x.sqlite",
        "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, streamId, shortName)",
        "INSERT INTO StringIds VALUES (1, 'k')",
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (5, 9, 0, 7, 1)",
    )

    tables = read_report_tables(path)

    trace = make_report("cuda_gpu_trace", tables)
    assert (column(trace, "Name"), column(trace, "Device")) == (["k"], ["GPU 0"])
    assert tables.notes == ("the export names no GPUs: devices are shown by number",)
    assert tables.api is None


def test_files_that_are_no_export(tmp_path: Path) -> None:
    (tmp_path / "x.sqlite").write_bytes(b"SQLite format 3\0 but then nothing")

    with pytest.raises(TraceError, match="cannot be read"):
        read_report_tables(tmp_path / "x.sqlite")
    with pytest.raises(NotFoundError):
        read_report_tables(tmp_path / "none.sqlite")
