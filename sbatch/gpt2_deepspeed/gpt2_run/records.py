"""Files of a run: one line per step while it runs, and its metrics at the end."""

from __future__ import annotations

import datetime
import json
import os
import platform
import secrets
import socket
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Final

SCHEMA_VERSION: Final = "2.0"
_VARIABLES: Final = {
    "job_id": "SLURM_JOB_ID",
    "nodelist": "SLURM_JOB_NODELIST",
    "nnodes": "SLURM_NNODES",
    "procid": "SLURM_PROCID",
    "localid": "SLURM_LOCALID",
    "partition": "SLURM_JOB_PARTITION",
    "gpus": "SLURM_GPUS_ON_NODE",
}


@dataclass(frozen=True, slots=True)
class Step:
    """One micro-step; ``loss`` is that of rank 0, ``tokens`` those of all ranks."""

    step: int
    loss: float
    step_time_sec: float
    tokens: int
    epoch: int
    optimizer_step: bool


@dataclass(frozen=True, slots=True)
class Epoch:
    """Results of an epoch. ``val_loss`` is None without validation."""

    number: int
    wall_s: float
    micro_steps: int
    optimizer_steps: int
    tokens: int
    train_loss: float
    val_loss: float | None
    step_times_s: Sequence[float]
    dataload_times_s: Sequence[float]
    allocated_bytes: int | None
    reserved_bytes: int | None

    @property
    def tokens_per_s(self) -> float:
        """Tokens of all ranks over the training time of the epoch, validation left out."""
        return self.tokens / self.wall_s

    def document(self) -> dict[str, Any]:
        """Return the epoch for ``training_metrics.json``. Times are those of every micro-step."""
        times = sorted(self.step_times_s)
        return {
            "epoch_idx": self.number,
            "epoch_wall_time_sec": self.wall_s,
            "steps": self.micro_steps,
            "micro_steps": self.micro_steps,
            "optimizer_steps": self.optimizer_steps,
            "tokens_processed_global": self.tokens,
            "tokens_per_sec_global": self.tokens_per_s,
            "train_loss_avg_global": self.train_loss,
            "val_loss_avg_global": self.val_loss,
            "max_cuda_mem_allocated_bytes_rank0": self.allocated_bytes,
            "max_cuda_mem_reserved_bytes_rank0": self.reserved_bytes,
            "step_time_mean_sec": statistics.fmean(times),
            "step_time_p50_sec": quantile(times, 0.5),
            "step_time_p95_sec": quantile(times, 0.95),
            "step_time_num_samples": len(times),
            "step_time_sampling": "all",
            "dataload_time_mean_sec": statistics.fmean(self.dataload_times_s),
        }


def quantile(ordered: Sequence[float], share: float) -> float:
    """Return a quantile of sorted values, linearly interpolated."""
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


class StepLog:
    """``training_steps.jsonl``, which also a killed run leaves. Only rank 0 writes it."""

    def __init__(self, path: Path | None) -> None:
        self._file = None if path is None else path.open("w", encoding="utf-8")

    def add(self, steps: Sequence[Step]) -> None:
        """Write steps and flush the file, so that a kill of this process loses none."""
        if self._file is not None:
            for step in steps:
                values = {name: getattr(step, name) for name in Step.__slots__}
                self._file.write(json.dumps(values) + "\n")
            self._file.flush()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()


def now() -> str:
    """Return the time in UTC to the second, ISO 8601."""
    return f"{datetime.datetime.now(datetime.UTC):%Y-%m-%dT%H:%M:%SZ}"


def run_id() -> str:
    """Return a unique name of a run: UTC and eight random digits."""
    return f"{datetime.datetime.now(datetime.UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}"


def environment(torch: Any) -> dict[str, str | None]:
    """Return the versions of packages; None for those that are not installed."""
    return {
        "python_version": platform.python_version(),
        "torch_version": str(torch.__version__),
        "transformers_version": _version("transformers"),
        "deepspeed_version": _version("deepspeed"),
        "cuda_version": torch.version.cuda,
    }


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def host() -> dict[str, str]:
    """Return the host of rank 0."""
    name = os.environ.get("SLURMD_NODENAME") or socket.gethostname()
    return {"hostname": name, "os": platform.platform()}


def scheduler() -> dict[str, str | None] | None:
    """Return Slurm's facts about the job, None outside of Slurm."""
    if "SLURM_JOB_ID" not in os.environ:
        return None
    return {
        "type": "slurm",
        **{name: os.environ.get(variable) for name, variable in _VARIABLES.items()},
    }


def commit() -> str | None:
    """Return the commit of the checkout, None outside of one."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    try:
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def command_line() -> str:
    """Return the command line of this process."""
    return " ".join([Path(sys.argv[0]).name, *sys.argv[1:]])


def complete(
    folder: Path, world: int, tokens_per_s: float, wall_s: float, checkpoint: Path | None
) -> str:
    """Write ``RUN_COMPLETE.txt``, the last file of a run; return its line.

    It names the checkpoint if one was saved.
    """
    saved = "" if checkpoint is None else f"checkpoint_path={checkpoint} "
    line = (
        f"[Rank 0] RUN_COMPLETE {saved}world_size={world} tokens_per_sec={tokens_per_s:.2f} "
        f"total_wall_time_sec={wall_s:.2f} timestamp_utc={now()}"
    )
    (folder / "RUN_COMPLETE.txt").write_text(line + "\n", encoding="utf-8")
    return line
