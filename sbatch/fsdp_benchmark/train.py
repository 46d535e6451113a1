#!/usr/bin/env python
"""Train a GPT-2-style model with FSDP2 on all ranks that torchrun started.

The defaults are those of a model of 2.6 billion parameters on GPUs of 80 GB. Every step prints
one line; with --profile-steps every rank leaves a trace that ccltui opens.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn import functional

sys.path.insert(1, str(Path(__file__).resolve().parents[1]))
from gpt.data import BYTES, batches, hub_tokens, local_tokens
from gpt.ending import end_process, leave_together
from gpt.model import Decoder, Size


@dataclass(frozen=True, slots=True)
class Place:
    """Rank and device of this process."""

    rank: int
    world: int
    device: torch.device


def main(arguments: Sequence[str] | None = None) -> int:
    """Train; return 2 if the data or the sizes do not fit."""
    options = _parser().parse_args(arguments)
    place = _join()
    try:
        tokens, vocabulary = _tokens(options)
        size = Size(options.n_embd, options.n_layer, options.n_head, options.seq_length, vocabulary)
        _train(options, place, size, tokens)
    except (OSError, ValueError) as error:
        print(f"train: {error}", file=sys.stderr)
        return 2
    finally:
        dist.destroy_process_group()
    return 0


def _join() -> Place:
    cuda = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if cuda else "gloo")
    return Place(dist.get_rank(), dist.get_world_size(), device)


def _tokens(options: argparse.Namespace) -> tuple[torch.Tensor, int]:
    if options.text is not None:
        return local_tokens(options.text), BYTES
    return hub_tokens(options.dataset, options.dataset_config, options.tokenizer)


def _train(options: argparse.Namespace, place: Place, size: Size, tokens: torch.Tensor) -> None:
    torch.manual_seed(options.seed)
    model = _sharded(Decoder(size).to(place.device), place)
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.lr)
    if place.rank == 0:
        count = sum(parameter.numel() for parameter in model.parameters())
        print(
            f"train: {count:,} parameters on {place.world} ranks, {place.device.type}", flush=True
        )
    with _profile(options, place) as profiler:
        for number, (inputs, targets) in enumerate(_steps(options, place, size, tokens), start=1):
            started = time.perf_counter()
            loss = _step(model, optimizer, inputs.to(place.device), targets.to(place.device))
            _tell(number, loss, inputs.numel(), time.perf_counter() - started, place)
            if profiler is not None:
                profiler.step()
    if options.checkpoints is not None:
        _save(model, options.checkpoints, place)
    if place.rank == 0:
        print("train: Training completed", flush=True)
    leave_together()


def _sharded(model: Decoder, place: Place) -> Decoder:
    """Shard every block, then the rest; on GPUs parameters are communicated in bfloat16."""
    policy = MixedPrecisionPolicy()
    if place.device.type == "cuda":
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in model.blocks:
        fully_shard(block, mp_policy=policy)
    fully_shard(model, mp_policy=policy)
    return model


def _steps(
    options: argparse.Namespace, place: Place, size: Size, tokens: torch.Tensor
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    left = options.max_steps
    for epoch in range(options.num_epochs):
        for pair in batches(
            tokens,
            batch=options.batch_size,
            length=size.seq_length,
            rank=place.rank,
            world=place.world,
            seed=options.seed + epoch,
        ):
            if left == 0:
                return
            left -= 1
            yield pair


def _step(
    model: Decoder, optimizer: torch.optim.Optimizer, inputs: torch.Tensor, targets: torch.Tensor
) -> float:
    """Run one step; return its loss, averaged over all ranks, after waiting for the device."""
    logits = model(inputs)
    loss = functional.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    mean = loss.detach()
    dist.all_reduce(mean)
    return float(mean.item() / dist.get_world_size())


def _tell(number: int, loss: float, tokens: int, seconds: float, place: Place) -> None:
    """Print one line per step in the format of torchtitan's log; tps is per device."""
    if place.rank != 0:
        return
    memory = ""
    if place.device.type == "cuda":
        memory = f"  memory: {torch.cuda.max_memory_reserved() / 2**30:.2f}GiB"
    print(f"step: {number}  loss: {loss:.4f}{memory}  tps: {tokens / seconds:,.0f}", flush=True)


def _profile(options: argparse.Namespace, place: Place) -> Any:
    """Return a profiler of the last --profile-steps steps, after as many to warm up, if any."""
    count = options.profile_steps
    if not count:
        return nullcontext()

    def leave(profiler: torch.profiler.profile) -> None:
        options.traces.mkdir(parents=True, exist_ok=True)
        profiler.export_chrome_trace(str(options.traces / f"rank{place.rank}_trace.json"))

    return torch.profiler.profile(
        schedule=torch.profiler.schedule(wait=1, warmup=count, active=count, repeat=1),
        on_trace_ready=leave,
        record_shapes=True,
    )


def _save(model: Decoder, folder: Path, place: Place) -> None:
    """Write a checkpoint of every rank's shards with torch.distributed.checkpoint."""
    from torch.distributed import checkpoint  # noqa: PLC0415  (only a run that saves needs it)

    checkpoint.save({"model": model.state_dict()}, checkpoint_id=str(folder))
    if place.rank == 0:
        print(f"train: checkpoint in {folder}", flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    model = parser.add_argument_group("model")
    model.add_argument("--n-embd", type=int, default=2560, help="width; default: 2560")
    model.add_argument("--n-layer", type=int, default=32, help="default: 32")
    model.add_argument("--n-head", type=int, default=32, help="default: 32")
    model.add_argument("--seq-length", type=int, default=512, help="default: 512")
    data = parser.add_argument_group("data")
    data.add_argument("--text", type=Path, help="a local text, its bytes as tokens")
    data.add_argument("--dataset", default="Salesforce/wikitext")
    data.add_argument("--dataset-config", default="wikitext-103-raw-v1")
    data.add_argument("--tokenizer", default="gpt2")
    run = parser.add_argument_group("run")
    run.add_argument("--batch-size", type=int, default=2, help="sequences a rank; default: 2")
    run.add_argument("--num-epochs", type=int, default=3, help="default: 3")
    run.add_argument("--max-steps", type=int, default=-1, help="default: all of the epochs")
    run.add_argument("--lr", type=float, default=3e-4)
    run.add_argument("--seed", type=int, default=0)
    run.add_argument("--checkpoints", type=Path, help="folder; default: no checkpoint")
    run.add_argument("--profile-steps", type=int, default=0, help="steps in a trace; default: none")
    run.add_argument("--traces", type=Path, default=Path("traces"), help="default: traces")
    return parser


if __name__ == "__main__":
    end_process(main())
