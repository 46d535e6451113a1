"""``ccltui stats`` as users run it."""

from __future__ import annotations

import csv
import json
import sqlite3
from pathlib import Path

import pytest
from shell import CCLTUI
from warm_shell import run

TEXT = """Time (%),Total Time (ns),Instances,Name
60.0,"1,500",3,"a, b"
40.0,"1,000",1,c
"""


@pytest.fixture
def export(tmp_path: Path) -> Path:
    path = tmp_path / "report_1.sqlite"
    with sqlite3.connect(path) as connection:
        connection.executescript(
            """
            CREATE TABLE StringIds (id INTEGER, value TEXT);
            INSERT INTO StringIds VALUES (1, 'long<int>'), (2, 'long'), (3, 'TOKEN=secret');
            CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, streamId, globalPid,
                correlationId, demangledName, shortName);
            INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1000, 3500, 0, 7, 0, 1, 1, 2);
            INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (5000, 6000, 0, 7, 0, 2, 1, 2);
            """
        )
    connection.close()
    return path


def test_a_report_of_an_export(export: Path) -> None:
    done = run(
        CCLTUI, "stats", export, "-r", "gpukernsum", "--format", "csv", "--timeunit", "micro"
    )

    assert (done.returncode, "secret" in done.stdout + done.stderr) == (0, False)
    assert list(csv.reader(done.stdout.splitlines())) == [
        [
            *("Time (%)", "Total Time (us)", "Instances", "Avg (us)", "Med (us)", "Min (us)"),
            *("Max (us)", "StdDev (us)", "Name"),
        ],
        ["100.0", "3.500", "2", "1.750", "1.750", "1.000", "2.500", "1.061", "long<int>"],
        [],
    ]


def test_names_and_windows(export: Path) -> None:
    done = run(
        CCLTUI,
        *("stats", export, "--report", "cuda_gpu_kern_sum:base", "--format", "json"),
        *("--filter-time", "4us/"),
    )

    (row,) = json.loads(done.stdout)
    assert (row["Name"], row["Instances"], row["Total Time (ns)"]) == ("long", 1, 1000)


def test_one_report_under_two_names_of_kernels(export: Path) -> None:
    names = "cuda_gpu_kern_sum,cuda_gpu_kern_sum:base"

    found = json.loads(run(CCLTUI, "stats", export, "-r", names, "--format", "json").stdout)

    assert {key: rows[0]["Name"] for key, rows in found.items()} == {
        "cuda_gpu_kern_sum": "long<int>",
        "cuda_gpu_kern_sum 2": "long",
    }


def test_absent_reports_are_named_and_the_others_printed(export: Path) -> None:
    done = run(CCLTUI, "stats", export, "-r", "osrt_sum,gpu-kern-summary")

    assert done.returncode == 3
    assert done.stdout.splitlines()[1] == " ** CUDA GPU Kernel Summary (cuda_gpu_kern_sum):"
    absent = f"osrt_sum: SKIPPED: {export} does not contain OS Runtime trace data."
    assert absent in done.stderr
    quiet = run(CCLTUI, "stats", export, "-q", "-r", "osrt_sum,cuda_gpu_kern_sum")
    assert (quiet.returncode, quiet.stderr) == (3, "")
    assert (
        "no version of nsys has a report gpu-kern-summary; using cuda_gpu_kern_sum" in done.stderr
    )


def test_the_default_set_prints_what_there_is(export: Path) -> None:
    done = run(CCLTUI, "stats", export)

    assert done.returncode == 0
    assert done.stdout.count(" ** ") == 1


def test_a_text_is_converted(tmp_path: Path) -> None:
    path = tmp_path / "run_cuda_gpu_kern_sum.csv"
    path.write_text(TEXT)

    done = run(CCLTUI, "stats", path, "--format", "json", "--timeunit", "us")

    assert (done.returncode, done.stderr) == (0, "")
    assert [row["Total Time (us)"] for row in json.loads(done.stdout)] == [1.5, 1.0]
    refused = run(CCLTUI, "stats", path, "--filter-time", "1s/")
    assert (refused.returncode, refused.stdout) == (3, "")
    assert "cuda_gpu_kern_sum: SKIPPED: the text has totals of it" in refused.stderr
    ranges = run(CCLTUI, "stats", path, "--filter-nvtx", "step")
    assert (ranges.returncode, "a text has no ranges to filter by" in ranges.stderr) == (2, True)
    missing = run(CCLTUI, "stats", path, "-r", "nvtx_sum")
    assert (missing.returncode, missing.stdout) == (3, "")


def test_a_report_is_exported_by_nsys_first(export: Path, tmp_path: Path) -> None:
    report = tmp_path / "capture" / "run.nsys-rep"
    report.parent.mkdir()
    report.write_bytes(b"\x00\x01binary")
    stub = tmp_path / "nsys"
    stub.write_text(f'#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done\ncp "{export}" "$2"\n')
    stub.chmod(0o755)

    done = run(CCLTUI, "stats", report, "-r", "cuda_gpu_kern_sum", "--nsys", stub)
    absent = run(CCLTUI, "stats", report, env={"PATH": "/nonexistent", "CCLTUI_NSYS": None})

    assert (done.returncode, " ** CUDA GPU Kernel Summary" in done.stdout) == (0, True)
    assert (absent.returncode, absent.stdout) == (1, "")
    assert "a report that only nsys reads" in absent.stderr


def test_captures_of_a_directory_are_pooled(export: Path) -> None:
    alone = run(CCLTUI, "stats", export.parent, "-r", "cuda_gpu_kern_sum", "--format", "json")
    (export.parent / "report_2.sqlite").write_bytes(export.read_bytes() + b"\0" * 4096)
    (export.parent / "report_3.sqlite").write_bytes(export.read_bytes()[:-4096] + b"\xff" * 4096)
    pooled = run(CCLTUI, "stats", export.parent, "-r", "cuda_gpu_kern_sum", "--format", "json")

    (one,), (both,) = json.loads(alone.stdout), json.loads(pooled.stdout)
    assert (one["Instances"], both["Instances"], both["Total Time (ns)"]) == (2, 4, 7000)
    assert pooled.returncode == 0
    assert "pooled 2 captures: report_1.sqlite and report_2.sqlite; --each" in pooled.stderr
    assert "report_3.sqlite is left out: " in pooled.stderr
    trace = run(CCLTUI, "stats", export.parent, "-r", "cuda_gpu_trace")
    assert (trace.returncode, trace.stdout) == (3, "")
    assert "its times are those of one capture: --each" in trace.stderr


def test_each_capture_of_a_directory_has_its_tables(export: Path, tmp_path: Path) -> None:
    (export.parent / "report_2.sqlite").write_bytes(export.read_bytes() + b"\0" * 4096)
    arguments = ("stats", export.parent, "-r", "cuda_gpu_kern_sum", "--each")

    texts = {form: run(CCLTUI, *arguments, "--format", form) for form in ("column", "csv", "json")}

    found = json.loads(texts["json"].stdout)
    assert {name: rows[0]["Instances"] for name, rows in found.items()} == {
        "report_1.sqlite": 2,
        "report_2.sqlite": 2,
    }
    for form in ("column", "csv"):
        lines = texts[form].stdout.splitlines()
        assert [line for line in lines if "report_" in line] == [
            "Processing [report_1.sqlite] with [cuda_gpu_kern_sum.py]... ",
            "Processing [report_2.sqlite] with [cuda_gpu_kern_sum.py]... ",
        ]
        again = tmp_path / f"printed.{form}"
        again.write_text(texts[form].stdout)
        assert run(CCLTUI, "stats", again).stdout.count(" ** CUDA GPU Kernel Summary") == 2


def test_texts_of_a_directory_are_printed_one_after_another(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}_cuda_gpu_kern_sum.csv").write_text(TEXT.replace("a, b", name))

    done = run(CCLTUI, "stats", tmp_path, "--format", "json")

    assert done.returncode == 0
    found = json.loads(done.stdout)
    assert {name: [row["Name"] for row in rows] for name, rows in found.items()} == {
        "a_cuda_gpu_kern_sum.csv": ["a", "c"],
        "b_cuda_gpu_kern_sum.csv": ["b", "c"],
    }


def test_ranks_of_a_job_are_pooled(job: Path, tmp_path: Path) -> None:
    target = tmp_path / "sum.json"

    done = run(
        CCLTUI, "stats", job, "-r", "cuda_gpu_kern_sum,nvtx_sum", "--format", "json", "-o", target
    )

    assert (done.returncode, done.stdout) == (0, "")
    document = json.loads(target.read_text())
    assert list(document) == ["cuda_gpu_kern_sum", "nvtx_sum"]
    steps = [row for row in document["nvtx_sum"] if row["Range"].startswith("ProfilerStep#")]
    assert {row["Instances"] for row in steps} == {4}


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("-r", "kernels"), 2, "unknown report 'kernels'"),
        (("-r", "cuda_gpu_kern_smu"), 2, "Nearest: cuda_gpu_kern_sum"),
        (("-r", "nvtx_sum:base"), 2, "nvtx_sum:base: its arguments are nvtx_sum"),
        (("-r", "um_sum:rows=x"), 2, "'rows=x': the value is a whole number"),
        (("--format", "csv:wide"), 2, "csv has no argument 'wide'"),
        (("--format", "xml"), 2, "formats: column, table, csv, tsv, json, hdoc, htable"),
        (("--filter-time", "5"), 2, "Illegal window '5': no slash"),
        (("--timeunit", "days"), 2, "invalid choice"),
        (("-o", "/nonexistent/x"), 2, "does not exist"),
    ],
)
def test_wrong_command_lines(
    export: Path, arguments: tuple[str, ...], status: int, message: str
) -> None:
    done = run(CCLTUI, "stats", export, *arguments)

    assert (done.returncode, done.stdout) == (status, "")
    assert message in done.stderr


def test_a_path_that_is_not_there(tmp_path: Path) -> None:
    done = run(CCLTUI, "stats", tmp_path / "none.sqlite")

    assert done.returncode == 1
    assert "no such file or directory" in done.stderr


def test_a_directory_of_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing to see\n")

    done = run(CCLTUI, "stats", str(tmp_path))

    assert done.returncode == 1
    assert done.stderr == (
        f"ccltui: {tmp_path}: no trace, export or text of nsys stats here that can be read\n"
    )


def test_delays_of_exchanges(tmp_path: Path) -> None:
    kernel = "ncclDevKernel_SendRecv(x)"
    rows = f"1000,500,1,8,A (0),{kernel}\n1400,100,2,8,A (1),{kernel}\n"
    header = "Start (ns),Duration (ns),CorrId,GrdX,Device,Name\n"
    (tmp_path / "a_cuda_gpu_trace.csv").write_text(header + rows)
    drawing = tmp_path / "delays.svg"

    done = run(CCLTUI, "stats", tmp_path, "--alltoall", "--format", "json", "--svg", drawing)

    assert (done.returncode, done.stderr) == (0, "")
    (study,) = json.loads(done.stdout)["studies"]
    assert study["summary"]["delay"]["max"] == 0.4
    assert drawing.read_text().startswith("<svg ")


def test_a_folder_without_exchanges(export: Path) -> None:
    done = run(CCLTUI, "stats", export.parent, "--alltoall")

    assert (done.returncode, done.stdout) == (3, "")
    assert "no all-to-all kernels found" in done.stderr
    refused = run(CCLTUI, "stats", export.parent, "--alltoall", "-r", "nvtx_sum")
    assert (refused.returncode, "takes neither reports nor" in refused.stderr) == (2, True)
    alone = run(CCLTUI, "stats", export, "--svg", export.parent / "x.svg")
    assert (alone.returncode, "--svg draws the delays" in alone.stderr) == (2, True)


def test_reports_are_paired_with_formats_and_outputs(export: Path) -> None:
    reports = "cuda_gpu_kern_sum:base,cuda_gpu_kern_gb_sum,cuda_gpu_trace"
    arguments = ("-r", reports, "-f", "csv,column", "-o", ".,-")

    done = run(CCLTUI, "stats", export, *arguments)
    again = run(CCLTUI, "stats", export, *arguments)
    forced = run(CCLTUI, "stats", export, *arguments, "--force-overwrite")

    written = export.with_name("report_1_cuda_gpu_kern_sum_base.csv")
    assert written.read_text().splitlines()[1].startswith("100.0,3500,2,1750.0,1750.0,1000,2500,")
    titles = [line for line in done.stdout.splitlines() if line.startswith(" **")]
    assert titles == [
        " ** CUDA GPU Kernel/Grid/Block Summary (cuda_gpu_kern_gb_sum):",
        " ** CUDA GPU Trace (cuda_gpu_trace):",
    ]
    assert (done.returncode, again.returncode, forced.returncode) == (0, 3, 0)
    assert "--force-overwrite replaces it" in again.stderr


def test_reports_are_piped_into_a_command(export: Path) -> None:
    done = run(CCLTUI, "stats", export, "-r", "cuda_gpu_kern_sum", "-o", "@grep -c long")
    missing = run(CCLTUI, "stats", export, "-r", "cuda_gpu_kern_sum", "-o", "@/nonexistent/tool")

    assert (done.returncode, done.stdout) == (0, "1\n\n")  # as nsys ends it
    assert missing.returncode != 0
    assert "Traceback" not in missing.stderr
    assert "/nonexistent/tool" in missing.stderr


def test_one_report_in_two_formats_goes_to_files_of_a_base(export: Path, tmp_path: Path) -> None:
    base = tmp_path / "node0"
    formats = ("-f", "hdoc:title=A&B", "-f", "tsv:nohdr:time=us")

    done = run(CCLTUI, "stats", export, "-r", "cuda_gpu_kern_sum", *formats, "-o", base)

    assert done.returncode == 0
    page = tmp_path.joinpath("node0_cuda_gpu_kern_sum.html").read_text()
    assert "<title>A&amp;B</title>" in page
    assert "<td>long&lt;int&gt;</td>" in page
    line = tmp_path.joinpath("node0_cuda_gpu_kern_sum.tsv").read_text().splitlines()[0]
    assert line.split("\t")[:3] == ["100.0", "3.500", "2"]
