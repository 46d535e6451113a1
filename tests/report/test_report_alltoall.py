"""All-to-all studies of folders: assignment of files, and the output."""

from __future__ import annotations

import csv
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ccltui.parsers.errors import NotFoundError
from ccltui.parsers.window import parse_window
from ccltui.report.alltoall_study import (
    studies_of,
    write_column,
    write_csv,
    write_json,
    write_svg,
)

BANNER = (
    "Processing [{database}] with [/opt/nsight-systems/2024.1.1/reports/{report}.py]"
    "(start=1000000000:end=2000000000)... \n"
)
KERNEL = "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm *)"
TRACE = f"""Start (us),Duration (us),CorrId,GrdX,Device,Name
10.000,100.000,1,8,A100 (0),{KERNEL}
70.000,40.000,2,8,A100 (1),{KERNEL}
200.000,60.000,3,8,A100 (0),{KERNEL}
210.000,50.000,4,8,A100 (1),{KERNEL}
900.000,9.000,5,8,A100 (0),{KERNEL}
"""
SUMMARY = f"""Time (%),Total Time (us),Instances,Category,Operation
51.8,259.000,5,CUDA_KERNEL,{KERNEL}
40.0,200.000,9,CUDA_KERNEL,sgemm_x
8.2,41.000,1,MEMORY_OPER,[CUDA memset]
"""


def write(directory: Path, name: str, report: str, body: str, database: str = "r.sqlite") -> None:
    banner = BANNER.format(database=database, report=report) if database else ""
    (directory / name).write_text(banner + body)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path, "node0_trace.txt", "cuda_gpu_trace", TRACE)
    write(tmp_path, "node0_sum.txt", "cuda_gpu_sum", SUMMARY)
    (tmp_path / "README.md").write_text("# traces\n")
    return tmp_path


def test_a_trace_is_joined_with_its_summary(folder: Path) -> None:
    (node,) = studies_of(folder).nodes

    assert (node.source, node.summary_source, node.agrees) == (
        *("node0_trace.txt", "node0_sum.txt"),
        True,
    )
    assert node.made_by == "nsys 2024.1.1, window 1s/2s"
    assert node.study.delay_ns.tolist() == [60_000, 10_000]
    assert node.study.coverage == 0.8


def test_a_summary_of_another_capture_is_not_taken(folder: Path) -> None:
    write(folder, "node0_sum.txt", "cuda_gpu_sum", SUMMARY, "other.sqlite")
    (folder / "node0_sum.txt").rename(folder / "elsewhere.txt")

    (node,) = studies_of(folder).nodes

    assert (node.summary, node.agrees) == (None, None)


def test_sums_that_differ_are_reported(folder: Path) -> None:
    write(folder, "node0_sum.txt", "cuda_gpu_sum", SUMMARY.replace("259.000", "258.999"))

    text = write_column(studies_of(folder), 1.0).decode()

    assert "sums DIFFER from those of node0_sum.txt" in text


def test_text_for_people(folder: Path) -> None:
    lines = write_column(studies_of(folder), 10.0).decode().splitlines()

    assert lines[:2] == ["node0_trace.txt: nsys 2024.1.1, window 1s/2s", ""]
    assert lines[2] == (
        "2 of 3 exchanges have a kernel on each of 2 devices, 80.0 % of 5 kernels; "
        "sums equal those of node0_sum.txt"
    )
    assert lines[4:8] == [
        "us        mean     p50      p95      max",
        "total   80.000  80.000  100.000  100.000",
        "actual  45.000  45.000   50.000   50.000",
        "delay   35.000  35.000   60.000   60.000",
    ]
    assert any(line.endswith("below 10 %") for line in lines)


def test_csv_has_a_row_an_exchange(folder: Path) -> None:
    rows = list(csv.reader(write_csv(studies_of(folder), 1.0).decode().splitlines()))

    assert rows == [
        ["source", "exchange", "total_us", "actual_us", "delay_us"],
        ["node0_trace.txt", "0", "100.000", "40.000", "60.000"],
        ["node0_trace.txt", "1", "60.000", "50.000", "10.000"],
    ]


def test_json_has_everything(folder: Path) -> None:
    document = json.loads(write_json(studies_of(folder), 10.0))

    (node,) = document["studies"]
    assert node["summary"]["delay"] == {"mean": 35.0, "p50": 35.0, "p95": 60.0, "max": 60.0}
    assert (node["exchanges"], node["incomplete_exchanges"], node["coverage"]) == (2, 1, 0.8)
    assert node["each"]["delay"] == [60.0, 10.0]
    assert [share["name"] for share in node["shares"]["kinds"]] == ["comm", "gemm", "below 10 %"]
    assert node["shares"]["agrees"] is True


def test_the_drawing_holds_all_studies(folder: Path) -> None:
    write(folder, "node1_trace.txt", "cuda_gpu_trace", TRACE, "")

    svg = write_svg(studies_of(folder)).decode()

    assert svg.startswith("<svg ")
    assert svg.count("stroke-width") == 2
    assert "node1_trace.txt" in svg


def test_a_broken_file_is_a_problem_and_the_rest_is_used(folder: Path) -> None:
    write(folder, "broken_trace.txt", "cuda_gpu_trace", TRACE.replace("70.000", "many"))

    studies = studies_of(folder)

    assert len(studies.nodes) == 1
    (problem,) = studies.problems
    assert problem.startswith("broken_trace.txt:4:1: Start (us): 'many' is no number")


def test_a_path_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        studies_of(tmp_path / "none")


def test_the_published_folder(shared: Path) -> None:
    if not (shared / "nsys" / "aristos").is_dir():
        pytest.skip("no published texts")

    (node,) = studies_of(shared / "nsys" / "aristos").nodes

    assert (node.source, node.agrees) == ("multi_8x4_1.3B_trace.txt", True)
    assert node.study.num_complete == 578
    text = write_column(studies_of(shared / "nsys" / "aristos"), 4.0).decode()
    assert "delay     278.384    186.369    642.774  3,220.920" in text
    assert "window 3s730ms/12s500ms" in text


def test_a_large_export_is_listed_but_not_read_for_a_screen(folder: Path) -> None:
    with closing(sqlite3.connect(folder / "a.sqlite")) as database, database:
        database.execute("CREATE TABLE StringIds (id INTEGER, value TEXT)")
        database.execute("CREATE TABLE NVTX_EVENTS (start INTEGER)")

    found = studies_of(folder, largest_bytes=1000)

    assert found.problems == ("a.sqlite: a large export: ccltui stats --alltoall reads it",)
    assert studies_of(folder).problems == ()


def test_exchanges_of_a_window_are_taken_whole_and_have_no_summary(folder: Path) -> None:
    (node,) = studies_of(folder, window=parse_window("150us/250us")).nodes

    assert node.study.total_ns.tolist() == [60_000]
    assert (node.summary, node.agrees) == (None, None)
    assert node.made_by.endswith("window 1s/2s, filtered here to 150us/250us")
