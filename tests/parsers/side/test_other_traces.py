"""Trace events of other programs are named for what they are, and never called a CPU-only trace."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ccltui.metrics.registry import find
from ccltui.metrics.view.job_view import View
from ccltui.parsers.discovery.discover import discover
from ccltui.parsers.job import open_job
from tests.merged_traces import document, rank_events, write

X = {"ph": "X", "ts": 1.0, "dur": 2.0}
OTHERS: dict[str, tuple[object, str]] = {
    "trace_view.json": ([X | {"name": "aten::mm", "cat": "cpu_op", "pid": 1, "tid": 1}], "Ascend"),
    "npu.json": (
        [{"ph": "M", "name": "process_name", "pid": 3, "args": {"name": "Ascend Hardware"}}],
        "Ascend",
    ),
    "timeline.json": (
        [X | {"name": "f", "cat": "task::f", "pid": "10.0.0.5", "tid": "worker:0a", "cname": "a"}],
        "Ray",
    ),
    "old.json": ([X | {"name": "aten::mm", "pid": "CPU functions", "tid": 1}], "autograd.profiler"),
    "functions.json": (
        {"traceEvents": [X | {"name": "f (a.py:1)", "cat": "fee", "pid": 1, "tid": 1}]},
        "VizTracer",
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_trace_of_another_program_is_named(name: str, tmp_path: Path) -> None:
    content, text = OTHERS[name]
    (tmp_path / name).write_text(json.dumps(content))

    (found,) = discover(tmp_path).files

    assert found.kind == "other_trace"
    assert found.problem is not None
    assert text in found.problem
    assert not discover(tmp_path).captures


def test_traces_of_the_profiler_stay_what_they_are(tmp_path: Path) -> None:
    write(tmp_path / "rank0.json", document(rank_events(0), 0))
    write(tmp_path / "rank1.json", rank_events(1))

    assert {found.kind for found in discover(tmp_path).files} == {"kineto"}


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_a_trace_in_utf_16_is_named(encoding: str, tmp_path: Path) -> None:
    text = json.dumps(document(rank_events(0), 0))
    (tmp_path / "rank0.json").write_bytes(text.encode(encoding))

    (found,) = discover(tmp_path).files

    assert found.problem is not None
    assert "UTF-16" in found.problem


@pytest.mark.parametrize(
    "data",
    [
        b"\x00\xff" * 500,
        b"\x01\x00\x02\x00" * 200,  # small numbers of two bytes
        bytes(1000),
        b"\xff\xfe\x00\x00" * 200,
    ],
    ids=["pairs", "small numbers", "zeros", "a mark and zeros"],
)
def test_bytes_with_zeros_are_not_called_utf_16(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "training_metrics.json").write_bytes(data)

    (found,) = discover(tmp_path).files

    assert found.problem is not None
    assert "UTF-16" not in found.problem


def test_accents_in_utf_16_without_a_mark_are_text(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_bytes(("Größe äöü übermäßig groß\n" * 20).encode("utf-16-le"))

    (found,) = discover(tmp_path).files

    assert found.problem is not None
    assert "UTF-16" in found.problem


def test_events_of_unknown_categories_are_not_called_a_cpu_only_trace(tmp_path: Path) -> None:
    write(tmp_path / "job/rank0.json", [X | {"name": "f", "cat": "odd", "pid": 1, "tid": 1}])
    job = open_job(tmp_path / "job", cache_dir=tmp_path / "cache")

    result = find("idle_ratio").run(View(job))

    assert "no event of a category that PyTorch writes" in result.reasons[0].message


@pytest.mark.parametrize("add", [0, 1_735_689_600_000_000_000])
def test_times_in_nanoseconds_are_named(add: int, tmp_path: Path) -> None:
    events = rank_events(0)
    for event in events:
        if "ts" in event:
            event["ts"] = int(event["ts"] * 1000) + add
            event["dur"] = int(event["dur"] * 1000)
    content = document(events, 0) | {"displayTimeUnit": "ns"}
    write(tmp_path / "job/rank0.json", content)

    job = open_job(tmp_path / "job", cache_dir=tmp_path / "cache")

    assert not job.ranks
    assert "look like nanoseconds" in job.failures[0].error


def test_a_display_in_nanoseconds_alone_changes_nothing(tmp_path: Path) -> None:
    write(tmp_path / "job/rank0.json", document(rank_events(0), 0) | {"displayTimeUnit": "ns"})

    job = open_job(tmp_path / "job", cache_dir=tmp_path / "cache")

    assert [trace.label for trace in job.ranks] == ["0"]


@pytest.mark.parametrize("name", ["host1_900.async_llm.176.pt.trace.json", "front_end.json"])
def test_a_process_that_coordinates_ranks_is_a_side_file(name: str, tmp_path: Path) -> None:
    for rank in range(2):
        write(tmp_path / f"job/rank{rank}.json", document(rank_events(rank), rank))
    calls = [X | {"name": "serve", "cat": "python_function", "pid": 900, "tid": 900}]
    write(tmp_path / "job" / name, document(calls))

    job = open_job(tmp_path / "job", cache_dir=tmp_path / "cache")

    assert [trace.label for trace in job.ranks] == ["0", "1"]
    assert job.is_side(name)
    assert [note.code for note in job.notes] == ["side_file"]
    assert find("coll_call_num").run(View(job)).details["num_traces"] == 2


def test_a_rank_without_a_number_is_no_side_file(tmp_path: Path) -> None:
    write(tmp_path / "job/rank0.json", document(rank_events(0), 0))
    write(tmp_path / "job/other.json", document(rank_events(1)))

    job = open_job(tmp_path / "job", cache_dir=tmp_path / "cache")

    assert [trace.label for trace in job.ranks] == ["0", "other.json"]
    assert not job.side


def test_a_rank_beyond_the_world_size_makes_numbers_partial(tmp_path: Path) -> None:
    for rank in range(2):
        content = document(rank_events(rank), rank)
        content["distributedInfo"]["world_size"] = 1
        write(tmp_path / f"job/rank{rank}.json", content)

    result = find("coll_call_num").run(View(open_job(tmp_path / "job", cache_dir=tmp_path / "c")))

    assert result.status == "partial"
    assert "rank 1 is beyond the world size 1" in result.reasons[0].message
