"""Ranks, hosts and groups of a job, in TorchTitan's order."""

from __future__ import annotations

from ccltui.demo import Spec
from ccltui.demo.spec import lay_out


def rank_sets(spec: Spec, dimension: str) -> list[tuple[int, ...]]:
    return [group.ranks for group in lay_out(spec).groups if group.dimension == dimension]


def test_tensor_parallel_ranks_are_neighbours_and_stages_are_far_apart() -> None:
    spec = Spec.quiet(tp=2, pp=2, dp_shard=2)

    assert rank_sets(spec, "world") == [(0, 1, 2, 3, 4, 5, 6, 7)]
    assert rank_sets(spec, "tp") == [(0, 1), (2, 3), (4, 5), (6, 7)]
    assert rank_sets(spec, "dp_shard") == [(0, 2), (1, 3), (4, 6), (5, 7)]
    assert rank_sets(spec, "pp") == [(0, 4), (1, 5), (2, 6), (3, 7)]
    assert rank_sets(spec, "dp_replicate") == []


def test_shards_lie_inside_replicas() -> None:
    spec = Spec.quiet(tp=1, pp=1, dp_replicate=2, dp_shard=2)

    assert rank_sets(spec, "dp_shard") == [(0, 1), (2, 3)]
    assert rank_sets(spec, "dp_replicate") == [(0, 2), (1, 3)]


def test_group_names_are_unique_in_the_job_or_repeat_as_labels_may() -> None:
    unique = lay_out(Spec.quiet()).groups
    repeated = lay_out(Spec.quiet(local_group_names=True)).groups

    assert [group.name for group in unique] == [str(number) for number in range(13)]
    assert {group.name for group in repeated if group.dimension == "tp"} == {"3"}
    assert {group.name for group in repeated} == {"0", "1", "2", "3"}


def test_communicator_ids_need_64_bits_without_sign() -> None:
    ids = {group.comms_id for group in lay_out(Spec.quiet()).groups}

    assert len(ids) == 13
    assert all(2**63 <= number < 2**64 for number in ids)


def test_hosts_are_filled_in_order() -> None:
    topology = lay_out(Spec.quiet(gpus_per_node=4))

    assert [topology.host_name(rank) for rank in (0, 3, 4, 7)] == [
        "demo-node-1",
        "demo-node-1",
        "demo-node-2",
        "demo-node-2",
    ]
    assert [topology.device_of(rank) for rank in (0, 3, 4, 7)] == [0, 3, 0, 3]
    assert topology.within_host((0, 3))
    assert not topology.within_host((3, 4))
