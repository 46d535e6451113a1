"""Order of the passes of a pipeline stage: 1F1B, GPipe, and 1F1B over several model chunks."""

from __future__ import annotations

from dataclasses import dataclass

from ccltui.demo.planted.job_spec import JobSpec


@dataclass(frozen=True, slots=True)
class Pass:
    """A forward or backward pass of a micro-batch through a model chunk."""

    backward: bool
    batch: int
    chunk: int = 0


def passes(spec: JobSpec, stage: int) -> list[Pass]:
    """All passes of a stage in a step."""
    if spec.chunks > 1:
        return _interleaved(spec, stage)
    count = spec.micro_batches
    warm_up = count if spec.schedule == "gpipe" else min(count, spec.pp - 1 - stage)
    order = [Pass(False, batch) for batch in range(warm_up)]
    for batch in range(count - warm_up):
        order += [Pass(False, warm_up + batch), Pass(True, batch)]
    return order + [Pass(True, batch) for batch in range(count - warm_up, count)]


def _interleaved(spec: JobSpec, stage: int) -> list[Pass]:
    """As Megatron does: groups of as many micro-batches as stages, chunk by chunk."""
    total = spec.micro_batches * spec.chunks
    warm_up = min(total, 2 * (spec.pp - stage - 1) + (spec.chunks - 1) * spec.pp)
    forward = [_nth(spec, k, backward=False) for k in range(total)]
    backward = [_nth(spec, k, backward=True) for k in range(total)]
    order = forward[:warm_up]
    for k in range(total - warm_up):
        order += [forward[warm_up + k], backward[k]]
    return order + backward[total - warm_up :]


def _nth(spec: JobSpec, k: int, *, backward: bool) -> Pass:
    span = spec.pp * spec.chunks
    chunk = k % span // spec.pp
    batch = k // span * spec.pp + k % spec.pp
    return Pass(backward, batch, spec.chunks - 1 - chunk if backward else chunk)
