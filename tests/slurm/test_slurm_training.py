"""A real training job on two nodes, through the project's own scripts, from queue to numbers."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cluster import Cluster
from jobs import JobState, wait_for_end
from workloads import Workload, log_of, submit_workload, tiny_workload

ON_DEVICE = {"gpu_busy", "idle_ratio", "comm_comp_overlap", "temporal_breakdown", "mfu", "busbw"}


def ccltui(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ccltui", *map(str, arguments)],
        check=False,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
    )


def document(*arguments: str | Path) -> dict[str, Any]:
    done = ccltui(*arguments, "--format", "json")
    assert done.returncode == 0, done.stderr
    loaded: dict[str, Any] = json.loads(done.stdout)
    return loaded


def test_two_nodes_train_and_leave_traces_that_ccltui_reads(
    cluster: Cluster, torch_installed: None, tmp_path: Path
) -> None:
    workload = tiny_workload(tmp_path)

    job = submit_workload(cluster, workload, "--constraint", "gpu")

    ended = wait_for_end(cluster, job, seconds=180)
    log = log_of(workload, job)
    assert ended == JobState("COMPLETED", "None", 0, "node[1-2]"), log[-4000:]
    assert "all that profile mode torch promises is there" in log
    check_files(workload)
    check_hosts(workload)
    check_doctor(workload)
    check_metrics(workload)


def check_files(workload: Workload) -> None:
    names = {path.name for path in workload.traces.iterdir()}
    assert names >= {
        *(f"kineto_trace_{rank}.json" for rank in range(4)),
        *(f"torch_et_{rank}.json" for rank in range(4)),
        *("workload_card.yaml", "train_config.toml", "launcher_metadata.json"),
    }
    (training_log,) = workload.traces.glob("*.log")
    text = training_log.read_text(errors="replace")
    for rank in range(4):
        assert f"[rank{rank}] step: 6  loss: " in text
    for rank in range(4):
        nodes = json.loads((workload.traces / f"torch_et_{rank}.json").read_bytes())["nodes"]
        assert len(nodes) > 100


def check_hosts(workload: Workload) -> None:
    hosts = []
    for rank in range(4):
        trace = json.loads((workload.traces / f"kineto_trace_{rank}.json").read_bytes())
        assert trace["distributedInfo"]["rank"] == rank
        assert trace["distributedInfo"]["backend"] == "gloo"
        hosts.append(trace["host_name"])
    assert hosts == ["node1", "node1", "node2", "node2"]


def check_doctor(workload: Workload) -> None:
    told = document("doctor", workload.traces)
    checks = {check["check"]: check for check in told["checks"]}
    assert checks["ranks"]["message"] == "all 4 ranks"
    print(json.dumps(checks, indent=1))


def check_metrics(workload: Workload) -> None:
    told = document(workload.traces, "--metric", "all")
    print(json.dumps(told, indent=1))
    results = {result["metric"]: result for result in told["results"]}
    assert told["trace"]["ranks"] == 4
    assert results["coll_call_num"]["status"] == "ok"
    assert 0
