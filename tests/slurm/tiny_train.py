"""A training job as small as one can be and still be real: torch on CPUs, gloo, a few steps.

Takes the command line and the configuration file of a trainer with sections
(``--job.config_file F --job.dump_folder D --training.steps 8``) and profiles as such a trainer
does: one Kineto trace a rank in D/<save_traces_folder>/iteration_N. What it does not use of the
configuration it ignores. TINY_FAIL_RANK names a rank that fails after two steps, TINY_STAND_RANK
one that stands from then on and lets the others wait for it.
"""

from __future__ import annotations

import os
import signal
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.profiler import ProfilerActivity, profile, schedule

sys.path.insert(1, str(Path(__file__).resolve().parents[2] / "sbatch"))
from gpt.ending import end_process

VOCABULARY: Final = 64
WIDTH: Final = 32
LAYERS: Final = 2
GOOD_STEPS: Final = 2
FAILED: Final = 7

Config = dict[str, dict[str, Any]]


class Block(nn.Module):
    """Two matrices with a residual connection around them."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, state: torch.Tensor) -> torch.Tensor:
        inner = nn.functional.gelu(self.up(self.norm(state)))
        return state + self.down(inner)


class Tiny(nn.Module):
    """A model of next tokens that looks at one token only."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        state = self.embedding(tokens)
        for block in self.blocks:
            state = block(state)
        return self.head(state)


def read_config(arguments: list[str]) -> Config:
    """The file that ``--job.config_file`` names, with the other arguments on top."""
    given = dict(_pairs(arguments))
    config: Config = tomllib.loads(Path(given["job.config_file"]).read_text(encoding="utf-8"))
    for name, text in given.items():
        section, _, key = name.partition(".")
        config.setdefault(section, {})[key] = _value(text)
    return config


def _pairs(arguments: list[str]) -> Iterator[tuple[str, str]]:
    """Names and values of ``--name value``, ``--name=value``, ``--name`` and ``--a.no-name``."""
    for word, following in zip(arguments, [*arguments[1:], "--"], strict=True):
        if not word.startswith("--"):
            continue
        name, equals, value = word[2:].partition("=")
        section, _, key = name.partition(".")
        if equals or not following.startswith("--"):
            yield name.replace("-", "_"), value if equals else following
        else:
            yield f"{section}.{key.removeprefix('no-').replace('-', '_')}", str(key[:3] != "no-")


def _value(text: str) -> Any:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    return int(text) if text.lstrip("-").isdigit() else text


def distribute(model: Tiny, mesh: DeviceMesh) -> None:
    """Split the blocks' matrices over ``tp`` and everything over ``dp``."""
    for block in model.blocks:
        parallelize_module(block, mesh["tp"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
        fully_shard(block, mesh=mesh["dp"])
    fully_shard(model, mesh=mesh["dp"])


def profiler(config: Config, rank: int) -> Any:
    """The profiler of the section ``profiling``, one file a rank and window."""
    options = config["profiling"]
    frequency, active = options["profile_freq"], options.get("profiler_active", 1)
    warmup = options.get("profiler_warmup", 1)
    root = Path(config["job"]["dump_folder"]) / options.get("save_traces_folder", "profile_traces")

    def write(finished: Any) -> None:
        folder = root / f"iteration_{finished.step_num}"
        folder.mkdir(parents=True, exist_ok=True)
        finished.export_chrome_trace(str(folder / f"rank{rank}_trace.json"))

    return profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=frequency - warmup - active, warmup=warmup, active=active),
        on_trace_ready=write,
        record_shapes=True,
    )


def train(config: Config, model: Tiny, after_step: Callable[[int], None]) -> None:
    """Train on random tokens; every rank of a tensor-parallel group sees the same ones."""
    options = config["training"]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(1, options["steps"] + 1):
        tokens = torch.randint(
            VOCABULARY, (options["local_batch_size"], options["seq_len"]), dtype=torch.long
        )
        scores = model(tokens)
        loss = nn.functional.cross_entropy(scores.flatten(0, 1), tokens.roll(-1, 1).flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"[rank{dist.get_rank()}] step: {step}  loss: {loss.item():.4f}", flush=True)
        after_step(step)


def read_next_batch() -> None:
    """Never come back, as from storage that does not answer."""
    print(f"[rank{dist.get_rank()}] stands, as it was told to", flush=True)
    while True:
        signal.pause()


def reduce_counts(mesh: DeviceMesh) -> None:
    """Reduce within nodes, then between them; what is printed has been called."""
    for name in ("tp", "dp"):
        group = mesh[name].get_group()
        work = dist.all_reduce(torch.zeros(1), group=group, async_op=True)
        print(f"[rank{dist.get_rank()}] reduces over {name}", flush=True)
        work.wait()


def main() -> int:
    """Train as the command line says; the exit status."""
    config = read_config(sys.argv[1:])
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    tp = config["parallelism"].get("tensor_parallel_degree", 1)
    mesh = init_device_mesh("cpu", (world // tp, tp), mesh_dim_names=("dp", "tp"))
    torch.manual_seed(rank // tp)
    model = Tiny()
    distribute(model, mesh)
    failing = int(os.environ.get("TINY_FAIL_RANK", "-1"))
    standing = int(os.environ.get("TINY_STAND_RANK", "-1"))

    def after_step(step: int) -> None:
        if rank == failing and step == GOOD_STEPS:
            print(f"[rank{rank}] fails, as it was told to", flush=True)
            os._exit(FAILED)
        if standing >= 0 and step == GOOD_STEPS:
            if rank == standing:
                read_next_batch()
            reduce_counts(mesh)
        if recording is not None:
            recording.step()

    enabled = config["profiling"].get("enable_profiling", False)
    recording = profiler(config, rank) if enabled else None
    if recording is not None:
        recording.start()
    train(config, model, after_step)
    if recording is not None:
        recording.stop()
    dist.barrier()
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    end_process(main())
