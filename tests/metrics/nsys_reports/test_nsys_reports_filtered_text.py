"""Printed traces under a window: the rows that the capture itself would give."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ccltui.metrics.nsys_reports.from_text import filtered_report, report_of_section
from ccltui.metrics.nsys_reports.report import Report
from ccltui.parsers.nsys.text_reports.stats_text import parse_stats_text, read_stats_text
from ccltui.parsers.nsys.text_reports.typed_table import Section
from ccltui.parsers.window import parse_window

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
