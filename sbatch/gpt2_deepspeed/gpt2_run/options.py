"""Command line of gpt2.py; the names of its options are kept from earlier versions."""

from __future__ import annotations

import argparse
import os
from pathlib import Path


def parser() -> argparse.ArgumentParser:
    """Return the parser; GPT2_EXTRA_ARGS of the batch script are arguments of it."""
    found = argparse.ArgumentParser(prog="gpt2.py", description="Train GPT-2 for a bounded time.")
    data = found.add_argument_group("data")
    data.add_argument("--train_data", type=Path, default=Path("train_small.bin"))
    data.add_argument("--val_data", type=Path, default=Path("val_small.bin"))
    model = found.add_argument_group("model")
    model.add_argument("--n_layer", type=_count, default=12)
    model.add_argument("--n_head", type=_count, default=12)
    model.add_argument("--n_embd", type=_count, default=768)
    model.add_argument("--seq_len", type=_count, default=512)
    run = found.add_argument_group("run")
    run.add_argument("--run_dir", type=Path, default=Path(os.environ.get("RUN_DIR", "run")))
    run.add_argument("--epochs", type=_count, default=1)
    run.add_argument("--micro_batch_size_per_gpu", type=_count, default=2)
    run.add_argument("--grad_accum_steps", type=_count, default=2)
    run.add_argument("--lr", type=float, default=1e-4)
    run.add_argument("--seed", type=int, default=0)
    run.add_argument("--max_train_steps", type=int, default=-1, help="micro-steps an epoch")
    run.add_argument("--max_val_steps", type=int, default=-1, help="0: no validation")
    run.add_argument("--deepspeed_config", type=Path, default=None)
    run.add_argument(
        "--plain_ddp",
        action="store_true",
        help="train with torch's DistributedDataParallel in fp32 instead of DeepSpeed",
    )
    run.add_argument(
        "--profile_mode",
        action="store_true",
        help="NVTX ranges train/* and val/*, and no line a step",
    )
    run.add_argument("--save_checkpoint", action="store_true")
    return found


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number from 1 on")
    return value
