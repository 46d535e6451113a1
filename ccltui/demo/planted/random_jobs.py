"""Draw the layout, fault and recording of a job from a seed."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Final, Literal, get_args

from ccltui.demo.planted.fault_draws import CAN_HAVE, MORE_WEIGHTS, WEIGHTS, draw_fault
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
    return replace(
        draft,
        one_kernel=one_kernel,
        layers=1 if one_kernel else draft.layers,
        batched=batched,
        prefetch=draft.prefetch and not batched,
        ring=draft.tp > 1 and rng.random() < OFTEN,
        graphs=rng.random() < RARELY,
        hidden_waits=rng.random() < RARELY,
        times=rng.choice(times),
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
