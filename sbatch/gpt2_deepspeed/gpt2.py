#!/usr/bin/env python
"""Train GPT-2 for a bounded time and write a run directory with logs and metrics.

Started by torchrun on every node. Rank 0 writes training_steps.jsonl while it runs,
training_metrics.json at the end and RUN_COMPLETE.txt last.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

sys.path.insert(1, str(Path(__file__).resolve().parents[1]))
from gpt.data import Prepared, load
from gpt.ending import end_process, leave_together
from gpt.model import Decoder, Size
from gpt2_run import engine, options, records, training


def main(arguments: Sequence[str] | None = None) -> int:
    """Train; return 2 if the data, the config or the sizes do not fit."""
    chosen = options.parser().parse_args(arguments)
    place = _join()
    try:
        _run(chosen, place)
    except (OSError, ValueError) as error:
        print(f"gpt2: {error}", file=sys.stderr)
        return 2
    finally:
        dist.destroy_process_group()
    return 0


def _join() -> training.Place:
    cuda = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if cuda else "gloo")
    return training.Place(dist.get_rank(), dist.get_world_size(), device)


def _run(chosen: argparse.Namespace, place: training.Place) -> None:
    tokens, about = load(chosen.train_data)
    val_tokens = load(chosen.val_data)[0] if chosen.max_val_steps != 0 else torch.empty(0)
    torch.manual_seed(chosen.seed)
    size = Size(chosen.n_embd, chosen.n_layer, chosen.n_head, chosen.seq_len, about.vocabulary)
    trained, what = engine.make(chosen, Decoder(size), place.device)
    sizes = {"train": len(tokens) // chosen.seq_len, "val": len(val_tokens) // chosen.seq_len}
    chosen.run_dir.mkdir(parents=True, exist_ok=True)
    log = records.StepLog(chosen.run_dir / "training_steps.jsonl" if place.rank == 0 else None)
    trainer = training.Trainer(chosen, place, trained, log)
    began, epochs = time.perf_counter(), []
    for number in range(chosen.epochs):
        epoch = trainer.train(tokens, number)
        epochs.append(dataclasses.replace(epoch, val_loss=trainer.validate(val_tokens)))
    log.close()
    tag = f"epoch-{chosen.epochs}"
    if chosen.save_checkpoint:
        trained.save(chosen.run_dir, tag)
    if place.rank == 0:
        wall_s = time.perf_counter() - began
        story = _Story(chosen, place, what, about, sizes, epochs)
        path = chosen.run_dir / "training_metrics.json"
        path.write_text(json.dumps(story.document(wall_s), indent=2) + "\n", encoding="utf-8")
        saved = chosen.run_dir / tag if chosen.save_checkpoint else None
        line = records.complete(chosen.run_dir, place.world, story.tokens_per_s, wall_s, saved)
        print(line, flush=True)
    leave_together()


@dataclasses.dataclass(frozen=True, slots=True)
class _Story:
    """Content of ``training_metrics.json``."""

    chosen: argparse.Namespace
    place: training.Place
    what: engine.About
    about: Prepared
    sizes: dict[str, int]
    epochs: list[records.Epoch]

    @property
    def tokens_per_s(self) -> float:
        """Tokens of all ranks over the training time of all epochs."""
        seconds = sum(epoch.wall_s for epoch in self.epochs)
        return sum(epoch.tokens for epoch in self.epochs) / seconds

    def document(self, wall_s: float) -> dict[str, Any]:
        """Return the content of the file."""
        validated = [epoch.val_loss for epoch in self.epochs if epoch.val_loss is not None]
        return {
            "schema_version": records.SCHEMA_VERSION,
            "run_id": records.run_id(),
            "timestamp_utc": records.now(),
            "git_commit": records.commit(),
            "command_line": records.command_line(),
            "env": records.environment(torch),
            "host": records.host(),
            "hardware": _hardware(self.place),
            "training_config": self._training(),
            "deepspeed_config": _config(self.what),
            "schema_notes": {"steps": "same as micro_steps; kept for older readers"},
            "epochs": [epoch.document() for epoch in self.epochs],
            "summary": {
                "total_wall_time_sec": wall_s,
                "best_val_loss": min(validated, default=None),
                "mean_tokens_per_sec_global": self.tokens_per_s,
            },
            "completion": {
                "run_complete_file": "RUN_COMPLETE.txt",
                "timestamp_utc": records.now(),
            },
            "scheduler": records.scheduler(),
        }

    def _training(self) -> dict[str, Any]:
        chosen, what = self.chosen, self.what
        micro, accumulate = chosen.micro_batch_size_per_gpu, chosen.grad_accum_steps
        size = f"n_layer={chosen.n_layer}, n_head={chosen.n_head}, n_embd={chosen.n_embd}"
        return {
            "model_name": "gpt2",
            "model_size": size,
            "seq_len": chosen.seq_len,
            "epochs": chosen.epochs,
            "micro_batch_size_per_gpu": micro,
            "grad_accum_steps": accumulate,
            "global_batch_size": micro * accumulate * self.place.world,
            "lr": chosen.lr,
            "optimizer": "AdamW",
            "precision": what.precision,
            "deepspeed_enabled": what.deepspeed,
            "zero_stage": what.zero_stage,
            "dataset_name": self.about.dataset,
            "dataset_subset_sizes": self.sizes,
        }


def _hardware(place: training.Place) -> dict[str, Any]:
    cuda = place.device.type == "cuda"
    return {
        "gpu_name": torch.cuda.get_device_name(place.device) if cuda else None,
        "gpu_count_visible": torch.cuda.device_count() if cuda else 0,
        "world_size": place.world,
        "cuda_version": torch.version.cuda,
        "cluster": os.environ.get("SLURM_CLUSTER_NAME"),
    }


def _config(what: engine.About) -> dict[str, Any] | None:
    if not what.deepspeed:
        return None
    zero = what.config.get("zero_optimization", {})
    return {
        "path": what.config_path,
        "sha256": what.config_sha256,
        "selected": {
            "fp16_enabled": what.config["fp16"]["enabled"],
            "wall_clock_breakdown": what.config.get("wall_clock_breakdown"),
            "zero_stage": what.zero_stage,
            "reduce_bucket_size": zero.get("reduce_bucket_size"),
            "allgather_bucket_size": zero.get("allgather_bucket_size"),
        },
    }


if __name__ == "__main__":
    end_process(main())
