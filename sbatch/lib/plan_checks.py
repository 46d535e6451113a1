"""Check a job, before it is queued, for problems that prevent training or traces."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from recorded_steps import parse_steps
from train_config import TrainConfig

# Those whose get_train_spec() has a pipelining_fn in torchtitan 0.2.2.
_PIPELINED = frozenset({"llama3", "llama4", "deepseek_v3"})
_QWEN_PIPELINE = "ccltui_qwen3"
# Flavors of qwen3 whose embedding and output are one tensor, which two stages cannot hold.
_TIED = frozenset({"debugmodel", "0.6B", "1.7B", "4B"})


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem and its solution; a job with an error is not submitted."""

    level: Literal["error", "warning", "note"]
    what: str
    fix: str


def check_plan(config: TrainConfig, *, world_size: int, torch_profiler: bool) -> Iterator[Problem]:
    """Yield all problems of ``config`` on ``world_size`` ranks."""
    yield from _ranks(config, world_size)
    yield from _batches(config)
    yield from _data(config, offline=os.environ.get("HF_HUB_OFFLINE", "0") != "0")
    if torch_profiler:
        yield from _profiling(config)


def _ranks(config: TrainConfig, world_size: int) -> Iterator[Problem]:
    stated = config.ranks()
    if stated is not None and stated != world_size:
        yield Problem(
            "error",
            f"the parallel degrees of {config.path} make {stated} ranks, the job has {world_size}",
            "change the degrees in [parallelism], or --nodes and --gpus-per-node",
        )


def _batches(config: TrainConfig) -> Iterator[Problem]:
    stages = config.number("parallelism.pipeline_parallel_degree")
    if stages == 1:
        return
    batch = config.number("training.local_batch_size")
    micro = config.number("parallelism.pipeline_parallel_microbatch_size")
    if batch % micro:
        yield Problem(
            "error",
            f"local_batch_size {batch} is no multiple of pipeline_parallel_microbatch_size {micro}",
            "make it one",
        )
    elif batch // micro < stages:
        yield Problem(
            "warning",
            f"{batch // micro} micro-batches do not fill {stages} pipeline stages",
            f"set local_batch_size to at least {stages * micro}",
        )


def _data(config: TrainConfig, *, offline: bool) -> Iterator[Problem]:
    """Check the data set: without a path it is downloaded while training."""
    name, path = config.text("training.dataset"), config.text("training.dataset_path")
    if path and not Path(path).exists():
        yield Problem("error", f"no data in {path}", "correct training.dataset_path")
    elif offline and not path:
        yield Problem(
            "warning",
            f"the data set {name} is fetched while training, but HF_HUB_OFFLINE is set",
            "fetch it before, or give -- --training.dataset_path FOLDER",
        )


def check_model(config: TrainConfig, version: str) -> Iterator[Problem]:
    """Yield what a torchtitan that reads TOML does not support of the model."""
    name = config.text("model.name")
    if config.number("parallelism.pipeline_parallel_degree") > 1:
        yield from _stages(config, name, version)
    replicas = config.number("parallelism.data_parallel_replicate_degree")
    shards = config.number("parallelism.data_parallel_shard_degree")
    if name == "llama3" and shards == 1 < replicas and config.ranks() != replicas:
        yield Problem(
            "error",
            f"torchtitan {version} replicates llama3 only where nothing else is parallel",
            f"shard instead: data_parallel_shard_degree = {replicas}, "
            "data_parallel_replicate_degree = 1",
        )


def _stages(config: TrainConfig, name: str, version: str) -> Iterator[Problem]:
    """Check that the model can be cut into pipeline stages; an imported module may see to it."""
    imported = config.text("experimental.custom_import")
    if name not in _PIPELINED and not imported:
        fix = "set pipeline_parallel_degree = 1"
        if name == "qwen3":
            fix = f'set custom_import = "{_QWEN_PIPELINE}" in [experimental], or {fix[4:]}'
        yield Problem("error", f"torchtitan {version} does not pipeline {name}", fix)
    elif imported == _QWEN_PIPELINE and config.text("model.flavor") in _TIED:
        yield Problem(
            "error",
            f"{name} {config.text('model.flavor')} has one tensor for embedding and output, which "
            "lie in different stages",
            "set pipeline_parallel_degree = 1, or take a larger flavor",
        )


def check_recording(config: TrainConfig, steps: str) -> Iterator[Problem]:
    """Check that the job has the steps that nsys is to record."""
    if steps == "none":
        return
    try:
        recorded = parse_steps(steps)
    except ValueError as error:
        yield Problem("error", str(error), "or set it to none: a window in seconds")
        return
    last = config.number("training.steps")
    if recorded.last > last:
        yield Problem(
            "error",
            f"nsys is to record steps {steps}, the job ends at step {last}",
            "set NSYS_STEPS to earlier ones, or give more --steps",
        )


def _profiling(config: TrainConfig) -> Iterator[Problem]:
    if not config.flag("profiling.enable_profiling"):
        yield Problem(
            "error",
            f"{config.path} switches the profiler off, so there would be no traces",
            "set enable_profiling = true in [profiling]",
        )
        return
    frequency = config.number("profiling.profile_freq")
    window = config.number("profiling.profiler_warmup") + config.number("profiling.profiler_active")
    if frequency < window:
        yield Problem(
            "error",
            f"profile_freq {frequency} leaves no room for profiler_warmup + profiler_active = "
            f"{window}",
            f"set profile_freq to at least {window}",
        )
    steps = config.number("training.steps")
    if steps < frequency:
        yield Problem(
            "error",
            f"the first trace is written at step {frequency}, the job ends at step {steps}",
            f"set steps to at least {frequency}",
        )
