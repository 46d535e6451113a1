"""Draw the layout, fault and recording of a job from a seed.

Draw the faults of planted jobs: whom they act on, how strongly, in which steps.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final, Literal, get_args

from msgspec import Struct
from msgspec.structs import replace

from ccltui.demo.planted.job_spec import (
    Damage,
    DamageKind,
    Family,
    Fault,
    FaultKind,
    JobSpec,
    Level,
    Times,
)

Condition = Literal["clean", "damaged", "null", "two"]
"""A fault in complete files; in damaged ones; no fault; two faults."""

_SHAPES: Final[dict[Family, tuple[tuple[int, int, int], ...]]] = {  # dp, tp, pp
    "dp": ((2, 1, 1), (4, 1, 1), (8, 1, 1), (16, 1, 1), (32, 1, 1)),
    "tp": ((1, 4, 1), (2, 2, 1), (2, 4, 1), (4, 2, 1), (4, 4, 1)),
    "pp": (
        (1, 1, 2),
        (1, 1, 4),
        (2, 1, 2),
        (2, 1, 4),
        (4, 1, 2),
        (4, 1, 4),
        (2, 2, 2),
        (2, 2, 4),
        (4, 2, 4),
    ),
    "fsdp": ((2, 1, 1), (4, 1, 1), (8, 1, 1), (16, 1, 1), (32, 1, 1), (4, 2, 1)),
    "moe": ((4, 1, 1), (8, 1, 1), (16, 1, 1), (4, 2, 1), (4, 1, 2)),
}
_LEVELS: Final[tuple[Level, ...]] = (
    "full",
    "full",
    "full",
    "full",
    "no_groups",
    "names",
    "no_host",
)
_DAMAGE: Final[tuple[DamageKind, ...]] = (
    "late",
    "late",
    "early",
    "dropped",
    "missing",
    "names_only",
)
RAGGED: Final = 0.2
"""Share of damaged jobs in which most windows begin or end differently."""
MOST_OPERATIONS: Final = 9_000
"""Device operations of a job beyond which steps, micro-batches and layers are reduced."""
RARELY, OFTEN = 0.12, 0.4
"""Shares of the jobs with one of the less usual programs or recorders, where it is possible."""
_KERNELS_A_LAYER: Final = 14
_ATTEMPTS: Final = 1_000
_ATTEMPTS_A_KIND: Final = 100


def random_spec(
    seed: int,
    *,
    family: Family | None = None,
    fault: FaultKind | None = None,
    condition: Condition | None = None,
    level: Level | None = None,
    ranks: int | None = None,
    varied: bool = False,
) -> JobSpec:
    """Draw a job.

    Args:
        seed: Seed of all choices that are not given.
        family: Kind of parallelism.
        fault: The fault of the job; the layout is drawn among those that can have it.
        condition: Whether there is a fault, two of them, and whether files are damaged.
        level: What the files record of collectives.
        ranks: Number of ranks, where the family has a layout of that size.
        varied: Whether programs and recorders may also be less usual ones, and faults those of
            networks and of ranks that alternate. Without, seeds draw what they always drew.

    Raises:
        ValueError: No layout of the family has the fault or the number of ranks.
    """
    rng = random.Random(f"planted/{seed}")
    weights = MORE_WEIGHTS if varied else WEIGHTS
    conditions: tuple[Condition, ...] = ("clean", "clean", "clean", "damaged", "null", "two")
    drawn = rng.choice(conditions)
    condition = condition or ("clean" if fault is not None else drawn)
    families = [family] if family else list(get_args(Family))
    for attempt in range(_ATTEMPTS):
        if attempt % _ATTEMPTS_A_KIND == 0:
            kind = fault or rng.choices(list(weights), list(weights.values()))[0]
        draft = _layout(rng, rng.choice(families), seed, ranks)
        if draft is not None and (condition == "null" or CAN_HAVE[kind](draft)):
            break
    else:
        raise ValueError(
            f"no layout of {', '.join(families)} on {ranks or 'any'} ranks has {fault or 'a fault'}"
        )
    faults: list[Fault] = []
    if condition != "null":
        faults.append(draw_fault(rng, draft, kind))
    if condition == "two":
        others = [one for one in weights if one != kind and CAN_HAVE[one](draft)]
        faults.append(draw_fault(rng, draft, rng.choice(others)))
    damage = _damage(rng, draft, faults) if condition == "damaged" else ()
    decoy = rng.random() < 0.15
    if decoy:
        where = rng.randrange(draft.world_size)
        if faults and faults[0].ranks and rng.random() < 0.5:
            where = faults[0].ranks[0]
        faults.append(Fault("decoy", (where,), rng.uniform(1.0, 2.5)))
    kept = rng.choice(_LEVELS) if level is None else level
    if varied:
        draft = _varied(rng, draft)
        kept = "kernels" if level is None and rng.random() < RARELY else kept
    return replace(
        draft,
        faults=tuple(faults),
        damage=damage,
        level=kept,
        jitter=rng.uniform(0.01, 0.08) if condition == "null" else rng.uniform(0.005, 0.03),
    )


def _varied(rng: random.Random, draft: JobSpec) -> JobSpec:
    """Let some of the less usual programs and recorders happen."""
    one_kernel = rng.random() < RARELY
    times: tuple[Times, ...] = ("ns", "ns", "us", "float32")
    in_turns = draft.pp > 1 and draft.chunks == 1 and draft.schedule == "1f1b"
    batched = in_turns and rng.random() < OFTEN
    # A draw of its own, so that jobs of a seed are else the same as without it.
    coalesced = random.Random(f"{draft.seed}/coalesced").random() < (OFTEN if batched else RARELY)
    coalesced &= batched or (draft.pp > 1 and draft.chunks == 1 and draft.schedule == "gpipe")
    return replace(
        draft,
        one_kernel=one_kernel,
        layers=1 if one_kernel else draft.layers,
        batched=batched,
        prefetch=draft.prefetch and not (batched or coalesced),
        ring=draft.tp > 1 and rng.random() < OFTEN,
        graphs=rng.random() < RARELY,
        hidden_waits=rng.random() < RARELY,
        times=rng.choice(times),
        coalesced=coalesced,
    )


def condition_of(spec: JobSpec) -> Condition:
    """Condition of a job."""
    real = [fault for fault in spec.faults if fault.kind != "decoy"]
    if spec.damage:
        return "damaged"
    return "two" if len(real) > 1 else "clean" if real else "null"


def _layout(rng: random.Random, family: Family, seed: int, ranks: int | None) -> JobSpec | None:
    shapes = [
        shape
        for shape in _SHAPES[family]
        if ranks is None or shape[0] * shape[1] * shape[2] == ranks
    ]
    if not shapes:
        return None
    dp, tp, pp = rng.choice(shapes)
    world = dp * tp * pp
    chunks = 2 if pp > 1 and rng.random() < 0.25 else 1
    batches = 2 * pp if chunks > 1 else rng.choice((4, 8) if pp > 1 else (2, 4, 6))
    steps, layers = rng.randint(4, 10), rng.choice((1, 2, 3))
    a_step = world * 2 * batches * chunks * _KERNELS_A_LAYER
    while steps * layers * a_step > MOST_OPERATIONS and layers > 1:
        layers -= 1
    while steps * layers * a_step > MOST_OPERATIONS and steps > 4:
        steps -= 1
    while steps * layers * a_step > 2 * MOST_OPERATIONS and chunks == 1 and batches > max(2, pp):
        batches //= 2
        a_step //= 2
    bound = rng.random() < 0.12
    kernel_ns = rng.randint(40_000, 70_000) if bound else rng.randint(150_000, 500_000)
    hosts = -(-world // 4)
    clocks = rng.random() < 0.8
    return JobSpec(
        family=family,
        dp=dp,
        tp=tp,
        pp=pp,
        gpus_per_node=4 if world > 4 and rng.random() < 0.7 else 8,
        steps=steps,
        micro_batches=batches,
        layers=layers,
        chunks=chunks,
        schedule="gpipe" if chunks == 1 and pp > 1 and rng.random() < 0.25 else "1f1b",
        prefetch=rng.random() < 0.75,
        overlap=rng.random() < 0.75,
        same_stream=rng.random() < 0.15,
        broadcast_buffers=family == "dp" and rng.random() < 0.3,
        world_norm=rng.random() < 0.7,
        host_sync=rng.random() < 0.8,
        pass_ranges=rng.random() < 0.15,
        kernel_ns=kernel_ns,
        transfer_ns=int(kernel_ns * rng.uniform(0.5, 2.0)),
        host_op_ns=int(kernel_ns * rng.uniform(0.9, 1.4)) if bound else rng.randint(6_000, 14_000),
        expert_jitter=rng.uniform(0.0, 0.03),
        gather="copy_engine" if rng.random() < 0.2 else "nccl",
        exchange="deepep" if rng.random() < 0.4 else "nccl",
        reduction="symmetric" if rng.random() < 0.25 else "nccl",
        clock_offsets_ns=tuple(
            rng.randint(-500_000_000, 500_000_000) if clocks else 0 for _ in range(hosts)
        ),
        clock_drifts_ppb=tuple(rng.randint(-50_000, 50_000) if clocks else 0 for _ in range(hosts)),
        seed=seed,
    )


def _damage(rng: random.Random, spec: JobSpec, faults: list[Fault]) -> tuple[Damage, ...]:
    if rng.random() < RAGGED:
        ragged = tuple(
            Damage(rng.choice(("late", "early")), rank, rng.randint(1, 6))
            for rank in range(spec.world_size)
            if rng.random() < 0.7
        )
        return ragged or (Damage("late", 0, 3),)
    culprits = faults[0].ranks or tuple(range(spec.world_size))
    found = []
    for _ in range(rng.choice((1, 1, 2))):
        rank = rng.choice(culprits) if rng.random() < 0.5 else rng.randrange(spec.world_size)
        kind = rng.choice(_DAMAGE)
        if kind == "missing" and spec.world_size < 3:
            kind = "late"
        calls = rng.randint(1, 12)
        found.append(Damage(kind, rank, calls, rng.uniform(0.01, 0.05)))
    return tuple(found)


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


class _Draw(Struct, frozen=True):
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
