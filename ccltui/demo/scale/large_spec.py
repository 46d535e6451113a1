"""Choose the layout, the length and the faults of a job of many ranks."""

from __future__ import annotations

import random
from typing import Any, Final, Literal

from msgspec.structs import replace

from ccltui.demo.scale.rank_text import LaneText
from ccltui.demo.simulate import simulate_lanes
from ccltui.demo.spec import Cause, Dimension, SlowLink, Spec, Straggler
from ccltui.demo.topology import lay_out

Family = Literal["dp", "tp", "pp", "fsdp", "moe"]
MOST_RANKS: Final = 100_000
DEFAULT_MEGABYTES: Final = 2.0
_CAUSES: Final[dict[str, Cause]] = {
    "slow_worker": "compute",
    "occasional_worker": "compute",
    "slow_node": "compute",
    "heavy_stage": "compute",
    "uneven_experts": "tokens",
    "garbage_collection": "garbage_collection",
    "data_loading": "data_loading",
    "checkpoint": "checkpoint",
    "allocation": "allocation",
    "synchronisation": "synchronisation",
}
FAULTS: Final = (*_CAUSES, "slow_group")
"""Faults that jobs of many ranks can have."""
_PER_NODE: Final = 8
_COMPUTE_OF_STEP: Final = (0.1, 0.4)
"""Delay of a fault as a share of the compute time of a step."""


def large_spec(
    ranks: int,
    *,
    megabytes: float = DEFAULT_MEGABYTES,
    seed: int = 0,
    family: Family | None = None,
    faults: tuple[str, ...] = ("any",),
    names_only: bool = False,
) -> Spec:
    """Return a job of a number of ranks.

    Args:
        ranks: Number of ranks.
        megabytes: Text of a rank, 1e6 bytes; the number of steps is chosen for it, at least 2.
        seed: Seed of the faults, clocks and variation.
        family: Kind of parallelism; None: all degrees that divide the number of ranks.
        faults: Kinds of faults, ``any`` for a drawn one.
        names_only: Whether events of collectives have no arguments.

    Raises:
        ValueError: No such job can be made.
    """
    if not 2 <= ranks <= MOST_RANKS:
        raise ValueError(f"a job of many ranks has 2 to {MOST_RANKS:,} ranks, not {ranks}")
    rng = random.Random(f"large/{seed}")
    shape = _shape(ranks, family)
    hosts = -(-ranks // _PER_NODE)
    spec = Spec.quiet(
        **shape,
        gpus_per_node=_PER_NODE,
        layers=shape["pp"],
        micro_batches=8 if megabytes >= 1 else 4,
        steps=2,
        jitter_ns=1_500,
        seed=seed,
        metadata="names_only" if names_only else "full",
        clock_offsets_ns=tuple(rng.randint(-5_000_000, 5_000_000) for _ in range(hosts)),
        clock_drifts_ppb=tuple(rng.randint(-20_000, 20_000) for _ in range(hosts)),
        compress=False,
    )
    spec = replace(spec, steps=_steps_of(spec, megabytes * 1e6))
    for kind in faults:
        drawn = rng.choice([one for one in FAULTS if _fits(spec, one)]) if kind == "any" else kind
        spec = _with_fault(spec, drawn, rng)
    return spec


def _shape(ranks: int, family: Family | None) -> dict[str, Any]:
    def degree(left: int, most: int) -> int:
        return max(one for one in range(1, most + 1) if left % one == 0)

    tp = degree(ranks, _PER_NODE) if family in (None, "tp") else 1
    pp = degree(ranks // tp, 4) if family in (None, "pp") else 1
    left = ranks // (tp * pp)
    if family == "dp":
        return {"tp": 1, "pp": 1, "dp_replicate": left, "dp_shard": 1}
    replicas = left // degree(left, 64) if family is None else 1
    shape = {"tp": tp, "pp": pp, "dp_replicate": replicas, "dp_shard": left // replicas}
    if family == "moe":
        shape["experts"] = True
    if family in ("tp", "pp") and shape[family] == 1:
        raise ValueError(f"{ranks} ranks do not divide into groups of family {family}")
    return shape


def _steps_of(spec: Spec, size: float) -> int:
    """Steps whose text has a size: the length grows by the same for each step."""
    topology = lay_out(spec)
    lengths = []
    for steps in (2, 3):
        longer = replace(spec, steps=steps)
        text = LaneText(longer, topology, simulate_lanes(longer, topology)[0])
        lengths.append(sum(map(len, text.pieces(0))))
    return max(2, round(2 + (size - lengths[0]) / (lengths[1] - lengths[0])))


def _fits(spec: Spec, kind: str) -> bool:
    several_groups = (spec.tp > 1) + (spec.pp > 1) + (spec.dp_shard > 1) > 1
    return {
        "slow_node": spec.world_size >= 2 * spec.gpus_per_node,
        "heavy_stage": spec.pp > 1,
        "uneven_experts": spec.experts,
        "slow_group": several_groups and spec.tp * spec.dp_shard > 1,
    }.get(kind, kind in FAULTS)


def _with_fault(spec: Spec, kind: str, rng: random.Random) -> Spec:
    if kind not in FAULTS:
        raise ValueError(
            f"fault {kind} is not made with {spec.world_size} ranks; choose from any, "
            + ", ".join(FAULTS)
        )
    if not _fits(spec, kind):
        raise ValueError(f"a job of this layout cannot have the fault {kind}")
    rank = rng.randrange(spec.world_size)
    extra_ns = int(rng.uniform(*_COMPUTE_OF_STEP) * _compute_ns(spec))
    if kind == "slow_group":
        dimension: Dimension = "tp" if spec.tp > 1 else "dp_shard"
        count = 4 * spec.micro_batches * spec.layers_per_stage
        link = SlowLink(dimension, rank, max(100_000, extra_ns // count))
        return replace(spec, slow_links=(*spec.slow_links, link))
    steps = None
    if kind in ("occasional_worker", "checkpoint"):
        steps = tuple(sorted(rng.sample(range(1, spec.steps), max(1, spec.steps // 4))))
        extra_ns *= 3
    ranks = [rank]
    if kind == "slow_node":
        node = rank // spec.gpus_per_node
        ranks = [r for r in range(spec.world_size) if r // spec.gpus_per_node == node]
    elif kind == "heavy_stage":
        size = spec.world_size // spec.pp
        ranks = list(range(spec.world_size - size, spec.world_size))
    delays = tuple(Straggler(one, _CAUSES[kind], extra_ns, steps) for one in ranks)
    return replace(spec, stragglers=(*spec.stragglers, *delays))


def _compute_ns(spec: Spec) -> int:
    """Compute time of a rank in a step: a backward pass costs twice a forward pass."""
    forward = 4 * spec.gemm_ns + spec.attention_ns + 2 * spec.elementwise_ns
    return 3 * forward * spec.micro_batches * spec.layers_per_stage
