"""Parameters of a planted job: its faults, and the sizes of its stages, batches and experts.

`random_spec` draws them from a seed: whom the faults act on, how strongly, in which steps.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final, Literal, get_args

from msgspec import Struct
from msgspec.structs import replace

Family = Literal["dp", "tp", "pp", "fsdp", "moe"]
Level = Literal[
    "full",  # collective arguments and groups on operators and kernels
    "no_groups",  # operators and annotations of collectives, without their arguments
    "names",  # kernels, copies, launches and step markers only
    "no_host",  # device rows only
    "kernels",  # kernels alone: no copies either, and nothing that links them to anything
]
Times = Literal[
    "ns",
    "us",  # whole microseconds
    "float32",  # seconds since a while ago as floats of 32 bits: steps of 8 us
]
FaultKind = Literal[
    "slow_worker",
    "occasional_worker",
    "slow_node",
    "heavy_stage",
    "uneven_microbatches",
    "uneven_experts",
    "slow_pair",
    "slow_group",
    "garbage_collection",
    "data_loading",
    "checkpoint",
    "launch_bound",
    "allocation",
    "synchronisation",
    "random",
    "slow_network",
    "alternating",
    "decoy",
]
DamageKind = Literal["late", "early", "dropped", "missing", "names_only"]
Verdict = Literal[
    "slow_worker",
    "occasional_worker",
    "slow_node",
    "heavy_stage",
    "uneven_microbatches",
    "uneven_experts",
    "slow_link",
    "host",
    "random",
    "no_straggler",
]

DEVICE_ONLY: Final[tuple[Level, ...]] = ("no_host", "kernels")

VERDICT_OF: Final[dict[FaultKind, Verdict]] = {
    "slow_worker": "slow_worker",
    "occasional_worker": "occasional_worker",
    "slow_node": "slow_node",
    "heavy_stage": "heavy_stage",
    "uneven_microbatches": "uneven_microbatches",
    "uneven_experts": "uneven_experts",
    "slow_pair": "slow_link",
    "slow_group": "slow_link",
    "garbage_collection": "host",
    "data_loading": "host",
    "checkpoint": "host",
    "launch_bound": "host",
    "allocation": "host",
    "synchronisation": "host",
    "random": "random",
    "slow_network": "slow_link",
    "alternating": "occasional_worker",
    "decoy": "no_straggler",
}
"""Verdict class that a fault should lead to, if it costs enough."""


class Fault(Struct, frozen=True):
    """One cause of slowness.

    Attributes:
        kind: What is planted. ``decoy`` prolongs work of the ranks that nothing waits for,
            ``slow_network`` all transfers between hosts; of ``alternating`` ranks one is slow in
            each step, in turn.
        ranks: Ranks that it acts on, () for all; both ends of a pair, all members of a group or
            host.
        factor: Multiple of the usual time (compute, transfers, host time of a launch), spread of
            the lognormal work of micro-batches (``uneven_microbatches``), or weight of the
            expert's ranks (``uneven_experts``).
        extra_ns: Pause in ns, of the faults that pause the host.
        steps: Steps counted from 0; None for all.
        stage: The pipeline stage of ``heavy_stage``.
        silent: No event on the host rows shows the pause.
    """

    kind: FaultKind
    ranks: tuple[int, ...] = ()
    factor: float = 1.0
    extra_ns: int = 0
    steps: tuple[int, ...] | None = None
    stage: int | None = None
    silent: bool = False

    def acts(self, rank: int, step: int) -> bool:
        """Whether it acts on a rank in a step."""
        if self.kind == "alternating" and self.ranks[step % len(self.ranks)] != rank:
            return False
        return (not self.ranks or rank in self.ranks) and (self.steps is None or step in self.steps)


class Damage(Struct, frozen=True):
    """What a recording lacks: ``calls`` at its beginning or end, or a ``share`` of its records."""

    kind: DamageKind
    rank: int
    calls: int = 0
    share: float = 0.0


class JobSpec(Struct, frozen=True):
    """Shape, speed, faults and recording of a job; times are ns.

    Ranks are laid out with the tensor-parallel coordinate innermost, then data parallel, then
    pipeline stages. ``fsdp`` shards over the data-parallel ranks, ``moe`` spreads its experts over
    them.
    """

    family: Family = "dp"
    dp: int = 4
    tp: int = 1
    pp: int = 1
    gpus_per_node: int = 4
    steps: int = 5
    micro_batches: int = 4
    layers: int = 2  # of one model chunk
    chunks: int = 1  # model chunks of one stage; above 1 the schedule is interleaved
    schedule: Literal["1f1b", "gpipe"] = "1f1b"
    prefetch: bool = True  # receives and all-gathers are posted one pass or layer ahead
    overlap: bool = True  # gradients are reduced during the backward pass
    same_stream: bool = False  # collectives run on the stream of the compute kernels
    broadcast_buffers: bool = False  # data-parallel rank 0 sends its buffers before each step
    own_calls: int = 0  # broadcasts at the end of a step that rank 0 alone makes, of itself
    world_norm: bool = True  # gradient norm over all ranks at the end of a step
    host_sync: bool = True  # the host waits for the device at the end of a step
    pass_ranges: bool = False  # annotations around forward and backward passes
    kernel_ns: int = 300_000  # forward kernel of average size
    transfer_ns: int = 400_000  # collective of average size within a host
    host_op_ns: int = 9_000  # host time of one operator
    jitter: float = 0.01  # spread of a pass; kernels and transfers vary half as much
    expert_jitter: float = 0.02
    gather: Literal["nccl", "copy_engine"] = "nccl"
    exchange: Literal["nccl", "deepep"] = "nccl"
    reduction: Literal["nccl", "symmetric"] = "nccl"
    one_kernel: bool = False  # a layer is one kernel in each direction; with one layer, a pass
    batched: bool = False  # a send and the receive after it are one kernel, in 1F1B
    coalesced: bool = False  # all transfers are recorded as batches, without their peer
    ring: bool = False  # context instead of tensor parallel: blocks go around a ring of the ranks
    graphs: bool = False  # each pass is one replay of a CUDA graph
    hidden_waits: bool = False  # kernels of collectives start when all members are there
    times: Times = "ns"  # as written
    level: Level = "full"
    faults: tuple[Fault, ...] = ()
    damage: tuple[Damage, ...] = ()
    clock_offsets_ns: tuple[int, ...] = ()  # by host
    clock_drifts_ppb: tuple[int, ...] = ()
    free_hosts: bool = False  # host work takes no time: the same job without waiting for hosts
    seed: int = 0

    def __post_init__(self) -> None:
        for name, kind in (("family", Family), ("level", Level), ("times", Times)):
            if getattr(self, name) not in get_args(kind):
                choices = ", ".join(get_args(kind))
                raise ValueError(f"{name} is {getattr(self, name)!r}; choose from {choices}")
        for name in ("dp", "tp", "pp", "gpus_per_node", "steps", "micro_batches", "layers"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.chunks > 1 and (self.pp == 1 or self.micro_batches % self.pp):
            raise ValueError("an interleaved schedule needs stages that divide the micro-batches")
        if self.batched and (self.chunks > 1 or self.schedule != "1f1b" or self.prefetch):
            raise ValueError("transfers are batched in 1F1B of one chunk without prefetch alone")
        if self.coalesced and not self.batched and (self.schedule != "gpipe" or self.prefetch):
            raise ValueError(
                "single transfers are recorded as batches beside others, or in GPipe's order "
                "without prefetch"
            )
        if self.pp > 1 and self.family == "fsdp":
            raise ValueError("family fsdp has no pipeline stages")
        if self.family in ("fsdp", "moe") and self.dp < 2:
            raise ValueError(f"family {self.family} needs dp of at least 2")
        named = [rank for fault in self.faults for rank in fault.ranks]
        for rank in (*named, *(item.rank for item in self.damage)):
            if not 0 <= rank < self.world_size:
                raise ValueError(f"rank {rank} is not in a job of {self.world_size}")

    @property
    def world_size(self) -> int:
        """Number of ranks."""
        return self.dp * self.tp * self.pp

    @property
    def has_host_rows(self) -> bool:
        """Whether files hold anything of hosts."""
        return self.level not in DEVICE_ONLY

    def host_of(self, rank: int) -> int:
        """Index of the host of a rank."""
        return rank // self.gpus_per_node

    def host_name(self, rank: int) -> str:
        """Name of the host of a rank."""
        return f"node-{self.host_of(rank):02d}"

    def place(self, rank: int) -> tuple[int, int, int]:
        """Stage, data-parallel and tensor-parallel index of a rank."""
        return rank // (self.dp * self.tp), rank // self.tp % self.dp, rank % self.tp

    def rank_at(self, stage: int, dp: int, tp: int) -> int:
        """Rank at a place."""
        return (stage * self.dp + dp) * self.tp + tp

    def without_faults(self, **changes: Any) -> JobSpec:
        """The same job, with the same draws, without its faults."""
        return replace(self, faults=(), **changes)


FIXED_FORWARD: Final = 0.6
"""Share of a forward pass that does not grow with the work of its micro-batch."""
FIXED_BACKWARD: Final = 0.5
HEAVY_BACKWARD: Final = 0.6
"""Excess of a heavy stage in backward passes, in excesses of forward ones."""
ALL_STAGES: Final = -1
"""Stage of a ``heavy_stage`` fault that makes all stages heavier, for the same work shared out."""
SLOW: Final = ("slow_worker", "occasional_worker", "slow_node", "alternating")
RARE: Final = 0.03
"""Probability that a pass is prolonged by the fault ``random``."""


class Workload:
    """Factors of the durations of passes, the same for a job with and without its faults."""

    def __init__(self, spec: JobSpec) -> None:
        self.spec = spec
        self._lengths = self._drawn_lengths()

    def _faults(self, kind: str) -> list[Fault]:
        return [fault for fault in self.spec.faults if fault.kind == kind]

    def _drawn_lengths(self) -> dict[tuple[int, int, int], float]:
        """Work of each micro-batch by (step, data-parallel index, micro-batch), 1 on average."""
        spec = self.spec
        sigma = sum(fault.factor for fault in self._faults("uneven_microbatches"))
        chance = random.Random(f"{spec.seed}/lengths")
        drawn = {
            (step, dp, batch): chance.lognormvariate(0, sigma) if sigma else 1.0
            for step in range(spec.steps)
            for dp in range(spec.dp)
            for batch in range(spec.micro_batches)
        }
        mean = sum(drawn.values()) / len(drawn)
        return {key: value / mean for key, value in drawn.items()}

    def forward(self, rank: int, step: int, batch: int) -> float:
        """Factor of a forward pass, without variation."""
        length = FIXED_FORWARD + (1 - FIXED_FORWARD) * self._length(rank, step, batch)
        return length * self._worker(rank, step) * self._stage(rank, 1.0)

    def backward(self, rank: int, step: int, batch: int) -> float:
        """Factor of a backward pass, without variation."""
        length = FIXED_BACKWARD + (1 - FIXED_BACKWARD) * self._length(rank, step, batch)
        return length * self._worker(rank, step) * self._stage(rank, HEAVY_BACKWARD)

    def rare(self, rank: int, step: int, batch: int, chunk: int, *, backward: bool) -> float:
        """Factor of the fault ``random``, drawn for each pass on its own."""
        faults = self._faults("random")
        if not faults:
            return 1.0
        chance = random.Random(f"{self.spec.seed}/rare/{rank}/{step}/{batch}/{chunk}/{backward}")
        return faults[0].factor if chance.random() < RARE else 1.0

    def logits(self, rank: int) -> float:
        """Extra kernel at the end of a forward pass of a heavy last stage, in forward passes."""
        stage = self.spec.place(rank)[0]
        return sum(
            fault.factor - 1
            for fault in self._faults("heavy_stage")
            if fault.stage == stage == self.spec.pp - 1
        )

    def experts(self, ranks: tuple[int, ...], key: str, step: int) -> list[float]:
        """Load of the experts of each rank of a group, 1 on average."""
        chance = random.Random(f"{self.spec.seed}/experts/{key}")
        loads = [max(0.1, 1 + chance.gauss(0, self.spec.expert_jitter)) for _ in ranks]
        for fault in self._faults("uneven_experts"):
            # How many tokens a popular expert is sent differs from layer to layer.
            excess = (fault.factor - 1) * chance.uniform(0.4, 1.6)
            for place, rank in enumerate(ranks):
                loads[place] *= 1 + excess if fault.acts(rank, step) else 1.0
        mean = sum(loads) / len(loads)
        return [load / mean for load in loads]

    def _length(self, rank: int, step: int, batch: int) -> float:
        return self._lengths[step, self.spec.place(rank)[1], batch]

    def _worker(self, rank: int, step: int) -> float:
        factor = 1.0
        for fault in self.spec.faults:
            slow = fault.kind in SLOW
            if slow and fault.acts(rank, step):
                factor *= fault.factor
        return factor

    def _stage(self, rank: int, share: float) -> float:
        """Factor of a heavy stage; a heavy last one has more kernels in its forward passes."""
        stage, factor = self.spec.place(rank)[0], 1.0
        for fault in self._faults("heavy_stage"):
            logits = fault.stage == stage == self.spec.pp - 1 and share == 1.0
            if fault.stage in (stage, ALL_STAGES) and not logits:
                factor *= 1 + (fault.factor - 1) * share
        return factor


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
