"""Device events that overlap on a stream: counted, stated, and hidden by nothing here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import ccltui
from ccltui.report.overview_text import hidden_elsewhere


def kernel(start: float, length: float, stream: int = 7) -> dict[str, Any]:
    args = {"device": 0, "stream": stream, "correlation": 0}
    row = {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": stream}
    return {**row, "ts": start, "dur": length, "args": args}


def opened(folder: Path, *kernels: dict[str, Any]) -> ccltui.api.Job:
    (folder / "traces").mkdir()
    document = {"distributedInfo": {"rank": 0, "world_size": 1}, "traceEvents": kernels}
    (folder / "traces/rank0_trace.json").write_text(json.dumps(document))
    return ccltui.open(folder / "traces", cache_dir=folder / "cache")


def test_kernels_of_a_dependent_launch_are_stated_and_their_time_counts_once(
    tmp_path: Path,
) -> None:
    job = opened(tmp_path, kernel(0, 10), kernel(8, 10), kernel(16, 4), kernel(0, 30, stream=9))

    found = job.metric("findings").details
    assert found["overlapping_events"] == 1  # the third lies beside the first, which is drawn
    assert job.metric("kernels").details["num_events"] == 4
    assert job.metric("gpu_busy").details["busy_ms"] == pytest.approx(0.030)
    assert hidden_elsewhere(1) in str(job.explain())


def test_without_overlaps_nothing_is_stated(tmp_path: Path) -> None:
    job = opened(tmp_path, kernel(0, 10), kernel(10, 10), kernel(2, 4))

    assert job.metric("findings").details["overlapping_events"] == 0
    assert "Perfetto" not in str(job.explain())


def test_one_and_many() -> None:
    assert hidden_elsewhere(1) == (
        "1 device event overlaps another of its stream: it counts here, Perfetto hides it."
    )
    assert hidden_elsewhere(2000) == (
        "2,000 device events overlap another of their stream: they count here, Perfetto hides them."
    )
