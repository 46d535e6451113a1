"""A real training job on two nodes, through the project's own scripts, from queue to numbers."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from cluster import Cluster
from daemons import await_true
from jobs import JobState, wait_for_end

from workloads import (
    ANALYSE,
    log_of,
    stand_in_nsys,
    submit_workload,
    submitted,
    tiny_workload,
)

RANKS = range(4)
STEPS = range(3, 6)
ACTIVATION_BYTES = 2 * 16 * 32 * 4  # sequences, tokens, width, float32
ON_DEVICE = ("gpu_busy", "idle_ratio", "comm_comp_overlap", "temporal_breakdown", "busbw")


def ccltui_json(*arguments: str | Path) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "ccltui", *map(str, arguments), "--format", "json"],
        check=False,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_two_nodes_train_and_the_analysis_behind_them_finds_what_they_did(
    cluster: Cluster, torch_installed: None, tmp_path: Path
) -> None:
    workload = tiny_workload(tmp_path)

    job = submit_workload(cluster, workload, "--constraint", "gpu")
    analysis = submitted(cluster, workload, ANALYSE, "--after", job, workload.traces)

    ended = wait_for_end(cluster, job, seconds=180)
    log = log_of(workload, job)
    assert ended == JobState("COMPLETED", "None", 0, "node[1-2]"), log[-4000:]
    assert "all that profile mode torch promises is there" in log
    check_files(workload.traces)
    check_hosts(workload.traces)
    check_doctor(workload.traces)
    ended = wait_for_end(cluster, analysis, seconds=90)
    assert ended.state == "COMPLETED", log_of(workload, analysis)
    check_metrics(workload.traces)


def check_files(traces: Path) -> None:
    assert {path.name for path in traces.iterdir()} >= {
        *(f"kineto_trace_{rank}.json" for rank in RANKS),
        *(f"torch_et_{rank}.json" for rank in RANKS),
        *("workload_card.yaml", "train_config.toml", "launcher_metadata.json"),
    }
    (log,) = traces.glob("*.log")
    text = log.read_text(errors="replace")
    for rank in RANKS:
        assert f"[rank{rank}] step: 6  loss: " in text
        execution = json.loads((traces / f"torch_et_{rank}.json").read_bytes())
        names = {node["name"] for node in execution["nodes"]}
        assert {"c10d::allreduce_", "c10d::_allgather_base_"} <= names


def check_hosts(traces: Path) -> None:
    """Ranks of one node say so themselves."""
    found = []
    for rank in RANKS:
        trace = json.loads((traces / f"kineto_trace_{rank}.json").read_bytes())
        own = trace["distributedInfo"]
        found.append((trace["host_name"], own["rank"], own["world_size"], own["backend"]))
    assert found == [
        ("node1", 0, 4, "gloo"),
        ("node1", 1, 4, "gloo"),
        ("node2", 2, 4, "gloo"),
        ("node2", 3, 4, "gloo"),
    ]


def check_doctor(traces: Path) -> None:
    checks = ccltui_json("doctor", traces)["checks"]
    found = {check["check"]: (check["state"], check["message"]) for check in checks}
    assert found["ranks"] == ("ok", "all 4 ranks")
    assert found["GPU events"] == (
        "warning",
        "CPU-only trace: ranks 0, 1, 2 and 3; the backend is gloo",
    )
    assert found["execution traces"] == ("ok", "on 4 ranks")
    assert found["step markers"] == ("ok", "ProfilerStep: 3 steps on every rank")
    assert found["workload card"] == ("ok", "workload_card.yaml agrees with the traces")


def check_metrics(traces: Path) -> None:
    """What the analysis wrote, against what the program is known to do."""
    document = json.loads((traces / "metrics.json").read_bytes())
    results = {result["metric"]: result for result in document["results"]}
    assert document["trace"]["ranks"] == document["trace"]["world_size"] == 4
    for result in results.values():
        assert result["details"]["inputs"]["backends"] == ["gloo"]
    for name in ON_DEVICE:
        assert (results[name]["status"], results[name]["value"]) == ("unavailable", None)
        assert results[name]["reason"] == "no_gpu_events"
        assert "CPU-only trace" in results[name]["reasons"][0]["message"]

    calls = results["coll_call_num"]
    tp, gathers, scatters = 4 * len(STEPS), 5 * len(STEPS), 3 * len(STEPS)  # of each rank
    assert (calls["status"], calls["details"]["source"]) == ("ok", "cpu_op")
    assert {k: n for k, n in calls["details"]["calls_by_type"].items() if n} == {
        "AllReduce": 4 * tp,  # two blocks, forward and backward
        "AllGather": 4 * gathers,  # two blocks twice, and what is around them once
        "ReduceScatter": 4 * scatters,
    }
    assert calls["details"]["inputs"]["steps"] == list(STEPS)
    by_type = results["traffic_distribution"]["details"]["by_type"]
    assert by_type["AllReduce"]["message_bytes"] == 4 * tp * ACTIVATION_BYTES

    tokens, steps = results["throughput_tokens"], results["iter_time"]
    assert (tokens["status"], steps["details"]["num_iterations"]) == ("ok", 3)
    median_s = steps["details"]["p50_iter_time_ms"] / 1000
    assert abs(tokens["value"] * median_s - 4 * 16) < 1e-6  # the card's batch and length

    with (traces / "metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    (total,) = (row for row in rows if row["key"] == "total_calls")
    assert (total["metric"], total["value"]) == ("coll_call_num", str(calls["value"]))


def test_both_profilers_take_two_runs_and_nsys_a_report_of_each_node(
    cluster: Cluster, torch_installed: None, tmp_path: Path
) -> None:
    stand_in_nsys(tmp_path / "bin")
    path = f"{tmp_path / 'bin'}:{cluster.environment['PATH']}"
    workload = tiny_workload(tmp_path, PATH=path, NSYS_DELAY="1")

    options = ("--profile", "both", "--nodes", "2", "--gpus-per-node", "1")
    degrees = ("--parallelism.tensor_parallel_degree", "1")
    job = submit_workload(cluster, workload, *options, "--", *degrees)

    ended = wait_for_end(cluster, job, seconds=180)
    log = log_of(workload, job)
    assert ended.state == "COMPLETED", log[-4000:]
    assert "all that profile mode both promises is there" in log
    reports = ["_".join(path.stem.split("_")[-2:]) for path in workload.traces.glob("*.nsys-rep")]
    assert sorted(reports) == ["node0_node1", "node1_node2"]
    logs = {path.stem.rpartition("_")[2]: path for path in workload.traces.glob("*.log")}
    assert set(logs) == {"torch", "nsys"}
    for one in logs.values():
        assert one.read_text(errors="replace").count("step: 6  loss: ") == 2
    assert "profiler_start" in logs["torch"].read_text(errors="replace")
    assert "profiler_start" not in logs["nsys"].read_text(errors="replace")


def test_a_rank_that_fails_ends_the_job_and_keeps_the_analysis_from_running(
    cluster: Cluster, torch_installed: None, tmp_path: Path
) -> None:
    workload = tiny_workload(tmp_path, TINY_FAIL_RANK="1")

    options = ("--nodes", "2", "--gpus-per-node", "1")
    job = submit_workload(
        cluster, workload, *options, "--", "--parallelism.tensor_parallel_degree", "1"
    )
    analysis = submitted(cluster, workload, ANALYSE, "--after", job, workload.traces)

    ended = wait_for_end(cluster, job, seconds=180)
    log = log_of(workload, job)
    assert ended.state == "FAILED", log[-4000:]
    assert ended.exit_code != 0
    assert "[rank1] fails, as it was told to" in log
    assert "[rank0] step: 6" not in log
    assert "training ended with status" in log
    assert "missing: kineto_trace_R.json of rank 0 1" in log
    assert wait_for_end(cluster, analysis).state == "CANCELLED"
    assert not (workload.traces / "metrics.json").exists()
    await_true(lambda: not cluster.processes_of_job(job), seconds=20, what="the end of all ranks")
