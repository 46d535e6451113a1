"""Run directories with known numbers: two runs of one harness, and what lies beside them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ccltui.metrics.view.job_view import View
from ccltui.parsers.job import open_job

COMMIT_A = "d8ca45116014c7556736980e5c6a63839305c340"
COMMIT_B = "ba034200094ee0479633be3e0b296c2d85b1d841"

BASELINE: Mapping[str, Any] = {
    "epoch_idx": 1,
    "epoch_wall_time_sec": 81.99864149093628,
    "steps": 300,
    "micro_steps": 300,
    "optimizer_steps": 150,
    "tokens_processed_global": 2457600,
    "tokens_per_sec_global": 29971.22824616126,
    "train_loss_avg_global": 8.2418359375,
    "val_loss_avg_global": 7.282568359375,
    "max_cuda_mem_allocated_bytes_global": 4043567104,
    "step_time_mean_sec": 0.05181665267944337,
    "step_time_p50_sec": 0.038860801696777345,
    "step_time_p95_sec": 0.07740907287597656,
}
BUCKET200: Mapping[str, Any] = {
    "epoch_idx": 1,
    "epoch_wall_time_sec": 68.63509845733643,
    "steps": 300,
    "micro_steps": 300,
    "optimizer_steps": 150,
    "tokens_processed_global": 2457600,
    "tokens_per_sec_global": 35806.75274368032,
    "train_loss_avg_global": 8.256834309895833,
    "val_loss_avg_global": 7.28287109375,
    "max_cuda_mem_allocated_bytes_global": 2843996160,
    "step_time_mean_sec": 0.04362465286254883,
    "step_time_p50_sec": 0.037438465118408204,
    "step_time_p95_sec": 0.06316769027709959,
}
CONFIG: Mapping[str, Any] = {
    "model_name": "gpt2",
    "model_size": "n_layer=12, n_head=12, n_embd=768",
    "seq_len": 512,
    "epochs": 1,
    "micro_batch_size_per_gpu": 2,
    "grad_accum_steps": 2,
    "global_batch_size": 32,
    "lr": 0.0001,
    "optimizer": "AdamW",
    "precision": "fp16_deepspeed",
    "deepspeed_enabled": True,
    "zero_stage": 1,
    "dataset_name": "train_small",
    "dataset_subset_sizes": {"train": 56976, "val": 5738},
}


def document(
    epoch: Mapping[str, Any], commit: str, sha: str = "c84d", **config: Any
) -> dict[str, Any]:
    """``training_metrics.json`` of a run of one epoch."""
    return {
        "schema_version": "2.0",
        "run_id": "20260128T004302Z-c335cc5e",
        "timestamp_utc": "2026-01-28T00:43:02Z",
        "git_commit": commit,
        "command_line": "src/gpt2.py --profile_mode --max_train_steps 300 --max_val_steps 50",
        "env": {"torch_version": "2.9.1+cu128", "deepspeed_version": "0.18.3"},
        "host": {"hostname": "node-13", "os": "Linux"},
        "hardware": {"gpu_name": "Tesla V100-SXM2-16GB", "world_size": 8},
        "training_config": {**CONFIG, **config},
        "deepspeed_config": {"path": "ds.json", "sha256": sha, "selected": {"zero_stage": 1}},
        "epochs": [dict(epoch)],
        "summary": {
            "total_wall_time_sec": epoch["epoch_wall_time_sec"] + 1,
            "best_val_loss": epoch.get("val_loss_avg_global"),
            "mean_tokens_per_sec_global": epoch["tokens_per_sec_global"],
        },
        "scheduler": {"type": "slurm", "job_id": "17775914", "nodelist": "node-[13-14]"},
    }


def put_run(
    folder: Path,
    metrics: Mapping[str, Any] | None,
    *,
    switches: Mapping[str, str] | None = None,
    complete: bool = True,
    log: str | None = "trained\n",
) -> Path:
    """Write a run directory; what is None or False is left out."""
    folder.mkdir(parents=True, exist_ok=True)
    launch = {
        "rank0_host": "node-13",
        "world_size": 8,
        "git_commit": COMMIT_A if metrics is None else metrics.get("git_commit", ""),
        "slurm": {"job_id": "17775914", "hosts": "node-13\nnode-14"},
        "nccl_env": {"NCCL_LOGS": "0"},
        "switches": dict(switches or {"NSYS": "0", "NCCL_LOGS": "0"}),
    }
    (folder / "launcher_metadata.json").write_text(json.dumps(launch))
    if metrics is not None:
        (folder / "training_metrics.json").write_text(json.dumps(metrics))
    if log is not None:
        (folder / "train.log").write_text(log)
    if complete:
        (folder / "RUN_COMPLETE.txt").write_text(
            "[Rank 0] RUN_COMPLETE checkpoint_path=/c world_size=8 tokens_per_sec=29971.2 "
            "total_wall_time_sec=82.96 timestamp_utc=2026-01-28T00:44:25Z\n"
        )
    return folder


def pair(root: Path) -> tuple[Path, Path]:
    """The two runs whose throughput differs by 19.47 %, on different commits."""
    a = put_run(root / "accum2_300", document(BASELINE, COMMIT_A, "c84d643785f2"))
    b = put_run(root / "bucket200_300", document(BUCKET200, COMMIT_B, "5dc8962526dd"))
    return a, b


def nvtx_text(rows: Mapping[str, int], capture: str = "a") -> str:
    """A table of ranges as ``nsys stats`` prints it, digits grouped the Indian way."""
    lines = [
        f"Processing [{capture}.sqlite] with [/opt/nsys/reports/nvtx_sum.py]... ",
        "",
        " ** NVTX Range Summary (nvtx_sum):",
        "",
        " Time (%)  Total Time (ns)  Instances   Avg (ns)   Style                  Range",
        " --------  ---------------  ---------  ----------  -------  "
        "------------------------------------",
    ]
    for name, count in rows.items():
        cells = f"{1.0:>9}  {'1,23,45,678':>15}  {count:>9,}  {'1,234.5':>10}"
        lines.append(f"{cells}  PushPop  {name:<36}")
    return "\n".join([*lines, ""])


CAPTURE_A = {
    ":DeepSpeedEngine.backward": 14244,
    ":DeepSpeedEngine.allreduce_gradients": 14244,
    "NCCL:ncclAllReduce": 42748,
    "NCCL:ncclCommInitRankConfig": 8,
    "NCCL:ncclAllGather": 14212,
}
CAPTURE_B = {
    ":train/backward": 320,
    ":DeepSpeedEngine.backward": 320,
    "NCCL:ncclAllReduce": 520,
    "NCCL:ncclAllGather": 152,
}


def with_capture(
    folder: Path, rows: Mapping[str, int], host: str = "node-13", capture: str = "a"
) -> Path:
    """Add the text of a profiler to a run."""
    (folder / "profiles").mkdir(exist_ok=True)
    (folder / "profiles" / f"nsys_stats_{host}.txt").write_text(nvtx_text(rows, capture))
    return folder


def view_of(path: Path) -> View:
    """What the metrics see of a directory."""
    return View(open_job(path))
