"""Compare all output formats of nsys binaries for one capture: they hold the same numbers."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from ccltui.parsers.errors import TraceError
from ccltui.parsers.nsys.stats_text import parse_stats_text, read_stats_text
from ccltui.parsers.nsys.typed_table import (
    CUT,
    EXACT,
    UNKNOWN,
    NumberColumn,
    Section,
    StatsText,
    TextColumn,
)
from ccltui.parsers.window import Window

LOCALES = ("C", "de_DE", "en_IN")
FORMATS = ("column", "table", "csv", "tsv", "json")
UNITS = ("nsec", "usec", "sec")
REPORTS = ("cuda_gpu_kern_sum", "cuda_gpu_mem_time_sum", "cuda_gpu_mem_size_sum")


@pytest.fixture(scope="session")
def nsys(shared: Path) -> Path:
    if not (shared / "nsys").is_dir():
        pytest.skip(f"no nsys files in {shared}")
    return shared / "nsys"


def scale_of(column: NumberColumn) -> Decimal:
    unit = {"us": 1000, "s": 1_000_000_000}.get(column.unit, 1)
    return Decimal(unit).scaleb(-column.decimals)


def assert_same_numbers(column: NumberColumn, reference: NumberColumn) -> None:
    """Return whether values are equal within one unit of the coarser last digit.

    Fractions that nsys prints as 0 under a locale count as equal.
    """
    step = max(scale_of(column), scale_of(reference))
    if "fraction" in column.loses:
        step = Decimal(1)
    assert (column.state == EXACT).all()
    for mantissa, expected in zip(column.mantissa, reference.mantissa, strict=True):
        value = int(mantissa) * scale_of(column)
        assert abs(value - int(expected) * scale_of(reference)) <= step


def assert_same_texts(column: TextColumn, reference: TextColumn) -> None:
    pairs = zip(column.values, column.cut, reference.values, strict=True)
    assert all(whole.startswith(text) if cut else whole == text for text, cut, whole in pairs)


def assert_same(section: Section, reference: Section) -> None:
    assert [column.name for column in section.columns] == [c.name for c in reference.columns]
    for column, expected in zip(section.columns, reference.columns, strict=True):
        if isinstance(column, NumberColumn):
            assert isinstance(expected, NumberColumn)
            assert_same_numbers(column, expected)
        else:
            assert isinstance(expected, TextColumn)
            assert_same_texts(column, expected)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("locale", LOCALES)
def test_every_locale_format_and_unit_gives_the_same_values(
    nsys: Path, locale: str, form: str, unit: str
) -> None:
    reference = read_stats_text(nsys / "oracle" / "2023.4_C_csv_nsec.txt")

    stats = read_stats_text(nsys / "oracle" / f"2023.4_{locale}_{form}_{unit}.txt")

    assert [section.report for section in stats.sections] == [*REPORTS, "osrt_sum"]
    assert stats.sections[3].absent == "the capture does not contain OS Runtime trace data."
    assert {section.format for section in stats.tables} == {form}
    for section, expected in zip(stats.tables, reference.tables, strict=True):
        assert_same(section, expected)


def test_literals_of_the_reference(nsys: Path) -> None:
    kernels, copies, sizes = read_stats_text(nsys / "oracle" / "2023.4_C_csv_nsec.txt").tables

    assert kernels.number("Total Time").mantissa[:3].tolist() == [272317378, 38226009, 25996204]
    assert kernels.number("Instances").mantissa[:3].tolist() == [68, 235, 269]
    assert [kernels.number("Avg").cell(row) for row in (0, 1)] == ["4004667.3", "162663.9"]
    assert copies.text("Operation").values[1] == "[CUDA memset]"
    assert (sizes.number("Total").unit, sizes.number("Total").cell(0)) == ("MB", "8046.134")


def test_precision_lost_under_a_decimal_comma_is_flagged(nsys: Path) -> None:
    stats = read_stats_text(nsys / "oracle" / "2023.4_de_DE_column_nsec.txt")

    kernels = stats.tables[0]

    assert kernels.number("Avg").cell(0) == "4004667.0"
    assert "decimal comma" in kernels.number("Avg").loses
    assert kernels.number("Total Time").loses == ""
    seconds = read_stats_text(nsys / "oracle" / "2023.4_C_csv_sec.txt").tables[0]
    assert seconds.number("Total Time").loses == "nsys prints 4 decimals of s"


def test_a_trace_without_its_ruler_sums_up_to_the_summary(nsys: Path) -> None:
    """Test the published pair: 2312 rows of 16 filled columns under a header of 21."""
    name = "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm *, unsigned long, ncclWork *)"

    trace = read_stats_text(nsys / "aristos" / "multi_8x4_1.3B_trace.txt").tables[0]
    summary = read_stats_text(nsys / "aristos" / "multi_8x4_1.3B_sum.txt").tables[0]

    duration_ns = trace.number("Duration").ns()
    assert (len(trace), len(trace.columns)) == (2312, 21)
    assert int(duration_ns.sum()) == 4_918_341_962
    assert summary.text("Operation").values[0] == name
    assert int(summary.number("Total Time").ns()[0]) == 4_918_341_962
    assert int(summary.number("Instances").mantissa[0]) == 2312
    assert set(trace.text("Name").values) == {name}


def test_cut_numbers_are_flagged(nsys: Path) -> None:
    trace = read_stats_text(nsys / "aristos" / "multi_8x4_1.3B_trace.txt").tables[0]

    start, correlation = trace.number("Start"), trace.number("CorrId")

    assert [int((start.state == kind).sum()) for kind in (CUT, UNKNOWN)] == [632, 0]
    assert [int((correlation.state == kind).sum()) for kind in (CUT, UNKNOWN)] == [0, 1811]
    assert (np.diff(start.ns()) >= 0).all()
    assert (trace.number("Duration").state == EXACT).all()
    devices = trace.text("Device").values
    assert devices[:2] == ("NVIDIA A100-SXM4-80GB (1)", "NVIDIA A100-SXM4-80GB (2)")
    assert [trace.number(name).cell(0) for name in ("GrdX", "BlkX", "Reg/Trd", "Ctx", "Strm")] == [
        *("8", "640", "96", "1", "48")
    ]
    assert [trace.number(name).cell(0) for name in ("StcSMem", "DymSMem")] == ["0.005", "0.082"]
    assert not trace.number("GreenCtx").known.any()


def test_the_banner_is_kept_as_provenance(nsys: Path) -> None:
    trace = read_stats_text(nsys / "aristos" / "multi_8x4_1.3B_trace.txt").tables[0]

    made = trace.provenance

    assert made.window == Window(3_730_000_000, 12_500_000_000)
    assert made.nsys_version == "2024.1.1"
    assert made.command == "grep -E (Start*|ncclKernel_SendRecv*)"
    assert (trace.report, trace.name_source) == ("cuda_gpu_trace", "banner")


def test_indian_groups_are_read_exactly(nsys: Path) -> None:
    stats = read_stats_text(nsys / "gpt2-deepspeed" / "nsys_stats_gn-0011.txt")

    ranges = stats.tables[0]

    assert [section.report for section in stats.sections] == [
        *("nvtx_sum", "osrt_sum", "cuda_api_sum", "cuda_gpu_kern_sum")
    ]
    assert ranges.text("Range").values[0] == ":DeepSpeedEngine.backward"
    assert ranges.number("Time").cell(0) == "53.9"
    assert int(ranges.number("Total Time").mantissa[0]) == 2_765_967_562_725
    assert ranges.number("Avg").cell(0) == "194184748.9"
    row = ranges.text("Range").values.index("NCCL:ncclAllReduce")
    assert int(ranges.number("Instances").mantissa[row]) == 42_748
    assert int(stats.tables[1].number("Total Time").mantissa[0]) == 56_265_058_729_882
    assert len(stats.tables[3]) == 74


def test_a_header_on_the_line_of_its_banner(nsys: Path) -> None:
    """Compare the output of a grep pipe of 2023.4 with the csv of the same capture."""
    whole = read_stats_text(nsys / "oracle" / "ddp53_cuda_gpu_trace.csv").tables[0]

    trace = read_stats_text(nsys / "oracle" / "ddp53_grep_trace.txt").tables[0]

    start, end = whole.number("Start").ns(), whole.number("Duration").ns()
    end = start + end
    names = whole.text("Name").values
    chosen = [
        row
        for row in range(len(whole))
        if names[row].startswith("ncclDevKernel_AllReduce")
        and end[row] >= 6_000_000_000
        and start[row] < 6_480_000_000
    ]
    assert len(trace) == 224
    assert trace.number("Start").ns().tolist() == start[chosen].tolist()
    for name in ("Duration", "CorrId", "GrdX", "BlkX", "Reg/Trd", "Strm"):
        expected = whole.number(name)
        got = trace.number(name)
        shown = (
            [expected.ns()[chosen], got.ns()]
            if name == "Duration"
            else [
                expected.mantissa[chosen],
                got.mantissa,
            ]
        )
        assert shown[0].tolist() == shown[1].tolist(), name


def test_text_that_is_no_report_has_no_section(nsys: Path) -> None:
    results = nsys / "cs336-fsdp" / "benchmark_results"
    strangers = [*results.glob("*_nonnvtx.txt"), results / "fsdp_profile_nsys.log"]

    assert len(strangers) == 9
    assert [read_stats_text(path).sections for path in strangers] == [()] * 9


def test_the_default_set_with_what_was_skipped(nsys: Path) -> None:
    path = nsys / "cs336-fsdp" / "benchmark_results" / "fsdp_profile_nsys_stats.txt"

    stats = read_stats_text(path)

    assert (len(stats.tables), len(stats.sections)) == (6, 20)
    assert stats.sections[-1].report == "syscall_sum"
    assert stats.sections[-1].absent == "the capture does not contain syscall data."
    assert len(stats.tables[0]) == 916


def test_a_console_log_of_profile_with_stats(nsys: Path) -> None:
    folder = nsys / "paracodex" / "results" / "hecbench" / "paracodex_hecbench_codes"

    whole = read_stats_text(folder / "entropy-omp" / "step3_nsys_output.txt")
    headers_only = read_stats_text(folder / "bsearch-omp" / "baseline_nsys_relevant.txt")

    assert [(section.report, len(section)) for section in whole.sections] == [
        ("osrt_sum", 26),
        ("cuda_api_sum", 10),
        ("cuda_gpu_kern_sum", 2),
        ("cuda_gpu_mem_time_sum", 2),
        ("cuda_gpu_mem_size_sum", 2),
    ]
    assert [section.absent for section in headers_only.sections] == [
        "the text holds no table of this report"
    ] * 3


@pytest.mark.parametrize(
    "name",
    [
        "oracle/2023.4_en_IN_column_nsec.txt",
        "oracle/2023.4_de_DE_csv_usec.txt",
        "oracle/2023.4_C_json_nsec.txt",
        "oracle/2023.4_C_table_nsec.txt",
        "oracle/ddp53_grep_trace.txt",
    ],
)
def test_truncated_file_is_read_or_rejected_with_its_line(nsys: Path, name: str) -> None:
    text = (nsys / name).read_text(encoding="utf-8")

    for end in range(0, len(text), max(len(text) // 60, 1)):
        stats = _read_or_refused(text[:end], name)
        if isinstance(stats, TraceError):
            assert stats.line is not None
        else:
            assert all(len(column) == len(s) for s in stats.tables for column in s.columns)


def _read_or_refused(text: str, name: str) -> StatsText | TraceError:
    try:
        return parse_stats_text(text, path=name)
    except TraceError as error:
        return error
