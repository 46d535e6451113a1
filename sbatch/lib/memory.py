"""Estimate the least GPU memory of a model, without activations.

    bytes = num_params / (tp * pp * dp_shard * cp) * width * copies

``width`` is the size of ``training.dtype``; the copies are the parameter, its gradient and the two
moments of Adam (4), and one more where data are parallel without sharding: DistributedDataParallel
keeps gradients in buckets besides. Layers are taken to be spread evenly over pipeline stages.
Activations, logits, the buffers of NCCL and the CUDA context come on top.
"""

from __future__ import annotations

from collections.abc import Iterator

from plan_checks import Problem
from train_config import TrainConfig

_WIDTH = {"bfloat16": 2, "float32": 4}
_MOMENTS = {"Adam": 2, "AdamW": 2}
_GIB = 1 << 30
_FULL = 0.8


def state_bytes(config: TrainConfig, num_params: int, world_size: int) -> int | None:
    """Return bytes of parameters, gradients and optimizer per rank; None if unknown."""
    width = _WIDTH.get(config.text("training.dtype"))
    moments = _MOMENTS.get(config.text("optimizer.name"))
    if width is None or moments is None:
        return None
    shard = config.shard_degree(world_size)
    cut = (
        config.number("parallelism.tensor_parallel_degree")
        * config.number("parallelism.pipeline_parallel_degree")
        * config.number("parallelism.context_parallel_degree")
        * shard
    )
    replicated = config.number("parallelism.data_parallel_replicate_degree") > 1 and shard == 1
    copies = 2 + moments + (1 if replicated else 0)
    return num_params * width * copies // cut


def check_memory(
    config: TrainConfig, *, num_params: int, world_size: int, gpu_memory_gib: float
) -> Iterator[Problem]:
    """Yield a warning if the state of the model alone fills a GPU."""
    needed = state_bytes(config, num_params, world_size)
    if needed is None:
        yield Problem(
            "warning",
            "the memory was not checked: its formula knows Adam in bfloat16 or float32 only",
            "",
        )
        return
    needed_gib = needed / _GIB
    if needed_gib > gpu_memory_gib:
        verdict = "the job will run out of memory"
    elif needed_gib > _FULL * gpu_memory_gib:
        verdict = "little is left for activations"
    else:
        return
    yield Problem(
        "warning",
        f"parameters, gradients and optimizer take {needed_gib:.1f} of {gpu_memory_gib:g} GiB "
        f"on every GPU: {verdict}",
        _fix(config, needed),
    )


def _fix(config: TrainConfig, needed: int) -> str:
    """Return the advice to shard, which removes a replica's buckets and divides the rest."""
    replicas = config.number("parallelism.data_parallel_replicate_degree")
    if replicas == 1 or config.number("parallelism.data_parallel_shard_degree") != 1:
        return "take more or larger GPUs, or a smaller flavor"
    copies = 2 + _MOMENTS[config.text("optimizer.name")]
    sharded_gib = needed * copies / (copies + 1) / replicas / _GIB
    return (
        f"sharding instead of replicating leaves {sharded_gib:.1f} GiB: "
        "-- --parallelism.data_parallel_replicate_degree 1 "
        f"--parallelism.data_parallel_shard_degree {replicas}; or take larger GPUs"
    )
