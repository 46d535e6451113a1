"""Draw the faults of planted jobs: whom they act on, how strongly, in which steps."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ccltui.demo.planted.job_spec import Fault, FaultKind, JobSpec

WEIGHTS: Final[dict[FaultKind, int]] = {
    "slow_worker": 4,
    "occasional_worker": 2,
    "slow_node": 2,
    "heavy_stage": 2,
    "uneven_microbatches": 2,
    "uneven_experts": 2,
    "slow_pair": 2,
    "slow_group": 2,
    "garbage_collection": 1,
    "data_loading": 2,
    "checkpoint": 1,
    "launch_bound": 1,
    "allocation": 1,
    "synchronisation": 1,
    "random": 1,
}
"""How often each fault is drawn."""
MORE_WEIGHTS: Final[dict[FaultKind, int]] = {**WEIGHTS, "slow_network": 2, "alternating": 2}
"""The same of jobs whose recording and programs vary more, see ``varied_jobs``."""
NOBODY: Final[dict[FaultKind, tuple[float, float]]] = {
    "uneven_microbatches": (0.25, 0.6),
    "random": (2.0, 5.0),
    "slow_network": (3.0, 12.0),
}
"""Faults of no rank, with the least and the largest factor."""
_PAUSES: Final[tuple[FaultKind, ...]] = (
    "garbage_collection",
    "data_loading",
    "allocation",
    "synchronisation",
)


def _usual_step_ns(spec: JobSpec) -> float:
    """Rough time of a step."""
    layers = spec.micro_batches * spec.layers * spec.chunks
    return 3 * 4.85 * max(spec.kernel_ns, spec.host_op_ns) * layers


@dataclass(frozen=True, slots=True)
class _Draw:
    """What a fault is drawn from."""

    rng: random.Random
    spec: JobSpec
    kind: FaultKind
    silent: bool

    def rank(self) -> int:
        return self.rng.randrange(self.spec.world_size)

    def some_steps(self) -> tuple[int, ...]:
        count = self.rng.randint(1, max(1, self.spec.steps // 3))
        # The first step cannot be compared with anything before it.
        return tuple(sorted(self.rng.sample(range(1, self.spec.steps), count)))

    def pause_ns(self) -> int:
        return int(self.rng.uniform(0.08, 0.5) * _usual_step_ns(self.spec))

    def pause(self, one: tuple[int, ...]) -> Fault:
        everyone = self.kind != "garbage_collection" and self.rng.random() < 0.3
        steps = self.some_steps() if self.rng.random() < 0.4 else None
        # A collection runs while the device still has work that was launched before it.
        pause_ns = self.pause_ns() * (3 if self.kind == "garbage_collection" else 1)
        ranks = () if everyone else one
        return Fault(self.kind, ranks, extra_ns=pause_ns, steps=steps, silent=self.silent)

    def checkpoint(self) -> Fault:
        ranks = () if self.rng.random() < 0.6 else (0,)
        pause_ns = 2 * self.pause_ns()
        steps = (self.rng.randrange(1, self.spec.steps),)
        return Fault(self.kind, ranks, extra_ns=pause_ns, steps=steps, silent=self.silent)

    def host(self) -> tuple[int, ...]:
        spec = self.spec
        host = self.rng.randrange(-(-spec.world_size // spec.gpus_per_node))
        return tuple(rank for rank in range(spec.world_size) if spec.host_of(rank) == host)

    def heavy_stage(self) -> Fault:
        spec = self.spec
        stage = spec.pp - 1 if self.rng.random() < 0.7 else self.rng.randrange(spec.pp)
        ranks = tuple(rank for rank in range(spec.world_size) if spec.place(rank)[0] == stage)
        return Fault(self.kind, ranks, self.rng.uniform(1.3, 2.2), stage=stage)


def draw_fault(rng: random.Random, spec: JobSpec, kind: FaultKind) -> Fault:
    """Draw who a fault acts on, how strongly and when."""
    draw = _Draw(rng, spec, kind, silent=rng.random() < 0.3)
    one = (draw.rank(),)
    if kind in _PAUSES:
        return draw.pause(one)
    if kind in NOBODY:
        return Fault(kind, (), rng.uniform(*NOBODY[kind]))
    match kind:
        case "slow_worker":
            return Fault(kind, one, rng.uniform(1.1, 2.2))
        case "occasional_worker":
            return Fault(kind, one, rng.uniform(1.3, 2.5), steps=draw.some_steps())
        case "slow_node":
            return Fault(kind, draw.host(), rng.uniform(1.12, 2.0))
        case "heavy_stage":
            return draw.heavy_stage()
        case "alternating":
            two = tuple(rng.sample(range(spec.world_size), 2))
            return Fault(kind, two, rng.uniform(1.3, 2.2))
        case "uneven_experts":
            return Fault(kind, one, rng.uniform(1.4, 3.0))
        case "slow_pair":
            return Fault(kind, _pair(rng, spec), rng.uniform(8.0, 40.0))
        case "slow_group":
            return Fault(kind, _group(rng, spec), rng.uniform(3.0, 12.0))
        case "launch_bound":
            factor = spec.kernel_ns * rng.uniform(1.3, 3.0) / spec.host_op_ns
            return Fault(kind, () if rng.random() < 0.3 else one, max(1.5, factor))
        case _:
            return draw.checkpoint()


def _pair(rng: random.Random, spec: JobSpec) -> tuple[int, ...]:
    stage = rng.randrange(spec.pp - 1)
    dp, tp = rng.randrange(spec.dp), rng.randrange(spec.tp)
    return spec.rank_at(stage, dp, tp), spec.rank_at(stage + 1, dp, tp)


def _group(rng: random.Random, spec: JobSpec) -> tuple[int, ...]:
    """Members of a group of which there are others alike."""
    stage, dp, tp = spec.place(rng.randrange(spec.world_size))
    tensor = tuple(spec.rank_at(stage, dp, other) for other in range(spec.tp))
    data = tuple(spec.rank_at(stage, other, tp) for other in range(spec.dp))
    if spec.tp > 1 and len(tensor) < spec.world_size and (spec.dp == 1 or rng.random() < 0.5):
        return tensor
    return data


CAN_HAVE: Final[dict[FaultKind, Callable[[JobSpec], bool]]] = {
    "slow_worker": lambda spec: True,
    "occasional_worker": lambda spec: True,
    "slow_node": lambda spec: spec.world_size >= 2 * spec.gpus_per_node,
    "heavy_stage": lambda spec: spec.pp > 1,
    "uneven_microbatches": lambda spec: spec.dp > 1 and spec.micro_batches >= 4,
    "uneven_experts": lambda spec: spec.family == "moe",
    "slow_pair": lambda spec: spec.pp > 1 and spec.dp * spec.tp > 1 and spec.chunks == 1,
    "slow_group": lambda spec: (spec.dp > 1) + (spec.tp > 1) + (spec.pp > 1) > 1 and spec.dp > 1,
    "garbage_collection": lambda spec: True,
    "data_loading": lambda spec: True,
    "checkpoint": lambda spec: True,
    "launch_bound": lambda spec: True,
    "allocation": lambda spec: True,
    "synchronisation": lambda spec: True,
    "random": lambda spec: spec.dp > 1,
    "slow_network": lambda spec: spec.world_size > spec.gpus_per_node,
    "alternating": lambda spec: spec.world_size > 2,
}
"""Layouts that can have a fault."""
