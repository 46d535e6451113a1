"""The benchmark and the training of fsdp_benchmark, on two nodes through their own batch script."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml
from cluster import Cluster
from jobs import wait_for_end

from workloads import ROOT, submit_script

FOLDER = ROOT / "sbatch" / "fsdp_benchmark"
TINY = ("--n-embd", "16", "--n-layer", "2", "--n-head", "2", "--seq-length", "16")


def submitted(cluster: Cluster, directory: Path) -> str:
    """Id of the job that measures, then trains on the project's own licence."""
    (directory / "logs").mkdir()
    return submit_script(
        *(cluster, directory, FOLDER / "slurm_submit.sh", "--text", ROOT / "LICENSE", *TINY),
        *("--max-steps", "4", "--profile-steps", "1"),
        BENCHMARK_ARGUMENTS="--message-mib 1 --storage-mib 8 --storage-workers 2",
    )


def test_two_nodes_are_measured_and_then_train(
    cluster: Cluster, torch_installed: None, tmp_path: Path
) -> None:
    job = submitted(cluster, tmp_path)

    state = wait_for_end(cluster, job, seconds=180).state

    log = (tmp_path / "logs" / f"train_{job}.out").read_text()
    errors = (tmp_path / "logs" / f"train_{job}.err").read_text()
    assert state == "COMPLETED", errors[-4000:]
    check_benchmark(yaml.safe_load((tmp_path / "logs" / f"benchmark_{job}.yaml").read_text()))
    assert [line.split()[1] for line in log.splitlines() if line.startswith("step: ")] == [
        *("1", "2", "3", "4")
    ]
    assert sorted(path.name for path in (tmp_path / "traces").iterdir()) == [
        f"rank{rank}_trace.json" for rank in range(4)
    ]
    assert (tmp_path / "checkpoints" / job / ".metadata").is_file()
    check_opens(tmp_path)


def check_benchmark(found: dict[str, Any]) -> None:
    block = found["machine_readable"]
    assert (block["device"], block["backend"], block["hosts"]) == (
        "cpu",
        "gloo",
        ["node1", "node2"],
    )
    rows = {(row["id"], row["host"], row["device"]): row for row in block["values"]}
    for between in ("network_latency", "network_bandwidth", "network_alltoall", "allreduce"):
        row = rows[between, None, None]
        assert row["value"] > 0
        assert row["marks"] == ["cpu"]
    for host in ("node1", "node2"):
        assert rows["storage_sequential_write", host, None]["value"] > 0
        assert rows["cpu_matmul", host, None]["value"] > 0
        assert rows["matmul_bf16", host, 1]["reason"] == "no CUDA device"
    assert "2 hosts at once" in rows["storage_aggregate_read", None, None]["method"]


def check_opens(directory: Path) -> None:
    """The explorer's other face finds the traces and counts collectives of both nodes."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "ccltui",
            directory,
            "--metric",
            "coll_call_num",
            "--format",
            "json",
        ],
        check=False,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    (result,) = json.loads(done.stdout)["results"]
    assert result["value"] > 0
