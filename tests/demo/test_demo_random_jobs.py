"""Jobs in which many parameters differ at once."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recovery import Recovered, nanoseconds, quick, recover

from ccltui.demo import Spec, Straggler


def drawn(seed: int) -> Spec:
    """Any job of 2 to 16 ranks; the same one for the same seed."""
    chance = random.Random(seed)
    shape = {"tp": 1, "pp": 1, "dp_replicate": 1, "dp_shard": 1}
    for _ in range(chance.randint(1, 3)):
        shape[chance.choice(list(shape))] *= 2
    if chance.random() < 0.3:
        shape = {"tp": 3, "pp": chance.choice([1, 2]), "dp_replicate": 1, "dp_shard": 2}
    ranks = shape["tp"] * shape["pp"] * shape["dp_replicate"] * shape["dp_shard"]
    per_node = chance.choice([1, 2, 4, 8])
    hosts = -(-ranks // per_node)
    cause: Any = chance.choice(["compute", "data_loading", "host"])
    extra_ns = chance.randint(10_000, 5_000_000)
    late = Straggler(chance.randrange(ranks), cause, extra_ns, chance.choice([None, (0,)]))
    spec: Spec = quick(
        **shape,
        experts=shape["dp_shard"] > 1 and chance.random() < 0.3,
        gpus_per_node=per_node,
        steps=chance.randint(1, 3),
        layers=shape["pp"] * chance.randint(1, 2),
        micro_batches=chance.randint(1, 4),
        pipeline=chance.choice(["1f1b", "gpipe"]),
        sequence_parallel=chance.random() < 0.3,
        overlap_dp=chance.random() < 0.7,
        sync_each_step=chance.random() < 0.7,
        world_allreduce=chance.random() < 0.8,
        jitter_ns=chance.choice([0, 5, 1_009, 30_011]),
        stragglers=(late,),
        clock_offsets_ns=tuple(
            chance.choice([0, 3, 5_000_000, -123_456_789]) for _ in range(hosts)
        ),
        metadata=chance.choice(["full", "comms_id", "no_seq", "cpu_side"]),
        layout=chance.choice(["native", "one_line", "metadata_last", "indent4"]),
        library=chance.choice(["nccl", "nccl_old", "rccl"]),
        local_group_names=chance.random() < 0.3,
        with_python=chance.random() < 0.3,
        with_sync_rows=chance.random() < 0.3,
        seed=seed,
    )
    return spec


@pytest.mark.parametrize("seed", range(10))
def test_a_drawn_job_is_recovered(tmp_path: Path, seed: int) -> None:
    found = recover(tmp_path, drawn(seed))

    assert_calls_and_overlap(found)
    assert_lateness(found)
    assert_clocks(found)


def assert_calls_and_overlap(found: Recovered) -> None:
    calls = found.metric("coll_call_num").details
    overlap = found.metric("comm_comp_overlap").details["per_rank"]
    steps = found.metric("iter_time").details["iter_times_ms"]
    for rank in found.truth.ranks:
        label = str(rank.rank)
        assert calls["calls_per_rank"][label] == rank.calls
        assert nanoseconds(overlap[label]["comm_time_ms"]) == rank.comm_ns
        assert nanoseconds(overlap[label]["comp_time_ms"]) == rank.comp_ns
        assert nanoseconds(overlap[label]["overlap_time_ms"]) == rank.overlap_ns
        assert nanoseconds(overlap[label]["idle_ms"]) == rank.idle_ns
    assert +Counter(calls["calls_by_type"]) == found.truth.calls_by_type
    assert [nanoseconds(ms) for ms in steps] == list(found.truth.step_ns.values())
    traffic = found.metric("traffic_distribution").details
    assert traffic["total_bytes"] == sum(found.truth.message_bytes.values())
    assert traffic["unknown_bytes"] == 0


def assert_lateness(found: Recovered) -> None:
    wanted = Counter(
        (call.group_ranks, call.lag_ns, call.wait_ns) for call in found.truth.collectives
    )
    lateness: Counter[tuple[tuple[int, ...], int, tuple[int, ...]]] = Counter()
    for part in found.view.arrivals.groups:
        ranks = found.view.groups[part.match.group].ranks
        for row in np.flatnonzero(part.match.usable):
            lateness[ranks, int(part.lag_ns[row]), tuple(part.wait_ns[row].tolist())] += 1
    assert lateness == wanted


def assert_clocks(found: Recovered) -> None:
    for rank in found.truth.ranks:
        clock = found.view.clocks.clocks[str(rank.rank)]
        if clock.known and clock.component == 0:
            assert clock.offset_ns == found.truth.clock_offset_ns[rank.rank]
