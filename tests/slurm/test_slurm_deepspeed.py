"""DeepSpeed on two nodes, through the batch script: ZeRO-1 with both bucket settings, on CPUs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from cluster import Cluster
from jobs import wait_for_end
from test_slurm_gpt2 import FOLDER, prepared

from workloads import submit_script

TINY = "--n_layer 2 --n_head 2 --n_embd 16 --seq_len 32 --max_train_steps 6 --max_val_steps 2"
CONFIGS = {"baseline": "deepspeed_config.json", "bucket200": "deepspeed_config_bucket200.json"}


def test_both_bucket_settings_train_and_can_be_compared(
    cluster: Cluster, deepspeed_installed: None, tmp_path: Path
) -> None:
    prepared(tmp_path)
    runs = {name: tmp_path / "runs" / name for name in CONFIGS}

    for name, run_dir in runs.items():
        job = submit_script(
            *(cluster, tmp_path, FOLDER / "run_2node_8gpu.sbatch"),
            RUN_DIR=str(run_dir),
            DATA_DIR=str(tmp_path),
            DEEPSPEED_CONFIG=CONFIGS[name],
            GPT2_EXTRA_ARGS=TINY,
            GPUS_PER_NODE="1",
            DS_ACCELERATOR="cpu",
            # The first of four processes builds DeepSpeed's collectives of CPUs: a minute of one.
            TORCH_EXTENSIONS_DIR=str(tmp_path / "extensions"),
        )
        state = wait_for_end(cluster, job, seconds=400).state
        assert state == "COMPLETED", (tmp_path / f"gpt2_{job}.out").read_text()[-4000:]

    for name, run_dir in runs.items():
        check_run(run_dir, json.loads((FOLDER / CONFIGS[name]).read_text()))
    compared = subprocess.run(
        [sys.executable, "-m", "ccltui", "diff", runs["baseline"], runs["bucket200"]],
        check=False,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
    )
    assert compared.returncode == 0, compared.stderr
    assert "not comparable" not in compared.stdout


def check_run(run_dir: Path, config: dict[str, Any]) -> None:
    told = json.loads((run_dir / "training_metrics.json").read_text())
    trained, (epoch,) = told["training_config"], told["epochs"]
    assert (trained["deepspeed_enabled"], trained["zero_stage"]) == (True, 1)
    assert trained["precision"] == "fp32"  # fp16 needs a GPU
    assert (epoch["micro_steps"], epoch["optimizer_steps"]) == (6, 3)
    assert epoch["tokens_processed_global"] == 2 * 32 * 2 * 6
    assert told["hardware"]["world_size"] == 2
    known = told["deepspeed_config"]["selected"]
    for name in ("reduce_bucket_size", "allgather_bucket_size"):
        assert known[name] == config["zero_optimization"][name]
    assert (run_dir / "RUN_COMPLETE.txt").read_text().startswith("[Rank 0] RUN_COMPLETE ")
