"""Idle time between steps, of given recordings, against plain JSON read without the product."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from partition_checks import check

from ccltui.metrics.registry import find
from ccltui.metrics.view.job_view import View
from ccltui.parsers.job import open_job

pytestmark = pytest.mark.shared

GAP = "cases/hg_dataloader_gap/input"
RESNET = "traces/kineto/samples/resnet50_num_workers_0"
RESNET_PLUGIN = "traces/kineto/plugin/samples/resnet50_num_workers_0"
SEVERAL_STEPS = (
    "traces/aorta/misc",
    "traces/hta/df_index_resolver",
    "traces/hta/nccl_parser_config",
    "traces/hta/trace_compare/base",
    "traces/hta/trace_compare/test",
    "traces/hta/trace_diff/control",
    "traces/hta/trace_filter",
    RESNET,
    RESNET_PLUGIN,
    "traces/torchrec/log/resnet18",
    "traces/torchrec/trace/sst_long_a2a_optimizer",
    "traces/torchrec/trace/sst_long_a2a_optimizer_3",
    "traces/torchrec/trace/sst_long_a2a_optimizer_5_qcomm",
    "traces/tracelens/traces/mi300",
    "traces/stragglers-st",
    "cases/n10_graph_whole_nccl_outside/input",
    "cases/n19_one_gemm_zero_time/input",
    GAP,
)
"""Public recordings of devices over several steps."""
ON_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset")


def view_of(path: Path, cache: Path) -> View:
    return View(open_job(path, cache_dir=cache, jobs=1))


def events_of(path: Path) -> list[dict[str, Any]]:
    data = path.read_bytes()
    document = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
    events = document if isinstance(document, list) else document["traceEvents"]
    return [event for event in events if event.get("ph") == "X"]


def busy_and_span_us(path: Path) -> tuple[float, float]:
    """Time in device work, and from the first to the last work launched inside step markers.

    Work without a launch record is that of the marker in which it starts.
    """
    events = events_of(path)
    markers = [
        (event["ts"], event["ts"] + event["dur"])
        for event in events
        if event["name"].startswith("ProfilerStep") and "gpu" not in event["cat"]
    ]
    launched = {
        event["args"]["correlation"]: event["ts"]
        for event in events
        if "correlation" in event.get("args", {}) and event["cat"].lower().endswith("runtime")
    }
    work = [event for event in events if event["cat"].lower() in ON_DEVICE]
    inside = [
        event
        for event in work
        if any(
            start <= launched.get(event["args"]["correlation"], event["ts"]) < end
            for start, end in markers
        )
    ]
    first = min(event["ts"] for event in inside)
    last = max(event["ts"] + event["dur"] for event in inside)
    busy, reached = 0.0, first
    for event in sorted(work, key=lambda one: float(one["ts"])):
        begin, end = max(event["ts"], reached), min(event["ts"] + event["dur"], last)
        busy += max(end - begin, 0)
        reached = max(reached, end)
    return busy, last - first


def test_a_device_that_waits_for_the_data_loader_is_idle(shared: Path, tmp_path: Path) -> None:
    view = view_of(shared / GAP, tmp_path)

    idle = find("idle_ratio").run(view).details
    assert (idle["idle_ms"], idle["window_ms"]) == (pytest.approx(11.12), pytest.approx(36.32))
    assert find("gpu_busy").run(view).value == pytest.approx(1 - 11.12 / 36.32)
    causes = find("idle_causes").run(view).details
    assert causes["idle_ms"] == pytest.approx(11.12)
    by_cause = {cause: row["ms"] for cause, row in causes["by_cause"].items()}
    assert max(by_cause, key=lambda cause: by_cause[cause]) == "data_loading"
    assert by_cause["data_loading"] == pytest.approx(3 * 3.4, abs=0.1)
    first = find("fix_first").run(view).details["losses"][0]
    assert (first["kind"], first["what"]) == ("idle", "data_loading")
    composed = find("step_composition").run(view).details
    assert sum(row["ms"] for row in composed["parts"]) == pytest.approx(36.32)


@pytest.mark.parametrize("name", [RESNET, RESNET_PLUGIN])
def test_busy_is_that_of_plain_json(shared: Path, tmp_path: Path, name: str) -> None:
    (path,) = sorted((shared / name).iterdir())
    busy, span = busy_and_span_us(path)

    view = view_of(shared / name, tmp_path)
    found = find("gpu_busy").run(view).details
    assert found["busy_ms"] == pytest.approx(busy / 1000, abs=1e-6)
    assert found["window_ms"] == pytest.approx(span / 1000, abs=1e-6)
    losses = find("fix_first").run(view).details["losses"]
    assert "data_loading" in [one["what"] for one in losses]


def test_half_of_the_time_of_the_sample_without_workers(shared: Path, tmp_path: Path) -> None:
    view = view_of(shared / RESNET_PLUGIN, tmp_path)

    assert find("gpu_busy").run(view).value == pytest.approx(0.499, abs=5e-4)


@pytest.mark.parametrize("name", SEVERAL_STEPS)
def test_the_parts_are_the_span_and_the_metrics_agree(
    shared: Path, tmp_path: Path, name: str
) -> None:
    check(view_of(shared / name, tmp_path))
