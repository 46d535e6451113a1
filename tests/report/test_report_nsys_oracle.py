"""Computed reports equal the output of a real nsys 2023.4, byte for byte."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ccltui.metrics.nsys_reports.make_report import REPORTS, make_report
from ccltui.metrics.nsys_reports.report import Report
from ccltui.metrics.nsys_reports.row_filter import Filter
from ccltui.parsers.nsys.report_tables import ReportTables, read_report_tables
from ccltui.report.nsys_writers import parse_layout, write_reports

UNITS = {"nsec": "ns", "usec": "us", "sec": "sec"}
OF_BOTH = ("cuda_gpu_kern_sum", "cuda_gpu_mem_time_sum", "cuda_gpu_mem_size_sum")


@pytest.fixture(scope="session")
def nsys(shared: Path) -> Path:
    if not (shared / "nsys" / "oracle").is_dir():
        pytest.skip(f"no nsys files in {shared}")
    return shared / "nsys"


@pytest.fixture(scope="session")
def training(nsys: Path) -> ReportTables:
    return read_report_tables(nsys / "ddp53" / "profiles" / "ddp53_profile.sqlite")


@pytest.fixture(scope="session")
def pipeline(nsys: Path) -> ReportTables:
    return read_report_tables(nsys / "nsys-ai" / "mfu_2gpu_before.sqlite")


@pytest.mark.parametrize(
    "name",
    [
        "cuda_api_sum",
        "cuda_gpu_kern_sum",
        "cuda_gpu_mem_time_sum",
        "cuda_gpu_sum",
        "cuda_gpu_trace",
        "nvtx_gpu_proj_sum",
        "nvtx_sum",
    ],
)
def test_csv_of_every_report(nsys: Path, training: ReportTables, name: str) -> None:
    expected = (nsys / "oracle" / f"ddp53_{name}.csv").read_bytes()

    assert written(make_report(name, training), "csv", "ns") == expected


def test_a_window_takes_rows_whole(nsys: Path, training: ReportTables) -> None:
    text = (nsys / "oracle" / "ddp53_filtered_sum.txt").read_text(encoding="utf-8")
    chosen = Filter(6_000_000_000, 6_480_000_000)

    report = make_report("cuda_gpu_sum", training, chosen)

    assert written(report, "column", "us").decode() == text.partition("\n")[2]


def written(report: Report, form: str, unit: str) -> bytes:
    return write_reports([("", [report])], parse_layout(form, unit))


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("form", ["column", "csv", "json"])
def test_every_format_and_unit(nsys: Path, pipeline: ReportTables, form: str, unit: str) -> None:
    text = (nsys / "oracle" / f"2023.4_C_{form}_{unit}.txt").read_text(encoding="utf-8")
    sections = [section.partition("\n")[2] for section in text.split("Processing ")[1:]]

    for name, expected in zip(OF_BOTH, sections[:3], strict=True):
        got = written(make_report(name, pipeline), form, UNITS[unit]).decode()
        if form == "json":
            assert got.split() == expected.split(), name
        else:
            assert got == expected, name
    assert sections[3].startswith("SKIPPED")
    absent = make_report("osrt_sum", pipeline).absent
    assert absent == "the capture does not contain OS Runtime trace data."


def test_formats_agree_cell_by_cell(training: ReportTables) -> None:
    report = make_report("cuda_gpu_trace", training)

    objects = json.loads(written(report, "json", "us"), parse_float=str, parse_int=str)
    lines = written(report, "csv", "us").decode().splitlines()

    assert lines[0].split(",") == list(objects[0])
    assert len(objects) == 5012
    first = [value or "" for value in objects[0].values()]
    assert lines[1].split(",") == first
    assert first[:3] == ["4845816.204", "0.800", "1161"]


def test_every_export_gives_every_report_or_a_reason(nsys: Path) -> None:
    for path in sorted(nsys.rglob("*.sqlite")):
        tables = read_report_tables(path)
        for name in REPORTS:
            report = make_report(name, tables)
            assert bool(report.columns) != bool(report.absent), (path.name, name)
            assert len({len(column) for column in report.columns}) <= 1


def test_nothing_of_the_environment_is_read(nsys: Path, training: ReportTables) -> None:
    """Real exports hold the environment of the processes among their strings."""
    shown = "\n".join(training.names)

    assert "PATH=" not in shown
    assert "HOME" not in shown
    assert len(training.names) < 300
