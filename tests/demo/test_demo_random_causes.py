"""Jobs in which many parameters differ at once, with one delayed rank."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from recovery import quick, recover
from test_demo_causes_recovered import chains

from bench.culprits import VERDICTS as EXPECTED
from ccltui.demo import Spec, Straggler
from ccltui.metrics.collectives.matching.match import MEDIUM
from ccltui.metrics.findings.causes.chain import PIPELINE


def drawn(seed: int) -> tuple[Straggler, Spec]:
    """A job of 2 to 8 ranks and whom it lets be late; the same ones for the same seed."""
    chance = random.Random(seed)
    shape = {"tp": 1, "pp": 1, "dp_replicate": 1, "dp_shard": 1}
    for _ in range(chance.randint(1, 3)):
        shape[chance.choice(list(shape))] *= 2
    ranks = shape["tp"] * shape["pp"] * shape["dp_replicate"] * shape["dp_shard"]
    per_node = chance.choice([1, 2, 4, 8])
    hosts = -(-ranks // per_node)
    cause: Any = chance.choice(list(EXPECTED))
    extra_ns = chance.randint(400_000, 5_000_000)
    late = Straggler(chance.randrange(ranks), cause, extra_ns, chance.choice([None, (1,)]))
    spec: Spec = quick(
        **shape,
        experts=shape["dp_shard"] > 1 and chance.random() < 0.3,
        gpus_per_node=per_node,
        layers=shape["pp"] * chance.randint(1, 2),
        micro_batches=chance.randint(1, 4),
        pipeline=chance.choice(["1f1b", "gpipe"]),
        sequence_parallel=chance.random() < 0.3,
        overlap_dp=chance.random() < 0.7,
        sync_each_step=chance.random() < 0.8,
        world_allreduce=chance.random() < 0.8,
        jitter_ns=chance.choice([0, 5, 509]),
        stragglers=(late,),
        clock_offsets_ns=tuple(chance.choice([0, 5_000_000, -123_456_789]) for _ in range(hosts)),
        metadata=chance.choice(["full", "comms_id", "no_seq", "cpu_side"]),
        library=chance.choice(["nccl", "nccl_old", "rccl"]),
        with_python=chance.random() < 0.3,
        with_sync_rows=chance.random() < 0.3,
        seed=seed,
    )
    return late, spec


@pytest.mark.parametrize("seed", range(10))
def test_a_drawn_rank_and_cause_are_found(tmp_path: Path, seed: int) -> None:
    late, spec = drawn(seed)

    found = recover(tmp_path, spec)

    told = [(lag_ns, chain[-1]) for lag_ns, chain in chains(found) if chain[-1].cause != PIPELINE]
    wanted = (str(late.rank), EXPECTED[late.cause])
    wrong = [(ns, root) for ns, root in told if (root.label, root.cause) != wanted]
    # where hosts run free, or a stage has one rank, nobody waits for a late one: nothing is told
    assert sum(ns for ns, _ in wrong) <= 0.02 * sum(ns for ns, _ in told)
    assert not [root for _, root in wrong if root.confidence >= MEDIUM]
