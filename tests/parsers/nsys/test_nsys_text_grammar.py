"""Test each rule of the text of ``nsys stats`` on the smallest text that shows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ccltui.parsers.discovery.sniff import sniff
from ccltui.parsers.errors import NotFoundError, TraceError
from ccltui.parsers.nsys.stats_text import parse_stats_text, read_stats_text
from ccltui.parsers.nsys.typed_table import (
    CUT,
    EXACT,
    MISSING,
    UNKNOWN,
    NumberColumn,
    Section,
    report_name,
    report_of_file,
)
from ccltui.parsers.window import Window

BANNER = "Processing [x.sqlite] with [/opt/nsight-systems-2023.2.3/reports/{}.py]{}... "
KERNELS = "Time (%),Total Time (ns),Instances,Name"


def only(text: str, *, path: str = "", unit: str = "") -> Section:
    (section,) = parse_stats_text(text, path=path, unit=unit).sections
    return section


def column_of(header: str, cells: list[str]) -> NumberColumn:
    """Return a csv table with a column of numbers between two others."""
    rows = "\n".join(f'0.0,"{cell}",k' for cell in cells)
    section = only(f"Time (%),{header},Name\n{rows}\n")
    return section.number(section.columns[1].name)


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("gpukernsum", "cuda_gpu_kern_sum"),
        ("cuda_gpu_kern_sum.py", "cuda_gpu_kern_sum"),
        ("gpu-kern-summary", "cuda_gpu_kern_sum"),
        ("CUDA GPU Kern Sum", "cuda_gpu_kern_sum"),
        ("nvtxgpuproj", "nvtx_gpu_proj_trace"),
        ("vulkan_marker_sum", "vulkan_marker_sum"),
    ],
)
def test_old_names_map_to_current_reports(written: str, name: str) -> None:
    assert report_name(written) == name


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("m_cuda_gpu_kern_sum.csv", "cuda_gpu_kern_sum"),
        ("run/x_cuda_gpu_kern_sum_base.csv", "cuda_gpu_kern_sum"),
        ("x_gpukernsum.csv", "cuda_gpu_kern_sum"),
        ("x_cuda_gpu_mem_time_sum.tsv", "cuda_gpu_mem_time_sum"),
        ("report.csv", ""),
    ],
)
def test_a_file_name_names_the_report(file: str, name: str) -> None:
    assert report_of_file(file) == name


@pytest.mark.parametrize(
    ("header", "cells", "unit", "values"),
    [
        ("Total Time (ns)", ["1,234,567", "12"], "ns", ["1234567", "12"]),
        ("Total Time (ns)", ["1.234.567", "1.289"], "ns", ["1234567", "1289"]),
        ("Total Time (ns)", ["62,14,25,70,603", "986"], "ns", ["62142570603", "986"]),
        ("Total Time (ns)", ["1\u202f234\u202f567", "12"], "ns", ["1234567", "12"]),
        ("Total Time (ns)", ["1\u2019234\u2019567", "12"], "ns", ["1234567", "12"]),
        ("Total Time (ns)", ["1\u00a0234", "1 234"], "ns", None),
        ("Total Time (us)", ["272317,378", "63,584"], "us", ["272317.378", "63.584"]),
        ("Total Time (us)", ["1.272.317,378", "63,584"], "us", ["1272317.378", "63.584"]),
        ("Total Time (us)", ["1,789"], "us", ["1.789"]),
        ("Total Time (sec)", ["0.0000", "1.2345"], "s", ["0.0000", "1.2345"]),
        ("Start(sec)", ["1.234567"], "s", ["1.234567"]),
        ("Avg (ns)", ["4.004.667,0", "995,0"], "ns", ["4004667.0", "995.0"]),
        ("Avg (ns)", ["40,04,667.3", "1,763.0"], "ns", ["4004667.3", "1763.0"]),
        ("Throughput (MBps)", ["1520.000", "-", "None"], "MB/s", ["1520.000", "", ""]),
        ("Start (ns)", ["-12", "4"], "ns", ["-12", "4"]),
    ],
)
def test_marks_are_found_per_column(
    header: str, cells: list[str], unit: str, values: list[str] | None
) -> None:
    if values is None:
        with pytest.raises(TraceError, match="written in several ways"):
            column_of(header, cells)
        return

    column = column_of(header, cells)

    assert column.unit == unit
    assert [column.cell(row) for row in range(len(column))] == values


def test_ambiguous_column_is_rejected_with_line_and_column() -> None:
    text = "\nTime (%),Avg,Name\n1.0,1.234,k\n2.0,5.678,k\n"

    with pytest.raises(TraceError) as caught:
        parse_stats_text(text, path="sum.csv")

    assert (caught.value.path, caught.value.line, caught.value.column) == ("sum.csv", 3, 5)
    assert "two different numbers" in caught.value.message


def test_one_cell_decides_the_marks_of_its_column() -> None:
    column = column_of("Avg", ["1.234", "5678.901"])

    assert [column.cell(row) for row in (0, 1)] == ["1.234", "5678.901"]
    assert column.unit == ""
    with pytest.raises(TraceError, match="--unit"):
        column.ns()


def test_the_unit_can_be_given_where_the_header_has_none() -> None:
    text = "Time,Total Time,Instances,Name\n1.0,12.345,3,k\n1.0,12345.678,3,k\n"

    section = only(text, unit="us")

    assert section.number("Total Time").ns().tolist() == [12_345, 12_345_678]


def test_word_in_a_column_of_numbers_is_rejected() -> None:
    with pytest.raises(TraceError, match=r"^a.csv:2:5: Total Time \(ns\): 'many' is no number$"):
        parse_stats_text(f"{KERNELS}\n1.0,many,3,k\n", path="a.csv")


def test_number_beyond_64_bits_is_rejected() -> None:
    with pytest.raises(TraceError, match="too large"):
        parse_stats_text(f"{KERNELS}\n1.0,{10**19},3,k\n")


def test_cut_cells() -> None:
    text = (
        " Start (us)  Duration (us)  CorrId   Name  \n"
        " ----------  -------------  ------  -------\n"
        " 1004185.5…         20.500   1,00…  void a…\n"
        "   1004.250          1.000   1,200  k      \n"
    )

    section = only(text)

    start, correlation, name = section.number("Start"), section.number("CorrId"), section.columns[3]
    assert start.state.tolist() == [CUT, EXACT]
    assert start.ns().tolist() == [1_004_185_500, 1_004_250]
    assert correlation.state.tolist() == [UNKNOWN, EXACT]
    assert correlation.mantissa.tolist() == [0, 1200]
    assert name.cell(0) == "void a…"
    assert section.text("Name").values == ("void a", "k")
    assert section.report == ""  # no banner, no title, and several reports have these columns


def test_columns_without_a_ruler_and_with_blank_ones() -> None:
    """The header is centred, a filter took the ruler, memory columns are blank."""
    text = (
        BANNER.format("cuda_gpu_trace", " to process [@grep -E (Start|k[0-9]*)]")
        + "\nStart (us)  Duration (us)  CorrId  GrdX  Bytes (MB)  Device      Name    \n"
        "     1.000          2.000       7     8              A100 (0)  k1(a, b)\n"
        "    11.000          3.000      17    80              A100 (1)  k22     \n"
    )

    section = only(text)

    assert section.provenance.command == "grep -E (Start|k[0-9]*)"
    assert section.number("CorrId").mantissa.tolist() == [7, 17]
    assert section.number("GrdX").mantissa.tolist() == [8, 80]
    assert section.number("Bytes").state.tolist() == [MISSING, MISSING]
    assert section.text("Device").values == ("A100 (0)", "A100 (1)")
    assert section.text("Name").values == ("k1(a, b)", "k22")


def test_sections_follow_each_other_in_one_file() -> None:
    text = (
        "$ nsys stats x\n"
        "NOTICE: Existing SQLite export found: x.sqlite\n"
        "        It is assumed file was previously exported from: x.nsys-rep\n"
        "Processing 10 events: [= 1%]\rProcessing 10 events: [====100%]\n"
        + BANNER.format("nvtx_sum", "(nvtx=train/2:base)")
        + "\nSKIPPED: NVTX range 'train' could not be found in x.sqlite.\n\n"
        + BANNER.format("gpukernsum", "(start=-5:end=70)")
        + "\n\n ** DEPRECATED - Use cuda_gpu_kern_sum instead (gpukernsum):\n\n"
        + KERNELS
        + "\n99.0,5,1,\"a, b\"\n\nERROR: Report 'kernel_time' could not be found.\n"
    )

    skipped, kernels, unknown = parse_stats_text(text).sections

    assert skipped.provenance.nvtx == "train/2"
    assert skipped.absent == "NVTX range 'train' could not be found in x.sqlite."
    assert (kernels.report, kernels.written_report) == ("cuda_gpu_kern_sum", "gpukernsum")
    assert kernels.title == "CUDA GPU Kernel Summary"
    assert kernels.provenance.window == Window(-5, 70)
    assert kernels.provenance.nsys_version == "2023.2.3"
    assert kernels.text("Name").values == ("a, b",)
    assert (unknown.report, unknown.absent) == ("kernel_time", "nsys knew no report kernel_time")


def test_skipped_on_the_line_of_the_banner() -> None:
    text = "Exporting [/o/reports/gpukernsum.py x.sqlite] to console... SKIPPED: x.sqlite does not "

    section = only(text + "contain CUDA kernel data.\n")

    assert section.report == "cuda_gpu_kern_sum"
    assert section.absent == "the capture does not contain CUDA kernel data."


def test_a_report_that_went_to_a_file() -> None:
    section = only(BANNER.format("cuda_api_sum", " to [x_cuda_api_sum.csv]") + "PROCESSED\n")

    assert section.absent == "nsys wrote this report to a file of its own"


def test_titles_of_2019_carry_the_unit() -> None:
    text = (
        "Generating CUDA Memory Operation Statistics...\n"
        "CUDA Memory Operation Statistics (nanoseconds)\n\n"
        "Time(%)      Total Time  Operations         Average  Name             \n"
        "-------  --------------  ----------  --------------  -----------------\n"
        "  100.0            1234           2           617.0  [CUDA memcpy HtoD]\n\n"
        "CUDA Memory Operation Statistics (KiB)\n\n"
        "            Total      Operations         Average  Name              \n"
        "-----------------  --------------  --------------  ------------------\n"
        "            2.500               2           1.250  [CUDA memcpy HtoD]\n"
    )

    times, sizes = parse_stats_text(text).sections

    assert (times.report, sizes.report) == ("cuda_gpu_mem_time_sum", "cuda_gpu_mem_size_sum")
    assert times.number("Total Time").ns().tolist() == [1234]
    assert times.number("Avg").ns().tolist() == [617]
    assert times.number("Count").mantissa.tolist() == [2]
    assert (sizes.number("Total").unit, sizes.number("Total").cell(0)) == ("KiB", "2.500")


def test_columns_of_2020_inherit_the_unit_of_the_total() -> None:
    text = "Time(%),Total Time (ns),Num Calls,Average,Minimum,Maximum,Name\n9.9,60,2,30.0,10,50,f\n"

    section = only(text, path="r_cudaapisum.csv")

    assert [section.number(name).ns().tolist() for name in ("Avg", "Min", "Max")] == [
        *([30], [10], [50])
    ]
    assert (section.report, section.name_source) == ("cuda_api_sum", "file name")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be"])
def test_an_export_of_the_graphical_interface(tmp_path: Path, encoding: str) -> None:
    text = "Time,Total Time,Instances,Avg,Name\n48.3%,102.664 s,267576,383.682 μs,poll\n"
    mark = "\ufeff" if encoding == "utf-16-be" else ""
    path = tmp_path / "osrt.csv"
    path.write_bytes((mark + text).encode(encoding))

    section = only_of(path)

    assert section.number("Total Time").ns().tolist() == [102_664_000_000]
    assert section.number("Avg").ns().tolist() == [383_682]
    assert section.number("Avg").loses == "every cell is rounded to its own unit"
    assert (section.number("Time").unit, section.number("Time").floats().tolist()) == ("%", [48.3])


def only_of(path: Path) -> Section:
    (section,) = read_stats_text(path).sections
    return section


def test_json_with_unescaped_quotes_is_read_line_by_line() -> None:
    text = (
        "[\n  {\n"
        '    "Time (%)": 98.7,\n    "Total Time (ns)": 5,\n    "Instances": 2,\n'
        '    "Name": "operator""_a(char)"\n'
        "  },\n  {\n"
        '    "Time (%)": 1.3,\n    "Total Time (ns)": 1,\n    "Instances": 1,\n'
        '    "Name": ""\n'
        "  }\n]\n\n[\n]\n"
    )

    section = only(text)

    assert section.format == "json"
    assert section.text("Name").values == ('operator""_a(char)', "")
    assert section.number("Time").floats().tolist() == [98.7, 1.3]
    assert section.report == "cuda_gpu_kern_sum"


def test_a_drawn_table_with_bars_in_a_name() -> None:
    text = (
        "+----------+-----------------+-----------+---------+\n"
        "| Time (%) | Total Time (ns) | Instances |  Name   |\n"
        "+----------+-----------------+-----------+---------+\n"
        "|    100.0 |           1,234 |         1 | f(a||b) |\n"
        "+----------+-----------------+-----------+---------+\n"
    )

    section = only(text)

    assert section.text("Name").values == ("f(a||b)",)
    assert section.number("Total Time").mantissa.tolist() == [1234]


def test_row_that_does_not_fit_is_rejected() -> None:
    with pytest.raises(TraceError, match="line 1") as caught:
        parse_stats_text(f"{KERNELS}\n1.0,5,3\n1.0,5,3,k\n")

    assert caught.value.line == 2


def test_a_cut_last_row_is_left_out_with_a_note() -> None:
    stats = parse_stats_text(f"{KERNELS}\n1.0,5,3,k\n1.0,5")

    assert len(stats.tables[0]) == 1
    assert [note.code for note in stats.notes] == ["truncated_text"]


@pytest.mark.parametrize("dots", ["   ...", "\N{HORIZONTAL ELLIPSIS}", "......"])
def test_rows_left_out_by_hand_are_left_out_with_a_note(dots: str) -> None:
    text = (
        " Time (%)  Total Time (ns)  Instances  Name\n"
        " --------  ---------------  ---------  ----\n"
        "   45.2%    1,234,567,890      1,234  sgemm\n"
        f"{dots}\n"
        "    5.0%      136,567,000         34  gelu\n"
    )
    for shown in (text, text.replace(text.splitlines()[1] + "\n", "")):  # with and without a rule
        stats = parse_stats_text(shown)

        assert stats.tables[0].text("Name").values == ("sgemm", "gelu")
        assert [note.code for note in stats.notes] == ["truncated_text"]


def test_other_output_is_no_report() -> None:
    text = (
        "size count type redop root time algbw busbw #wrong\n\n[\n  1,\n  2\n]\n"
        "ERROR: the program failed\n+---+---+\n| a | b |\n+---+---+\n"
    )

    assert parse_stats_text(text).sections == ()


def test_a_path_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no such file"):
        read_stats_text(tmp_path / "none.txt")


def test_the_csv_of_a_recipe_is_in_ns(tmp_path: Path) -> None:
    path = tmp_path / "all_stats.csv"
    path.write_text(
        "Name,Time,Total Time,Instances,Avg,Q1,Med,Q3,Min,Max,StdDev,Min File,Max File\n"
        "gemm,75.0,3000,3,1000.0,900.0,1000.0,1100.0,900,1100,100.0,a,b\n"
        '"ncclDevKernel_AllReduce(x, y)",25.0,1000,1,1e3,1e3,1e3,1e3,1000,1000,0.0,a,a\n'.replace(
            "1e3", "1000.0"
        )
    )

    (section,) = read_stats_text(path).tables

    assert sniff(str(path), path.name, path.stat().st_size).kind == "nsys_text"
    assert section.report == "cuda_gpu_kern_sum"
    assert section.text("Name").values == ("gemm", "ncclDevKernel_AllReduce(x, y)")
    assert section.number("Total Time").ns().tolist() == [3000, 1000]
    assert section.number("Time").unit == "%"
    assert section.number("Q3").unit == "ns"


LONG = "7" * 5000


@pytest.mark.parametrize("cell", [LONG, f"{LONG}.5", "9223372036854775808"])
def test_a_number_beyond_64_bits_is_one_line(cell: str) -> None:
    with pytest.raises(TraceError, match=r"is too large$") as caught:
        parse_stats_text(f"Time (%),Total Time (ns),Name\n0.5,{cell},k\n")

    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("cell", [f"{LONG} ms", "9223372036854775807 s", "99999999999999999999 %"])
def test_a_number_with_a_unit_beyond_64_bits_is_no_number(cell: str) -> None:
    with pytest.raises(TraceError, match="is no number"):
        parse_stats_text(f"Time (%),Total Time,Name\n0.5,{cell},k\n")


def test_fractions_of_any_length_are_read() -> None:
    section = only(f"Time (%),Total Time,Name\n0.5,1.{'3' * 5000} ms,k\n")

    assert section.number("Total Time").ns().tolist() == [1_333_333]


@pytest.mark.parametrize("written", ["9223372036854775", "9000000000000000000", "4611686019"])
def test_times_that_do_not_fit_into_64_bits_are_refused(written: str) -> None:
    column = column_of("Total Time (s)", [written])

    with pytest.raises(TraceError, match="longer than 146 years"):
        column.ns()


def test_messages_about_headers_are_one_printable_line() -> None:
    with pytest.raises(TraceError) as caught:
        parse_stats_text(f"Time (%),Total\x0cTime (ns),Name\n0.5,{LONG},k\n")

    assert str(caught.value).isprintable()
