"""Bytes by dimension, and tokens per second."""

from __future__ import annotations

import statistics
from collections import Counter
from pathlib import Path

import pytest
from recovery import FAMILY, LOSSY, Recovered, quick, recover

WHOLE = sorted(set(FAMILY) - LOSSY)
EVERY = sorted(FAMILY)
DIMS = {"dp_replicate": "dp", "dp_shard": "dp"}


def world_is(recovered: Recovered) -> str:
    """Where one dimension alone splits the job, the world is its group."""
    spec = recovered.spec
    degrees = {"tp": spec.tp, "pp": spec.pp, "dp": spec.dp_replicate * spec.dp_shard}
    large = [name for name, degree in degrees.items() if degree > 1]
    return large[0] if len(large) == 1 else "world"


def by_dimension(recovered: Recovered, injected: dict[str, int]) -> Counter[str]:
    sums: Counter[str] = Counter()
    for dimension, count in injected.items():
        name = world_is(recovered) if dimension == "world" else DIMS.get(dimension, dimension)
        sums[name] += count
    return sums


@pytest.mark.parametrize("recovered", EVERY, indirect=True)
def test_message_bytes(recovered: Recovered) -> None:
    truth = recovered.truth
    wanted = by_dimension(recovered, dict(truth.message_bytes))

    found = recovered.metric("traffic_distribution").details

    dims = ("dp", "tp", "pp", "ep", "cp", "world", "unknown")
    # An orphan may be of any dimension: those without traffic of their own are then not zero.
    orphans = any(late.orphans for late in recovered.spec.late_starts)
    none = None if orphans else 0
    assert {dim: found[f"{dim}_bytes"] for dim in dims} == {
        dim: wanted[dim] or none for dim in dims
    }
    assert found["total_bytes"] == wanted.total()
    assert found["fractions"]["tp"] == pytest.approx(wanted["tp"] / wanted.total())


@pytest.mark.parametrize("recovered", EVERY, indirect=True)
def test_wire_bytes(recovered: Recovered) -> None:
    wanted = by_dimension(recovered, dict(recovered.truth.wire_bytes))

    found = recovered.metric("traffic_distribution").details["by_dim"]

    assert {dim: row["wire_bytes"] for dim, row in found.items() if dim != "unknown"} == wanted


@pytest.mark.parametrize("recovered", WHOLE, indirect=True)
def test_all_traffic_has_a_size(recovered: Recovered) -> None:
    found = recovered.metric("traffic_distribution")

    assert found.status == "ok"
    assert found.details["bytes_coverage"] == 1
    assert found.details["total_comm_calls"] == sum(rank.calls for rank in recovered.truth.ranks)


def test_both_kinds_of_data_parallelism_are_distinguished(tmp_path: Path) -> None:
    found = recover(tmp_path, quick(tp=1, pp=1, dp_replicate=2, dp_shard=2))

    parts = found.metric("traffic_distribution").details["by_dim"]["dp"]["parts"]

    injected = found.truth.message_bytes
    assert parts["dp_replicate"]["message_bytes"] == injected["dp_replicate"]
    assert parts["dp_shard"]["message_bytes"] == injected["dp_shard"]


def test_names_alone_give_no_bytes(tmp_path: Path) -> None:
    found = recover(tmp_path, quick(metadata="names_only"))

    result = found.metric("traffic_distribution")

    assert result.status == "partial"
    assert result.reason == "no_message_size"
    assert result.details["total_bytes"] is None


@pytest.mark.parametrize("recovered", sorted(FAMILY), indirect=True)
def test_tokens_a_second(recovered: Recovered) -> None:
    truth = recovered.truth
    steps_ns = list(truth.step_ns.values())

    found = recovered.metric("throughput_tokens").details

    assert found["tokens_per_step"] == truth.tokens_per_step
    assert found["batch_size"] == truth.spec.global_batch
    assert found["total_tokens"] == truth.tokens_per_step * len(steps_ns)
    assert found["measured_duration_s"] == pytest.approx(sum(steps_ns) / 1e9, rel=1e-12)
    expected = truth.tokens_per_step / (statistics.median(steps_ns) / 1e9)
    assert found["throughput_tokens_per_s"] == pytest.approx(expected, rel=1e-12)
    assert found["tokens_per_s_per_gpu"] == pytest.approx(expected / truth.spec.world_size)
    replicas = truth.spec.dp_replicate * truth.spec.dp_shard
    assert found["tokens_per_s_per_dp_rank"] == pytest.approx(expected / replicas)


@pytest.mark.parametrize("recovered", WHOLE, indirect=True)
def test_the_card_does_not_contradict_the_traces(recovered: Recovered) -> None:
    found = recovered.metric("throughput_tokens").warnings

    assert [one for one in found if "run ahead of their devices" not in one] == []
