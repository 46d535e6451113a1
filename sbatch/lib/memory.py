"""Estimate the GPU memory of a training job, before it is queued.

State, exact but for the number of parameters::

    bytes = num_params / (tp * pp * dp_shard * cp) * width * copies

``width`` is the size of ``training.dtype``; the copies are the parameter, its gradient and the two
moments of Adam (4), and one more where data are parallel without sharding: DistributedDataParallel
keeps gradients in buckets besides.

Peak, an estimate from above of the stage that needs most:

* sharded, without stages: two layers gathered, and the gradient of one in the training type, in
  float32 for the reduction, and its share of the result;
* sharded, with stages: all parameters of the stage gathered, and all its gradients in float32. The
  schedules of torch sum the gradients of micro-batches before they reduce them, so shares of
  gradients come only as these go;
* activations: the input of every layer of the micro-batches on their way, and one layer computed
  anew; without full checkpointing all that the layers save (selective checkpointing saves less);
* logits in the training type, and with their gradient in float32;
* 2 % for fragments and 3 GiB for the CUDA context and the buffers of NCCL.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from plan_checks import Problem
from train_config import TrainConfig

_WIDTH = {"bfloat16": 2, "float32": 4}
_MOMENTS = {"Adam": 2, "AdamW": 2}
_REDUCED = 4  # torchtitan reduces gradients in float32
_SAVED = 2  # activations are bfloat16 by mixed precision
_LOGITS = 10  # bytes of a logit: bfloat16, float32 and its gradient
_GIB = 1 << 30
_FRAGMENTS = 1.02
_CONTEXT_GIB = 3.0
_USABLE = 0.96
"""Part of a GPU's memory that a plan may fill; the driver keeps 1 to 2 % for itself."""
_HOPELESS = 1.15
"""Beyond this part of it no error of the estimate saves the job."""


@dataclass(frozen=True, slots=True)
class Model:
    """Sizes of a transformer. Experts: ``intermediate`` is what a token goes through."""

    num_params: int
    layers: int
    hidden: int
    intermediate: int
    vocabulary: int

    @property
    def embedding(self) -> int:
        """Parameters of the embedding; those of the output are as many."""
        return self.vocabulary * self.hidden

    @property
    def layer(self) -> float:
        """Parameters of a layer, on average."""
        return (self.num_params - 2 * self.embedding) / self.layers


@dataclass(frozen=True, slots=True)
class _Plan:
    """What the configuration makes of a job."""

    width: int
    moments: int
    tensor: int
    stages: int
    shards: int
    replicas: int
    tokens: int  # of a micro-batch
    batches: int  # micro-batches of a step
    checkpointing: str
    less: tuple[int, int]  # layers that the first and the last stage have less


def _plan(config: TrainConfig, world_size: int) -> _Plan | None:
    width = _WIDTH.get(config.text("training.dtype"))
    moments = _MOMENTS.get(config.text("optimizer.name"))
    if width is None or moments is None:
        return None
    number = config.number
    context = number("parallelism.context_parallel_degree")
    stages = number("parallelism.pipeline_parallel_degree")
    local = number("training.local_batch_size")
    micro = number("parallelism.pipeline_parallel_microbatch_size") if stages > 1 else local
    return _Plan(
        width=width,
        moments=moments,
        tensor=number("parallelism.tensor_parallel_degree"),
        stages=stages,
        shards=config.shard_degree(world_size) * context,
        replicas=number("parallelism.data_parallel_replicate_degree"),
        tokens=micro * number("training.seq_len") // context,
        batches=max(1, local // micro),
        checkpointing=config.text("activation_checkpoint.mode"),
        less=(
            number("parallelism.pipeline_parallel_first_stage_less_layers"),
            number("parallelism.pipeline_parallel_last_stage_less_layers"),
        ),
    )


def state_bytes(config: TrainConfig, num_params: int, world_size: int) -> int | None:
    """Return bytes of parameters, gradients and optimizer per rank; None if unknown."""
    plan = _plan(config, world_size)
    if plan is None:
        return None
    cut = plan.tensor * plan.stages * plan.shards
    return num_params * plan.width * _copies(plan) // cut


def _copies(plan: _Plan) -> int:
    return 2 + plan.moments + (1 if plan.replicas > 1 and plan.shards == 1 else 0)


def peak_bytes(config: TrainConfig, model: Model, world_size: int) -> int | None:
    """Return the estimated peak per rank, of the stage that needs most; None if unknown."""
    plan = _plan(config, world_size)
    if plan is None:
        return None
    most = max(_stage_bytes(plan, model, *stage) for stage in _stages(plan, model))
    return round(most * _FRAGMENTS + _CONTEXT_GIB * _GIB)


def _stages(plan: _Plan, model: Model) -> Iterator[tuple[int, int, int]]:
    """Yield layers, embeddings and micro-batches on their way, of each stage.

    Embedding and output count as the layers that the first and the last stage have less.
    """
    if plan.stages == 1:
        yield model.layers, 2, 1
        return
    each, rest = divmod(model.layers + sum(plan.less), plan.stages)
    for stage in range(plan.stages):
        ends = (stage == 0, stage == plan.stages - 1)
        less = sum(count for at_end, count in zip(ends, plan.less, strict=True) if at_end)
        layers = each + (stage < rest) - less
        yield layers, sum(ends), min(plan.batches, plan.stages - stage)


def _stage_bytes(plan: _Plan, model: Model, layers: int, embeddings: int, on_way: int) -> float:
    params = (layers * model.layer + embeddings * model.embedding) / plan.tensor
    is_last = plan.stages == 1 or (embeddings == 1 and on_way == 1)
    return (
        _state_and_gathered(plan, model, params)
        + _activations(plan, model, layers * on_way)
        + (plan.tokens * model.vocabulary / plan.tensor * _LOGITS if is_last else 0)
    )


def _state_and_gathered(plan: _Plan, model: Model, params: float) -> float:
    if plan.shards == 1:
        return params * plan.width * _copies(plan)
    if plan.stages > 1:
        kept = plan.width * (1 + plan.moments) / plan.shards
        return params * (kept + plan.width + _REDUCED)
    unit = max(model.layer, model.embedding) / plan.tensor
    gathered = 3 * plan.width + _REDUCED * (1 + 1 / plan.shards)
    return params * plan.width * _copies(plan) / plan.shards + unit * gathered


def _activations(plan: _Plan, model: Model, layers: int) -> float:
    """Sequence parallelism, which goes with tensor parallelism, cuts all of them."""
    token = _SAVED * (10 * model.hidden + 4 * model.intermediate)  # of what one layer saves
    kept = _SAVED * model.hidden if plan.checkpointing == "full" else token
    again = token if plan.checkpointing == "full" else 0
    return plan.tokens * (layers * kept + again) / plan.tensor


def fits(bytes_needed: float, gpu_memory_gib: float) -> bool:
    """Return whether a plan of that size trains on GPUs of that size."""
    return bytes_needed <= _USABLE * gpu_memory_gib * _GIB


def check_memory(
    config: TrainConfig, *, model: Model, world_size: int, gpu_memory_gib: float
) -> Iterator[Problem]:
    """Yield an error if the state of the model does not fit, a warning if the peak may not."""
    if config.flag("training.enable_cpu_offload"):
        yield Problem("warning", "the memory was not checked: the state is kept on the host", "")
        return
    state = state_bytes(config, model.num_params, world_size)
    peak = peak_bytes(config, model, world_size)
    if state is None or peak is None:
        yield Problem(
            "warning",
            "the memory was not checked: its formula has Adam in bfloat16 or float32 only",
            "",
        )
        return
    state_gib, peak_gib = state / _GIB, peak / _GIB
    if state_gib > gpu_memory_gib:
        yield Problem(
            "error",
            f"parameters, gradients and optimizer take {state_gib:.1f} of {gpu_memory_gib:g} GiB "
            "on every GPU: the job would run out of memory",
            _fix(config, state),
        )
    elif not fits(peak, gpu_memory_gib):
        is_sure = peak > _HOPELESS * gpu_memory_gib * _GIB
        yield Problem(
            "error" if is_sure else "warning",
            f"the job {'would' if is_sure else 'may'} run out of memory: parameters, gradients and "
            "optimizer take "
            f"{state_gib:.1f} GiB, with activations and gathered layers about {peak_gib:.1f} of "
            f"{gpu_memory_gib:g} GiB on every GPU",
            _fix(config, state),
        )


def _fix(config: TrainConfig, state: int) -> str:
    """Return the advice to shard, which removes a replica's buckets and divides the rest."""
    replicas = config.number("parallelism.data_parallel_replicate_degree")
    if replicas == 1 or config.number("parallelism.data_parallel_shard_degree") != 1:
        return "take more or larger GPUs, full activation checkpointing, or a smaller flavor"
    copies = 2 + _MOMENTS[config.text("optimizer.name")]
    sharded_gib = state * copies / (copies + 1) / replicas / _GIB
    return (
        f"sharding instead of replicating leaves {sharded_gib:.1f} GiB: "
        "-- --parallelism.data_parallel_replicate_degree 1 "
        f"--parallelism.data_parallel_shard_degree {replicas}; or take larger GPUs"
    )
