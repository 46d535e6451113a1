"""Categories of events of other devices than NVIDIA's and AMD's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ccltui.metrics.model.classify import COMP, MEM, classes_of
from ccltui.parsers.columns import GROUPS
from ccltui.parsers.job import open_job
from ccltui.parsers.kineto.kineto_reader import read_kineto


def event(category: str, name: str, ts: int, **more: object) -> dict[str, object]:
    return {"ph": "X", "cat": category, "name": name, "pid": 9, "tid": 1, "ts": ts, "dur": 1} | more


@pytest.mark.parametrize("fast", [True, False])
def test_work_of_an_mtia_device_is_device_work(
    fast: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not fast:
        monkeypatch.setenv("CCLTUI_ACCEL", "0")
    events = [
        event("mtia_ccp_events", "fc-dtype_Float", 1),
        event("mtia_ccp_events", "dma_request", 3, args={"direction": "DEVICE_TO_HOST"}),
        event("mtia_runtime", "runFunction", 0),
        event("xpu_runtime", "zeCommandListAppendLaunchKernel", 0),
        event("privateuse1_driver", "launch", 0),
        event("mtia_insight", "counter", 0),
    ]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": events}))

    trace = read_kineto(path)

    kept = {group: len(trace.group(group)) for group in GROUPS if len(trace.group(group))}
    assert kept == {"gpu": 2, "runtime": 3, "other": 1}
    assert classes_of(trace).tolist() == [COMP, MEM]


def test_the_public_mtia_trace_has_device_work(shared: Path) -> None:
    job = open_job(shared / "traces/hta/mtia_trace_single_rank")

    classes = classes_of(job.ranks[0]).tolist()

    # Counted in the file's text: 25,814 events of mtia_ccp_events, 22,361 named dma_request.
    assert (classes.count(COMP), classes.count(MEM)) == (25_814 - 22_361, 22_361)
