"""GPT-2 on two nodes through its own batch script: a run that ends, and one that is killed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from cluster import Cluster
from daemons import await_true
from jobs import wait_for_end

from workloads import ROOT, submit_script

FOLDER = ROOT / "sbatch" / "gpt2_deepspeed"
TINY = "--plain_ddp --n_layer 2 --n_head 2 --n_embd 16 --seq_len 32 --max_val_steps 2"


def prepared(directory: Path) -> None:
    """Tokens of two texts that are there anyway."""
    texts = ("--train", ROOT / "README.md", "--val", ROOT / "LICENSE")
    subprocess.run(
        [sys.executable, FOLDER / "scripts" / "preprocess_small.py", *texts, "--output", directory],
        check=True,
        capture_output=True,
    )


def submitted(cluster: Cluster, directory: Path, run_dir: Path, *words: str) -> str:
    return submit_script(
        *(cluster, directory, FOLDER / "run_2node_8gpu.sbatch"),
        RUN_DIR=str(run_dir),
        DATA_DIR=str(directory),
        GPT2_EXTRA_ARGS=" ".join((TINY, *words)),
    )


def test_a_run_leaves_its_story_and_a_killed_one_what_it_had(
    cluster: Cluster, torch_installed: None, tmp_path: Path
) -> None:
    prepared(tmp_path)
    whole, cut = tmp_path / "runs" / "whole", tmp_path / "runs" / "cut"

    job = submitted(cluster, tmp_path, whole, "--max_train_steps 6")
    state = wait_for_end(cluster, job, seconds=120).state
    assert state == "COMPLETED", (tmp_path / f"gpt2_{job}.out").read_text()[-4000:]
    check_whole(whole, job)

    endless = submitted(cluster, tmp_path, cut, "--epochs 100000")
    steps = cut / "training_steps.jsonl"
    await_true(
        lambda: steps.is_file() and steps.stat().st_size > 0, seconds=120, what="a first step"
    )
    cluster.run("scancel", endless)
    assert wait_for_end(cluster, endless, seconds=60).state == "CANCELLED"
    assert sorted(path.name for path in cut.iterdir()) == [
        "launcher_metadata.json",
        "train.log",
        "training_steps.jsonl",
    ]
    check_opens(tmp_path / "runs")


def check_opens(runs: Path) -> None:
    """The reader tells the two apart, and what the killed one lacks."""
    done = subprocess.run(
        [sys.executable, "-m", "ccltui", runs, "--metric", "run_completeness", "--format", "json"],
        check=False,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    (result,) = json.loads(done.stdout)["results"]
    told = {run["run"]: (run["state"], run["missing"]) for run in result["details"]["runs"]}
    assert told == {
        "cut": ("incomplete", ["training_metrics.json", "RUN_COMPLETE.txt"]),
        "whole": ("complete", []),
    }


def check_whole(run_dir: Path, job: str) -> None:
    told = json.loads((run_dir / "training_metrics.json").read_text())
    (epoch,) = told["epochs"]
    assert (epoch["micro_steps"], epoch["optimizer_steps"]) == (6, 3)
    assert epoch["step_time_num_samples"] == 6
    assert epoch["tokens_processed_global"] == 2 * 32 * 4 * 6
    assert told["hardware"]["world_size"] == 4
    assert told["training_config"]["deepspeed_enabled"] is False
    assert told["scheduler"]["job_id"] == job
    launched = json.loads((run_dir / "launcher_metadata.json").read_text())
    assert launched["slurm"]["hosts"] == "node1\nnode2"
    assert launched["switches"]["GRAD_ACCUM_STEPS"] == "2"
    assert (run_dir / "RUN_COMPLETE.txt").read_text().startswith("[Rank 0] RUN_COMPLETE ")
    assert len((run_dir / "training_steps.jsonl").read_text().splitlines()) == 6
